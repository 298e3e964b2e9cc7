"""Tables of figures with typed columns, and the files they become: CSV or Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

# ---- table ------------------------------------------------------------------------------------------------------------
# A table of figures with typed columns, the same whether it becomes CSV or Parquet.

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


# ---- files ------------------------------------------------------------------------------------------------------------
# What an export consists of before anybody writes it down.

Files = Mapping[str, bytes]
"""Contents by their path in a folder, with forward slashes."""
Json = dict[str, Any]


class NotExportable(ValueError):
    """What was asked for can't be told in this format; the text says why and what to do instead."""


def as_json(value: Json | Sequence[Json]) -> bytes:
    """Indented, with a line break at the end. What is not finite is no JSON and raises ValueError."""
    return f"{json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)}\n".encode()


def as_json_lines(values: Sequence[Json]) -> bytes:
    """One object a line."""
    return "".join(f"{json.dumps(value, ensure_ascii=False, allow_nan=False)}\n" for value in values).encode()


def without_unknown(value: Json) -> Json:
    """Without the fields that are None, in nested objects too: for formats in which what is unknown is left out."""
    return {
        name: without_unknown(each) if isinstance(each, dict) else each
        for name, each in value.items()
        if each is not None
    }


# ---- units ------------------------------------------------------------------------------------------------------------
# Records hold microseconds; other tools want seconds.

_DECIMALS = 9
"""A thousandth of the microsecond in which it was measured."""


def seconds(microseconds: float) -> float:
    """Without the noise that a division leaves in the last digits."""
    return round(microseconds / 1e6, _DECIMALS)


# ---- csv table --------------------------------------------------------------------------------------------------------
# Tables as CSV (RFC 4180): a head line, commas, quotes where needed; what is not known is an empty field.

_BEGIN_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"[-+]?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?")


def as_csv(table: Table) -> bytes:
    """UTF-8. Instants are RFC 3339; lists are joined with semicolons, since their words hold none."""
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
    return _as_text(value if isinstance(value, str) else ";".join(value))


def _as_text(text: str) -> str:
    """A spreadsheet runs what begins like a formula, whatever its quotes. A number stays one."""
    return f"'{text}" if text.startswith(_BEGIN_FORMULAS) and not _NUMBER.fullmatch(text) else text


# ---- parquet table ----------------------------------------------------------------------------------------------------
# Tables as Parquet, by pyarrow: an extra of the command, `pip install 'benchrun-operator[export]'`.

RUN_KEY = b"benchrun.run_uid"
"""In the file's own metadata."""


def as_parquet(table: Table, *, run_uid: str) -> bytes:
    """Every column has its type even where all its values are null. Raises NotExportable without pyarrow."""
    try:
        # Fifty megabytes to download, for this format alone.
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise NotExportable("Parquet takes pyarrow: pip install 'benchrun-operator[export]'") from error
    schema = pyarrow.schema(
        [(column.name, _type(pyarrow, column.kind)) for column in table.columns], metadata={RUN_KEY: run_uid.encode()}
    )
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    arrays = [pyarrow.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(arrays, schema=schema), buffer)
    return buffer.getvalue()


def _type(pyarrow: Any, kind: Kind) -> Any:
    types = {
        "text": pyarrow.string(),
        "texts": pyarrow.list_(pyarrow.string()),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "flag": pyarrow.bool_(),
        "instant": pyarrow.timestamp("us", tz="UTC"),
    }
    return types[kind]
