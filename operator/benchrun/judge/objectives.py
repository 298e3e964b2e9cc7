"""How a cell fared against the latency limits of the spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchrun.api.measurement import Objective
from benchrun.api.status import ObjectiveResult, Verdict
from benchrun.measure.cells import Latency, Pools, milliseconds, rounded
from benchrun.measure.percentiles import Distribution

_LATENCY: Mapping[str, Latency] = {"TTFT": "ttft", "TPOT": "tpot", "ITL": "itl", "E2EL": "e2el"}


def objective_results(objectives: Sequence[Objective], pools: Pools, verdict: Verdict) -> list[ObjectiveResult]:
    """Each objective, by the percentile over all requests of the cell."""
    return [_outcome(objective, pools[_LATENCY[objective.metric]], verdict) for objective in objectives]


def _outcome(objective: Objective, pool: Distribution, verdict: Verdict) -> ObjectiveResult:
    """Met or Missed by the unrounded value; Inconclusive where the number can't be trusted or there is none."""
    measured = milliseconds(pool.percentile(float(objective.percentile)))
    result = ObjectiveResult(
        metric=objective.metric,
        percentile=objective.percentile,
        max_milliseconds=objective.max_milliseconds,
        measured_milliseconds=rounded(measured),
        outcome="Inconclusive",
    )
    if measured is None or verdict not in ("Valid", "Suspect"):
        return result
    return result.model_copy(update={"outcome": "Met" if measured <= objective.max_milliseconds else "Missed"})
