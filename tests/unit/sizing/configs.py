"""The config.json files of published models, cut to what sizing reads."""

from typing import Any

Config = dict[str, Any]

QWEN_32B: Config = {
    "model_type": "qwen2",
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "num_hidden_layers": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
    "sliding_window": 131_072,
    "use_sliding_window": False,
    "max_window_layers": 64,
    "torch_dtype": "bfloat16",
}
LLAMA_8B: Config = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
    "torch_dtype": "bfloat16",
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
}
DEEPSEEK_V3: Config = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "num_hidden_layers": 61,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "max_position_embeddings": 163_840,
    "torch_dtype": "bfloat16",
}
GEMMA_3_4B: Config = {
    "model_type": "gemma3",
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    },
    "vision_config": {
        "hidden_size": 1152,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
    },
}
GPT_OSS_20B: Config = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_hidden_layers": 24,
    "sliding_window": 128,
    "max_position_embeddings": 131_072,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
}
MISTRAL_7B: Config = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "max_position_embeddings": 32_768,
    "torch_dtype": "bfloat16",
}
QWEN3_NEXT: Config = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "num_hidden_layers": 48,
    "full_attention_interval": 4,
    "max_position_embeddings": 262_144,
    "torch_dtype": "bfloat16",
}
GPT_2: Config = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
}
