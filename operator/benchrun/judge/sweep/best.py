"""Find the best variant by each objective, and the Pareto front of throughput against TPOT.

Each best variant is listed with the undecided ones: variants with more throughput that may meet the
objectives.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean

from benchrun.api import (
    DEFAULT_EQUIVALENCE_PERCENT,
    TRUSTED,
    ComparedMetric,
    Objective,
    ObjectiveResult,
    Price,
    Result,
    worst_verdict,
)
from benchrun.api.sweep import (
    MAX_UNDECIDED,
    THROUGHPUT,
    BestVariant,
    FrontPoint,
    UndecidedVariant,
)
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.comparison.figures import NoisyFigure, figure_of
from benchrun.judge.comparison.hypotheses import Hypothesis
from benchrun.measure import CONFIDENCE, Contrast, rounded
from benchrun.plan import Variant


@dataclass(frozen=True, slots=True)
class Side:
    """A variant and those runs of it that were measured to the end.

    Each run started a server of its own.
    """

    variant: Variant
    runs: tuple[MeasuredRun, ...]

    def at(self, load_point: str) -> tuple[tuple[MeasuredRun, Result], ...]:
        """Return the runs that have figures at this load point, with these figures.

        Runs with Invalid figures are left out, unless all are Invalid. So one server's bad luck
        does not spoil the figures of the others.
        """
        found = tuple(
            (run, row)
            for run in self.runs
            if (row := run.row(load_point)) is not None
        )
        return (
            tuple((run, row) for run, row in found if row.verdict in TRUSTED)
            or found
        )

    def runs_at(self, load_point: str) -> tuple[MeasuredRun, ...]:
        """Return the same runs as `at`, without their figures."""
        return tuple(run for run, _ in self.at(load_point))


def are_per_gpu(sides: Sequence[Side]) -> bool:
    """Return whether throughput is compared per GPU, that is, whether every variant has GPUs.

    Otherwise whole servers are compared.
    """
    return all(side.variant.gpus for side in sides)


@dataclass(frozen=True, slots=True)
class Contender:
    """A variant at a load point, with the runs that can be trusted there (`Side.at`)."""

    side: Side
    load_point: str
    output: NoisyFigure
    """Output tokens per second, of embeddings those of the prompts; per GPU if throughput is
    compared per GPU."""
    tpot: NoisyFigure  # Mean TPOT, in milliseconds.
    gpus: int  # GPUs that share the throughput; 0: the throughput is the whole server's.

    @property
    def throughput(self) -> float:
        """Return the tokens a second by which contenders are ordered; 0 if unknown."""
        return self.output.value or 0.0

    @property
    def workload(self) -> str:
        """Return the name of the load point's workload."""
        return self.load_point.partition("/")[0]

    @property
    def rows(self) -> tuple[Result, ...]:
        """Return the rows of the variant's runs at this load point."""
        return tuple(row for _, row in self.side.at(self.load_point))

    @property
    def is_trusted(self) -> bool:
        """Return whether the figures can be used: not every run is Invalid here."""
        return all(row.verdict in TRUSTED for row in self.rows)

    def outcomes(self, objective: Objective) -> list[ObjectiveResult | None]:
        """Return each run's outcome for the objective; None if the run's status lacks it."""
        limit = (
            objective.metric,
            float(objective.percentile),
            objective.max_milliseconds,
        )
        return [
            next(
                (
                    found
                    for found in row.objectives
                    if (
                        found.metric,
                        float(found.percentile),
                        found.max_milliseconds,
                    )
                    == limit
                ),
                None,
            )
            for row in self.rows
        ]

    def keeps(self, objective: Objective) -> bool:
        """Return whether every run certainly met the objective at this load point."""
        found = self.outcomes(objective)
        return self.is_trusted and all(
            each and each.outcome == "Met" for each in found
        )

    def misses(self, objective: Objective) -> bool:
        """Return whether some run certainly missed the objective at this load point."""
        found = self.outcomes(objective)
        return self.is_trusted and any(
            each and each.outcome == "Missed" for each in found
        )

    def is_open(self, objectives: Sequence[Objective]) -> bool:
        """Return whether all objectives may be met at this load point, but not certainly."""
        if any(map(self.misses, objectives)):
            return False
        return not (self.is_trusted and all(map(self.keeps, objectives)))


