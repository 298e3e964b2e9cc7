"""Exact statistics of many values, kept as ascending values with counts: gaps come so, and pooling repeats is merging.

Percentiles interpolate linearly between the two nearest values, as numpy (and with it vLLM's benchmark) does by default;
the deviation is the population's, as vLLM's is. An empty distribution has no figures: None, never 0.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul, sub


@dataclass(frozen=True, slots=True)
class Distribution:
    """Ascending values; `through[i]` is how many there are up to `values[i]` and with it. Equal values may stand side by side
    or once with their count: the figures are the same."""

    values: Sequence[float]
    through: Sequence[int]

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution:
        """From single values, in any order."""
        ordered = tuple(sorted(values))
        return cls(ordered, range(1, len(ordered) + 1))

    @classmethod
    def of_counts(cls, pairs: Iterable[tuple[float, int]]) -> Distribution:
        """From (value, count) pairs in any order, values repeated or not: several stages' pairs chained are pooled."""
        counts: dict[float, int] = {}
        for value, count in pairs:
            if count > 0:
                counts[value] = counts.get(value, 0) + count
        ordered = tuple(sorted(counts))
        return cls(ordered, tuple(accumulate(map(counts.__getitem__, ordered))))

    @property
    def count(self) -> int:
        """How many values there are."""
        return self.through[-1] if self.through else 0

    def mean(self) -> float | None:
        """Arithmetic mean."""
        if not self.values:
            return None
        return math.fsum(self._each(self.values)) / self.count

    def deviation(self) -> float | None:
        """Standard deviation of the population."""
        mean = self.mean()
        if mean is None:
            return None
        distances = [value - mean for value in self.values]
        return math.sqrt(math.fsum(self._each(map(mul, distances, distances))) / self.count)

    def percentile(self, percent: float) -> float | None:
        """The value below which `percent` (0 to 100) of the values lie."""
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile is between 0 and 100, not {percent}")
        if not self.values:
            return None
        rank = (self.count - 1) * (percent / 100)
        lower = math.floor(rank)
        low, high, share = self.at_rank(lower + 1), self.at_rank(min(lower + 2, self.count)), rank - lower
        # Counted from the nearer end, so that a share of 1 gives exactly `high`.
        return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)

    def at_rank(self, rank: int) -> float:
        """The value at a rank, 1 for the smallest to `count` for the greatest."""
        return self.values[bisect_left(self.through, rank)]

    def _each(self, of_values: Iterable[float]) -> Iterable[float]:
        """What there is of each value, as often as the value counts."""
        if len(self.values) == self.count:
            return of_values
        return map(mul, of_values, map(sub, self.through, (0, *self.through)))
