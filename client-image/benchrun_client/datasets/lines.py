"""Text files line by line, or as one JSON value, within bounds, each fault named with its line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchrun_client.datasets.files import OpenedFile, invalid
from benchrun_client.failures import RunFailure

MAX_LINE_BYTES = 16 * 1024**2
"""Of one line: a file without line breaks is not read whole."""
_BYTE_ORDER_MARK = "\ufeff"


def lines(file: OpenedFile) -> Iterator[tuple[int, str]]:
    """Number and text of each line, the line's end included.
    Raises RunFailure: `DatasetInvalid`, for a line that is not UTF-8 or far too long."""
    with file.path.open("rb") as content:
        number = 0
        while line := content.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise invalid(
                    f"{file.name}, line {number} is longer than {MAX_LINE_BYTES // 1024**2} MiB. Put each row on its own line."
                )
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise not_utf8(error, name=file.name, first_line=number) from error
            yield number, text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text


def json_lines(file: OpenedFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place (for messages) and object of each line that is not blank.
    Raises RunFailure: `DatasetInvalid`, naming line and column."""
    for number, text in lines(file):
        if not text.strip():
            continue
        where = f"{file.name}, line {number}"
        try:
            row = json.loads(text)
        except json.JSONDecodeError as error:
            raise invalid(
                f"{where}, column {error.colno}: {error.msg}. A JSON Lines file has one JSON object a line."
            ) from error
        except RecursionError as error:
            raise invalid(f"{where}: nested too deeply") from error
        if not isinstance(row, dict):
            raise invalid(f"{where}: expected a JSON object, got {json_type(row)}")
        yield where, row


def text_field(row: dict[str, Any], field: str, *, where: str) -> str:
    """A field that must hold a text. Raises RunFailure: `DatasetInvalid`, naming the field and those that there are."""
    if field not in row:
        raise invalid(f'{where}: there is no field "{field}"; it has {listed(row)}')
    value = row[field]
    if not isinstance(value, str):
        raise invalid(f'{where}: "{field}" must be a text, is {json_type(value)}')
    return value


def listed(names: Any, *, most: int = 20) -> str:
    """Names in quotes, for a message; the first ones of many."""
    found = [f'"{name}"' for name in list(names)[:most]]
    more = len(names) - len(found)
    return (", ".join(found) or "none") + (f" and {more} more" if more else "")


def json_type(value: object) -> str:
    """What JSON calls it, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return {"str": "a text", "list": "a list", "dict": "an object"}[type(value).__name__]


def not_utf8(error: UnicodeDecodeError, *, name: str, first_line: int = 1) -> RunFailure:
    """The failure for bytes that are not UTF-8, with line and byte. `first_line`: number of the first line of what was decoded."""
    content, at = error.object, error.start
    line, start = first_line + content.count(b"\n", 0, at), content.rfind(b"\n", 0, at) + 1
    return invalid(
        f"{name}, line {line}: byte {at - start + 1} of the line (0x{content[at]:02x}) is not UTF-8. Save the file as UTF-8."
    )


def json_value(content: bytes, *, name: str, should_be: str) -> Any:
    """What the content of a file holds. `should_be`: what is expected, for the message.
    Raises RunFailure: `DatasetInvalid`, naming line and place in it."""
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise invalid(f"{name}, line {error.lineno}, column {error.colno}: {error.msg}. {should_be}") from error
    except UnicodeDecodeError as error:
        raise not_utf8(error, name=name) from error
    except RecursionError as error:
        raise invalid(f"{name}: nested too deeply") from error
