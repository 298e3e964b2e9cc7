"""vLLM's pool of KV-cache blocks: the size of a block, and how many sequences fit.

All layers take blocks from one pool. Layers that keep the same tokens form a group, which takes its
own blocks for a sequence. If a model has layers of different kinds, groups are cut so that all have
equally many layers: with 5 sliding layers for each full one there are 6 groups.
"""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

from benchrun.sizing.cache_layers import Layer, ModelShape, head_bytes
from benchrun.sizing.serve_args import SizedEngine

_NEARLY_EQUAL = 1.5
"""Ratio between the numbers of layers of two kinds. Below it the smaller kind is padded to the
larger number; otherwise the larger kind is cut into groups of the smaller number."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of layers that share one block table."""

    layers: int
    block_tokens: int
    window_tokens: int | None

    def blocks(self, tokens: int, *, in_flight_tokens: int) -> int:
        """Return the most blocks that a sequence of `tokens` tokens takes in this group.

        A layer with a window keeps the window and the tokens in flight, whose blocks are not freed
        yet. It takes one block more, because a window may begin in the middle of a block.
        """
        if self.window_tokens is None:
            return -(-tokens // self.block_tokens)
        return (
            -(
                -min(self.window_tokens - 1 + in_flight_tokens, tokens)
                // self.block_tokens
            )
            + 1
        )


@dataclass(frozen=True, slots=True)
class Pool:
    """The KV cache of one engine."""

    groups: tuple[Group, ...]
    block_bytes: int  # Size of one block on the GPU that has the most layers.
    in_flight_tokens: int

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks a sequence of `tokens` tokens takes in all groups."""
        return sum(
            group.blocks(tokens, in_flight_tokens=self.in_flight_tokens)
            for group in self.groups
        )

    def sequence_bytes(self, tokens: int) -> int:
        """Return the bytes that one sequence of `tokens` tokens takes on each GPU.

        Blocks are counted in full.
        """
        return self.blocks_for(tokens) * self.block_bytes


def pool_of(shape: ModelShape, engine: SizedEngine) -> Pool:
    """Build the block pool of a model in an engine. Raises UnknownCacheType."""
    size = engine.block_tokens
    # Pages of latent vectors can't be padded: beside them, sliding layers keep every token, too.
    keeps_all = not engine.drops_beyond_window or any(
        layer.is_shared_by_all_heads for layer in shape.layers
    )
    # Number of layers by the bytes that they keep of a token and by their window.
    kinds = Counter(
        (
            token_bytes_per_gpu(each, engine),
            None if keeps_all else each.window_tokens,
        )
        for each in shape.caching_layers
    )
    in_flight = engine.steps_in_flight * engine.step_tokens
    if len(windows := {window for _, window in kinds}) == 1:
        token_bytes = sum(
            layers_of_a_stage(count, engine) * each
            for (each, _), count in kinds.items()
        )
        return Pool(
            (Group(kinds.total(), size, windows.pop()),),
            token_bytes * size,
            in_flight,
        )
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


def token_bytes_per_gpu(layer: Layer, engine: SizedEngine) -> int:
    """Return the bytes that a layer keeps of one token on one GPU. Raises UnknownCacheType."""
    # Every GPU has at least one head: where heads are fewer than GPUs, each is kept several times.
    return max(1, layer.heads // engine.tensor_parallel) * head_bytes(
        layer, engine.cache_dtype
    )


def layers_of_a_stage(layers: int, engine: SizedEngine) -> int:
    """Return how many of `layers` layers the largest pipeline stage has.

    With pipeline parallelism a GPU holds the layers of its own stage only.
    """
    return -(-layers // engine.pipeline_parallel)


# Tokens beyond any context: if only windows are kept, any length fits.
UNLIMITED_TOKENS = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """The memory of one GPU in bytes, and what it is used for."""

    total: int
    utilization: float
    weights: int
    overhead: int  # All bytes but weights and KV cache: activations, CUDA graphs, communication.

    @property
    def usable(self) -> int:
        """Return the bytes that vLLM uses of the GPU's memory."""
        return int(self.total * self.utilization)

    @property
    def cache(self) -> int:
        """Return the bytes that remain for the KV cache; below 0 if the weights do not fit."""
        return self.usable - self.weights - self.overhead


def memory_of(
    engine: SizedEngine, total: int | None, *, weights: int | None, overhead: int
) -> GpuMemory | None:
    """Build the memory of a GPU with `total` bytes, which holds its share of the model's `weights`.

    Returns None if `total` or `weights` is not known.
    """
    if total is None or weights is None:
        return None
    return GpuMemory(
        total=total,
        utilization=engine.utilization,
        weights=-(-weights // engine.gpus),
        overhead=overhead,
    )


@dataclass(frozen=True, slots=True)
class Fit:
    """A block pool with a known number of blocks."""

    pool: Pool
    blocks: int

    @property
    def usable_blocks(self) -> int:
        """Return how many blocks sequences can use: all but one, which vLLM always reserves."""
        return max(0, self.blocks - 1)

    def tokens(self, sequence_tokens: int) -> int:
        """Return how many tokens fit, as vLLM reports it, in sequences of `sequence_tokens` each.

        vLLM itself counts with sequences as long as the model's limit.
        """
        return int(
            self.blocks / self.pool.blocks_for(sequence_tokens) * sequence_tokens
        )

    def sequences(self, tokens: int) -> int:
        """Return how many whole sequences of `tokens` tokens fit at once."""
        return self.usable_blocks // self.pool.blocks_for(tokens)

    def longest(self, limit: int = UNLIMITED_TOKENS) -> int:
        """Return the length in tokens of the longest sequence that fits alone, at most `limit`.

        Returns 0 if not even one token fits.
        """
        return bisect_right(
            range(1, min(limit, UNLIMITED_TOKENS) + 1),
            self.usable_blocks,
            key=self.pool.blocks_for,
        )
