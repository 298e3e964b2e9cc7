"""Load points that may win something: measured, trustworthy, and by their throughput per GPU."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchrun.api.measurement import Objective
from benchrun.api.status import Result
from benchrun.judge.comparison.figures import Figure, figure_of
from benchrun.judge.sweep.measured import TRUSTED, Side
from benchrun.measure.student import Mean


@dataclass(frozen=True, slots=True)
class Contender:
    """A variant at a load point, by those of its runs that can be trusted there."""

    side: Side
    cell: str
    per_gpu: Figure
    """Output tokens a second and GPU."""

    @property
    def throughput(self) -> float:
        """The same as a number."""
        return self.per_gpu.value or 0.0

    @property
    def workload(self) -> str:
        """Name of its workload."""
        return self.cell.partition("/")[0]

    def mean_of(self, key: str) -> float | None:
        """Geometric mean over the runs of a figure under vLLM's name."""
        values = [row.metrics.get(key) for _, row in self.side.at(self.cell)]
        known = [value for value in values if value is not None and value > 0]
        return math.exp(math.fsum(map(math.log, known)) / len(known)) if values and len(known) == len(values) else None

    def keeps(self, objective: Objective) -> bool:
        """Whether each of them met it here, with certainty."""
        return all(_met(objective, row) for _, row in self.side.at(self.cell))


def contenders(sides: Iterable[Side], cells: Sequence[str]) -> list[Contender]:
    """Every one there is. Invalid figures win nothing."""
    found = [_contender(side, cell) for side in sides for cell in cells]
    return [contender for contender in found if contender is not None]


def _contender(side: Side, cell: str) -> Contender | None:
    rows = side.at(cell)
    if not rows or any(row.verdict not in TRUSTED for _, row in rows):
        return None
    figure = figure_of("OutputThroughput", cell, side.runs_at(cell))
    return None if figure.value is None else Contender(side, cell, _divided(figure, side.devices))


def _divided(figure: Figure, devices: int) -> Figure:
    log_mean = figure.log_mean
    if log_mean is not None:
        log_mean = Mean(log_mean.value - math.log(devices), log_mean.squared_error, log_mean.count)
    return replace(figure, value=(figure.value or 0.0) / devices, log_mean=log_mean)


def _met(objective: Objective, row: Result) -> bool:
    asked = (objective.metric, float(objective.percentile), objective.max_milliseconds)
    return any(
        (found.metric, float(found.percentile), found.max_milliseconds) == asked and found.outcome == "Met"
        for found in row.objectives
    )
