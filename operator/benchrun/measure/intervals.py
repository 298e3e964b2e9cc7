"""How sure a percentile is, whatever the shape of the distribution.

Of n values, the number below the true percentile p is binomial (n, p). So the value at a low rank lies above the true
percentile, and the one at a high rank below it, with a probability that only n, p and the rank decide. With few values even
the largest does not bound a high percentile: p99 has a two-sided 95 % interval from 368 values on.

The values are taken as independent. Requests of one stage are not quite, so an interval over one stage is the least that
the uncertainty can be.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache
from statistics import NormalDist

from benchrun.measure.percentiles import Distribution

ERROR = 0.05
"""How often, at most, an interval misses the true percentile, or a certificate is wrong."""
MAX_EXACT_DEVIATION = 300
"""Of the binomial count. Beyond it (360,000 values for a median, 9 million for p99) its normal approximation with a term
for the skew gives the rank to within one; the exact sum would take long and tell no more."""


def percentile_interval(distribution: Distribution, percent: float) -> tuple[float, float] | None:
    """The two-sided 95 % interval of a percentile; None where the values are too few to bound it on both sides."""
    ranks = percentile_ranks(distribution.count, percent)
    return None if ranks is None else (distribution.at_rank(ranks[0]), distribution.at_rank(ranks[1]))


def percentile_ranks(count: int, percent: float) -> tuple[int, int] | None:
    """Ranks (1 is the smallest value) of the two values that bracket the percentile of `count` values: 40 and 61 for
    the median of 100."""
    low, high = lower_rank(count, percent, error=ERROR / 2), upper_rank(count, percent, error=ERROR / 2)
    return None if low is None or high is None else (low, high)


def least_count(percent: float) -> int | None:
    """How many values a two-sided interval takes: 368 for p99. None for 0 and 100, which nothing bounds."""
    share = max(percent, 100 - percent) / 100
    return math.ceil(math.log(ERROR / 2) / math.log(share)) if share < 1 else None


def is_certainly_above(distribution: Distribution, percent: float, limit: float) -> bool:
    """Whether the percentile is above `limit` with 95 % certainty. With few values it never is."""
    rank = lower_rank(distribution.count, percent, error=ERROR)
    return rank is not None and _at_most(distribution, limit) < rank


@lru_cache(maxsize=4096)
def lower_rank(count: int, percent: float, *, error: float) -> int | None:
    """The highest rank whose value is above the percentile with a probability of at most `error`; None: there is none."""
    mirrored = upper_rank(count, 100 - percent, error=error)
    return None if mirrored is None else count + 1 - mirrored


@lru_cache(maxsize=4096)
def upper_rank(count: int, percent: float, *, error: float) -> int | None:
    """The lowest rank whose value is below the percentile with a probability of at most `error`; None: there is none."""
    share = percent / 100
    if count < 1 or not 0 < share < 1:
        return None
    exact = math.sqrt(count * share * (1 - share)) <= MAX_EXACT_DEVIATION
    rank = _summed_rank(count, share, error) if exact else _approximate_rank(count, share, error)
    return rank if rank <= count else None


def _summed_rank(count: int, share: float, error: float) -> int:
    """Probabilities added from the far end of the tail inward, as long as their sum stays within `error`."""
    mean, deviation = count * share, math.sqrt(count * share * (1 - share))
    # Beyond eight deviations and twenty values lies less than 1e-9.
    rank, tail = min(count, math.ceil(mean + 8 * deviation + 20)) + 1, 0.0
    while (tail := tail + _binomial(count, share, rank - 1)) <= error:
        rank -= 1
    return rank


def _approximate_rank(count: int, share: float, error: float) -> int:
    z = NormalDist().inv_cdf(1 - error)
    skew = (1 - 2 * share) * (z * z - 1) / 6
    return math.ceil(count * share + z * math.sqrt(count * share * (1 - share)) + skew - 0.5) + 1


def _binomial(count: int, share: float, successes: int) -> float:
    failures = count - successes
    ways = math.lgamma(count + 1) - math.lgamma(successes + 1) - math.lgamma(failures + 1)
    return math.exp(ways + successes * math.log(share) + failures * math.log1p(-share))


def _at_most(distribution: Distribution, limit: float) -> int:
    """How many values are at most `limit`."""
    values_below = bisect_right(distribution.values, limit)
    return distribution.through[values_below - 1] if values_below else 0
