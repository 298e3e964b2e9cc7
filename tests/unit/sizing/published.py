"""More config.json files of published models, cut to what sizing reads.

There is one for each way in which layers are described.
"""

from unit.sizing.configs import Config

LLAMA_2_7B: Config = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "rope_scaling": None,
    "torch_dtype": "float16",
}
LLAMA_3_70B: Config = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131_072,
    "torch_dtype": "bfloat16",
    "rope_scaling": {
        "factor": 8.0,
        "rope_type": "llama3",
        "original_max_position_embeddings": 8192,
    },
}
LLAMA_4_SCOUT: Config = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "hidden_size": 5120,
        "num_attention_heads": 40,
        "head_dim": 128,
        "num_hidden_layers": 48,
        "num_key_value_heads": 8,
        "attention_chunk_size": 8192,
        "max_position_embeddings": 10_485_760,
        "torch_dtype": "bfloat16",
    },
    "vision_config": {"num_hidden_layers": 34, "hidden_size": 1408},
}
QWEN_2_5_7B: Config = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32_768,
    "sliding_window": 131_072,
    "use_sliding_window": False,
    "max_window_layers": 28,
    "torch_dtype": "bfloat16",
}
QWEN_3_30B_A3B: Config = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "head_dim": 128,
    "num_attention_heads": 32,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "max_position_embeddings": 40_960,
    "sliding_window": None,
    "use_sliding_window": False,
    "max_window_layers": 48,
    "torch_dtype": "bfloat16",
}
DEEPSEEK_V2_LITE: Config = {
    "model_type": "deepseek_v2",
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_hidden_layers": 27,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "max_position_embeddings": 163_840,
    "torch_dtype": "bfloat16",
}
KIMI_LINEAR: Config = {
    "model_type": "kimi_linear",
    "hidden_size": 2304,
    "head_dim": 72,
    "num_attention_heads": 32,
    "num_hidden_layers": 27,
    "num_key_value_heads": 32,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "kda_layers": [n for n in range(1, 27) if n % 4],
        "num_heads": 32,
        "head_dim": 128,
    },
    "model_max_length": 1_048_576,
    "torch_dtype": "bfloat16",
}
MIXTRAL_8X7B: Config = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "sliding_window": None,
    "max_position_embeddings": 32_768,
    "torch_dtype": "bfloat16",
}
GEMMA_2_9B: Config = {
    "model_type": "gemma2",
    "hidden_size": 3584,
    "head_dim": 256,
    "num_attention_heads": 16,
    "num_hidden_layers": 42,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "max_position_embeddings": 8192,
    "torch_dtype": "float32",
}
GEMMA_3_27B: Config = {
    "model_type": "gemma3",
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 5376,
        "head_dim": 128,
        "num_attention_heads": 32,
        "num_hidden_layers": 62,
        "num_key_value_heads": 16,
        "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    },
}
GPT_OSS_120B: Config = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_hidden_layers": 36,
    "sliding_window": 128,
    "max_position_embeddings": 131_072,
    "rope_scaling": {"factor": 32.0, "rope_type": "yarn"},
}
COMMAND_R_7B: Config = {
    "model_type": "cohere2",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "sliding_window_pattern": 4,
    "max_position_embeddings": 8192,
    "torch_dtype": "float16",
}
FALCON_7B: Config = {
    "model_type": "falcon",
    "hidden_size": 4544,
    "num_attention_heads": 71,
    "num_hidden_layers": 32,
    "multi_query": True,
    "new_decoder_architecture": False,
    "torch_dtype": "bfloat16",
}
FALCON_40B: Config = {
    "model_type": "falcon",
    "hidden_size": 8192,
    "num_attention_heads": 128,
    "num_hidden_layers": 60,
    "num_kv_heads": 8,
    "multi_query": True,
    "new_decoder_architecture": True,
    "torch_dtype": "bfloat16",
}
JAMBA_MINI: Config = {
    "model_type": "jamba",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "max_position_embeddings": 262_144,
    "torch_dtype": "bfloat16",
}
BAMBA_9B: Config = {
    "model_type": "bamba",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "attn_layer_indices": [9, 18, 27],
    "max_position_embeddings": 262_144,
    "torch_dtype": "bfloat16",
}
MINIMAX_TEXT: Config = {
    "model_type": "minimax_text_01",
    "hidden_size": 6144,
    "head_dim": 128,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "attn_type_list": [*[0] * 7, 1] * 10,
    "max_position_embeddings": 10_240_000,
    "torch_dtype": "bfloat16",
}
NEMOTRON_H_8B: Config = {
    "model_type": "nemotron_h",
    "hidden_size": 4096,
    "head_dim": 128,
    "num_attention_heads": 32,
    "num_hidden_layers": 52,
    "num_key_value_heads": 8,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
CHATGLM_3_6B: Config = {
    "model_type": "chatglm",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 28,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "seq_length": 8192,
    "torch_dtype": "float16",
}
