"""How many bytes a cached number takes, for each type that vLLM keeps a KV cache in."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun.sizing.layers import Layer

_BYTES: Mapping[str, int] = {
    "float32": 4, "float": 4,
    "bfloat16": 2, "float16": 2, "half": 2,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1,
    "int8_per_token_head": 1, "fp8_per_token_head": 1,
}  # fmt: skip
PACKED_LATENT: Mapping[str, int] = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Formats of DeepSeek's latent vector with its scales, whole, in bytes a token."""
_SCALE_BYTES = 8
"""Two scales a token and head, of keys and of values."""
_NVFP4 = ("nvfp4", "nvfp4_4over6")
KNOWN = frozenset({*_BYTES, *PACKED_LATENT, *_NVFP4})


class UnknownCacheType(ValueError):
    """Nothing is known about the size of this type."""


def is_quantized(dtype: str) -> bool:
    """Whether it is smaller than the types that models compute in."""
    return dtype in KNOWN and _BYTES.get(dtype, 1) == 1


def head_bytes(layer: Layer, dtype: str) -> int:
    """Bytes of one head of one token. Raises UnknownCacheType."""
    if layer.kind == "Index":
        return layer.values
    if layer.kind == "Latent" and dtype in PACKED_LATENT:
        return PACKED_LATENT[dtype]
    if dtype in _NVFP4:
        return layer.values // 2 + layer.values // 16
    if dtype in PACKED_LATENT:
        raise UnknownCacheType(f"KV cache type {dtype!r} is for latent vectors (MLA), which this model does not have")
    if dtype not in _BYTES:
        raise UnknownCacheType(
            f"the size of KV cache type {dtype!r} is not known; known are {', '.join(sorted(KNOWN))}"
        )
    scales = _SCALE_BYTES if dtype.endswith("_per_token_head") else 0
    return layer.values * _BYTES[dtype] + scales
