"""Exact percentiles of many values, and the ranks that bound them."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import mul, sub
from statistics import NormalDist
from typing import Self

from benchrun_client.contract.probability import ERROR, MOST_INDEPENDENT, is_rare


def interpolated(at_rank: Callable[[int], float], count: int, percent: float) -> float:
    """The percentile (0 to 100) of values given by their ranks from 1 on; infinite at or before an
    infinite one."""
    rank = (count - 1) * (percent / 100)
    lower = math.floor(rank)
    share = rank - lower
    low, high = at_rank(lower + 1), at_rank(min(lower + 2, count)) if share else 0.0
    if not share or math.isinf(high):
        return high if share else low
    # Counted from the nearer end, so that a share of 1 gives exactly `high`.
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Ascending values; `through[i]` is how many there are up to `values[i]` and with it. Equal
    values may stand side by side or once with their count: the figures are the same. None of an
    empty one. Percentiles interpolate linearly between the two nearest values, as numpy's and
    vLLM's do; the deviation is the population's, as vLLM's is."""

    values: Sequence[float]
    through: Sequence[int]

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """From single values, in any order."""
        ordered = tuple(sorted(values))
        return cls(ordered, range(1, len(ordered) + 1))

    @classmethod
    def of_counts(cls, pairs: Iterable[tuple[float, int]]) -> Self:
        """From (value, count) pairs in any order, values repeated or not: several stages' pairs
        chained are pooled."""
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
        if (mean := self.mean()) is None:
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


# Of n independent values, the number below the true percentile p is binomial (n, p): ranks bound
# the percentile of any distribution. With few values even the largest does not bound a high
# percentile: p99 has a two-sided 95 % interval from 368 values on. Requests that share a queue are
# alike, and need more (`certainty`).


def least_count(percent: float) -> int | None:
    """How many values a two-sided interval takes: 368 for p99. None for 0 and 100, which nothing
    bounds."""
    share = max(percent, 100 - percent) / 100
    return math.ceil(math.log(ERROR) / math.log(share)) if share < 1 else None


def interval_ranks(
    count: int, percent: float, *, inflation: float = 1.0, error: float = ERROR
) -> tuple[int, int] | None:
    """Ranks of the two values that bracket the percentile: 40 and 61 for the median of 100
    independent ones. None: none do."""
    independent = min(count / inflation, MOST_INDEPENDENT)
    below, above = (
        _most_beyond(count, independent, each / 100, error) for each in (percent, 100 - percent)
    )
    return None if below is None or above is None else (below + 1, count - above)


@lru_cache(maxsize=4096)
def _most_beyond(count: int, independent: float, share: float, error: float) -> int | None:
    """The most values beyond a percentile's end with which that end is certain; None: not even with
    none."""
    if count < 1 or not 0 < share < 1 or not is_rare(0.0, independent, share, error):
        return None
    low, high = 0, math.ceil(count * share)
    deviation = NormalDist().inv_cdf(1 - error) * math.sqrt(share * (1 - share) / independent)
    guess, width = count * (share - deviation), max(2.0, 3 * count / independent)
    for near in (math.floor(guess - width), math.ceil(guess + width)):
        if low < near < high:
            low, high = (
                (near, high) if is_rare(near / count, independent, share, error) else (low, near)
            )
    beyond = range(low + 1, high)
    return low + bisect_left(
        beyond, True, key=lambda most: not is_rare(most / count, independent, share, error)
    )
