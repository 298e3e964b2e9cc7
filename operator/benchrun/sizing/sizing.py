"""The KV cache of one model in one engine: the figures that are shown, and what explains them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchrun.sizing.block_pool import (
    Fit,
    GpuMemory,
    Pool,
    layers_of_a_stage,
    pool_of,
    token_bytes_per_gpu,
)
from benchrun.sizing.cache_layers import Layer, ModelShape, is_quantized
from benchrun.sizing.serve_args import SizedEngine

COMMON_LENGTHS = (1024, 4096, 16_384, 65_536)


@dataclass(frozen=True, slots=True)
class LayerRow:
    """All layers of one kind, which have caches of the same size."""

    layer: Layer
    count: int
    token_bytes: int  # Bytes of one token in one layer, on one GPU.


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    shape: ModelShape
    engine: SizedEngine
    pool: Pool
    memory: (
        GpuMemory | None
    )  # None if the size of the cache was given, or no memory.
    fit: Fit | None
    rows: tuple[LayerRow, ...]
    # Lengths of sequences in tokens for which the size is asked.
    lengths: tuple[int, ...]

    @property
    def token_bytes_per_gpu(self) -> int:
        """Return the bytes of one token in all layers, on the GPU that has the most layers.

        This is the size while all layers keep the token; a layer with a window drops it later.
        """
        return sum(
            layers_of_a_stage(row.count, self.engine) * row.token_bytes
            for row in self.rows
        )

    @property
    def token_bytes(self) -> int:
        """Return the bytes of one token on all GPUs of the engine together, copies included."""
        return (
            sum(row.count * row.token_bytes for row in self.rows)
            * self.engine.tensor_parallel
        )

    @property
    def far_token_bytes(self) -> int:
        """Return the bytes that each further token adds on all GPUs once the windows are full."""
        kept = sum(
            row.count * row.token_bytes
            for row in self.rows
            if row.layer.window_tokens is None
        )
        return (
            kept * self.engine.tensor_parallel if self.drops else self.token_bytes
        )

    @property
    def drops(self) -> bool:
        """Return whether some layers free the tokens before their window."""
        return any(group.window_tokens is not None for group in self.pool.groups)

    @property
    def tokens(self) -> int | None:
        """Return how many tokens fit, as vLLM reports them (kv_cache_size_tokens).

        Returns None if the number of blocks or the longest sequence is not known.
        """
        longest = self.engine.max_tokens
        return (
            None
            if self.fit is None or longest is None
            else self.fit.tokens(longest)
        )


def sizing_of(
    shape: ModelShape,
    engine: SizedEngine,
    *,
    memory: GpuMemory | None = None,
    lengths: Sequence[int] = (),
) -> Sizing:
    """Size the KV cache of a model. Raises UnknownCacheType.

    How much fits is known only with `memory`, or with an argument for the cache's size. `lengths`
    are the lengths of sequences in tokens; without them, common lengths up to the model's limit.
    """
    pool = pool_of(shape, engine)
    longest = engine.max_tokens
    cache_bytes = (
        engine.cache_bytes
        if engine.cache_bytes is not None
        else memory.cache
        if memory is not None
        else None
    )
    blocks = engine.blocks
    if blocks is None and cache_bytes is not None:
        blocks = max(0, cache_bytes) // pool.block_bytes
    if not lengths:
        lengths = (
            COMMON_LENGTHS
            if longest is None
            else (*(n for n in COMMON_LENGTHS if n < longest), longest)
        )
    counts = Counter(shape.caching_layers)
    ordered = sorted(
        counts,
        key=lambda each: (
            each.kind,
            each.window_tokens or 0,
            each.heads,
            each.values,
        ),
    )
    return Sizing(
        shape=shape,
        engine=engine,
        pool=pool,
        memory=memory if engine.cache_bytes is None else None,
        fit=None if blocks is None else Fit(pool, blocks),
        rows=tuple(
            LayerRow(each, counts[each], token_bytes_per_gpu(each, engine))
            for each in ordered
        ),
        lengths=tuple(lengths),
    )


def changes(sizing: Sizing) -> tuple[str, ...]:
    """Return a sentence for each way in which the cache differs from that of plain attention.

    There is also a sentence for each part of the cache that is not counted.
    """
    shape = sizing.shape
    dtype = sizing.engine.cache_dtype
    source = (
        "set by the checkpoint"
        if dtype == shape.cache_dtype
        else "set by --kv-cache-dtype"
    )
    quantised = f"Quantised cache: {dtype}, {source}; half of what 16-bit numbers take, or less."
    shared = f"{shape.shared_layers} layers use the cache of another layer and keep nothing."
    return (
        *_heads(sizing),
        *_latent(sizing),
        *_windows(sizing),
        *([quantised] if is_quantized(dtype) else []),
        *_copies(sizing),
        *([shared] if shape.shared_layers else []),
        *(
            f"An estimate: {caveat}."
            for caveat in (*shape.caveats, *sizing.engine.caveats)
        ),
    )


def _kv_heads(sizing: Sizing) -> list[int]:
    return sorted(
        {
            row.layer.heads
            for row in sizing.rows
            if not row.layer.is_shared_by_all_heads
        }
    )


def _heads(sizing: Sizing) -> Iterator[str]:
    query = sizing.shape.query_heads
    for heads in _kv_heads(sizing):
        if heads < query:
            name = (
                "Multi-query attention"
                if heads == 1
                else "Grouped-query attention (GQA)"
            )
            shared = "one KV head" if heads == 1 else f"{heads} KV heads"
            yield (
                f"{name}: {query} query heads share {shared}, a cache of 1/{query / heads:g} the "
                "size."
            )


def _latent(sizing: Sizing) -> Iterator[str]:
    if (
        latent := next(
            (row.layer for row in sizing.rows if row.layer.kind == "Latent"), None
        )
    ) is None:
        return
    share = sizing.shape.plain_values / latent.values
    yield (
        f"Latent attention (MLA): a layer keeps one vector of {latent.values} numbers a token in "
        "place of keys and values "
        f"of {sizing.shape.query_heads} heads, a cache of 1/{share:.3g} the size. "
        "Tensor parallelism can't divide it."
    )
    if any(row.layer.kind == "Index" for row in sizing.rows):
        yield (
            "Sparse attention: each layer also keeps one key a token for the indexer, which "
            "selects the tokens to attend to."
        )


def _windows(sizing: Sizing) -> Iterator[str]:
    if not (sliding := [row for row in sizing.rows if row.layer.kind == "Sliding"]):
        return
    layers = sum(row.count for row in sliding)
    all_layers = sum(row.count for row in sizing.rows)
    windows = ", ".join(f"{row.layer.window_tokens:,}" for row in sliding)
    if sizing.drops:
        yield (
            f"Sliding window: {layers} of {all_layers} layers keep the last {windows} tokens, and "
            "while prompts are read up to "
            f"{sizing.pool.in_flight_tokens:,} more (max-num-batched-tokens x steps in flight)."
        )
    else:
        yield (
            f"Sliding window: {layers} of {all_layers} layers attend to the last {windows} "
            "tokens, but keep all tokens: "
            "vLLM allocates for every token where its hybrid cache manager is off."
        )


def _copies(sizing: Sizing) -> Iterator[str]:
    gpus = sizing.engine.tensor_parallel
    if gpus > 1 and any(row.layer.is_shared_by_all_heads for row in sizing.rows):
        yield (
            f"Tensor parallelism: each of {gpus} GPUs keeps a copy of the latent vectors; more "
            "GPUs hold no more tokens."
        )
    for heads in _kv_heads(sizing):
        if heads < gpus:
            yield (
                f"Tensor parallelism: {heads} KV heads on {gpus} GPUs; each is kept "
                f"{gpus // heads} times."
            )
