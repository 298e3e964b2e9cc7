"""The CustomResourceDefinition keeps Kubernetes' conventions: everything described, bounded, and without floats in the spec."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchrun.api import MUTABLE_FIELDS
from benchrun.api.schema.crd import RUN
from benchrun.api.schema.structural import Schema
from benchrun.names import MAX_RUN_NAME, SERVING_ROLES, child_name

Field = tuple[str, Schema]
TREES = [pytest.param(RUN.spec_schema(), id="spec"), pytest.param(RUN.status_schema(), id="status")]


def nodes(schema: Schema, path: str = "") -> Iterator[Field]:
    """Every schema in the tree, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def fields(schema: Schema) -> Iterator[Field]:
    """Every field: what has a name of its own."""
    return ((path, node) for path, node in nodes(schema) if not path.endswith(("[]", "{}")))


@pytest.mark.parametrize("tree", TREES)
def test_every_field_is_described_by_whole_sentences(tree: Schema) -> None:
    assert [path for path, node in fields(tree) if not node.get("description", "").endswith(".")] == []


@pytest.mark.parametrize("tree", TREES)
def test_every_list_is_bounded_and_says_how_it_merges(tree: Schema) -> None:
    lists = [(path, node) for path, node in nodes(tree) if node.get("type") == "array"]
    assert lists
    assert [path for path, node in lists if "maxItems" not in node or "x-kubernetes-list-type" not in node] == []


@pytest.mark.parametrize("tree", TREES)
def test_every_key_of_a_list_map_is_required(tree: Schema) -> None:
    maps = [(path, node) for path, node in nodes(tree) if node.get("x-kubernetes-list-type") == "map"]
    assert maps
    keys = [(path, key, node["items"]["required"]) for path, node in maps for key in node["x-kubernetes-list-map-keys"]]
    assert [path for path, key, required in keys if key not in required] == []


@pytest.mark.parametrize("tree", TREES)
def test_every_string_is_bounded(tree: Schema) -> None:
    strings = [(path, node) for path, node in nodes(tree) if node.get("type") == "string"]
    assert strings
    assert [path for path, node in strings if "maxLength" not in node and "enum" not in node] == []


@pytest.mark.parametrize("tree", TREES)
def test_every_map_is_bounded(tree: Schema) -> None:
    maps = [(path, node) for path, node in nodes(tree) if "additionalProperties" in node]
    assert maps
    assert [path for path, node in maps if "maxProperties" not in node] == []


def test_every_integer_of_the_spec_is_bounded() -> None:
    integers = [(path, node) for path, node in nodes(RUN.spec_schema()) if node.get("type") == "integer"]
    assert integers
    assert [path for path, node in integers if "minimum" not in node or "maximum" not in node] == []


def test_the_spec_holds_no_floats_and_no_objects_of_unknown_shape() -> None:
    assert [path for path, node in nodes(RUN.spec_schema()) if node.get("type") == "number"] == []
    shapeless = [
        p
        for p, n in nodes(RUN.spec_schema())
        if n.get("type") == "object" and "x-kubernetes-preserve-unknown-fields" in n
    ]
    assert shapeless == []


def test_enums_are_camel_case() -> None:
    values = [value for _, node in nodes(RUN.spec_schema()) for value in node.get("enum", ())]
    assert values
    assert [value for value in values if not value[0].isupper() or "_" in value or "-" in value] == []


def test_everything_but_the_mutable_fields_has_a_rule_against_change() -> None:
    schema = RUN.spec_schema()
    frozen = [rule["fieldPath"] for rule in schema["x-kubernetes-validations"] if "is immutable" in rule["message"]]
    assert sorted(frozen) == sorted(f".{name}" for name in schema["properties"] if name not in MUTABLE_FIELDS)
    assert set(MUTABLE_FIELDS) <= set(schema["properties"])


def test_status_has_one_default_which_says_that_nobody_looked_yet() -> None:
    assert [(path, node["default"]) for path, node in nodes(RUN.status_schema()) if "default" in node] == [
        ("", {"observedGeneration": -1})
    ]


def test_columns_read_fields_that_exist() -> None:
    known = {path for path, _ in nodes(RUN.root_schema())}
    paths = [column["jsonPath"].replace("[0]", "[]") for column in RUN.printer_columns() if column["name"] != "Age"]
    assert [path for path in paths if path not in known] == []


def test_the_longest_name_leaves_room_for_its_service() -> None:
    name = RUN.root_schema()["properties"]["metadata"]["properties"]["name"]
    assert name["maxLength"] == MAX_RUN_NAME
    assert max(len(child_name("r" * MAX_RUN_NAME, "uid", role)) for role in SERVING_ROLES) <= 63


def test_one_version_with_a_status_of_its_own() -> None:
    definition = RUN.manifest()
    [version] = definition["spec"]["versions"]
    assert definition["metadata"]["name"] == "benchmarkruns.benchrun.dev"
    assert version["subresources"] == {"status": {}}
    assert (version["served"], version["storage"]) == (True, True)
    assert definition["spec"]["names"]["shortNames"] == ["bmr"]
