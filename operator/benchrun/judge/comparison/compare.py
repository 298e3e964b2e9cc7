"""Two groups of runs compared, load point by load point, all questions corrected together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchrun.api import Bottleneck, Change, Code, ComparedCell, ComparedMetric, Gate, Outcome, Result, Scope, Word
from benchrun.judge.comparison.comparability import Side, cell_obstacle, obstacle, unknowns
from benchrun.judge.comparison.figures import HIGHER_IS_BETTER, Figure, figure_of, gate, sentence
from benchrun.judge.explain.bottleneck import MAX_PREEMPTED_PERCENT, growth, pair_evidence, throughput_is_flat
from benchrun.judge.explain.waiting import percent
from benchrun.measure import response_to_load, rounded, significance

# Hochberg's procedure keeps the chance of any false Better or Worse in the whole comparison at 5 %. Each interval is taken at the
# level at which Hochberg puts that question, so that it excludes 0 exactly where the word is Better or Worse.

PERCENT_DIGITS = 4
MOST_PERCENT = 999_900.0
"""An interval's end beyond this is written as this: with so few values it has no end."""


@dataclass(frozen=True, slots=True)
class Question:
    """Did this figure change?"""

    metric: ComparedMetric
    baseline: Figure
    candidate: Figure

    def contrast(self) -> significance.Contrast | None:
        """Candidate minus baseline, in logarithms; None where one side's noise is not known."""
        if self.baseline.log_mean is None or self.candidate.log_mean is None:
            return None
        return significance.welch(self.baseline.log_mean, self.candidate.log_mean)


def answers(questions: Sequence[Question]) -> list[Change]:
    """One change for each, in the order given."""
    contrasts = [question.contrast() for question in questions]
    p_values = [contrast.p_value for contrast in contrasts if contrast is not None]
    levels = iter(zip(p_values, significance.hochberg_levels(p_values, error=1 - significance.CONFIDENCE), strict=True))
    return [
        _unanswered(question) if contrast is None else _answer(question, contrast, *next(levels))
        for question, contrast in zip(questions, contrasts, strict=True)
    ]


def _answer(question: Question, contrast: significance.Contrast, p_value: float, level: float) -> Change:
    reach = contrast.reach(1 - level)
    changed: Word = "Better" if (contrast.estimate > 0) == (question.metric in HIGHER_IS_BETTER) else "Worse"
    return Change(
        metric=question.metric,
        baseline=rounded(question.baseline.value),
        value=rounded(question.candidate.value),
        change_percent=_percent(contrast.estimate),
        low_percent=_percent(contrast.estimate - reach),
        high_percent=_percent(contrast.estimate + reach),
        word=changed if p_value <= level else "NoDetectableDifference",
    )


def _unanswered(question: Question) -> Change:
    """A figure is missing, or its noise is not known: then the change is a number without an interval."""
    before, after = question.baseline, question.candidate
    change = None
    if before.value is not None and after.value is not None:
        change = float(f"{100 * (after.value / before.value - 1):.{PERCENT_DIGITS}g}")
    return Change(
        metric=question.metric,
        baseline=rounded(before.value),
        value=rounded(after.value),
        change_percent=change,
        word="NotComparable" if change is None else "Unknown",
        reason=before.problem or after.problem,
    )


def _percent(log_ratio: float) -> float:
    return float(f"{min(significance.log_ratio_percent(log_ratio), MOST_PERCENT):.{PERCENT_DIGITS}g}")


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of it."""

    scope: Scope | None
    outcome: Outcome
    gate: Gate | None
    message: str
    cells: tuple[ComparedCell, ...] = ()


def compare(
    baseline: Side, candidate: Side, *, metrics: Sequence[ComparedMetric], max_regression_percent: float | None = None
) -> Compared:
    """What changed from the baseline to the candidate. Each side is at least one run; more are fresh servers of the same."""
    reason = obstacle(baseline, candidate)
    if reason is not None:
        return not_comparable(reason, gated=max_regression_percent is not None)
    cells = _cells(baseline, candidate, metrics)
    runs = (*baseline, *candidate)
    # Several runs at one endpoint have met one and the same server.
    fresh = len(baseline) > 1 and len(candidate) > 1 and all(run.spec.started is not None for run in runs)
    scope: Scope = "BetweenServers" if fresh else "WithinOneServer"
    outcome = outcome_of(cells)
    required = [cell for cell in cells if any(run.row(cell.cell) for run in baseline)]
    passed = None if max_regression_percent is None else gate(required, max_regression_percent=max_regression_percent)
    suspects = {row.cell for run in runs for row in run.status.results if row.verdict == "Suspect"}
    suspect = sum(cell.cell in suspects for cell in cells)
    message = sentence(cells, scope, suspect=suspect, unknown=unknowns(baseline, candidate))
    return Compared(scope if outcome != "NotComparable" else None, outcome, passed, message, cells)


def not_comparable(reason: str, *, gated: bool) -> Compared:
    """Nothing of them may be compared. A gate can't be passed by that."""
    return Compared(None, "NotComparable", "Inconclusive" if gated else None, f"not comparable: {reason}")


