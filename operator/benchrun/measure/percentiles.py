"""Exact percentiles of many values, how many it takes to bound them, and means of batches.

Percentiles interpolate linearly between the two nearest values, as numpy (and with it vLLM's benchmark) does by default;
the deviation is the population's, as vLLM's is. An empty distribution has no figures: None, never 0.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul, sub
from statistics import fmean
from typing import Self

from benchrun_client.contract import ERROR, interpolated


@dataclass(frozen=True, slots=True)
class Distribution:
    """Ascending values; `through[i]` is how many there are up to `values[i]` and with it. Equal values may stand side by side
    or once with their count: the figures are the same."""

    values: Sequence[float]
    through: Sequence[int]

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """From single values, in any order."""
        ordered = tuple(sorted(values))
        return cls(ordered, range(1, len(ordered) + 1))

    @classmethod
    def of_counts(cls, pairs: Iterable[tuple[float, int]]) -> Self:
        """From (value, count) pairs in any order, values repeated or not: several stages' pairs chained are pooled."""
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
        return math.fsum(self._each(self.values)) / self.count if self.values else None

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
        return interpolated(self.at_rank, self.count, percent)

    def at_rank(self, rank: int) -> float:
        """The value at a rank, 1 for the smallest to `count` for the greatest."""
        return self.values[bisect_left(self.through, rank)]

    def _each(self, of_values: Iterable[float]) -> Iterable[float]:
        """What there is of each value, as often as the value counts."""
        if len(self.values) == self.count:
            return of_values
        return map(mul, of_values, map(sub, self.through, (0, *self.through)))


# Requests that meet at the server share its queue, so their latencies are far from independent. Means of long batches nearly
# are; the correlation that is left between neighbours is measured, and makes every statement about them less certain.

BATCHES = 20
MAX_CORRELATION = 0.95
"""Beyond it, a series of some twenty values holds next to no information, and no correction helps."""


def batch_means(values: Sequence[float], *, batches: int = BATCHES) -> list[float]:
    """Means of `batches` consecutive parts, equal in length to within one value; fewer values stand for themselves."""
    parts = min(batches, len(values))
    edges = [len(values) * i // parts for i in range(parts + 1)] if parts else []
    return [fmean(values[a:b]) for a, b in pairwise(edges)]


def variance_inflation(series: Sequence[Sequence[float]], *, fitted: int) -> float:
    """How many times larger the variance of a mean is than for independent values; at least 1. From the correlation of
    neighbours in residuals of several series, which seem the less correlated the more parameters were `fitted` (1 for a mean,
    2 for a line); that is corrected for."""
    squares = math.fsum(r * r for residuals in series for r in residuals)
    length = sum(map(len, series)) / max(1, len(series))
    if squares <= 0 or length <= 2 * fitted + 1:
        return 1.0
    products = math.fsum(a * b for residuals in series for a, b in pairwise(residuals))
    correlation = (length * products / squares + fitted) / (length - 2 * fitted)
    kept = min(max(correlation, 0.0), MAX_CORRELATION)
    return (1 + kept) / (1 - kept)


# Of n independent values, the number below the true percentile p is binomial (n, p): ranks bound the percentile of any
# distribution. With few values even the largest does not bound a high percentile: p99 has a two-sided 95 % interval from 368
# values on. Requests that share a queue are alike, and need more: `benchrun_client.contract.certainty`.


def least_count(percent: float) -> int | None:
    """How many values a two-sided interval takes: 368 for p99. None for 0 and 100, which nothing bounds."""
    share = max(percent, 100 - percent) / 100
    return math.ceil(math.log(ERROR) / math.log(share)) if share < 1 else None
