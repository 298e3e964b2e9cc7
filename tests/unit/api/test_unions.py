"""Unions of named members: exactly one, and whoever sets none or two is told which there are, by
operator and API server alike."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.api.crd import Schema
from kit.every_case import every
from unit.api.agreement import broken_in_cel, broken_in_python
from unit.api.dataset_cases import FILE
from unit.api.schemas import RUN_SPEC
from unit.api.spec_cases import absent, minimal

Members = dict[str, Any]
_IMAGE: Members = {"image": "vllm:1"}
_TEXTS: Members = {"file": FILE, "column": "c"}
_HUB: Members = {
    "repository": "openai/gsm8k",
    "column": "question",
    "outputTokens": 9,
}
_MIXABLE: Members = {
    "random": {},
    "prefixRepetition": {},
    "agent": {"staticPrefix": {}},
    "shareGPT": {"file": FILE},
    "custom": {"file": FILE},
    "texts": _TEXTS,
    "huggingFace": _HUB,
}
_WORKLOAD = "workloads.0"
UNIONS: dict[str, tuple[str, str, Members]] = {
    "source of the model": (
        "model.source",
        "hub, pvc, imageVolume and path",
        {
            "hub": {},
            "pvc": {"claimName": "c"},
            "imageVolume": {"reference": "r"},
            "path": {"path": "/m"},
        },
    ),
    "dataset": (
        f"{_WORKLOAD}.dataset",
        "random, prefixRepetition, agent, shareGPT, custom, texts, huggingFace, timedTrace, "
        "sessions and mix",
        {
            **_MIXABLE,
            "timedTrace": {"file": FILE},
            "sessions": {"file": FILE, "format": "Turns"},
            "mix": [{"workload": "a"}, {"workload": "b"}],
        },
    ),
    "file": (
        f"{_WORKLOAD}.dataset.custom.file",
        "configMap, pvc, url, s3 and path",
        {
            "configMap": {"name": "c", "key": "k"},
            "pvc": {"claimName": "c", "path": "p"},
            "url": "http://d/x",
            "s3": {"bucket": "data", "key": "k"},
            "path": "/x",
        },
    ),
    "prefix of an agent": (
        f"{_WORKLOAD}.dataset.agent",
        "staticPrefix and dynamicPrefix",
        {"staticPrefix": {}, "dynamicPrefix": {}},
    ),
    "chat template": (
        "chatTemplate",
        "inline and configMap",
        {"inline": "{{ messages }}", "configMap": {"name": "t", "key": "k"}},
    ),
    "warm-up": ("measurement.warmup", "auto and none", {"auto": {}, "none": {}}),
}
FIELD_OF = {
    name: "spec." + place.replace("workloads.0", "workloads[0]")
    for name, (place, _, _) in UNIONS.items()
}


def spec(place: str, members: Members) -> dict[str, Any]:
    """A spec with these members at that place, and nothing else there."""
    body = minimal(
        {f"{_WORKLOAD}.dataset": {}, place: members}
        if "dataset." in place
        else {place: members}
    )
    (first,) = body["workloads"]
    others = [{**first, "name": n, "dataset": {"random": {}}} for n in "ab"]
    # Sessions and a load of them need each other.
    own = {"load": {"sessions": [4]}} if "sessions" in members else {}
    return body | {"workloads": [{**first, **own}, *others]}


def counted(how_many: int) -> Iterator[Any]:
    for name, (place, listed, members) in UNIONS.items():
        for chosen in combinations(members, how_many):
            yield pytest.param(
                name,
                place,
                listed,
                {m: members[m] for m in chosen},
                id=f"{name}: {' and '.join(chosen)}",
            )


@every(("name", "place", "listed", "members"), [*counted(1)])
def test_a_union_with_one_member_is_accepted(
    name: str, place: str, listed: str, members: Members
) -> None:
    body = spec(place, members)
    assert broken_in_python(BenchmarkRunSpec, body) == (set(), False)
    assert broken_in_cel(body, RUN_SPEC) == set()


@every(("name", "place", "listed", "members"), [*counted(0), *counted(2)])
def test_none_or_two_are_rejected_at_the_field_by_a_list_of_all(
    name: str, place: str, listed: str, members: Members
) -> None:
    body = spec(place, members)
    problems = {(FIELD_OF[name], f"must set exactly one of {listed}")}
    assert broken_in_python(BenchmarkRunSpec, body) == (problems, False)
    assert broken_in_cel(body, RUN_SPEC) == problems


@pytest.mark.parametrize(
    "targets",
    [(), ("server", "endpoint"), ("offline", "endpoint"), ("server", "offline")],
)
def test_what_is_measured_is_one_thing(targets: tuple[str, ...]) -> None:
    values: Members = {
        "server": _IMAGE,
        "endpoint": {"url": "http://llm"},
        "offline": _IMAGE,
    }
    load = {"requestRates": ["inf"]}
    body = minimal({"server": absent(), f"{_WORKLOAD}.load": load}) | {
        target: values[target] for target in targets
    }
    problems = {("spec", "must set exactly one of server, endpoint and offline")}
    assert broken_in_python(BenchmarkRunSpec, body) == (problems, False)
    assert broken_in_cel(body, RUN_SPEC) == problems


def unions_of(schema: Schema, path: str = "spec") -> Iterator[str]:
    """Every place in the schema with a rule of this kind."""
    if any(
        rule["message"].startswith("must set exactly one of")
        for rule in schema.get("x-kubernetes-validations", ())
    ):
        yield path
    for name, child in schema.get("properties", {}).items():
        yield from unions_of(child, f"{path}.{name}")
    if "items" in schema:
        yield from unions_of(schema["items"], f"{path}[0]")


def test_no_union_is_forgotten_here_and_in_the_table_of_specs() -> None:
    elsewhere = {
        "spec",
        "spec.cost",
        "spec.endpoint",
        "spec.endpoint.headers[0]",
        "spec.endpoint.metrics",
        "spec.server.env[0]",
        "spec.offline.env[0]",
        "spec.client.env[0]",
        "spec.validity.rules[0]",
        "spec.workloads[0]",
        "spec.workloads[0].load",
    }
    found = {
        place
        for place in unions_of(RUN_SPEC)
        if not place.endswith((".file", ".conversation"))
    }
    assert found == elsewhere | set(FIELD_OF.values()) - {FIELD_OF["file"]}
