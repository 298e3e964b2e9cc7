"""The definition of sweeps keeps the conventions that that of runs keeps."""

from __future__ import annotations

import pytest
from benchrun.api.schema.crd import SWEEP
from benchrun.api.schema.structural import Schema
from benchrun.api.sweep.spec import MAX_NAME, MAX_REPLICATIONS, MAX_VARIANTS, MUTABLE_FIELDS
from benchrun.names import MAX_RUN_NAME
from benchrun.plan.variants import PlannedRun, attempts, run_name, variants
from unit.api.test_crd_conventions import fields, nodes
from unit.sweep.sweeps import sweep_spec

TREES = [pytest.param(SWEEP.spec_schema(), id="spec"), pytest.param(SWEEP.status_schema(), id="status")]


@pytest.mark.parametrize("tree", TREES)
def test_every_field_is_described_and_bounded(tree: Schema) -> None:
    assert [path for path, node in fields(tree) if not node.get("description", "").endswith(".")] == []
    lists = [(path, node) for path, node in nodes(tree) if node.get("type") == "array"]
    assert [path for path, node in lists if "maxItems" not in node or "x-kubernetes-list-type" not in node] == []
    strings = [(path, node) for path, node in nodes(tree) if node.get("type") == "string"]
    assert [path for path, node in strings if "maxLength" not in node and "enum" not in node] == []
    maps = [(path, node) for path, node in nodes(tree) if "additionalProperties" in node]
    assert [path for path, node in maps if "maxProperties" not in node] == []


def test_numbers_of_the_spec_are_bounded_integers() -> None:
    found = [(path, node) for path, node in nodes(SWEEP.spec_schema()) if node.get("type") in ("integer", "number")]
    assert [path for path, node in found if node["type"] == "number" or not {"minimum", "maximum"} <= node.keys()] == []


def test_everything_but_the_mutable_fields_has_a_rule_against_change() -> None:
    schema = SWEEP.spec_schema()
    frozen = [rule["fieldPath"] for rule in schema["x-kubernetes-validations"] if "is immutable" in rule["message"]]
    assert sorted(frozen) == sorted(f".{name}" for name in schema["properties"] if name not in MUTABLE_FIELDS)
    assert set(MUTABLE_FIELDS) <= set(schema["properties"])


def test_columns_read_fields_that_exist() -> None:
    known = {path for path, _ in nodes(SWEEP.root_schema())}
    paths = [column["jsonPath"].replace("[0]", "[]") for column in SWEEP.printer_columns() if column["name"] != "Age"]
    assert [path for path in paths if path not in known] == []


def test_one_version_with_a_status_of_its_own() -> None:
    definition = SWEEP.manifest()
    [version] = definition["spec"]["versions"]
    assert definition["metadata"]["name"] == "benchmarksweeps.benchrun.dev"
    assert version["subresources"] == {"status": {}}
    assert definition["spec"]["names"]["shortNames"] == ["bms"]


def test_the_longest_name_leaves_room_for_those_of_its_runs() -> None:
    assert SWEEP.root_schema()["properties"]["metadata"]["properties"]["name"]["maxLength"] == MAX_NAME
    longest = PlannedRun(run_name("s" * MAX_NAME, MAX_VARIANTS, MAX_REPLICATIONS), variants(sweep_spec())[0], 1)
    assert max(len(attempt.name) for attempt in attempts(longest)) == MAX_RUN_NAME
