"""What an export consists of before anybody writes it down."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

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
