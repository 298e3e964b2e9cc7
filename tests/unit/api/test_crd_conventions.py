"""The CustomResourceDefinitions keep Kubernetes' conventions: everything described, bounded, and
without floats in the spec."""

import re
from collections.abc import Iterator

import pytest
from benchrun.api.crd import RUN, SWEEP, Definition, Schema
from benchrun.api.sweep import MAX_NAME, MAX_REPLICATIONS, MAX_VARIANTS
from benchrun.names import MAX_RUN_NAME, SERVING_ROLES, child_name
from benchrun.plan import PlannedRun, attempts, planned_variants, run_name
from unit.sweep.sweeps import sweep_spec

Field = tuple[str, Schema]
KINDS = pytest.mark.parametrize("kind", [RUN, SWEEP], ids=lambda kind: kind.noun)
TREES = pytest.mark.parametrize(
    "tree",
    [
        pytest.param(tree(), id=f"{kind.noun}-{name}")
        for kind in (RUN, SWEEP)
        for name, tree in (
            ("spec", kind.spec_schema),
            ("status", kind.status_schema),
        )
    ],
)


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
    """Every field: all but entries of lists and values of maps."""
    return (
        (path, node)
        for path, node in nodes(schema)
        if not path.endswith(("[]", "{}"))
    )


@TREES
def test_every_field_is_described_by_whole_sentences(tree: Schema) -> None:
    assert [
        path
        for path, node in fields(tree)
        if not node.get("description", "").endswith(".")
    ] == []


@TREES
def test_every_list_string_and_map_is_bounded_and_lists_say_how_they_merge(
    tree: Schema,
) -> None:
    lists = [
        (path, node) for path, node in nodes(tree) if node.get("type") == "array"
    ]
    strings = [
        (path, node) for path, node in nodes(tree) if node.get("type") == "string"
    ]
    maps = [
        (path, node) for path, node in nodes(tree) if "additionalProperties" in node
    ]
    assert lists
    assert strings
    assert maps
    assert [
        path
        for path, node in lists
        if "maxItems" not in node or "x-kubernetes-list-type" not in node
    ] == []
    assert [
        path
        for path, node in strings
        if "maxLength" not in node and "enum" not in node
    ] == []
    assert [path for path, node in maps if "maxProperties" not in node] == []


BOUNDS = {
    "string": {"minLength", "maxLength", "pattern"},
    "array": {"minItems", "maxItems"},
    "object": {"minProperties", "maxProperties"},
}


@TREES
def test_a_bound_is_one_of_its_type(tree: Schema) -> None:
    """The API server ignores all others: an object has no length. Quantities have no type."""
    every = set().union(*BOUNDS.values())
    assert [
        path
        for path, node in nodes(tree)
        if (every & node.keys()) - BOUNDS.get(node.get("type", "string"), set())
    ] == []


@TREES
def test_every_key_of_a_list_map_is_required(tree: Schema) -> None:
    maps = [
        (path, node)
        for path, node in nodes(tree)
        if node.get("x-kubernetes-list-type") == "map"
    ]
    assert maps
    keys = [
        (path, key, node["items"]["required"])
        for path, node in maps
        for key in node["x-kubernetes-list-map-keys"]
    ]
    assert [path for path, key, required in keys if key not in required] == []


@KINDS
def test_numbers_of_the_spec_are_bounded_integers_and_objects_have_known_fields(
    kind: Definition,
) -> None:
    spec = list(nodes(kind.spec_schema()))
    integers = [
        (path, node) for path, node in spec if node.get("type") == "integer"
    ]
    assert integers
    assert [
        path
        for path, node in integers
        if "minimum" not in node or "maximum" not in node
    ] == []
    assert [path for path, node in spec if node.get("type") == "number"] == []
    objects = [(path, node) for path, node in spec if node.get("type") == "object"]
    assert [
        path
        for path, node in objects
        if "x-kubernetes-preserve-unknown-fields" in node
    ] == []


@KINDS
def test_enums_are_camel_case(kind: Definition) -> None:
    values = [
        value
        for _, node in nodes(kind.spec_schema())
        for value in node.get("enum", ())
    ]
    assert values
    # others are versions
    names = [value for value in values if not value[0].isdigit()]
    assert [
        value
        for value in names
        if not value[0].isupper() or "_" in value or "-" in value
    ] == []


@KINDS
def test_everything_but_the_mutable_fields_has_a_rule_against_change(
    kind: Definition,
) -> None:
    schema = kind.spec_schema()
    frozen = [
        rule["fieldPath"]
        for rule in schema["x-kubernetes-validations"]
        if "is immutable" in rule["message"]
    ]
    assert sorted(frozen) == sorted(
        f".{name}"
        for name in schema["properties"]
        if name not in kind.mutable_fields
    )
    assert set(kind.mutable_fields) <= set(schema["properties"])


@KINDS
def test_status_has_one_default_for_an_object_that_no_operator_has_seen(
    kind: Definition,
) -> None:
    defaults = [
        (path, node["default"])
        for path, node in nodes(kind.status_schema())
        if "default" in node
    ]
    assert defaults == [("", {"observedGeneration": -1})]


@KINDS
def test_columns_read_fields_that_exist(kind: Definition) -> None:
    known = {path for path, _ in nodes(kind.root_schema())}
    paths = [
        re.sub(r"\[[^]]*\]", "[]", column["jsonPath"])
        for column in kind.printer_columns()
        if column["name"] != "Age"
    ]
    assert [path for path in paths if path not in known] == []


@KINDS
def test_selectable_fields_are_single_texts_of_the_status(kind: Definition) -> None:
    """The API server takes no definition that selects by anything else."""
    known = dict(nodes(kind.root_schema()))
    [version] = kind.manifest()["spec"]["versions"]
    paths = [each["jsonPath"] for each in version["selectableFields"]]
    assert paths == [".status.phase", ".status.verdict"]
    assert {known[path]["type"] for path in paths} == {"string"}


@pytest.mark.parametrize(
    ("kind", "name", "short_name", "longest_name"),
    [
        (RUN, "benchmarkruns.benchrun.dev", "bmr", MAX_RUN_NAME),
        (SWEEP, "benchmarksweeps.benchrun.dev", "bms", MAX_NAME),
    ],
)
def test_one_version_with_a_status_subresource(
    kind: Definition, name: str, short_name: str, longest_name: int
) -> None:
    definition = kind.manifest()
    [version] = definition["spec"]["versions"]
    assert definition["metadata"]["name"] == name
    assert (version["subresources"], version["served"], version["storage"]) == (
        {"status": {}},
        True,
        True,
    )
    assert definition["spec"]["names"]["shortNames"] == [short_name]
    assert (
        kind.root_schema()["properties"]["metadata"]["properties"]["name"][
            "maxLength"
        ]
        == longest_name
    )


def test_the_longest_name_leaves_room_for_services_and_runs() -> None:
    assert (
        max(
            len(child_name("r" * MAX_RUN_NAME, "uid", role))
            for role in SERVING_ROLES
        )
        <= 63
    )
    longest = PlannedRun(
        run_name("s" * MAX_NAME, MAX_VARIANTS, MAX_REPLICATIONS),
        planned_variants(sweep_spec())[0],
        1,
    )
    assert max(len(attempt.name) for attempt in attempts(longest)) == MAX_RUN_NAME
