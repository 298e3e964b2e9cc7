"""Whether a cell meets the latency objectives of the spec.

An objective is met or missed with 95 % certainty or not at all: by the interval of its percentile, which must lie wholly
on one side of the limit. Where so few requests give no interval, an objective is never met; enough requests above the
limit can still prove it missed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from benchrun.api import Objective, ObjectiveResult, Verdict
from benchrun.measure import cells, percentiles

TRUSTED: tuple[Verdict, ...] = ("Valid", "Suspect")
"""Verdicts of cells whose numbers mean something."""
Outcome = Literal["Met", "Missed", "Inconclusive"]

_SINCE_DUE: Mapping[str, str] = {"ttft": cells.QUEUED_TTFT, "e2el": cells.QUEUED_E2EL}


def objective_results(objectives: Sequence[Objective], pools: cells.Pools, verdict: Verdict) -> list[ObjectiveResult]:
    """Each objective, over all requests of the cell. Pools with the wait in the client's queue, where there are any, go
    before those without; of a latency without any nothing is known."""
    found = []
    for objective in objectives:
        pool, percentile = pool_of(objective, pools), float(objective.percentile)
        result = ObjectiveResult(
            metric=objective.metric,
            percentile=objective.percentile,
            max_milliseconds=objective.max_milliseconds,
            measured_milliseconds=cells.rounded(cells.milliseconds(pool.percentile(percentile))),
            outcome=_outcome(pool, percentile, 1000.0 * objective.max_milliseconds),
        )
        found.append(result)
    return found if verdict in TRUSTED else inconclusive(found)


def inconclusive(objectives: Sequence[ObjectiveResult]) -> list[ObjectiveResult]:
    """The same of a cell that is not trusted."""
    return [objective.model_copy(update={"outcome": "Inconclusive"}) for objective in objectives]


def request_limits(objectives: Sequence[Objective]) -> cells.RequestLimits:
    """What a single request must keep to meet every objective: of several on one latency the strictest. A limit on gaps
    (ITL) is none on requests."""

    def strictest(metric: str) -> float:
        return min((float(o.max_milliseconds) for o in objectives if o.metric == metric), default=math.inf)

    return cells.RequestLimits(ttft_ms=strictest("TTFT"), tpot_ms=strictest("TPOT"), e2el_ms=strictest("E2EL"))


def pool_of(objective: Objective, pools: cells.Pools) -> percentiles.Distribution:
    """The values an objective is about; none where they were not measured."""
    latency = next(each for each in cells.LATENCIES if each.upper() == objective.metric)
    return pools.get(_SINCE_DUE.get(latency, latency)) or pools.get(latency) or percentiles.Distribution((), ())


def _outcome(pool: percentiles.Distribution, percentile: float, limit_us: float) -> Outcome:
    interval = percentiles.percentile_interval(pool, percentile)
    if interval is None:
        # Interpolated between few values, the percentile itself may still lie below: the outcome agrees with the figure.
        above = (pool.percentile(percentile) or 0.0) > limit_us and percentiles.is_certainly_above(
            pool, percentile, limit_us
        )
        return "Missed" if above else "Inconclusive"
    low, high = interval
    return "Met" if high <= limit_us else "Missed" if low > limit_us else "Inconclusive"