def contenders(
    sides: Sequence[Side], load_points: Sequence[str]
) -> list[Contender]:
    """Return each variant at each load point at which it has a throughput.

    The throughput is taken from the part of a stage that all trusted load points of its workload
    have. Contenders with Invalid figures are included, but can't be the best.
    """
    found = [
        (side, load_point, [row for _, row in side.at(load_point)])
        for side in sides
        for load_point in load_points
    ]
    beside: dict[str, list[Result]] = defaultdict(list)
    for *_, rows in found:
        if rows and rows[0].verdict in TRUSTED:
            beside[rows[0].workload] += rows
    per_gpu = are_per_gpu(sides)
    made = (
        _contender(side, load_point, beside[rows[0].workload], per_gpu=per_gpu)
        for side, load_point, rows in found
        if rows
    )
    return [contender for contender in made if contender is not None]


def _contender(
    side: Side, load_point: str, beside: Sequence[Result], *, per_gpu: bool
) -> Contender | None:
    runs = side.runs_at(load_point)
    # Embeddings have no output: what counts are the prompts.
    metric: ComparedMetric = (
        "TotalTokenThroughput"
        if all(row.has_whole_answers for _, row in side.at(load_point))
        else "OutputThroughput"
    )
    own, figure = (
        figure_of(metric, load_point, runs, beside=among) for among in ((), beside)
    )
    if figure.value is None:
        return None
    gpus = side.variant.gpus if per_gpu else 0
    log_mean = figure.log_mean
    share = math.log(max(1, gpus))
    if log_mean is not None:
        log_mean = replace(log_mean, estimate=log_mean.estimate - share)
    blocks = {block: value - share for block, value in figure.log_blocks.items()}
    each = replace(
        figure,
        value=figure.value / max(1, gpus),
        log_mean=log_mean,
        log_blocks=blocks,
        of_arrivals=own.of_arrivals,
    )
    return Contender(
        side, load_point, each, figure_of("MeanTPOT", load_point, runs), gpus
    )


def best_variants(
    contenders: Sequence[Contender], objectives: Sequence[Objective]
) -> list[BestVariant]:
    """Return the best variant of each workload by each criterion.

    The criteria are throughput alone, each objective, and all objectives together if there are
    several. A criterion that every load point missed has no entry.
    """
    criteria: list[tuple[str, Sequence[Objective]]] = [(THROUGHPUT, ())]
    criteria += [
        (f"{o.metric} p{o.percentile} <= {o.max_milliseconds} ms", (o,))
        for o in objectives
    ]
    criteria += [("every objective", objectives)] if len(objectives) > 1 else []
    by_workload: dict[str, list[Contender]] = defaultdict(list)
    for contender in contenders:
        by_workload[contender.workload].append(contender)
    found = [
        _best(workload, name, limits, among)
        for workload, among in by_workload.items()
        for name, limits in criteria
    ]
    return [best for best in found if best is not None]


def _best(
    workload: str,
    name: str,
    limits: Sequence[Objective],
    among: Sequence[Contender],
) -> BestVariant | None:
    """Return the best certain variant with the undecided variants; None if there are neither."""
    able = [
        each for each in among if each.is_trusted and all(map(each.keeps, limits))
    ]
    first = max(able, key=lambda each: each.throughput, default=None)
    undecided = _undecided(first, [each for each in among if each.is_open(limits)])
    found = BestVariant(
        workload=workload,
        objective=name,
        undecided=[
            _as_undecided(each, limits) for each in undecided[:MAX_UNDECIDED]
        ],
        more_undecided=len(undecided[MAX_UNDECIDED:]),
    )
    if first is None:
        return found if undecided else None
    return found.model_copy(update=_as_best(first, able))


