"""Encode an export as bytes: tables with typed columns as CSV or Parquet, and JSON."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

Kind = Literal["text", "texts", "integer", "number", "flag", "instant"]
Value = str | Sequence[str] | int | float | bool | datetime | None
"""Value of a load point; None if not known."""
# File contents by their path in a folder, with forward slashes.
Files = Mapping[str, bytes]
Json = dict[str, Any]
T = TypeVar("T")
RUN_KEY = b"benchrun.run_uid"  # Key of the run's uid in the file's own metadata.


class NotExportable(ValueError):
    """The run can't be written in this format; the message says why and what to do instead."""


@dataclass(frozen=True, slots=True)
class ExportColumn(Generic[T]):
    """One column of a table; its name ends with the unit."""

    name: str
    kind: Kind
    value: Callable[[T], Value]


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table: its columns, and rows with values in the order of the columns."""

    columns: Sequence[ExportColumn[Any]]
    rows: Sequence[tuple[Value, ...]]


def table_of(columns: Sequence[ExportColumn[T]], rows: Iterable[T]) -> ExportTable:
    """Build a table with the value of every column for each of these rows."""
    return ExportTable(
        columns, [tuple(column.value(row) for column in columns) for row in rows]
    )


def as_json(value: Json | Sequence[Json]) -> bytes:
    """Encode as indented JSON with a line break at the end.

    Raises ValueError for NaN and infinity, which are not valid JSON.
    """
    return f"{json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)}\n".encode()


def as_json_lines(values: Sequence[Json]) -> bytes:
    """Encode as JSON lines, one object each. Raises ValueError for NaN and infinity."""
    return "".join(
        f"{json.dumps(value, ensure_ascii=False, allow_nan=False)}\n"
        for value in values
    ).encode()


def without_unknown(value: Json) -> Json:
    """Return the object without fields that are None, also in nested objects.

    This is for formats that leave out what is unknown.
    """
    return {
        name: without_unknown(each) if isinstance(each, dict) else each
        for name, each in value.items()
        if each is not None
    }


_BEGIN_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"[-+]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?")


def as_csv(table: ExportTable) -> bytes:
    """Encode as RFC 4180 in UTF-8 with a header line.

    Unknown values are empty, instants are RFC 3339, lists are joined with semicolons.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(column.name for column in table.columns)
    writer.writerows([_field(value) for value in row] for row in table.rows)
    return text.getvalue().encode()


def _field(value: Value) -> str | int | float:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else ";".join(value)
    # A spreadsheet runs what begins like a formula, quoted or not. Numbers are left unchanged.
    return (
        f"'{text}"
        if text.startswith(_BEGIN_FORMULAS) and not _NUMBER.fullmatch(text)
        else text
    )


def as_parquet(table: ExportTable, *, run_uid: str) -> bytes:
    """Encode as Parquet. Raises NotExportable without pyarrow.

    Every column has its type even where all its values are null.
    """
    try:
        # An optional extra: a download of fifty megabytes for this format only.
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise NotExportable(
            "Parquet needs the package pyarrow; to install it, run in a checkout: "
            "pipx install --force '.[report,export]'"
        ) from error
    types: Mapping[Kind, Any] = {
        "text": pyarrow.string(),
        "texts": pyarrow.list_(pyarrow.string()),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "flag": pyarrow.bool_(),
        "instant": pyarrow.timestamp("us", tz="UTC"),
    }
    fields = [(column.name, types[column.kind]) for column in table.columns]
    schema = pyarrow.schema(fields, metadata={RUN_KEY: run_uid.encode()})
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    arrays = [
        pyarrow.array(values, type=field.type)
        for values, field in zip(columns, schema, strict=True)
    ]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(arrays, schema=schema), buffer)
    return buffer.getvalue()
