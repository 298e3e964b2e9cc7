"""Whether several short series move the same way, each compared with itself only.

The test of Mann and Kendall over strata: rising and falling pairs are counted within each series and summed, so series of
different levels can stand together. Exact: the distribution of the sum is worked out, not approximated.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, combinations


def surplus(values: Sequence[float]) -> int:
    """Rising pairs less falling ones, over all pairs of a series in order of time."""
    return sum((b > a) - (b < a) for a, b in combinations(values, 2))


def common_order_p_value(series: Sequence[Sequence[float]]) -> float:
    """How likely random orders would have so many of all pairs rising, or falling. Equal values make it careful."""
    pairs = sum(len(values) * (len(values) - 1) // 2 for values in series)
    together = abs(sum(map(surplus, series)))
    if together == 0:
        return 1.0
    return min(1.0, 2 * sum(_falling_pairs([len(values) for values in series])[: (pairs - together) // 2 + 1]))


def _falling_pairs(lengths: Sequence[int]) -> list[float]:
    """The probabilities of 0, 1, 2 ... falling pairs in all, in random orders.

    A value falls behind 0 to n of the n before it in its series, each equally likely, whatever the others do.
    """
    chances = [1.0]
    for before in (n for length in lengths for n in range(1, length)):
        sums = [0.0, *accumulate([*chances, *[0.0] * before])]
        chances = [(sums[i + 1] - sums[max(0, i - before)]) / (before + 1) for i in range(len(chances) + before)]
    return chances
