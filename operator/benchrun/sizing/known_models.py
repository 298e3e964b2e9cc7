"""Which model types benchrun knows, and which keys their config.json may have.

A type is known if benchrun's figures were compared with vLLM's own for a published model of that
type. An unknown type or key gives an error or a caveat, because it may change the cache.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from benchrun.sizing.cache_layers import UnknownShape

Config = Mapping[str, Any]

WRAPPERS = frozenset({
    "gemma3", "gemma3n", "gemma4", "internvl", "internvl_chat", "llama4", "llava", "llava_next",
    "mistral3", "qwen2_vl", "qwen2_5_vl", "qwen3_5", "qwen3_vl", "qwen3_vl_moe",
})  # fmt: skip
"""Models for more than text; their part for text has its own type."""
ENCODERS = ("bert", "xlm-roberta", "modernbert")
STATES_ONLY = ("mamba", "mamba2", "falcon_mamba")
OLDER: dict[str, Config] = {"bamba": {}, "minimax_text_01": {}}
"""Models of vLLM before 0.32, whose code could not be queried. They were checked against published
figures."""
LAYERS_DIFFER = (
    "bamba", "granitemoehybrid", "kimi_linear", "lfm2", "lfm2_moe", "minimax_text_01",
    "nemotron-nas", "nemotron_h", "qwen3_5_text", "qwen3_next",
)  # fmt: skip
"""Model types whose config.json must say which layers have attention."""

_MAY_DECIDE = re.compile(
    r"attn|attention|layer|block|kv|head|window|mamba|ssm|conv|state|latent|lora|cla(?!ss)|share"
    r"|recurr|linear|sparse|compress|chunk|cross|idx|index|pattern|hybrid|memory|ratio"
)
_READ = frozenset({
    "attention_chunk_size", "attention_k_eq_v", "attn_config", "attn_layer_indices",
    "attn_layer_offset", "attn_layer_period", "attn_type_list", "block_configs",
    "full_attention_interval", "full_attn_idxs", "global_head_dim", "head_dim",
    "hidden_size_per_head", "hybrid_override_pattern", "index_head_dim", "kv_cache_scheme",
    "kv_lora_rank", "layer_types", "layers_block_type", "linear_attn_config", "max_window_layers",
    "multi_query_attention", "n_head", "n_head_kv", "n_heads", "n_layer", "n_layers",
    "num_attention_groups", "num_attention_heads", "num_global_key_value_heads",
    "num_hidden_layers", "num_key_value_heads", "num_kv_heads", "num_kv_shared_layers",
    "num_layers", "num_nextn_predict_layers", "qk_nope_head_dim", "qk_rope_head_dim",
    "sliding_window", "sliding_window_pattern", "_sliding_window_pattern", "use_sliding_window",
    "v_head_dim",
})  # fmt: skip
_WITHOUT_EFFECT = frozenset({
    "_attn_implementation", "_attn_implementation_autoset", "_remove_final_layer_norm",
    "activation_sparsity_pattern", "add_bias_linear", "add_cross_attention", "add_qkv_bias",
    "altup_active_idx", "apply_query_key_layer_scaling",
    "apply_residual_connection_post_layernorm", "attention_bias", "attention_dropout",
    "attention_head_dim", "attention_in_multiplier", "attention_multiplier",
    "attention_out_bias", "attention_out_multiplier", "attention_probs_dropout_prob",
    "attention_softmax_in_fp32", "attn_implementation", "attn_logit_softcapping", "attn_pdrop",
    "attn_scale", "attn_temperature_tuning", "block_auto_adjust_ff_dim", "block_dim",
    "block_ff_dim", "block_ffn_dim_multiplier", "block_multiple_of", "chunk_size",
    "chunk_size_feed_forward", "conv_L_cache", "conv_bias", "conv_dim",
    "conv_dim_out", "conv_kernel", "decoder_sparse_step",
    "do_layer_norm_before", "downsample_ratio", "embd_layer_norm", "enable_moe_block",
    "expert_layer_offset", "expert_layer_period", "first_k_dense_replace", "fused_attention",
    "global_attn_every_n_layers", "hidden_size_per_layer_input", "image_token_index",
    "index_n_heads", "index_topk", "interleave_moe_layer_step", "kv_channels",
    "layer_norm_elementwise_affine", "layer_norm_eps", "layer_norm_epsilon", "layerdrop",
    "layernorm_epsilon", "linear_conv_kernel_dim", "linear_head_dim", "linear_key_head_dim",
    "linear_num_heads", "linear_num_key_heads", "linear_num_value_heads", "linear_value_head_dim",
    "lm_head_bias", "lm_head_multiplier", "local_attention", "mamba_chunk_size",
    "mamba_conv_bias", "mamba_d_conv", "mamba_d_head", "mamba_d_ssm", "mamba_d_state",
    "mamba_dt_rank", "mamba_expand", "mamba_head_dim", "mamba_hidden_act", "mamba_n_groups",
    "mamba_n_heads", "mamba_norm_before_gate", "mamba_num_heads", "mamba_proj_bias",
    "mamba_rms_norm", "mamba_ssm_cache_dtype", "mamba_use_mlp", "mlp_layer_types",
    "mlp_only_layers", "moe_latent_size", "moe_layer_end_index", "moe_layer_freq",
    "moe_layer_interval", "moe_layer_start_index", "moe_layers", "moe_num_shared_experts",
    "moe_shared_expert_intermediate_size", "moe_shared_expert_overlap", "mtp_layers_block_type",
    "mtp_num_hidden_layers", "mtp_transformer_layers", "n_shared_experts",
    "no_rope_layer_interval", "no_rope_layers", "num_dense_layers", "num_heads",
    "num_ln_in_parallel_attn", "num_shared_experts", "output_attentions", "output_hidden_states",
    "parallel_attn", "post_layer_norm", "q_lora_rank", "qk_head_dim", "qk_layernorm",
    "qkv_bias", "query_pre_attn_scalar", "reorder_and_upcast_attn",
    "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "select_layer",
    "shared_expert_intermediate_size", "shared_intermediate_size", "sliding_window_size",
    "ssm_in_multiplier", "ssm_multipliers", "ssm_out_multiplier", "ssm_state_size", "state_size",
    "time_step_rank", "use_bidirectional_attention", "use_conv_bias", "use_mamba_kernels",
    "use_mambapy", "use_qkv_bias", "vision_feature_layer", "vocab_size_per_layer_input",
    "video_token_index",
})  # fmt: skip
_NEVER = ("class", "id2label", "label2id")
_DRAFTS = re.compile(r"eagle|mtp|medusa|draft|speculat", re.IGNORECASE)


@cache
def defaults() -> Mapping[str, Config]:
    """Return the engine's defaults for missing keys of config.json, by model type.

    They come from dev/config_defaults.py.
    """
    text = (
        files(__package__)
        .joinpath("config_defaults.json")
        .read_text(encoding="utf-8")
    )
    found: dict[str, Config] = json.loads(text)
    return OLDER | found


def known_type(text: Config, config: Config) -> str:
    """Return the model type of the part that has the cache.

    Raises UnknownShape if the type is not known, or if the model's own cache is not to be sized: an
    encoder has none, and a drafting model works for another model.
    """
    found = text.get("model_type") or config.get("model_type")
    if not isinstance(found, str):
        raise UnknownShape(
            "config.json has no model_type, which the size of the KV cache needs: take the whole "
            "file from the model's repository"
        )
    if found not in defaults():
        raise UnknownShape(
            f"benchrun does not know model_type {found!r} and can't compute its KV cache; vLLM "
            "logs the size when it starts"
        )
    if found in ENCODERS:
        raise UnknownShape(f"{found} is an encoder, which keeps no KV cache")
    for name in _names(config.get("architectures")):
        if _DRAFTS.search(name):
            raise UnknownShape(
                f"{name} is a draft model for speculative decoding; give the model it drafts for"
            )
    return found


def _names(value: object) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, list) or not all(
        isinstance(each, str) for each in value
    ):
        raise UnknownShape(
            f"architectures is {value!r}, expected a list of strings"
        )
    yield from value


def unknown_keys(text: Config, *, layers: int) -> tuple[str, ...]:
    """Return the keys that may change the cache and that benchrun does not know.

    Raises UnknownShape if such a key has a list or an object, or if any unknown key has one entry a
    layer.
    """
    found = [
        key for key in text if isinstance(key, str) and _is_unknown(key, text[key])
    ]
    for key in found:
        if isinstance(text[key], list | dict):
            raise UnknownShape(f"benchrun does not know {key} in config.json")
    for key, value in text.items():
        is_by_layer = isinstance(value, list) and len(value) == layers > 1
        if is_by_layer and key not in _READ | _WITHOUT_EFFECT:
            raise UnknownShape(
                f"benchrun does not know {key} in config.json, which has one entry a layer"
            )
    return tuple(sorted(found))


def _is_unknown(key: str, value: object) -> bool:
    """Return whether a key is set, may change the cache and is unknown to benchrun."""
    if (
        key in _READ
        or key in _WITHOUT_EFFECT
        or key.startswith(_NEVER)
        or not value
    ):
        return False
    return _MAY_DECIDE.search(key.lower()) is not None
