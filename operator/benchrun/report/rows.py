"""Tables and how values are written in them: text only, no layout."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar

from benchrun.api import BenchmarkRunStatus
from benchrun.judge.rules.all_rules import evidence_sentence

ABSENT = "-"
"""Shown where nothing was measured: never 0."""
UNCERTAIN = "?"
"""Follows a figure that can't be relied on: a percentile that too few requests bound, a figure of a Suspect load point."""
UNCERTAIN_NOTE = "? too few requests for this percentile: its 95 % interval is open at one end or both"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rows:
    """A table."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One figure of every row."""

    header: str
    cell: Callable[[T], str]
    wide: bool = False
    """Shown only in a wide table."""
    optional: bool = False
    """Left out where no row has it."""


def table_of(columns: Sequence[Column[T]], rows: Sequence[T], *, wide: bool = True) -> Rows:
    """The table; its columns in the order given."""
    shown = [
        (column.header, cells)
        for column in columns
        if wide or not column.wide
        for cells in [[column.cell(row) for row in rows]]
        if not column.optional or any(cell != ABSENT for cell in cells)
    ]
    return Rows(tuple(header for header, _ in shown), tuple(zip(*(cells for _, cells in shown), strict=True)))


def figure(value: float | None, *, digits: int = 3, unit: str = "") -> str:
    """A number with so many significant digits, without an exponent."""
    if value is None:
        return ABSENT
    return f"{Decimal(f'{value + 0.0:.{digits}g}'):f}{unit}"  # adding 0.0 makes 0 of -0


def has_uncertain(rows: Rows) -> bool:
    """Whether a figure of the table carries the mark."""
    return any(cell.endswith(UNCERTAIN) for row in rows.rows for cell in row)


def explanation_rows(status: BenchmarkRunStatus) -> Rows:
    """Why requests waited and what limits, of load points where there is such a thing."""
    found: list[tuple[str, ...]] = []
    for row in status.results:
        if row.waiting and row.waiting.reason != "None":
            found.append((row.cell, "waiting", row.waiting.reason, row.waiting.sentence))
        if row.bottleneck and row.bottleneck.limit != "None":
            found.append((row.cell, "limit", row.bottleneck.limit, row.bottleneck.sentence))
    return Rows(("load point", "", "", "because"), tuple(found))


def interval_rows(status: BenchmarkRunStatus) -> Rows:
    """One row a percentile: what was measured, its 95 % interval, and the figure of the steady state."""
    rows = tuple(
        (
            result.cell,
            key.removesuffix("_ms"),
            figure(value, digits=4, unit=UNCERTAIN if key in result.uncertain else ""),
            *(figure(end, digits=4) for end in result.intervals.get(key, (None, None))),
            figure(result.steady.get(key), digits=4),
        )
        for result in status.results
        for key, value in result.metrics.items()
        if key in result.intervals or key in result.uncertain
    )
    return Rows(("load point", "percentile (ms)", "measured", "at least", "at most", "steady state"), rows)


def finding_rows(status: BenchmarkRunStatus) -> Rows:
    """One row a finding: what it is, where it was worst, what to do."""
    rows = tuple(
        (f.severity, f.code, f.worst_stage, evidence_sentence(f.code, f.evidence), f.remedy) for f in status.findings
    )
    return Rows(("severity", "finding", "worst stage", "evidence", "what to do"), rows)


def evidence_text(value: float | str | None) -> str:
    """Counts whole, measures to three digits."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:.0f}" if value == int(value) else figure(value)


# ---- lengths of time ----------------------------------------------------------------------------------------------------

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd]?)")


def format_seconds(seconds: float) -> str:
    """Two units at most: `8 s`, `4 min 12 s`, `2 h 5 min`, `3 d`."""
    whole = max(0, round(seconds))
    if whole >= 86_400:
        return f"{whole // 86_400} d"
    if whole < 60:
        return f"{whole} s"
    large, small, units = (
        (*divmod(whole, 60), ("min", "s")) if whole < 3600 else (*divmod(whole // 60, 60), ("h", "min"))
    )
    return f"{large} {units[0]}" + (f" {small} {units[1]}" if small else "")


def age(seconds: float) -> str:
    """One unit, short enough for a column: `8s`, `12m`, `5h`, `3d`."""
    whole = max(0, int(seconds))
    unit = next((unit for unit in ("d", "h", "m") if whole >= _SECONDS[unit]), "s")
    return f"{whole // _SECONDS[unit]}{unit}"


def clock(seconds: float) -> str:
    """`mm:ss`, from an hour on `h:mm:ss`: lines of a log stay under one another."""
    hours, rest = divmod(max(0, int(seconds)), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60:02d}:{rest % 60:02d}"


def parse_seconds(text: str) -> float:
    """Seconds of `90`, `90s`, `10m`, `2h` or `1d`. Raises ValueError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise ValueError(f"{text!r} is not a length of time; write 90s, 10m or 2h")
    return float(found[1]) * _SECONDS[found[2]]


# ---- sparkline ----------------------------------------------------------------------------------------------------------

BARS = "▁▂▃▄▅▆▇█"
GAP = " "
"""Of an unknown value: not the lowest bar, which would be a number."""


def sparkline(values: Sequence[float | None], *, top: float | None = None, width: int = 30) -> str:
    """The last `width` values, each a bar from 0 to `top`; without a top, to the largest of them. Always `width` wide."""
    shown = list(values)[-width:] if width > 0 else []
    highest = top if top is not None else max((value for value in shown if value is not None), default=0.0)
    return "".join(_bar(value, highest) for value in shown).ljust(width)


def _bar(value: float | None, highest: float) -> str:
    if value is None:
        return GAP
    share = min(max(value / highest, 0.0), 1.0) if highest > 0 else 0.0
    return BARS[min(int(share * len(BARS)), len(BARS) - 1)]
