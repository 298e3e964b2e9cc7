"""Tables as CSV (RFC 4180): a head line, commas, quotes where needed; what is not known is an empty field."""

from __future__ import annotations

import csv
import io
from datetime import datetime

from benchrun.report.export.table import Table, Value


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
    if isinstance(value, str | int | float):
        return value
    return ";".join(value)
