"""A figure of one side with its noise; whether a change is worse than allowed; the outcome in words.

The unit is a fresh server: with several runs a side, each run's figure is one value. With one run a side all there is are
its repeats, which share that server's luck.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchrun.api import KEYS, Change, ComparedCell, ComparedMetric, Gate, Scope
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.measure import SIGNIFICANT_DIGITS, Mean, mean_of

HIGHER_IS_BETTER: frozenset[ComparedMetric] = frozenset(
    {"OutputThroughput", "RequestThroughput", "TotalTokenThroughput"}
)

ROUNDING_ERROR = (10.0 ** (1 - SIGNIFICANT_DIGITS)) ** 2 / 12
"""Squared error of a logarithm, at most, from the rounding of results. Values that agree to their last digit are not exact."""
ONE_REPEAT = "one repeat: no idea of the noise"
NO_CV = "the results do not say how the repeats scatter"


@dataclass(frozen=True, slots=True)
class Figure:
    """One side's value."""

    value: float | None  # Geometric mean over the runs; None where one has none.
    log_mean: Mean | None = None  # None: the noise is not known.
    problem: str | None = None  # Why one of them is None.


def figure_of(metric: ComparedMetric, cell: str, side: Sequence[MeasuredRun]) -> Figure:
    """The figure at a cell that every run of the side has. The noise of a single run is that of its repeats."""
    key, values = KEYS[metric], []
    rows = [row for run in side if (row := run.row(cell)) is not None]
    for run, row in zip(side, rows, strict=True):
        value = row.metrics.get(key)
        if value is None or not 0 < value < math.inf:
            return Figure(None, problem=f"{run.name} has no {key}")
        values.append(math.log(value))
    if len(values) > 1:
        mean = mean_of(values)
        return Figure(math.exp(mean.value), replace(mean, squared_error=max(mean.squared_error, ROUNDING_ERROR)))
    row = rows[0]
    value, cv = row.metrics[key], row.repeat_cv_percent.get(key)
    if row.repeats < 2 or cv is None:
        return Figure(value, problem=ONE_REPEAT if row.repeats < 2 else NO_CV)
    squared_error = math.log1p((cv / 100) ** 2) / row.repeats
    return Figure(value, Mean(values[0], max(squared_error, ROUNDING_ERROR), row.repeats))


def gate(cells: Sequence[ComparedCell], *, max_regression_percent: float) -> Gate:
    """Regressed where the good end of an interval is beyond the limit; NotRegressed where the bad end of each is within it.

    What can't be compared can't pass: the cells given are those that must.
    """
    changes = [change for cell in cells for change in cell.changes]
    worse = [loss for change in changes if (loss := loss_percent(change)) is not None]
    if any(least > max_regression_percent for least, _ in worse):
        return "Regressed"
    complete = bool(changes) and len(worse) == len(changes) and all(cell.reason is None for cell in cells)
    if complete and all(most <= max_regression_percent for _, most in worse):
        return "NotRegressed"
    return "Inconclusive"


def loss_percent(change: Change) -> tuple[float, float] | None:
    """By how much the figure got worse, in percent of the baseline: at least and at most. Negative where it got better."""
    if change.low_percent is None or change.high_percent is None:
        return None
    if change.metric in HIGHER_IS_BETTER:
        return -change.high_percent, -change.low_percent
    return change.low_percent, change.high_percent


SCOPES: Mapping[Scope, str] = {
    "WithinOneServer": "within one server: the intervals hold the noise of repeats on one server a side, and another start "
    "of the same server may differ by more",
    "BetweenServers": "between servers: the intervals hold the noise of fresh servers",
}
_SPOKEN = (
    ("Better", "better"),
    ("Worse", "worse"),
    ("NoDetectableDifference", "without a detectable difference"),
    ("Unknown", "unknown"),
    ("NotComparable", "not comparable"),
)


def sentence(cells: Sequence[ComparedCell], scope: Scope, *, suspect: int, unknown: Sequence[str] = ()) -> str:
    """Counts of words, the most marked loss, what was left out, and the scope."""
    changes = [(cell.cell, change) for cell in cells for change in cell.changes]
    if not changes:
        first = next((f": {cell.cell}: {cell.reason}" for cell in cells), ": neither side has results")
        return f"no load point is comparable{first}"
    counts: Counter[str] = Counter(change.word for _, change in changes)
    listed = ", ".join(f"{counts[word]} {spoken}" for word, spoken in _SPOKEN if counts[word])
    parts = [f"{len(changes)} figures: {listed}", *_most_marked(changes)]
    left_out = [cell for cell in cells if cell.reason is not None]
    if left_out:
        parts.append(
            f"{len(left_out)} of {len(cells)} load points not comparable ({left_out[0].cell}: {left_out[0].reason})"
        )
    if suspect:
        parts.append(f"{suspect} of {len(cells)} load points Suspect")
    parts += unknown
    if any(change.low_percent is not None for _, change in changes):
        parts += ["intervals and words hold at 95 % over all figures together", SCOPES[scope]]
    return "; ".join(parts)


def _most_marked(changes: Sequence[tuple[str, Change]]) -> list[str]:
    """The worst of what got worse, else the best of what got better."""
    for word, spoken, sign in (("Worse", "the worst", 1), ("Better", "the best", -1)):
        found = [(cell, change) for cell, change in changes if change.word == word]
        if found:
            cell, change = max(
                found,
                key=lambda each: (
                    sign * (each[1].change_percent or 0) * (-1 if each[1].metric in HIGHER_IS_BETTER else 1)
                ),
            )
            span = f"{change.low_percent:+.1f} to {change.high_percent:+.1f}"
            return [f"{spoken}: {change.metric} at {cell} {change.change_percent:+.1f} % ({span})"]
    return []