def _as_best(first: Contender, able: Sequence[Contender]) -> Mapping[str, object]:
    """Return the status fields of `first`, the best of the certain contenders (`able`)."""
    others = [each for each in _highest(able) if each.side is not first.side]
    # A variant stands there with its highest load point; all its load points were compared.
    tied = [
        other
        for other in others
        if not _is_beaten(first, other, questions=len(able) - 1)
    ]
    equals = 1 + sum(
        not _is_beaten(first, c, questions=len(able) - 1)
        for c in able
        if c is not first
    )
    # How much the highest of so many equals lies above their true value on average: the mean of the
    # largest of so many normal values (G. Blom, 1958; off by less than 5 %), in standard errors.
    # Effects of a block that all have in common are no part of these.
    errors = [
        each.squared_error / 2
        for other in tied
        if (each := _contrast(first, other)) is not None
    ]
    errors = errors or [
        mean.squared_error for mean in (first.output.log_mean,) if mean is not None
    ]
    above = NormalDist().inv_cdf((equals - 0.375) / (equals + 0.25))
    optimism = (
        100 * math.expm1(above * math.sqrt(fmean(errors))) if errors else None
    )
    return {
        "variant": first.side.variant.name,
        "load_point": first.load_point,
        **_throughputs(first),
        "tied_with": [other.side.variant.name for other in tied],
        "optimism_percent": rounded(optimism),
    }


def _undecided(
    best: Contender | None, open_ones: Sequence[Contender]
) -> list[Contender]:
    """Return the open contenders with more throughput than the best, one for each variant.

    Each variant is given at the load point where its throughput is highest. A contender that serves
    the same arrivals as the best does not count as having more. Without a best, all open contenders
    count.
    """
    return _highest(
        [
            each
            for each in open_ones
            if best is None
            or (
                each.throughput > best.throughput
                and not _serve_the_same(best, each)
            )
        ]
    )


def _highest(found: Sequence[Contender]) -> list[Contender]:
    """Return the contender with the most throughput of each variant, the highest first."""
    tops: dict[str, Contender] = {}
    for contender in sorted(found, key=lambda each: -each.throughput):
        tops.setdefault(contender.side.variant.name, contender)
    return list(tops.values())


def _throughputs(of: Contender) -> dict[str, float | None]:
    """Return the throughput, in all and per GPU, for an entry of the status."""
    each = rounded(of.throughput)
    whole = rounded(of.throughput * max(1, of.gpus))
    return {
        "throughput": whole or 0.0,
        "throughput_per_gpu": each if of.gpus else None,
    }


MAX_WHY = 300


def _as_undecided(
    contender: Contender, limits: Sequence[Objective]
) -> UndecidedVariant:
    """Build the entry of an undecided contender: why, and what would decide it.

    The price is that of one run: the largest that any run has for any of these objectives. It is
    None if one of these is unknown.
    """
    price: Price | None = None
    if contender.is_trusted:
        missing = [
            found.price if found is not None else None
            for limit in limits
            for found in contender.outcomes(limit)
            if found is None or found.outcome != "Met"
        ]
        known = [each for each in missing if each is not None]
        if known and len(known) == len(missing):
            price = max(known, key=lambda each: each.weight)
        why = "; ".join(
            _why(limit, contender.outcomes(limit))
            for limit in limits
            if not contender.keeps(limit)
        )
    else:
        code = next((code for row in contender.rows for code in row.findings), None)
        verdict = worst_verdict(row.verdict for row in contender.rows)
        why = f"the figures are {verdict} in every run{f' ({code})' if code is not None else ''}"
    return UndecidedVariant.model_validate(
        {
            "variant": contender.side.variant.name,
            "load_point": contender.load_point,
            **_throughputs(contender),
            "why": why[:MAX_WHY],
            "price": price,
        }
    )


def _why(objective: Objective, outcomes: Sequence[ObjectiveResult | None]) -> str:
    """Return text on how many runs leave the objective undecided, with the worst value."""
    name = f"{objective.metric} p{objective.percentile}"
    open_ones = [each for each in outcomes if each is None or each.outcome != "Met"]
    where = f"{len(open_ones)} of {len(outcomes)} runs"
    if not (known := [each for each in open_ones if each is not None]):
        return f"the status of {where} has no outcome for {name}"
    values = [each.measured_milliseconds for each in known]
    highest = max((value for value in values if value is not None), default=None)
    if highest is None:
        return f"{name} was not measured in {where}"
    return (
        f"{name} is {highest:.4g} ms (limit {objective.max_milliseconds} ms), uncertain in "
        f"{where}"
    )


