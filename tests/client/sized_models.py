"""Writes models of different attention, each tiny, with random weights: `python sized_models.py
FOLDER`.

Runs in the Python that has vLLM. One folder a model, named as in SHAPES.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    DeepseekV2Config,
    Gemma3TextConfig,
    LlamaConfig,
    Qwen3Config,
)

from devcluster.tiny_model import tokenizer

_COMMON: Mapping[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 128,
    "dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def shapes(tokens: int) -> Mapping[str, Any]:
    """Grouped heads; one key for all heads with a window in most layers; latent vectors; and plain
    heads."""
    common = {**_COMMON, "vocab_size": tokens}
    return {
        "grouped": LlamaConfig(
            num_hidden_layers=3,
            num_attention_heads=8,
            num_key_value_heads=2,
            head_dim=64,
            max_position_embeddings=8192,
            **common,
        ),
        "windowed": Gemma3TextConfig(
            num_hidden_layers=8,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=256,
            sliding_window=512,
            max_position_embeddings=32_768,
            pad_token_id=2,
            **common,
        ),
        "latent": DeepseekV2Config(
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            kv_lora_rank=512,
            q_lora_rank=None,
            qk_rope_head_dim=64,
            qk_nope_head_dim=128,
            v_head_dim=128,
            first_k_dense_replace=3,
            n_routed_experts=2,
            n_shared_experts=1,
            num_experts_per_tok=1,
            moe_intermediate_size=64,
            n_group=1,
            topk_group=1,
            max_position_embeddings=4096,
            **common,
        ),
        "plain": Qwen3Config(
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=128,
            max_position_embeddings=16_384,
            **common,
        ),
    }


def main(folder: Path) -> None:
    """Write them all."""
    torch.manual_seed(0)
    made = tokenizer()
    for name, shape in shapes(len(made)).items():
        made.save_pretrained(folder / name)
        AutoModelForCausalLM.from_config(
            shape, dtype=torch.bfloat16
        ).save_pretrained(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
