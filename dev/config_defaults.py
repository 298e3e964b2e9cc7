"""Writes the defaults of transformers' config classes: `python dev/config_defaults.py MODELS FILE`.

A default applies if config.json does not have the key. Run it with a Python that has the vLLM
version. MODELS is a YAML file of models; the defaults of their types are written. A type without a
class of its own has no defaults.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from transformers import CONFIG_MAPPING

KEYS = (
    "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size",
    "global_head_dim", "num_global_key_value_heads", "attention_k_eq_v", "num_kv_shared_layers",
    "sliding_window", "use_sliding_window", "max_window_layers", "sliding_window_pattern",
    "_sliding_window_pattern", "attention_chunk_size", "full_attention_interval",
    "attn_layer_period", "attn_layer_offset", "attn_layer_indices", "kv_lora_rank",
    "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "index_head_dim", "multi_query",
    "new_decoder_architecture", "num_kv_heads", "max_position_embeddings", "n_positions",
    "max_seq_len", "seq_length", "model_max_length", "num_experts", "moe_num_experts",
    "n_routed_experts", "num_local_experts", "vocab_size", "n_layer", "n_head", "n_embd",
)  # fmt: skip


def types_of(models: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the type of each model's text part, which is the part with a KV cache."""
    for config in models.values():
        part = config.get("text_config") or config.get("llm_config") or config
        yield str(part["model_type"])


def defaults_of(model_type: str) -> dict[str, object]:
    """Return the defaults of a type's class for KEYS, without values computed from others."""
    if model_type not in CONFIG_MAPPING:
        return {}
    found = {key: getattr(CONFIG_MAPPING[model_type], key, None) for key in KEYS}
    return {
        key: value for key, value in found.items() if isinstance(value, int | str)
    }


def main(models: Path, file: Path) -> None:
    """Write one line a type."""
    listed = sorted({*types_of(yaml.safe_load(models.read_text(encoding="utf-8")))})
    lines = [
        f"{json.dumps(each)}: {json.dumps(defaults_of(each))}" for each in listed
    ]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    main(given.models, given.file)
