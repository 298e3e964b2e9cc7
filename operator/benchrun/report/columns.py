"""A table put together column by column: those that would say nothing here are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from benchrun.report.rows import ABSENT, Rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One figure of every row."""

    header: str
    cell: Callable[[T], str]
    wide: bool = False
    """Shown only where a wide table is asked for."""
    optional: bool = False
    """Left out where no row has it."""


def laid_out(columns: Sequence[Column[T]], rows: Sequence[T], *, wide: bool) -> Rows:
    """The table; its columns in the order given."""
    shown = [
        (column, cells)
        for column in columns
        if wide or not column.wide
        for cells in [[column.cell(row) for row in rows]]
        if not column.optional or any(cell != ABSENT for cell in cells)
    ]
    headers = tuple(column.header for column, _ in shown)
    return Rows(headers, tuple(zip(*(cells for _, cells in shown), strict=True)))
