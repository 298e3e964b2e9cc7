"""Exact percentiles of many values, and the probabilities on which both sides decide whether a percentile keeps its limit."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import mul, sub
from statistics import NormalDist
from typing import Self

ERROR = 0.025  # How often, at most, one side of an interval, or an outcome, is wrong.
MOST_INDEPENDENT = 500_000  # More observations are counted as this many.
MAX_DEGREES_OF_FREEDOM = 1e6  # More are counted as this many: it changes a p-value by less than a millionth.
_TINY = 1e-300
_CONVERGED = 1e-15
_MAX_TERMS = 10_000  # Those needed grow with the root of the larger parameter; these serve up to a million.


def regularized_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function: the probability that a Beta(a, b) variable is below `x`. Relative error below
    1e-9 for parameters up to 500,000."""
    if not 0 < x < 1:
        return float(x >= 1)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # The fraction converges fast below the mean; above it, the other tail is taken.
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _fraction(b, a, 1.0 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""

    def off_zero(value: float) -> float:
        return value if abs(value) > _TINY else _TINY

    numerator, denominator = 1.0, 1.0 / off_zero(1.0 - (a + b) * x / (a + 1))
    value = denominator
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        step = 1.0
        for coefficient in (even, odd):
            denominator = 1.0 / off_zero(1.0 + coefficient * denominator)
            numerator = off_zero(1.0 + coefficient / numerator)
            step = denominator * numerator
            value *= step
        if abs(step - 1.0) < _CONVERGED:
            break
    return value


def student_p_value(t: float, degrees_of_freedom: float) -> float:
    """The probability of a value further from 0 than `t`, on either side."""
    if math.isinf(t):
        return 0.0
    square, freedom = t * t, min(degrees_of_freedom, MAX_DEGREES_OF_FREEDOM)
    if square < freedom:
        # From the nearer end: a share close to 1 has lost its digits.
        return 1.0 - regularized_beta(0.5, freedom / 2, square / (freedom + square))
    return regularized_beta(freedom / 2, 0.5, freedom / (freedom + square))


@lru_cache(maxsize=4096)
def chi_square_quantile(share: float, degrees_of_freedom: float) -> float:
    """The value below which `share` of a chi-square variable lies, to within 3 % from 3 degrees of freedom on (E. B. Wilson
    and M. M. Hilferty, 1931); below that it is too small. At least a tiny number above 0."""
    spread = 2 / (9 * degrees_of_freedom)
    root = 1 - spread + NormalDist().inv_cdf(share) * math.sqrt(spread)
    return max(degrees_of_freedom * root**3, 1e-9)


def is_rare(share: float, observations: float, expected: float, error: float) -> bool:
    """Whether so small a share has a probability of at most `error` where the expected share is true (Clopper-Pearson)."""
    found = share * observations
    return share < expected and regularized_beta(found + 1, observations - found, expected) >= 1 - error


def interpolated(at_rank: Callable[[int], float], count: int, percent: float) -> float:
    """The percentile (0 to 100) of values given by their ranks from 1 on; infinite at or before an infinite one."""
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
    """Ascending values; `through[i]` is how many there are up to `values[i]` and with it. Equal values may stand side by side
    or once with their count: the figures are the same. None of an empty one. Percentiles interpolate linearly between the two
    nearest values, as numpy's and vLLM's do; the deviation is the population's, as vLLM's is."""

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


# Of n independent values, the number below the true percentile p is binomial (n, p): ranks bound the percentile of any
# distribution. With few values even the largest does not bound a high percentile: p99 has a two-sided 95 % interval from 368
# values on. Requests that share a queue are alike, and need more (`certainty`).


def least_count(percent: float) -> int | None:
    """How many values a two-sided interval takes: 368 for p99. None for 0 and 100, which nothing bounds."""
    share = max(percent, 100 - percent) / 100
    return math.ceil(math.log(ERROR) / math.log(share)) if share < 1 else None


def interval_ranks(
    count: int, percent: float, *, inflation: float = 1.0, error: float = ERROR
) -> tuple[int, int] | None:
    """Ranks of the two values that bracket the percentile: 40 and 61 for the median of 100 independent ones. None: none do."""
    independent = min(count / inflation, MOST_INDEPENDENT)
    below, above = (_most_beyond(count, independent, each / 100, error) for each in (percent, 100 - percent))
    return None if below is None or above is None else (below + 1, count - above)


@lru_cache(maxsize=4096)
def _most_beyond(count: int, independent: float, share: float, error: float) -> int | None:
    """The most values beyond a percentile's end with which that end is certain; None: not even with none."""
    if count < 1 or not 0 < share < 1 or not is_rare(0.0, independent, share, error):
        return None
    low, high = 0, math.ceil(count * share)
    deviation = NormalDist().inv_cdf(1 - error) * math.sqrt(share * (1 - share) / independent)
    guess, width = count * (share - deviation), max(2.0, 3 * count / independent)
    for near in (math.floor(guess - width), math.ceil(guess + width)):
        if low < near < high:
            low, high = (near, high) if is_rare(near / count, independent, share, error) else (low, near)
    beyond = range(low + 1, high)
    return low + bisect_left(beyond, True, key=lambda most: not is_rare(most / count, independent, share, error))
