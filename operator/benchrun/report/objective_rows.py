"""Rows of the table of objectives: what was asked, what came, and whether it is kept."""

from __future__ import annotations

from benchrun.api.status import BenchmarkRunStatus, ObjectiveResult
from benchrun.report.rows import Rows, figure


def objective_rows(status: BenchmarkRunStatus) -> Rows:
    """One row an objective and load point; none where the spec has no objectives."""
    rows = tuple(
        (result.cell, _asked(each), figure(each.measured_milliseconds, digits=4), each.outcome)
        for result in status.results
        for each in result.objectives
    )
    return Rows(("load point", "objective", "measured (ms)", "outcome"), rows)


def _asked(objective: ObjectiveResult) -> str:
    return f"{objective.metric} p{objective.percentile} at most {objective.max_milliseconds} ms"
