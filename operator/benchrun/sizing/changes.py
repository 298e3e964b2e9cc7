"""What makes this model's cache smaller or larger than plain attention would, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from benchrun.sizing.cache_dtypes import is_quantized
from benchrun.sizing.engine import Engine
from benchrun.sizing.layers import Layer
from benchrun.sizing.sizing import Sizing

_GROUPED = "Grouped-query attention (GQA)"


def changes(sizing: Sizing) -> tuple[str, ...]:
    """One sentence for each thing that changes the size, and one for each that is not counted."""
    shape, engine = sizing.shape, sizing.engine
    return (
        *_heads(sizing),
        *_latent(sizing),
        *_windows(sizing),
        *_quantized(sizing),
        *_copies(shape.caching_layers, engine),
        *(
            [f"{shape.shared_layers} layers use the cache of another layer and keep nothing."]
            if shape.shared_layers
            else []
        ),
        *(f"An estimate: {caveat}." for caveat in (*shape.caveats, *engine.caveats)),
    )


def _heads(sizing: Sizing) -> Iterator[str]:
    query = sizing.shape.query_heads
    for heads in sorted({row.layer.heads for row in sizing.rows if not row.layer.is_shared_by_all_heads}):
        if heads < query:
            name, shared = ("Multi-query attention", "one KV head") if heads == 1 else (_GROUPED, f"{heads} KV heads")
            yield f"{name}: {query} query heads share {shared}, a cache of 1/{query / heads:g} the size."


def _latent(sizing: Sizing) -> Iterator[str]:
    latent = next((row.layer for row in sizing.rows if row.layer.kind == "Latent"), None)
    if latent is None:
        return
    share = sizing.shape.plain_values / latent.values
    yield (
        f"Latent attention (MLA): a layer keeps one vector of {latent.values} numbers a token in place of keys and values "
        f"of {sizing.shape.query_heads} heads, a cache of 1/{share:.3g} the size. It can't be divided by heads."
    )
    if any(row.layer.kind == "Index" for row in sizing.rows):
        yield "Sparse attention: beside it each layer keeps one key a token for the indexer, which picks what is attended to."


def _windows(sizing: Sizing) -> Iterator[str]:
    sliding = [row for row in sizing.rows if row.layer.kind == "Sliding"]
    if not sliding:
        return
    layers, all_layers = sum(row.count for row in sliding), sum(row.count for row in sizing.rows)
    windows = ", ".join(f"{row.layer.window_tokens:,}" for row in sliding)
    if not sizing.drops:
        yield (
            f"Sliding window: {layers} of {all_layers} layers attend to the last {windows} tokens, but here they keep all: "
            "vLLM allocates for every token where its hybrid cache manager is off."
        )
        return
    slack = sizing.pool.in_flight_tokens
    yield (
        f"Sliding window: {layers} of {all_layers} layers keep the last {windows} tokens, and while prompts are read up to "
        f"{slack:,} more (max-num-batched-tokens x steps in flight)."
    )


def _quantized(sizing: Sizing) -> Iterator[str]:
    cache = sizing.engine.cache_dtype
    if is_quantized(cache):
        who = "as the checkpoint asks for" if cache == sizing.shape.cache_dtype else "by --kv-cache-dtype"
        yield f"Quantised cache: {cache}, {who}; half of what 16-bit numbers take, or less."


def _copies(layers: tuple[Layer, ...], engine: Engine) -> Iterator[str]:
    gpus = engine.tensor_parallel
    if gpus == 1:
        return
    if any(layer.is_shared_by_all_heads for layer in layers):
        yield f"Tensor parallelism: each of {gpus} GPUs keeps a copy of the latent vectors; more GPUs hold no more tokens."
    for heads in sorted({layer.heads for layer in layers if not layer.is_shared_by_all_heads}):
        if heads < gpus:
            yield f"Tensor parallelism: {heads} KV heads on {gpus} GPUs; each is kept {gpus // heads} times."
