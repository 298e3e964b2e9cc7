"""Two groups of runs compared, load point by load point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.api.comparison import ComparedCell, ComparedMetric, Gate, Outcome, Scope
from benchrun.judge.comparison.comparability import Side, cell_obstacle, obstacle, unknowns
from benchrun.judge.comparison.figures import figure_of
from benchrun.judge.comparison.gate import gate
from benchrun.judge.comparison.runs import MeasuredRun
from benchrun.judge.comparison.sentence import sentence
from benchrun.judge.comparison.words import Question, answers



@dataclass(frozen=True, slots=True)
class Compared:
    """What came of it."""

    scope: Scope | None
    outcome: Outcome
    gate: Gate | None
    message: str
    cells: tuple[ComparedCell, ...] = ()


def compare(
    baseline: Side,
    candidate: Side,
    *,
    metrics: Sequence[ComparedMetric],
    max_regression_percent: float | None = None,
) -> Compared:
    """What changed from the baseline to the candidate. Each side is at least one run; more are fresh servers of the same."""
    reason = obstacle(baseline, candidate)
    if reason is not None:
        return not_comparable(reason, gated=max_regression_percent is not None)
    cells = _cells(baseline, candidate, metrics)
    scope = scope_of(baseline, candidate)
    outcome = outcome_of(cells)
    required = [cell for cell in cells if any(run.row(cell.cell) for run in baseline)]
    passed = None if max_regression_percent is None else gate(required, max_regression_percent=max_regression_percent)
    suspect = sum(any(_suspect(run, cell.cell) for run in (*baseline, *candidate)) for cell in cells)
    message = sentence(cells, scope, suspect=suspect, unknown=unknowns(baseline, candidate))
    return Compared(scope if outcome != "NotComparable" else None, outcome, passed, message, cells)


def not_comparable(reason: str, *, gated: bool) -> Compared:
    """Nothing of them may be compared. A gate can't be passed by that."""
    return Compared(None, "NotComparable", "Inconclusive" if gated else None, f"not comparable: {reason}")


def scope_of(baseline: Side, candidate: Side) -> Scope:
    """What the intervals hold. Several runs at one endpoint have met one and the same server."""
    runs = (*baseline, *candidate)
    fresh = len(baseline) > 1 and len(candidate) > 1 and all(run.spec.started is not None for run in runs)
    return "BetweenServers" if fresh else "WithinOneServer"


def outcome_of(cells: Sequence[ComparedCell]) -> Outcome:
    """All words in one. What could not be told does not hide what could."""
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
        else ComparedCell(
            cell=cell, paired=_paired(cell, baseline, candidate), changes=[next(changes) for _ in metrics]
        )
        for cell, reason in reasons.items()
    )


def _paired(cell: str, baseline: Side, candidate: Side) -> bool:
    """Whether each run of one side has one of the other that sent the same."""
    before, after = ([_traffic(run, cell) for run in side] for side in (baseline, candidate))
    return all((*before, *after)) and sorted(before) == sorted(after)


def _traffic(run: MeasuredRun, cell: str) -> str:
    row = run.row(cell)
    return (row.traffic if row is not None else None) or ""


def _suspect(run: MeasuredRun, cell: str) -> bool:
    row = run.row(cell)
    return row is not None and row.verdict == "Suspect"
