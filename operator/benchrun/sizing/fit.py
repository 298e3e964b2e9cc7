"""What fits: tokens, the longest sequence, sequences at a length."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun.sizing.engine import Engine
from benchrun.sizing.pool import Pool

UNLIMITED_TOKENS = 2**30
"""Longer than any context: where only windows are kept, any length fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of one GPU, in bytes."""

    total: int
    utilization: float
    weights: int
    overhead: int
    """Activations, CUDA graphs, communication: whatever is neither weights nor KV cache."""

    @property
    def usable(self) -> int:
        """What vLLM takes of it."""
        return int(self.total * self.utilization)

    @property
    def cache(self) -> int:
        """What is left for the KV cache; below 0 where the weights don't fit."""
        return self.usable - self.weights - self.overhead


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
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.pool.blocks_for(middle) <= self.usable_blocks else (low, middle - 1)
        return low


def fit_of(pool: Pool, engine: Engine, cache_bytes: int) -> Fit:
    """What fits into so many bytes on each GPU."""
    return Fit(pool, engine.blocks if engine.blocks is not None else max(0, cache_bytes) // pool.block_bytes)


def sequence_bytes(pool: Pool, tokens: int) -> int:
    """What one sequence takes on each GPU, in whole blocks."""
    return pool.blocks_for(tokens) * pool.block_bytes
