"""Distributions of latencies and tokens as the result document has them."""

from collections.abc import Sequence

from benchrun.api import LatencyDistribution
from benchrun.measure import Distribution, rounded

STAGE_PERCENTILES = (
    "0.1",
    "1",
    "5",
    "10",
    "25",
    "50",
    "75",
    "90",
    "95",
    "99",
    "99.9",
)
"""Percentiles that reports of single stages show."""


def distribution(
    pool: Distribution,
    percentiles: Sequence[str],
    *,
    milliseconds: bool,
    unbounded: Sequence[str] = (),
) -> LatencyDistribution | None:
    """Return the distribution of these values, with five significant digits; None without values.

    With `milliseconds`, the values are in microseconds and returned in milliseconds. `unbounded`
    has the percentiles that too few requests can't bound.
    """
    mean = pool.mean()
    if not pool.count or mean is None:
        return None
    scale = 1000.0 if milliseconds else 1.0

    def scaled(value: float) -> float:
        return rounded(value / scale) or 0.0

    deviation = pool.deviation()
    levels = {name: pool.percentile(float(name)) for name in percentiles}
    return LatencyDistribution(
        count=pool.count,
        mean=scaled(mean),
        deviation=None if deviation is None else scaled(deviation),
        least=scaled(pool.at_rank(1)),
        greatest=scaled(pool.at_rank(pool.count)),
        percentiles={
            name: scaled(level)
            for name, level in levels.items()
            if level is not None
        },
        unbounded=[level for level in percentiles if level in unbounded],
    )
