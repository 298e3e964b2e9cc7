"""Exact statistics of many values, kept as ascending values with counts: gaps come so, and pooling repeats is merging.

Percentiles interpolate linearly between the two nearest values, as numpy (and with it vLLM's benchmark) does by default;
the deviation is the population's, as vLLM's is. An empty distribution has no figures: None, never 0.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Distribution:
    """Ascending distinct values; `through[i]` is how many values are at most `values[i]`."""

    values: tuple[float, ...]
    through: tuple[int, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution:
        """From single values, in any order."""
        return cls.of_counts(Counter(values).items())

    @classmethod
    def of_counts(cls, pairs: Iterable[tuple[float, int]]) -> Distribution:
        """From (value, count) pairs in any order, values repeated or not: several stages' pairs chained are pooled."""
        counts: Counter[float] = Counter()
        for value, count in pairs:
            counts[value] += count
        ordered = sorted((value, count) for value, count in counts.items() if count > 0)
        return cls(values=tuple(v for v, _ in ordered), through=tuple(accumulate(c for _, c in ordered)))

    @property
    def count(self) -> int:
        """How many values there are."""
        return self.through[-1] if self.through else 0

    def mean(self) -> float | None:
        """Arithmetic mean."""
        if not self.values:
            return None
        return math.fsum(value * count for value, count in self._pairs()) / self.count

    def deviation(self) -> float | None:
        """Standard deviation of the population."""
        mean = self.mean()
        if mean is None:
            return None
        return math.sqrt(math.fsum(count * (value - mean) ** 2 for value, count in self._pairs()) / self.count)

    def percentile(self, percent: float) -> float | None:
        """The value below which `percent` (0 to 100) of the values lie."""
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile is between 0 and 100, not {percent}")
        if not self.values:
            return None
        rank = (self.count - 1) * (percent / 100)
        lower = math.floor(rank)
        low, high, share = self._at(lower), self._at(min(lower + 1, self.count - 1)), rank - lower
        # Counted from the nearer end, so that a share of 1 gives exactly `high`.
        return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)

    def _at(self, index: int) -> float:
        return self.values[bisect_right(self.through, index)]

    def _pairs(self) -> Iterable[tuple[float, int]]:
        before = 0
        for value, through in zip(self.values, self.through, strict=True):
            yield value, through - before
            before = through