def outcome_of(cells: Sequence[ComparedCell]) -> Outcome:
    """All words in one. Unknown ones do not hide the others."""
    words: Counter[str] = Counter(change.word for cell in cells for change in cell.changes)
    if words["Better"] and words["Worse"]:
        return "Mixed"
    order: tuple[Outcome, ...] = ("Worse", "Better", "NoDetectableDifference", "Unknown")
    return next((word for word in order if words[word]), "NotComparable")


def _cells(baseline: Side, candidate: Side, metrics: Sequence[ComparedMetric]) -> tuple[ComparedCell, ...]:
    ids = dict.fromkeys(row.cell for run in (*baseline, *candidate) for row in run.status.results)
    reasons = {cell: cell_obstacle(cell, baseline, candidate) for cell in ids}
    comparable = [cell for cell, reason in reasons.items() if reason is None]
    questions = [
        Question(metric, figure_of(metric, cell, baseline), figure_of(metric, cell, candidate))
        for cell in comparable
        for metric in metrics
    ]
    changes = iter(answers(questions))
    return tuple(
        ComparedCell(cell=cell, reason=reason)
        if reason is not None
        else ComparedCell(cell=cell, paired=paired(cell, baseline, candidate), changes=[next(changes) for _ in metrics])
        for cell, reason in reasons.items()
    )


def paired(cell: str, baseline: Side, candidate: Side) -> bool:
    """Whether each run of one side has one of the other that sent the same."""
    before, after = ([run.traffic(cell) or "" for run in side] for side in (baseline, candidate))
    return all((*before, *after)) and sorted(before) == sorted(after)


# Only a load that keeps the server supplied shows a limit: under a rate, throughput is that of the arrivals whatever runs.

KV_NEARLY_FULL_PERCENT = 95.0
MIN_WAITING = 1.0
"""Requests waiting in the server, on average: with fewer, a client that is late may have left it without."""


def limits(
    baseline: Side, candidate: Side, cells: Iterable[str], *, names: tuple[str, str] = ("baseline", "candidate")
) -> dict[str, Bottleneck]:
    """By load point, of those that are comparable: a limit that the two sides together show. Most show none."""
    points = {cell: (_point(names[0], cell, baseline), _point(names[1], cell, candidate)) for cell in cells}
    pairs = {cell: response_to_load.comparisons([p for p in both if p is not None]) for cell, both in points.items()}
    return {cell: limit for cell, found in pairs.items() if found and (limit := _limit_of(found[0])) is not None}


def _limit_of(pair: response_to_load.Comparison) -> Bottleneck | None:
    """Throughput that falls is not flat: there, what was changed did harm."""
    if abs(pair.change_percent) <= response_to_load.FLAT_PERCENT:
        return throughput_is_flat(pair, f"from {pair.low.name} to {pair.high.name}")
    usage = pair.high.kv_percent
    if not pair.grows or usage is None or usage < KV_NEARLY_FULL_PERCENT:
        return None
    sentence = f"{growth(pair)}, where KV cache usage is {percent(usage)}: KV memory is the limit."
    evidence = {name: value for name, value in pair_evidence(pair).items() if value is not None}
    return Bottleneck(limit="KVMemory", sentence=sentence, evidence=evidence)


def _point(name: str, cell: str, side: Side) -> response_to_load.OperatingPoint | None:
    """What ran on average, tokens a second and the most KV cache in use; None unless every run of the side shows them."""
    points = [point for run in side if (row := run.row(cell)) is not None and (point := _of_row(row)) is not None]
    if len(points) != len(side):
        return None
    usage = [point.kv_percent for point in points if point.kv_percent is not None]
    running, throughput = fmean(point.running for point in points), fmean(point.throughput for point in points)
    return response_to_load.OperatingPoint(name, running, throughput, max(usage, default=None))


def _of_row(row: Result) -> response_to_load.OperatingPoint | None:
    throughput, server = row.metrics.get("total_token_throughput"), row.roles[0] if row.roles else None
    if server is None or server.running_mean is None or throughput is None:
        return None
    is_supplied = row.axis in ("concurrency", "batch") or row.value == "inf"
    works_twice = 100 * (server.preemptions or 0) > MAX_PREEMPTED_PERCENT * (row.metrics.get("completed") or 0)
    is_starved = Code.CLIENT_SATURATED in row.findings and (server.waiting_mean or 0.0) < MIN_WAITING
    if not is_supplied or works_twice or is_starved:
        return None
    return response_to_load.OperatingPoint(row.cell, server.running_mean, throughput, server.kv_cache_max_percent)
