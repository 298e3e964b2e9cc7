"""Tables of text, and how numbers and lengths of time are written in them; no layout."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar

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
    wide: bool = False  # Shown only in a wide table.
    optional: bool = False  # Left out where no row has it.


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


def has_uncertain(rows: Rows) -> bool:
    """Whether a figure of the table carries the mark."""
    return any(cell.endswith(UNCERTAIN) for row in rows.rows for cell in row)


def figure(value: float | None, *, digits: int = 3, unit: str = "") -> str:
    """A number with so many significant digits, without an exponent."""
    if value is None:
        return ABSENT
    return f"{Decimal(f'{value + 0.0:.{digits}g}'):f}{unit}"  # adding 0.0 makes 0 of -0


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd]?)")


def format_seconds(seconds: float) -> str:
    """Two units at most: `8 s`, `4 min 12 s`, `2 h 5 min`, `3 d`."""
    whole = max(0, round(seconds))
    if whole >= 86_400:
        return f"{whole // 86_400} d"
    if whole < 60:
        return f"{whole} s"
    unit, large, small = (60, "min", "s") if whole < 3600 else (3600, "h", "min")
    rest = whole % unit * 60 // unit
    return f"{whole // unit} {large}" + (f" {rest} {small}" if rest else "")


def age(seconds: float) -> str:
    """One unit, short enough for a column: `8s`, `12m`, `5h`, `3d`."""
    whole = max(0, int(seconds))
    unit = next((unit for unit in ("d", "h", "m") if whole >= _SECONDS[unit]), "s")
    return f"{whole // _SECONDS[unit]}{unit}"


def clock(seconds: float) -> str:
    """`mm:ss`, from an hour on `h:mm:ss`, so that lines of a log are aligned."""
    hours, rest = divmod(max(0, int(seconds)), 3600)
    return (f"{hours}:" if hours else "") + f"{rest // 60:02d}:{rest % 60:02d}"


def parse_seconds(text: str) -> float:
    """Seconds of `90`, `90s`, `10m`, `2h` or `1d`. Raises ValueError."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise ValueError(f"{text!r} is not a length of time; write 90s, 10m or 2h")
    return float(found[1]) * _SECONDS[found[2]]


BARS = "▁▂▃▄▅▆▇█"
GAP = " "
"""For an unknown value: the lowest bar would be a number."""


def sparkline(values: Sequence[float | None], *, top: float | None = None, width: int = 30) -> str:
    """The last `width` values, each a bar from 0 to `top`; without a top, to the largest of them. Always `width` wide."""
    shown = list(values)[-width:] if width > 0 else []
    highest = top if top is not None else max((value for value in shown if value is not None), default=0.0)
    shares = (min(max(value or 0.0, 0.0) / highest, 1.0) if highest > 0 else 0.0 for value in shown)
    bars = (BARS[min(int(share * len(BARS)), len(BARS) - 1)] for share in shares)
    return "".join(GAP if value is None else bar for value, bar in zip(shown, bars, strict=True)).ljust(width)
