"""Whether a JSON value fits a column of a ClickHouse table, by the text of its CREATE TABLE."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r"`?(\w+)`?|([(),])")
_INTEGERS = {"UInt8", "UInt16", "UInt32", "UInt64"}


@dataclass(frozen=True)
class Type:
    """`Array(Float32)`, `Tuple(name String, ...)`: fields are named in a Tuple only."""

    name: str
    fields: tuple[tuple[str, Type], ...] = ()


def columns(create_table: str) -> Mapping[str, Type]:
    """The columns of the table and their types."""
    text = re.sub(r"--.*|DEFAULT '[^']*'", "", create_table)
    body = text[text.index("(") : text.index("ENGINE")]
    (_, fields), _ = _parsed(["Tuple", *(a or b for a, b in _TOKEN.findall(body))])
    return dict(fields)


def misfits(value: Any, type_: Type, path: str) -> list[str]:
    """Where the value is none of the type; nothing where it is. Fields may be left out: ClickHouse fills them."""
    match type_.name:
        case "String":
            fits = isinstance(value, str)
        case "Float32":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        case "Array":
            if isinstance(value, list):
                return [m for i, each in enumerate(value) for m in misfits(each, type_.fields[0][1], f"{path}[{i}]")]
            fits = False
        case "Map":
            if isinstance(value, dict):
                return [m for key, each in value.items() for m in misfits(each, type_.fields[1][1], f"{path}.{key}")]
            fits = False
        case "Tuple":
            if isinstance(value, dict):
                return _of_fields(value, dict(type_.fields), path)
            fits = False
        case name:
            fits = name in _INTEGERS and isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return [] if fits else [f"{path}: {value!r} is no {type_.name}"]


def _of_fields(value: Mapping[str, Any], fields: Mapping[str, Type], path: str) -> list[str]:
    strange = [f"{path}.{name}: no such field" for name in value if name not in fields]
    return strange + [
        m for name, each in value.items() if name in fields for m in misfits(each, fields[name], f"{path}.{name}")
    ]


def _parsed(tokens: list[str]) -> tuple[tuple[str, tuple[tuple[str, Type], ...]], list[str]]:
    """A type's name and its fields, and the tokens that follow it."""
    name, rest = tokens[0], tokens[1:]
    if not rest or rest[0] != "(":
        return (name, ()), rest
    fields: list[tuple[str, Type]] = []
    rest = rest[1:]
    while rest[0] != ")":
        field = ""
        if name == "Tuple":
            field, rest = rest[0], rest[1:]
        (inner, of_inner), rest = _parsed(rest)
        fields.append((field, Type(inner, of_inner)))
        if rest[0] == ",":
            rest = rest[1:]
    return (name, tuple(fields)), rest[1:]
