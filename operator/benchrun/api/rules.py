"""Rules that a type alone can't say, each told twice, side by side: in CEL for the API server, in Python for the operator.

The operator checks again because an object may be older than the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from benchrun.api.casing import json_name

T = TypeVar("T")
VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule about a value: listed in a model's `rules`, or put into a field's `Annotated` type."""

    cel: str
    """True where the rule is kept; `self` is the value."""
    holds: Callable[[Any], bool]
    """The same in Python."""
    message: str
    cel_message: str | None = None
    """CEL that makes a message with figures in it; `message` is used where that fails."""
    python_message: Callable[[Any], str] | None = None
    """The same in Python."""
    path: str | None = None
    """Field below the value that the API server shall name."""

    def check(self, value: T) -> T:
        """The value, if it keeps the rule. Raises PydanticCustomError with the message if not."""
        if self.holds(value):
            return value
        text = self.python_message(value) if self.python_message else self.message
        raise PydanticCustomError("rule", "{text}", {"text": text, "path": self.path or ""})

    def entry(self) -> dict[str, str]:
        """The rule as one entry of `x-kubernetes-validations`."""
        entry = {"rule": self.cel, "message": self.message}
        if self.cel_message is not None:
            entry["messageExpression"] = self.cel_message
        if self.path is not None:
            entry["fieldPath"] = self.path
        return entry

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        json_schema = handler(schema)
        json_schema[VALIDATIONS] = [*json_schema.get(VALIDATIONS, ()), self.entry()]
        return json_schema


def exactly_one(*names: str) -> Rule:
    """A union of named members, of which exactly one is set. Takes Python names."""
    members = [json_name(name) for name in names]
    if len(members) == 2:
        cel = f"has(self.{members[0]}) != has(self.{members[1]})"
    else:
        cel = f"[{', '.join(f'has(self.{member})' for member in members)}].filter(x, x).size() == 1"
    return Rule(
        cel=cel,
        holds=lambda value: sum(getattr(value, name) is not None for name in names) == 1,
        message=f"must set exactly one of {', '.join(members[:-1])} and {members[-1]}",
    )


@dataclass(frozen=True, slots=True)
class Unique:
    """A list without duplicates: of equal entries, or of entries with the same value of the field `key`."""

    key: str | None = None

    def check(self, entries: list[T]) -> list[T]:
        """The list, if nothing is in it twice. Raises PydanticCustomError if something is."""
        values = entries if self.key is None else [getattr(entry, self.key) for entry in entries]
        if len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise PydanticCustomError("duplicate", "{twice} is listed twice", {"twice": repr(twice)})
        return entries

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | (SET if self.key is None else list_map(self.key))


ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
"""A list that is applied as a whole."""
SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}
"""A list without duplicates, whose entries may have different owners."""


def list_map(key: str) -> dict[str, Any]:
    """A list whose entries are told apart by one of their fields, and may have different owners."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [json_name(key)]}
