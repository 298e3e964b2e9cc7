"""A variant with what its runs measured: costs, searches, and what its servers did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean

from benchrun.api import COSTS, SHOWN_FIGURES, TOKENS_PER_JOULE, Result, SearchResult, answering
from benchrun.api.sweep import FoundLoad
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.objectives import TRUSTED as TRUSTED
from benchrun.measure import known, rounded
from benchrun.plan import Variant


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


def costs(side: Side, cell: str) -> dict[str, float | None]:
    """Those that every run of the side has at this cell. The geometric mean, as of the throughput that they follow from."""
    rows = [row for _, row in side.at(cell)]
    values = {key: known(row.metrics.get(key) for row in rows) for key in (*COSTS, TOKENS_PER_JOULE)}
    return {key: rounded(geometric_mean(found)) for key, found in values.items() if found and len(found) == len(rows)}


def found_loads(side: Side) -> list[FoundLoad]:
    """One entry a workload that is searched, in their order."""
    by_workload: dict[str, list[SearchResult]] = {}
    for run in side.runs:
        for search in run.status.searches:
            by_workload.setdefault(search.workload, []).append(search)
    return [
        FoundLoad(workload=workload, axis=found[0].axis, loads=[search.lower or "none" for search in found])
        for workload, found in by_workload.items()
    ]


# The same figures as a run's table has, and for the same reason: what ran and what waited is shown by its mean, since a queue that
# comes and goes is not its peak; of the KV cache the most counts, since it is full once it was. Means are arithmetic: what waits is
# often 0, and nothing here is compared.


def server_figures(side: Side, cell: str) -> dict[str, float | None]:
    """Those that every run of the side has at this cell."""
    roles = [answering(row.roles) for _, row in side.at(cell)]
    values = {name: [None if role is None else getattr(role, name) for role in roles] for name in SHOWN_FIGURES}
    return {
        name: rounded((max if SHOWN_FIGURES[name].by == "max" else fmean)(of_all))
        for name, found in values.items()
        if (of_all := known(found)) and len(of_all) == len(found)
    }
