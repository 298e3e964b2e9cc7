"""Whether a series rises or falls over its length, or only wavers.

Two things look like a trend and are none: neighbours that resemble each other, and a few large values. The test of
Mann and Kendall looks at the order of values alone, and its count is shrunk by what the resemblance of neighbours makes
it worth. That is careful to a fault where a queue grows without end: a sum of random steps resembles itself all along.
So a second test asks whether the steps from one batch to the next have a direction, which those of a queue that keeps
its level never have. Either may find the trend; the p-value pays for asking twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, combinations, pairwise
from statistics import median

from benchrun.measure.batches import BATCHES, batch_means, variance_inflation
from benchrun.measure.student import student_p_value

MIN_BATCHES = 10
"""With fewer, resemblance of neighbours can't be told from a trend."""


@dataclass(frozen=True, slots=True)
class Trend:
    """How a series moved."""

    relative_change: float
    """From the begin of the series to its end, as a share of its mean: 0.5 is half the mean upward."""
    p_value: float
    """Two-sided: how likely a series that keeps its level would seem to move so steadily."""


def trend(values: Sequence[float], *, batches: int = BATCHES) -> Trend | None:
    """The trend of values in order of time, none negative; None below `MIN_BATCHES` values, where nothing can be said."""
    means = batch_means(values, batches=batches)
    if len(means) < MIN_BATCHES:
        return None
    slope, level = theil_sen_slope(means), math.fsum(means) / len(means)
    residuals = [mean - level - slope * (i - (len(means) - 1) / 2) for i, mean in enumerate(means)]
    ordered = monotone_p_value(means, inflation=variance_inflation([residuals], fitted=2))
    return Trend(
        relative_change=slope * len(means) / level if level else 0.0,
        p_value=min(1.0, 2 * min(ordered, _directed_steps_p_value(means))),
    )


def monotone_p_value(values: Sequence[float], *, inflation: float = 1.0) -> float:
    """The test of Mann and Kendall, exact for few values: how likely chance orders them so well, rising or falling.

    Equal values make it careful, never bold. `inflation` is how many times independence overstates what is known.
    """
    rising = sum((b > a) - (b < a) for a, b in combinations(values, 2))
    return _order_p_value(len(values), math.ceil(abs(rising) / math.sqrt(inflation) - 1e-9))


def theil_sen_slope(values: Sequence[float]) -> float:
    """The median of the slopes between any two values, a place: a few large values don't turn it. 0 for less than two."""
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(values), 2)]
    return median(slopes) if slopes else 0.0


def _directed_steps_p_value(values: Sequence[float]) -> float:
    steps = [b - a for a, b in pairwise(values)]
    mean = math.fsum(steps) / len(steps)
    squares = math.fsum((step - mean) ** 2 for step in steps)
    if squares == 0:
        return 1.0 if mean == 0 else 0.0
    return student_p_value(mean / math.sqrt(squares / (len(steps) - 1) / len(steps)), len(steps) - 1)


@lru_cache(maxsize=256)
def _order_p_value(count: int, surplus: int) -> float:
    """The share of all orders of `count` values whose rising pairs outnumber the falling ones, or the reverse, by this."""
    if surplus <= 0:
        return 1.0
    pairs, orders = count * (count - 1) // 2, _orders_by_falling_pairs(count)
    return 2 * sum(orders[: (pairs - surplus) // 2 + 1]) / math.factorial(count)


@lru_cache(maxsize=64)
def _orders_by_falling_pairs(count: int) -> tuple[int, ...]:
    """How many orders of `count` values have 0, 1, 2 ... falling pairs. The nth value falls behind 0 to n - 1 others."""
    orders = [1]
    for others in range(1, count):
        sums = [0, *accumulate([*orders, *[0] * others])]
        orders = [sums[i + 1] - sums[max(0, i - others)] for i in range(len(orders) + others)]
    return tuple(orders)
