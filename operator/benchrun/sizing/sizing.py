"""One model in one engine, sized: the figures that a table or a program shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from benchrun.sizing.engine import Engine
from benchrun.sizing.fit import Fit, Memory, fit_of, sequence_bytes
from benchrun.sizing.layers import Layer, ModelShape
from benchrun.sizing.pool import Pool, layers_of_a_stage, pool_of, token_bytes_per_gpu

COMMON_LENGTHS = (1024, 4096, 16_384, 65_536)


@dataclass(frozen=True, slots=True)
class LayerRow:
    """Layers that keep the same."""

    layer: Layer
    count: int
    token_bytes: int
    """Of one token in one layer, on one GPU."""


@dataclass(frozen=True, slots=True)
class LengthRow:
    """Sequences of one length."""

    tokens: int
    bytes_per_gpu: int
    """Of one sequence, in whole blocks."""
    sequences: int | None
    """How many fit at once; None: the memory is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """What came out."""

    shape: ModelShape
    engine: Engine
    pool: Pool
    memory: Memory | None
    """None where the size of the cache was given, or nothing about memory."""
    fit: Fit | None
    rows: tuple[LayerRow, ...]
    lengths: tuple[LengthRow, ...]

    @property
    def token_bytes_per_gpu(self) -> int:
        """Of one token in all layers, on the GPU that has most of them, while every layer still keeps it."""
        return sum(layers_of_a_stage(row.count, self.engine) * row.token_bytes for row in self.rows)

    @property
    def token_bytes(self) -> int:
        """On all GPUs of the engine together, copies included."""
        return sum(row.count * row.token_bytes for row in self.rows) * self.engine.tensor_parallel

    @property
    def far_token_bytes(self) -> int:
        """What each further token adds, on all GPUs, once the windows are full."""
        kept = sum(row.count * row.token_bytes for row in self.rows if row.layer.window_tokens is None)
        return kept * self.engine.tensor_parallel if self.drops else self.token_bytes

    @property
    def drops(self) -> bool:
        """Whether some layers give back what lies before their window."""
        return any(group.window_tokens is not None for group in self.pool.groups)

    @property
    def tokens(self) -> int | None:
        """Tokens that fit, as vLLM reports them (kv_cache_size_tokens)."""
        if self.fit is None or self.engine.max_tokens is None:
            return None
        return self.fit.tokens(self.engine.max_tokens)


def sizing_of(
    shape: ModelShape, engine: Engine, *, memory: Memory | None = None, lengths: Sequence[int] = ()
) -> Sizing:
    """Size a model. What fits is known with `memory`, or where the engine was told the size of its cache. Without
    `lengths`, common ones up to the model's longest. Raises UnknownCacheType."""
    pool = pool_of(shape, engine)
    room = engine.cache_bytes if engine.cache_bytes is not None else memory.cache if memory is not None else None
    fit = fit_of(pool, engine, room or 0) if room is not None or engine.blocks is not None else None
    return Sizing(
        shape=shape,
        engine=engine,
        pool=pool,
        memory=memory if engine.cache_bytes is None else None,
        fit=fit,
        rows=_rows(shape, engine),
        lengths=tuple(
            LengthRow(tokens, sequence_bytes(pool, tokens), None if fit is None else fit.sequences(tokens))
            for tokens in lengths or _common(engine.max_tokens)
        ),
    )


def _rows(shape: ModelShape, engine: Engine) -> tuple[LayerRow, ...]:
    by_kind = sorted(shape.caching_layers, key=_place)
    return tuple(
        LayerRow(layer, len(list(layers)), token_bytes_per_gpu(layer, engine)) for layer, layers in groupby(by_kind)
    )


def _place(layer: Layer) -> tuple[str, int, int, int]:
    return (layer.kind, layer.window_tokens or 0, layer.heads, layer.values)


def _common(longest: int | None) -> tuple[int, ...]:
    if longest is None:
        return COMMON_LENGTHS
    return (*(each for each in COMMON_LENGTHS if each < longest), longest)
