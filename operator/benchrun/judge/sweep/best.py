"""The best variant by each objective, and the Pareto front of throughput per GPU against TPOT."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from benchrun.api import KEYS, Objective
from benchrun.api.sweep import BestVariant, FrontPoint
from benchrun.judge.comparison.compare import Question, answers
from benchrun.judge.comparison.figures import Figure, figure_of
from benchrun.judge.sweep.variant_figures import TRUSTED, Side
from benchrun.measure import rounded


@dataclass(frozen=True, slots=True)
class Contender:
    """A variant at a load point, by those of its runs that can be trusted there."""

    side: Side
    cell: str
    per_gpu: Figure  # Output tokens a second and GPU.

    @property
    def throughput(self) -> float:
        """The same as a number."""
        return self.per_gpu.value or 0.0

    @property
    def workload(self) -> str:
        """Name of its workload."""
        return self.cell.partition("/")[0]

    def mean_tpot_ms(self) -> float | None:
        """Geometric mean over the runs."""
        values = [row.metrics.get(KEYS["MeanTPOT"]) for _, row in self.side.at(self.cell)]
        known = [value for value in values if value is not None and value > 0]
        return math.exp(math.fsum(map(math.log, known)) / len(known)) if values and len(known) == len(values) else None

    def keeps(self, objective: Objective) -> bool:
        """Whether each of them met it here, with certainty."""
        limit = (objective.metric, float(objective.percentile), objective.max_milliseconds, "Met")
        return all(
            any((o.metric, float(o.percentile), o.max_milliseconds, o.outcome) == limit for o in row.objectives)
            for _, row in self.side.at(self.cell)
        )


def contenders(sides: Iterable[Side], cells: Sequence[str]) -> list[Contender]:
    """Every one there is. Invalid figures win nothing."""
    found = [_contender(side, cell) for side in sides for cell in cells]
    return [contender for contender in found if contender is not None]


def _contender(side: Side, cell: str) -> Contender | None:
    rows = side.at(cell)
    if not rows or any(row.verdict not in TRUSTED for _, row in rows):
        return None
    figure = figure_of("OutputThroughput", cell, side.runs_at(cell))
    if figure.value is None:
        return None
    log_mean = figure.log_mean
    if log_mean is not None:
        log_mean = replace(log_mean, value=log_mean.value - math.log(side.devices))
    return Contender(side, cell, replace(figure, value=figure.value / side.devices, log_mean=log_mean))


THROUGHPUT = "throughput"


def best_variants(contenders: Sequence[Contender], objectives: Sequence[Objective]) -> tuple[BestVariant, ...]:
    """By workload: by throughput alone, by each objective, and where there are several, by all of them."""
    criteria: list[tuple[str, Sequence[Objective]]] = [(THROUGHPUT, ())]
    criteria += [(f"{o.metric} p{o.percentile} <= {o.max_milliseconds} ms", (o,)) for o in objectives]
    criteria += [("every objective", objectives)] if len(objectives) > 1 else []
    found = [
        _best(name, [c for c in contenders if c.workload == workload and all(map(c.keeps, limits))])
        for workload in dict.fromkeys(contender.workload for contender in contenders)
        for name, limits in criteria
    ]
    return tuple(best for best in found if best is not None)


def _best(objective: str, contenders: Iterable[Contender]) -> BestVariant | None:
    tops: dict[str, Contender] = {}
    for contender in contenders:
        name = contender.side.variant.name
        if name not in tops or contender.throughput > tops[name].throughput:
            tops[name] = contender
    if not tops:
        return None
    first, *others = sorted(tops.values(), key=lambda top: -top.throughput)
    return BestVariant(
        workload=first.workload,
        objective=objective,
        variant=first.side.variant.name,
        cell=first.cell,
        throughput_per_gpu=rounded(first.throughput) or 0.0,
        tied_with=_tied(first, others),
    )


def _tied(first: Contender, others: Sequence[Contender]) -> list[str]:
    """Those whose difference from the first is not more than noise, or whose noise is not known."""
    words = answers([Question("OutputThroughput", first.per_gpu, other.per_gpu) for other in others])
    return [other.side.variant.name for other, change in zip(others, words, strict=True) if change.word != "Worse"]


def pareto_front(contenders: Sequence[Contender]) -> tuple[FrontPoint, ...]:
    """By workload, from the lowest TPOT on: with each point throughput rises. Of equals the first that is listed."""
    points = [(tpot, contender) for contender in contenders if (tpot := contender.mean_tpot_ms()) is not None]
    points.sort(key=lambda point: (point[0], -point[1].throughput))
    front = []
    for workload in dict.fromkeys(contender.workload for contender in contenders):
        highest = -math.inf
        for tpot, contender in points:
            if contender.workload == workload and contender.throughput > highest:
                highest = contender.throughput
                front.append(
                    FrontPoint(
                        workload=workload,
                        variant=contender.side.variant.name,
                        cell=contender.cell,
                        throughput_per_gpu=rounded(highest) or 0.0,
                        mean_tpot_ms=rounded(tpot) or 0.0,
                    )
                )
    return tuple(front)
