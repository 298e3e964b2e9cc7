"""A table of figures with typed columns, the same whether it becomes CSV or Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Kind = Literal["text", "texts", "integer", "number", "flag", "instant"]
Value = str | Sequence[str] | int | float | bool | datetime | None
"""None: not known."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; its name ends with the unit."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values in the order of the columns."""

    name: str
    columns: tuple[Column, ...]
    rows: Sequence[tuple[Value, ...]]


def row_of(columns: Sequence[Column], values: Mapping[str, Value]) -> tuple[Value, ...]:
    """The values in the order of the columns; None where there is none."""
    return tuple(values.get(column.name) for column in columns)
