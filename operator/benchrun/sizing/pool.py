"""vLLM's pool of blocks: what one block costs on each GPU, and how many a sequence of some length takes.

All layers draw blocks from one pool. Layers that keep the same tokens share a block table and form a group; every group
takes blocks of its own for a sequence. Where groups differ, blocks are made equally large: a model with 5 sliding layers
to 1 full one has 6 groups with one block table each, and its layers are dealt out to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from benchrun.sizing.cache_dtypes import head_bytes
from benchrun.sizing.engine import Engine
from benchrun.sizing.layers import Layer, ModelShape

_NEARLY_EQUAL = 1.5
"""Kinds of layers whose numbers differ by less are padded to the larger one, not cut to the smaller."""


@dataclass(frozen=True, slots=True)
class Page:
    """One layer's share of a block, on one GPU."""

    bytes: int
    block_tokens: int
    window_tokens: int | None
    head_bytes: int


@dataclass(frozen=True, slots=True)
class Group:
    """Layers with one block table."""

    layers: int
    block_tokens: int
    window_tokens: int | None

    def blocks(self, tokens: int, *, in_flight_tokens: int) -> int:
        """Blocks that a sequence takes at most. A window may begin in the middle of a block, and what is under way is not
        given back yet."""
        if self.window_tokens is None:
            return -(-tokens // self.block_tokens)
        return -(-min(self.window_tokens - 1 + in_flight_tokens, tokens) // self.block_tokens) + 1


@dataclass(frozen=True, slots=True)
class Pool:
    """The KV cache of one engine."""

    groups: tuple[Group, ...]
    block_bytes: int
    """Of one block, on the GPU that has most layers."""
    in_flight_tokens: int

    def blocks_for(self, tokens: int) -> int:
        """Blocks that a sequence of so many tokens takes."""
        return sum(group.blocks(tokens, in_flight_tokens=self.in_flight_tokens) for group in self.groups)


def pool_of(shape: ModelShape, engine: Engine) -> Pool:
    """The pool of a model in an engine. Raises UnknownCacheType."""
    pages = [_page(layer, engine) for layer in shape.caching_layers]
    if not engine.drops_beyond_window or _differ_beyond_padding(shape):
        pages = [replace(page, window_tokens=None) for page in pages]
    in_flight = engine.steps_in_flight * engine.step_tokens
    if len({page.window_tokens for page in pages}) == 1:
        group = Group(len(pages), engine.block_tokens, pages[0].window_tokens)
        size = sum(layers_of_a_stage(count, engine) * page.bytes for page, count in Counter(pages).items())
        return Pool((group,), size, in_flight)
    pages = _equally_large(pages)
    groups, layers = _dealt_out(pages)
    return Pool(groups, layers_of_a_stage(layers, engine) * pages[0].bytes, in_flight)


def token_bytes_per_gpu(layer: Layer, engine: Engine) -> int:
    """Bytes that a layer keeps of one token, on one GPU. Raises UnknownCacheType."""
    return layer.heads_per_gpu(engine.tensor_parallel) * head_bytes(layer, engine.cache_dtype)


def _page(layer: Layer, engine: Engine) -> Page:
    token = token_bytes_per_gpu(layer, engine)
    return Page(token * engine.block_tokens, engine.block_tokens, layer.window_tokens, token)


def _differ_beyond_padding(shape: ModelShape) -> bool:
    """Pages of latent vectors can't be padded: beside sliding layers all of them keep every token."""
    return any(layer.is_shared_by_all_heads for layer in shape.layers)


def layers_of_a_stage(layers: int, engine: Engine) -> int:
    """With pipeline parallelism a GPU has the layers of its stage: so many where they are most."""
    return -(-layers // engine.pipeline_parallel)


def _equally_large(pages: Iterable[Page]) -> list[Page]:
    """Small pages take more tokens a block where that fits evenly, else they are padded."""
    listed = list(pages)
    largest = max(page.bytes for page in listed)
    return [
        replace(
            page,
            bytes=largest,
            block_tokens=page.block_tokens * (largest // page.bytes if largest % page.bytes == 0 else 1),
        )
        for page in listed
    ]


def _dealt_out(pages: Iterable[Page]) -> tuple[tuple[Group, ...], int]:
    """The groups, and how many layers the largest has."""
    kinds = Counter(pages)
    fewest, most = min(kinds.values()), max(kinds.values())
    size = most if most < fewest * _NEARLY_EQUAL else fewest
    groups = tuple(
        Group(-(-count // tables), page.block_tokens, page.window_tokens)
        for page, count in kinds.items()
        for tables in (-(-count // size),)
        for _ in range(tables)
    )
    return groups, max(group.layers for group in groups)
