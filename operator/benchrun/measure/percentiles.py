"""Exact statistics of many values, kept as ascending values with counts: gaps come so, and pooling repeats is merging.

Percentiles interpolate linearly between the two nearest values, as numpy (and with it vLLM's benchmark) does by default;
the deviation is the population's, as vLLM's is. An empty distribution has no figures: None, never 0.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import mul, sub


@dataclass(frozen=True, slots=True)
class Distribution:
    """Ascending distinct values; `through[i]` is how many values are at most `values[i]`."""

    values: tuple[float, ...]
    through: tuple[int, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution:
        """From single values, in any order."""
        return cls._of_tally(Counter(values))

    @classmethod
    def of_counts(cls, pairs: Iterable[tuple[float, int]]) -> Distribution:
        """From (value, count) pairs in any order, values repeated or not: several stages' pairs chained are pooled."""
        counts: Counter[float] = Counter()
        for value, count in pairs:
            counts[value] += count
        return cls._of_tally({value: count for value, count in counts.items() if count > 0})

    @classmethod
    def _of_tally(cls, counts: Mapping[float, int]) -> Distribution:
        ordered = tuple(sorted(counts))
        return cls(values=ordered, through=tuple(accumulate(map(counts.__getitem__, ordered))))

    @property
    def count(self) -> int:
        """How many values there are."""
        return self.through[-1] if self.through else 0

    def mean(self) -> float | None:
        """Arithmetic mean."""
        if not self.values:
            return None
        return math.fsum(map(mul, self.values, self._counts())) / self.count

    def deviation(self) -> float | None:
        """Standard deviation of the population."""
        mean = self.mean()
        if mean is None:
            return None
        distances = [value - mean for value in self.values]
        return math.sqrt(math.fsum(map(mul, self._counts(), map(mul, distances, distances))) / self.count)

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

    def _counts(self) -> Iterable[int]:
        return map(sub, self.through, (0, *self.through))
