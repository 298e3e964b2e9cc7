"""Exact percentiles of many values, and the number of values that a percentile needs."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul, sub
from typing import Self


def interpolated(
    at_rank: Callable[[int], float], count: int, percent: float
) -> float:
    """Return the percentile (0 to 100) of `count` values, interpolated linearly.

    `at_rank` gives the value of each rank, from 1 on. The result is infinite if one of the two
    values that it lies between is infinite.
    """
    rank = (count - 1) * (percent / 100)
    lower = math.floor(rank)
    share = rank - lower
    low = at_rank(lower + 1)
    high = at_rank(min(lower + 2, count)) if share else 0.0
    if not share or math.isinf(high):
        return high if share else low
    # Counted from the nearer end, so that a share of 1 gives exactly `high`.
    return (
        low + (high - low) * share
        if share < 0.5
        else high - (high - low) * (1 - share)
    )


@dataclass(frozen=True, slots=True)
class Distribution:
    """Ascending values; `through[i]` counts the values up to and including `values[i]`.

    An equal value may be repeated, or stand once with its count: the figures are the same. An empty
    distribution has None for every figure. Percentiles are interpolated linearly between the two
    nearest values, as in numpy and vLLM. The standard deviation is the population's, as in vLLM.
    """

    values: Sequence[float]
    through: Sequence[int]

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Build a distribution from single values, in any order."""
        ordered = tuple(sorted(values))
        return cls(ordered, range(1, len(ordered) + 1))

    @classmethod
    def of_counts(cls, pairs: Iterable[tuple[float, int]]) -> Self:
        """Build a distribution from (value, count) pairs in any order; values may repeat.

        Chain the pairs of several stages to pool them.
        """
        counts: dict[float, int] = {}
        for value, count in pairs:
            if count > 0:
                counts[value] = counts.get(value, 0) + count
        ordered = tuple(sorted(counts))
        return cls(ordered, tuple(accumulate(map(counts.__getitem__, ordered))))

    @property
    def count(self) -> int:
        return self.through[-1] if self.through else 0

    def mean(self) -> float | None:
        return (
            math.fsum(self._each(self.values)) / self.count if self.values else None
        )

    def deviation(self) -> float | None:
        """Return the population standard deviation."""
        if (mean := self.mean()) is None:
            return None
        distances = [value - mean for value in self.values]
        return math.sqrt(
            math.fsum(self._each(map(mul, distances, distances))) / self.count
        )

    def percentile(self, percent: float) -> float | None:
        """Return the value below which `percent` (0 to 100) of the values lie; None without values.

        Raises ValueError for a percentage out of range.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile must be from 0 to 100, got {percent}")
        if not self.values:
            return None
        return interpolated(self.at_rank, self.count, percent)

    def at_rank(self, rank: int) -> float:
        """Return the value at a rank, from 1 for the smallest to `count` for the greatest."""
        return self.values[bisect_left(self.through, rank)]

    def _each(self, of_values: Iterable[float]) -> Iterable[float]:
        """Multiply each number, one for each of `values`, by how often that value occurs."""
        if len(self.values) == self.count:
            return of_values
        return map(mul, of_values, map(sub, self.through, (0, *self.through)))


MIN_BEYOND = 5
"""Fewest values above a percentile. With fewer, the percentile depends on a few chance values and
is too low on average."""


def least_count(percent: float) -> int | None:
    """Return how many values a percentile needs: 500 for p99.

    None for 0 and 100, for which no number is enough.
    """
    share = min(percent, 100 - percent) / 100
    return math.ceil(round(MIN_BEYOND / share, 6)) if share > 0 else None
