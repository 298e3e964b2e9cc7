"""What is kept of a run that ended, to make the table of: a few figures a load point, small enough to stay in memory."""

from __future__ import annotations

from benchrun.api.answering import answering
from benchrun.api.metric_keys import COSTS, KEYS, TOKENS_PER_JOULE
from benchrun.api.status import BenchmarkRunStatus, Result

_KEYS = frozenset(KEYS.values()) | {"completed", *COSTS, TOKENS_PER_JOULE}


def essence(status: BenchmarkRunStatus) -> BenchmarkRunStatus:
    """The status with nothing but what comparisons read."""
    return BenchmarkRunStatus(
        conditions=status.conditions,
        phase=status.phase,
        completion_time=status.completion_time,
        client=status.client,
        servers=[server.model_copy(update={"args": [], "reported": {}}) for server in status.servers],
        results=[_essence_of_row(row) for row in status.results],
        searches=status.searches,
    )


def _essence_of_row(row: Result) -> Result:
    return Result(
        cell=row.cell,
        workload=row.workload,
        axis=row.axis,
        value=row.value,
        repeats=row.repeats,
        repeats_planned=row.repeats_planned,
        metrics={key: value for key, value in row.metrics.items() if key in _KEYS},
        repeat_cv_percent={key: value for key, value in row.repeat_cv_percent.items() if key in _KEYS},
        traffic=row.traffic,
        roles=[role] if (role := answering(row.roles)) is not None else [],
        objectives=row.objectives,
        verdict=row.verdict,
        findings=row.findings,
    )