def _is_beaten(by: Contender, other: Contender, *, questions: int) -> bool:
    """Return whether `by` is shown to have more throughput than `other`.

    The probability of any wrong answer is at most 5 % over all `questions` together. Return False
    if the noise is unknown. The method is multiple comparisons with the best (J. C. Hsu, Annals of
    Statistics 9, 1981), with Bonferroni's correction instead of Dunnett's constant. Contenders that
    the highest does not beat may be the best. With 95 % probability the best is among them,
    although the highest was chosen by its figure.
    """
    contrast = _contrast(by, other)
    return contrast is not None and contrast.exceeds(0.0) <= (1 - CONFIDENCE) / max(
        1, questions
    )


def _contrast(by: Contender, other: Contender) -> Contrast | None:
    # Where both kept up, their throughputs count as equal only if the load point and the number of
    # GPUs are the same.
    own = (
        other.output
        if _serve_the_same(other, by)
        else replace(other.output, of_arrivals=None)
    )
    return Hypothesis("OutputThroughput", own, by.output).contrast()


def _serve_the_same(one: Contender, other: Contender) -> bool:
    kept_up = (
        one.output.of_arrivals is not None and other.output.of_arrivals is not None
    )
    return kept_up and one.load_point == other.load_point and one.gpus == other.gpus


def pareto_front(contenders: Sequence[Contender]) -> list[FrontPoint]:
    """Return the Pareto front of each workload, from the lowest TPOT to the highest.

    Throughput rises from point to point. Of points that are equal in both figures, only the one
    with the most throughput is kept.
    """
    by_workload: dict[str, list[Contender]] = defaultdict(list)
    for each in contenders:
        if each.is_trusted and each.tpot.value is not None:
            by_workload[each.workload].append(each)
    return [point for points in by_workload.values() for point in _front(points)]


def _front(points: Sequence[Contender]) -> list[FrontPoint]:
    """Return the front of one workload.

    Points are taken from the most throughput down. A point joins the front if its TPOT is lower
    than that of all points on it. Points on the front that do not have more throughput than the new
    point then leave it. So each point off the front is worse than a point on it, or equal in both
    figures. On a curve with small steps both ends are on the front, although neighbours are equal.
    """
    kept: list[Contender] = []
    questions = len(points) - 1
    for each in sorted(points, key=lambda each: -each.throughput):
        if all(_has_lower_tpot(each, other, questions) for other in kept):
            kept = [
                each,
                *(other for other in kept if _has_more(other, each, questions)),
            ]
    return [
        FrontPoint.model_validate(
            {
                "workload": each.workload,
                "variant": each.side.variant.name,
                "load_point": each.load_point,
                **_throughputs(each),
                "mean_tpot_ms": rounded(each.tpot.value) or 0.0,
                "is_distinct": before is None or _is_noise_known(before, each),
            }
        )
        for before, each in zip((None, *kept), kept, strict=False)
    ]


def _has_more(one: Contender, other: Contender, questions: int) -> bool:
    """Return whether `one` has more throughput; False if both serve the same arrivals."""
    if one.throughput <= other.throughput or _serve_the_same(other, one):
        return False
    return _is_above(
        other.throughput, one.throughput, _contrast(one, other), questions
    )


def _has_lower_tpot(one: Contender, other: Contender, questions: int) -> bool:
    """Return whether `one` has a lower mean TPOT than `other`."""
    low = one.tpot.value
    high = other.tpot.value
    if low is None or high is None or high <= low:
        return False
    return _is_above(low, high, _tpot_contrast(one, other), questions)


def _tpot_contrast(one: Contender, other: Contender) -> Contrast | None:
    return Hypothesis("MeanTPOT", one.tpot, other.tpot).contrast()


EQUAL_BELOW = 1 + float(DEFAULT_EQUIVALENCE_PERCENT) / 100


def _is_above(
    low: float, high: float, contrast: Contrast | None, questions: int
) -> bool:
    """Return whether `high` exceeds `low` by more than the least change that matters.

    If the noise is known, the difference must exceed the noise, too.
    """
    if high < low * EQUAL_BELOW:
        return False
    return contrast is None or contrast.exceeds(0.0) <= (1 - CONFIDENCE) / max(
        1, questions
    )


def _is_noise_known(one: Contender, other: Contender) -> bool:
    return (
        _contrast(other, one) is not None and _tpot_contrast(one, other) is not None
    )
