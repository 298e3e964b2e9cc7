"""What a layer of a model keeps of each token in its cache, and how many bytes that takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

LayerKind = Literal["Full", "Sliding", "Latent", "Index", "State"]
"""Full: keys and values of every token. Sliding: keys and values of the last tokens. Latent: one
vector per token instead of keys and values (MLA). Index: keys of a sparse-attention indexer. State:
a state whose size does not depend on the sequence's length (Mamba, linear attention)."""


class UnknownShape(ValueError):
    """config.json does not describe the cache; the text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One of the caches that a layer of the model keeps."""

    kind: LayerKind
    heads: int  # KV heads of the whole model; 1 where all query heads share one vector.
    values: int  # Numbers a head keeps of each token, keys and values together.
    window_tokens: int | None = None

    @property
    def is_shared_by_all_heads(self) -> bool:
        """Return whether the layer keeps one vector for all heads.

        Tensor parallelism can't divide it: each GPU keeps a copy.
        """
        return self.kind in ("Latent", "Index")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What a model's config.json says about the KV cache of the model."""

    model_type: str
    layers: tuple[Layer, ...]
    query_heads: int
    # Type of the weights as config.json has it, for example bfloat16.
    dtype: str | None
    cache_dtype: str | None  # Type of the KV cache if the checkpoint sets one.
    weights_format: str | None = None  # Format of a quantised checkpoint.
    # Longest sequence in tokens that the model is made for.
    context_tokens: int | None
    default_tokens: int | None = None
    """Longest sequence that vLLM takes if --max-model-len is left out."""
    hidden_layers: int = 0
    experts: int = 0  # Number of experts in a layer; 0: the model has no experts.
    # Groups of Mamba's heads; None if the model has no such heads.
    state_groups: int | None = None
    vocabulary: int | None = None
    mlp_size: int | None = None
    """Numbers within the MLP of each layer, which GPUs share; None if layers differ."""
    attention_size: int | None = None
    """Numbers that each layer's attention gives to its output weights, which GPUs share; None if
    layers differ, or it is not said."""
    weights_group: int | None = 1
    """Numbers of a row of weights that can't be divided, for they have one scale; None if it is not
    known."""
    # Numbers that a layer would keep of a token if every query head had its own keys and values.
    plain_values: int
    # Layers that use another layer's cache and keep nothing.
    shared_layers: int = 0
    caveats: tuple[str, ...] = ()  # Reasons why the sizes are an estimate only.

    @property
    def caching_layers(self) -> tuple[Layer, ...]:
        """Return the layers whose cache grows with the sequence."""
        return tuple(layer for layer in self.layers if layer.kind != "State")


_BYTES: Mapping[str, int] = {
    "float32": 4, "float": 4,
    "bfloat16": 2, "float16": 2, "half": 2,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1,
    "int8_per_token_head": 1, "fp8_per_token_head": 1,
}  # fmt: skip
PACKED_LATENT: Mapping[str, int] = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Bytes per token of DeepSeek's whole latent vector with its scales, by format."""
# Two scales for each token and head: one for keys, one for values.
_SCALE_BYTES = 8
_NVFP4 = ("nvfp4", "nvfp4_4over6")
KNOWN = frozenset({*_BYTES, *PACKED_LATENT, *_NVFP4})


class UnknownCacheType(ValueError):
    """The bytes per number of this cache type are not known; the text names the type."""


def is_quantized(dtype: str) -> bool:
    """Return whether a cache type has fewer bits than the types that models compute in."""
    return dtype in KNOWN and _BYTES.get(dtype, 1) == 1


def head_bytes(layer: Layer, dtype: str) -> int:
    """Return the bytes that a layer keeps of one token for one head. Raises UnknownCacheType."""
    if layer.kind == "Index":
        return layer.values
    if layer.kind == "Latent" and dtype in PACKED_LATENT:
        return PACKED_LATENT[dtype]
    if dtype in _NVFP4:
        return layer.values // 2 + layer.values // 16
    if dtype in PACKED_LATENT:
        raise UnknownCacheType(
            f"KV cache type {dtype!r} is for latent vectors (MLA), which this model does not have"
        )
    if dtype not in _BYTES:
        raise UnknownCacheType(
            f"KV cache type {dtype!r} is not known; known are {', '.join(sorted(KNOWN))}"
        )
    return layer.values * _BYTES[dtype] + (
        _SCALE_BYTES if dtype.endswith("_per_token_head") else 0
    )
