"""Whether a figure got worse by more than is allowed: yes, no, or it can't be told."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api.comparison import Change, ComparedCell, Gate
from benchrun.judge.comparison.figures import HIGHER_IS_BETTER


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
