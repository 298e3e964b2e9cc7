"""A variant with what its runs measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.api.status import Result, Verdict
from benchrun.judge.comparison.runs import MeasuredRun
from benchrun.plan.sweep.variants import Variant

TRUSTED: tuple[Verdict, ...] = ("Valid", "Suspect")


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


def cells_of(sides: Sequence[Side], planned: Sequence[str]) -> tuple[str, ...]:
    """Every cell that is planned, and what searches have measured besides."""
    measured = (row.cell for side in sides for run in side.runs for row in run.status.results)
    return tuple(dict.fromkeys((*planned, *measured)))
