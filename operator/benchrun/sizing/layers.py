"""What one layer of a model keeps of each token, whoever serves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LayerKind = Literal["Full", "Sliding", "Latent", "Index", "State"]
"""Full: keys and values of every token. Sliding: of the last ones. Latent: one vector a token in place of both (MLA).
Index: keys of a sparse-attention indexer. State: of fixed size, however long the sequence (Mamba, linear attention)."""


class UnknownShape(ValueError):
    """config.json does not tell the shape of the cache; the text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One cache of one layer."""

    kind: LayerKind
    heads: int
    """KV heads of the whole model; 1 where all query heads share one vector."""
    values: int
    """Numbers a head keeps of each token, keys and values together."""
    window_tokens: int | None = None

    @property
    def is_shared_by_all_heads(self) -> bool:
        """One vector for all heads: tensor parallelism has nothing to divide, each GPU keeps a copy."""
        return self.kind in ("Latent", "Index")

    def heads_per_gpu(self, tensor_parallel: int) -> int:
        """Every GPU has one head at least: fewer heads than GPUs are kept several times."""
        return max(1, self.heads // tensor_parallel)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """What config.json tells about the cache."""

    model_type: str
    layers: tuple[Layer, ...]
    query_heads: int
    dtype: str | None
    """Type of the weights as config.json has it, for example bfloat16."""
    cache_dtype: str | None
    """Type of the KV cache where the checkpoint itself asks for one."""
    context_tokens: int | None
    """Longest sequence the model is made for."""
    plain_values: int
    """Numbers of a token that a layer would keep if every query head had keys and values of its own."""
    shared_layers: int = 0
    """Layers that use the cache of another and keep nothing themselves."""
    caveats: tuple[str, ...] = ()
    """Where the sizes are an estimate, and why."""

    @property
    def caching_layers(self) -> tuple[Layer, ...]:
        """Those whose cache grows with the sequence."""
        return tuple(layer for layer in self.layers if layer.kind != "State")
