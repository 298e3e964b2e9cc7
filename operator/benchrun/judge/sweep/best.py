"""A variant with its runs; the best variant by each objective, and the Pareto front of throughput
per GPU against TPOT."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean, geometric_mean

from benchrun.api import KEYS, Objective, Result
from benchrun.api.sweep import BestVariant, FrontPoint
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.comparison.figures import Figure, figure_of
from benchrun.judge.comparison.hypotheses import Question
from benchrun.judge.objectives import TRUSTED
from benchrun.measure import CONFIDENCE, Contrast, rounded
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
        """The runs that have figures of this cell which can be trusted, with them; if none can be,
        all that have any. One server's bad luck does not spoil what the others measured."""
        found = tuple((run, row) for run in self.runs if (row := run.row(cell)) is not None)
        return tuple((run, row) for run, row in found if row.verdict in TRUSTED) or found

    def runs_at(self, cell: str) -> tuple[MeasuredRun, ...]:
        """The same runs alone."""
        return tuple(run for run, _ in self.at(cell))


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
        return geometric_mean(known) if values and len(known) == len(values) else None

    def keeps(self, objective: Objective) -> bool:
        """Whether each of them met it here, with certainty."""
        limit = (objective.metric, float(objective.percentile), objective.max_milliseconds, "Met")
        return all(
            any(
                (o.metric, float(o.percentile), o.max_milliseconds, o.outcome) == limit
                for o in row.objectives
            )
            for _, row in self.side.at(self.cell)
        )


def contenders(sides: Sequence[Side], cells: Sequence[str]) -> list[Contender]:
    """Every one there is, by throughput of the part of the stage that all of its workload have.
    Invalid figures win nothing."""
    able = [(side, cell, [row for _, row in side.at(cell)]) for side in sides for cell in cells]
    able = [(side, cell, rows) for side, cell, rows in able if rows and rows[0].verdict in TRUSTED]
    beside: dict[str, list[Result]] = defaultdict(list)
    for *_, rows in able:
        beside[rows[0].workload] += rows
    found = (_contender(side, cell, beside[rows[0].workload]) for side, cell, rows in able)
    return [contender for contender in found if contender is not None]


def _contender(side: Side, cell: str, beside: Sequence[Result]) -> Contender | None:
    own, figure = (
        figure_of("OutputThroughput", cell, side.runs_at(cell), beside=among)
        for among in ((), beside)
    )
    if figure.value is None:
        return None
    log_mean, share = figure.log_mean, math.log(side.devices)
    if log_mean is not None:
        log_mean = replace(log_mean, estimate=log_mean.estimate - share)
    blocks = {block: value - share for block, value in figure.log_blocks.items()}
    per_gpu = figure.value / side.devices
    each = replace(
        figure, value=per_gpu, log_mean=log_mean, log_blocks=blocks, of_arrivals=own.of_arrivals
    )
    return Contender(side, cell, each)


THROUGHPUT = "throughput"


def best_variants(
    contenders: Sequence[Contender], objectives: Sequence[Objective]
) -> list[BestVariant]:
    """By workload: by throughput alone, by each objective, and where there are several, by all of
    them."""
    criteria: list[tuple[str, Sequence[Objective]]] = [(THROUGHPUT, ())]
    criteria += [
        (f"{o.metric} p{o.percentile} <= {o.max_milliseconds} ms", (o,)) for o in objectives
    ]
    criteria += [("every objective", objectives)] if len(objectives) > 1 else []
    found = [
        _best(name, [c for c in contenders if c.workload == workload and all(map(c.keeps, limits))])
        for workload in dict.fromkeys(contender.workload for contender in contenders)
        for name, limits in criteria
    ]
    return [best for best in found if best is not None]


def _best(objective: str, contenders: Sequence[Contender]) -> BestVariant | None:
    tops: dict[str, Contender] = {}
    for contender in sorted(contenders, key=lambda each: -each.throughput):
        tops.setdefault(contender.side.variant.name, contender)
    if not tops:
        return None
    first, *others = tops.values()
    # Each variant stands there with the highest of its load points: these were compared too.
    tied = [
        other for other in others if not _is_beaten(first, other, questions=len(contenders) - 1)
    ]
    equals = 1 + sum(
        not _is_beaten(first, c, questions=len(contenders) - 1)
        for c in contenders
        if c is not first
    )
    # How much the highest of so many equals lies above their true value on average: the mean of the
    # largest of so many normal values (G. Blom, 1958; off by less than 5 %), in standard errors.
    # What blocks do to all alike is no part of these.
    errors = [
        each.squared_error / 2 for other in tied if (each := _contrast(first, other)) is not None
    ]
    errors = errors or [
        mean.squared_error for mean in (first.per_gpu.log_mean,) if mean is not None
    ]
    above = NormalDist().inv_cdf((equals - 0.375) / (equals + 0.25))
    return BestVariant(
        workload=first.workload,
        objective=objective,
        variant=first.side.variant.name,
        cell=first.cell,
        throughput_per_gpu=rounded(first.throughput) or 0.0,
        tied_with=[other.side.variant.name for other in tied],
        optimism_percent=rounded(100 * math.expm1(above * math.sqrt(fmean(errors))))
        if errors
        else None,
    )


def _is_beaten(by: Contender, other: Contender, *, questions: int) -> bool:
    """Whether the one is shown to have more throughput, at an error of 5 % over so many questions;
    never where noise is not known. Multiple comparisons with the best (J. C. Hsu, Annals of
    Statistics 9, 1981; Bonferroni in place of Dunnett's constant): who is not beaten by the highest
    may be the best, and the best is among them with 95 %, though the highest was chosen by its
    figure."""
    contrast = _contrast(by, other)
    return contrast is not None and contrast.exceeds(0.0) <= (1 - CONFIDENCE) / max(1, questions)


def _contrast(by: Contender, other: Contender) -> Contrast | None:
    # Of two that kept up, the arrivals set the throughput only where these and the GPUs that share
    # it are the same.
    own = other.per_gpu if _serve_the_same(other, by) else replace(other.per_gpu, of_arrivals=None)
    return Question("OutputThroughput", own, by.per_gpu).contrast()


def _serve_the_same(one: Contender, other: Contender) -> bool:
    kept_up = one.per_gpu.of_arrivals is not None and other.per_gpu.of_arrivals is not None
    return kept_up and one.cell == other.cell and one.side.devices == other.side.devices


def pareto_front(contenders: Sequence[Contender]) -> list[FrontPoint]:
    """By workload, from the lowest TPOT on: with each point throughput rises. Of equals, which
    those are that serve the same arrivals with as many GPUs, the first that is listed."""
    points = [
        (tpot, contender)
        for contender in contenders
        if (tpot := contender.mean_tpot_ms()) is not None
    ]
    points.sort(key=lambda point: (point[0], -point[1].throughput))
    front: list[FrontPoint] = []
    for workload in dict.fromkeys(contender.workload for contender in contenders):
        of_workload = [point for point in points if point[1].workload == workload]
        last: Contender | None = None
        for tpot, contender in of_workload:
            if last is not None and (
                contender.throughput <= last.throughput or _serve_the_same(last, contender)
            ):
                continue
            point = FrontPoint(
                workload=workload,
                variant=contender.side.variant.name,
                cell=contender.cell,
                throughput_per_gpu=rounded(contender.throughput) or 0.0,
                mean_tpot_ms=rounded(tpot) or 0.0,
                is_distinct=last is None
                or _is_beaten(contender, last, questions=len(of_workload) - 1),
            )
            front.append(point)
            last = contender
    return front
