"""What is kept of a run that ended, to make the table of: a few figures a load point, small enough to stay in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.api.answering import answering
from benchrun.api.status import BenchmarkRunStatus, Result, Verdict
from benchrun.judge.comparison.figures import KEYS
from benchrun.judge.comparison.runs import MeasuredRun
from benchrun.judge.cost import COSTS
from benchrun.judge.energy import TOKENS_PER_JOULE
from benchrun.plan.sweep.variants import Variant

TRUSTED: tuple[Verdict, ...] = ("Valid", "Suspect")
_KEYS = frozenset(KEYS.values()) | {"completed", *COSTS, TOKENS_PER_JOULE}


@dataclass(frozen=True, slots=True)
class Side:
    """A variant with its runs that were measured to their end: one fresh server each."""

    variant: Variant
    runs: tuple[MeasuredRun, ...]

    @property
    def devices(self) -> int:
        """What throughput is divided by: GPUs; 1 for a server without any."""
        return max(1, self.variant.gpus)

    def at(self, cell: str) -> tuple[tuple[MeasuredRun, Result], ...]:
        """The runs that have figures of this cell which can be trusted, with them; if none can be, all that have any. One
        server's bad luck does not spoil what the others measured."""
        found = tuple((run, row) for run in self.runs if (row := run.row(cell)) is not None)
        return tuple((run, row) for run, row in found if row.verdict in TRUSTED) or found

    def runs_at(self, cell: str) -> tuple[MeasuredRun, ...]:
        """The same runs alone."""
        return tuple(run for run, _ in self.at(cell))


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


def cells_of(sides: Sequence[Side], planned: Sequence[str]) -> tuple[str, ...]:
    """Every cell that is planned, and what searches have measured besides."""
    measured = (row.cell for side in sides for run in side.runs for row in run.status.results)
    return tuple(dict.fromkeys((*planned, *measured)))


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
