"""Tables as CSV (RFC 4180): a head line, commas, quotes where needed; what is not known is an empty field."""

from __future__ import annotations

import csv
import io
import re
from datetime import datetime

from benchrun.report.export.table import Table, Value

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
