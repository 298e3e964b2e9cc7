"""Rows of the table that shows a comparison: text only, no layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchrun.api.comparison import Change, ComparedCell, Gate
from benchrun.report.rows import ABSENT, Rows, figure

WORDS = {"NoDetectableDifference": "no difference"}
"""Short enough for a column; the message says that none was *detectable*."""
GATES: Mapping[Gate, str] = {
    "NotRegressed": "not regressed: no figure got worse by more than is allowed",
    "Regressed": "regressed: a figure got worse by more than is allowed",
    "Inconclusive": "inconclusive: it can't be told whether a figure got worse by more than is allowed",
}


def comparison_rows(cells: Sequence[ComparedCell]) -> Rows:
    """One row a figure and load point. What is not comparable has one row for the load point, with the reason."""
    headers = ("load point", "figure", "baseline", "value", "change", "interval", "word")
    return Rows(headers, tuple(row for cell in cells for row in _rows(cell)))


def unpaired(cells: Sequence[ComparedCell]) -> list[str]:
    """Load points that were compared though their traffic was not known to be equal."""
    return [cell.cell for cell in cells if cell.reason is None and not cell.paired]


def reasons(cells: Sequence[ComparedCell]) -> list[str]:
    """Why load points are not comparable, and why figures have no word; each reason once."""
    of_cells = [f"{cell.cell}: {cell.reason}" for cell in cells if cell.reason is not None]
    of_figures = [change.reason for cell in cells for change in cell.changes if change.reason is not None]
    return list(dict.fromkeys([*of_cells, *of_figures]))


def _rows(cell: ComparedCell) -> list[tuple[str, ...]]:
    if cell.reason is not None:
        return [(cell.cell, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, "NotComparable")]
    return [_row(cell.cell, change) for change in cell.changes]


def _row(cell: str, change: Change) -> tuple[str, ...]:
    return (
        cell,
        change.metric,
        figure(change.baseline, digits=4),
        figure(change.value, digits=4),
        signed(change.change_percent, unit=" %"),
        interval(change),
        WORDS.get(change.word, change.word),
    )


def signed(percent: float | None, *, unit: str = "") -> str:
    """A change with its sign: one decimal, none from 100 on."""
    if percent is None:
        return ABSENT
    decimals = 0 if abs(percent) >= 99.95 else 1
    return f"{percent:+.{decimals}f}{unit}"


def interval(change: Change) -> str:
    """Both ends of a change's interval, in percent."""
    if change.low_percent is None or change.high_percent is None:
        return ABSENT
    return f"{signed(change.low_percent)} to {signed(change.high_percent)}"
