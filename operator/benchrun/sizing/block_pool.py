"""vLLM's pool of KV-cache blocks: what a block costs, and what fits.

All layers draw blocks from one pool. Layers that keep the same tokens form a group, which takes
blocks of its own for a sequence. Where groups differ, blocks are made equally large: 5 sliding
layers to 1 full one make 6 groups."""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

from benchrun.sizing.cache_layers import Layer, ModelShape, head_bytes
from benchrun.sizing.serve_args import Engine

_NEARLY_EQUAL = 1.5
"""Kinds of layers whose numbers differ by less are padded to the larger one, not cut to the
smaller."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers with one block table."""

    layers: int
    block_tokens: int
    window_tokens: int | None

    def blocks(self, tokens: int, *, in_flight_tokens: int) -> int:
        """Blocks of a sequence at most: a window may begin within a block, and what is under way is
        not given back yet."""
        if self.window_tokens is None:
            return -(-tokens // self.block_tokens)
        return -(-min(self.window_tokens - 1 + in_flight_tokens, tokens) // self.block_tokens) + 1


@dataclass(frozen=True, slots=True)
class Pool:
    """The KV cache of one engine."""

    groups: tuple[Group, ...]
    block_bytes: int  # Of one block, on the GPU that has most layers.
    in_flight_tokens: int

    def blocks_for(self, tokens: int) -> int:
        """Blocks that a sequence of so many tokens takes."""
        return sum(
            group.blocks(tokens, in_flight_tokens=self.in_flight_tokens) for group in self.groups
        )

    def sequence_bytes(self, tokens: int) -> int:
        """What one sequence takes on each GPU, in whole blocks."""
        return self.blocks_for(tokens) * self.block_bytes


def pool_of(shape: ModelShape, engine: Engine) -> Pool:
    """The pool of a model in an engine. Raises UnknownCacheType."""
    size = engine.block_tokens
    # Pages of latent vectors can't be padded: beside sliding layers all of them keep every token.
    keeps_all = not engine.drops_beyond_window or any(
        layer.is_shared_by_all_heads for layer in shape.layers
    )
    # How many layers keep so many bytes of a token, within such a window.
    kinds = Counter(
        (token_bytes_per_gpu(each, engine), None if keeps_all else each.window_tokens)
        for each in shape.caching_layers
    )
    in_flight = engine.steps_in_flight * engine.step_tokens
    if len(windows := {window for _, window in kinds}) == 1:
        token_bytes = sum(
            layers_of_a_stage(count, engine) * each for (each, _), count in kinds.items()
        )
        return Pool((Group(kinds.total(), size, windows.pop()),), token_bytes * size, in_flight)
    largest = max(each for each, _ in kinds)
    fewest = min(kinds.values())
    most = max(kinds.values())
    at_most = most if most < fewest * _NEARLY_EQUAL else fewest
    groups: list[Group] = []
    for (token_bytes, window), count in kinds.items():
        # Small pages take more tokens a block where that fits evenly, else they are padded.
        more = 1 if largest % token_bytes else largest // token_bytes
        tables = -(-count // at_most)
        groups += [Group(-(-count // tables), size * more, window)] * tables
    of_a_stage = layers_of_a_stage(max(group.layers for group in groups), engine)
    return Pool(tuple(groups), of_a_stage * largest * size, in_flight)


def token_bytes_per_gpu(layer: Layer, engine: Engine) -> int:
    """Bytes that a layer keeps of one token, on one GPU. Raises UnknownCacheType."""
    # Every GPU has one head at least: fewer heads than GPUs are kept several times.
    return max(1, layer.heads // engine.tensor_parallel) * head_bytes(layer, engine.cache_dtype)


def layers_of_a_stage(layers: int, engine: Engine) -> int:
    """With pipeline parallelism a GPU has the layers of its stage: so many where they are most."""
    return -(-layers // engine.pipeline_parallel)


UNLIMITED_TOKENS = 2**30  # Longer than any context: where only windows are kept, any length fits.


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of one GPU, in bytes."""

    total: int
    utilization: float
    weights: int
    overhead: (
        int  # Activations, CUDA graphs, communication: whatever is neither weights nor KV cache.
    )

    @property
    def usable(self) -> int:
        """What vLLM takes of it."""
        return int(self.total * self.utilization)

    @property
    def cache(self) -> int:
        """What is left for the KV cache; below 0 where the weights don't fit."""
        return self.usable - self.weights - self.overhead


def memory_of(
    engine: Engine, total: int | None, *, weights: int | None, overhead: int
) -> Memory | None:
    """Of a GPU with so many bytes, which holds its share of the model's `weights`; None where one
    of them is not known."""
    if total is None or weights is None:
        return None
    return Memory(
        total=total,
        utilization=engine.utilization,
        weights=-(-weights // engine.gpus),
        overhead=overhead,
    )


@dataclass(frozen=True, slots=True)
class Fit:
    """A pool with its number of blocks."""

    pool: Pool
    blocks: int

    @property
    def usable_blocks(self) -> int:
        """vLLM keeps one back for good."""
        return max(0, self.blocks - 1)

    def tokens(self, sequence_tokens: int) -> int:
        """Tokens that fit, as vLLM reports them: in sequences as long as the model's limit."""
        return int(self.blocks / self.pool.blocks_for(sequence_tokens) * sequence_tokens)

    def sequences(self, tokens: int) -> int:
        """Whole sequences of so many tokens that fit at once."""
        return self.usable_blocks // self.pool.blocks_for(tokens)

    def longest(self, limit: int = UNLIMITED_TOKENS) -> int:
        """The longest sequence that fits alone, up to `limit`; 0: none does."""
        return bisect_right(
            range(1, min(limit, UNLIMITED_TOKENS) + 1), self.usable_blocks, key=self.pool.blocks_for
        )
