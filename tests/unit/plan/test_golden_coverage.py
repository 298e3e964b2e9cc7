"""No member of a union is without a golden file: its way into a manifest was looked at by somebody."""

from collections.abc import Iterator
from typing import Any

import pytest
from benchrun.api.crd import RUN, Schema
from unit.plan.cases import CASES


def unions_of(schema: Schema, path: str = "spec") -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every place with a rule of this kind, and its members."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if rule["message"].startswith("must set exactly one of "):
            listed = rule["message"].removeprefix("must set exactly one of ").replace(" and ", ", ")
            yield path, tuple(listed.split(", "))
    for name, child in schema.get("properties", {}).items():
        yield from unions_of(child, f"{path}.{name}")
    if "items" in schema:
        yield from unions_of(schema["items"], f"{path}[]")


def fields_of(value: Any, path: str = "spec") -> Iterator[str]:
    """Every field that is set."""
    if isinstance(value, list):
        for entry in value:
            yield from fields_of(entry, f"{path}[]")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield f"{path}.{name}"
            yield from fields_of(inner, f"{path}.{name}")


SET = {field for body in CASES.values() for field in fields_of(body)}
FILES = {field.rpartition(".file.")[2] for field in SET if ".file." in field}
"""A file is the same thing wherever it is read from; so are variables of a server and of an engine. A price is
in no manifest."""
UNIONS = [
    pytest.param(path, members, id=path)
    for path, members in unions_of(RUN.spec_schema())
    if not path.endswith((".cost", ".file", ".conversation", ".offline.env[]"))
]


@pytest.mark.parametrize(("path", "members"), UNIONS)
def test_every_member_is_in_a_golden_file(path: str, members: tuple[str, ...]) -> None:
    assert [member for member in members if f"{path}.{member}" not in SET] == []


def test_every_place_of_a_file_is_in_a_golden_file() -> None:
    (places,) = {members for path, members in unions_of(RUN.spec_schema()) if path.endswith(".file")}
    assert [place for place in places if place not in FILES] == []
