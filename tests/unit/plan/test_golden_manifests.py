"""Every object of a run, field by field, as reviewed. An unplanned field, a lost one or another
order of stages shows here.

After a wanted change: `UPDATE_GOLDEN=1 pytest tests/unit/plan/test_golden_manifests.py`, then read
the diff. Such a run fails, so that it can't be the one that is trusted."""

import json
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from benchrun.api import BenchmarkRunSpec
from benchrun.api.crd import Schema
from benchrun.plan import (
    Manifest,
    TimelinePart,
    stage_config_map,
    timeline_config_map,
)
from benchrun_client.contract import PLAN_FILE, Sealed
from kit.every_case import every
from kubernetes_validate import utils
from unit.api.schemas import RUN_SPEC
from unit.measure.records import sealed_bytes
from unit.plan.cases import CASES, ENDPOINT_ADDRESSES
from unit.plan.objects import objects
from unit.plan.specs import OWNER

GOLDEN = Path(__file__).parent / "golden"
OLDEST_WITH_ALL_FIELDS = "1.33"


def stage(sequence: int, *, ends_search: str | None) -> Sealed:
    """A record as it came."""
    return sealed_bytes(sequence, b"record", ends_search=ends_search)


def planned(case: str) -> list[Manifest]:
    if case == "stored":
        timeline = TimelinePart(b"timeline", through=1767225670.5)
        return [
            stage_config_map(OWNER, stage(7, ends_search=None), timeline=timeline),
            stage_config_map(OWNER, stage(8, ends_search="chat"), timeline=None),
            timeline_config_map(OWNER, chunk=2, timeline=timeline),
        ]
    spec = BenchmarkRunSpec.model_validate(CASES[case])
    return objects(OWNER, spec, endpoint_addresses=ENDPOINT_ADDRESSES.get(case, ()))


def readable(manifest: Manifest) -> Manifest:
    """The plan, one line of JSON in the object, is unfolded: canonical JSON says no more and no
    less than what it parses to."""
    shown: Manifest = json.loads(json.dumps(manifest))
    if PLAN_FILE in shown.get("data", {}):
        shown["data"][PLAN_FILE] = json.loads(shown["data"][PLAN_FILE])
    return shown


@pytest.mark.parametrize("case", [*CASES, "stored"])
def test_objects_are_those_that_were_reviewed(case: str) -> None:
    shown = [readable(m) for m in planned(case)]
    file = GOLDEN / f"{case}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(yaml.safe_dump_all(shown, sort_keys=False, width=120))
        pytest.fail(f"{file.name} was written anew; read its diff")
    assert list(yaml.load_all(file.read_text(), yaml.CSafeLoader)) == shown


def of_known_kinds(manifest: Manifest) -> list[Manifest]:
    """A LeaderWorkerSet is no kind of Kubernetes' own; its pods are, and the rest is held against
    the real one elsewhere."""
    if manifest["kind"] != "LeaderWorkerSet":
        return [manifest]
    group = manifest["spec"]["leaderWorkerTemplate"]
    return [
        {"apiVersion": "v1", "kind": "Pod", **group[pod]}
        for pod in ("leaderTemplate", "workerTemplate")
    ]


@pytest.fixture(scope="module", autouse=True)
def schemas_are_read_once() -> Iterator[None]:
    """The schemas of a release are megabytes, which every validation would parse anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "schema_contents", lru_cache(utils.schema_contents))
        yield


@every("version", [OLDEST_WITH_ALL_FIELDS, kubernetes_validate.latest_version()])
@every("case", [*CASES, "stored"])
def test_objects_fit_the_schema_of_their_kind(case: str, version: str) -> None:
    manifests = [
        each for manifest in planned(case) for each in of_known_kinds(manifest)
    ]
    assert len(
        [kubernetes_validate.validate(m, version, strict=True) for m in manifests]
    ) == len(manifests)


def test_every_golden_file_has_its_case() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == {*CASES, "stored"}


# No member of a union is without a golden file: its way into a manifest was looked at by somebody.


def unions_of(
    schema: Schema, path: str = "spec"
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every place with a rule of this kind, and its members."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if rule["message"].startswith("must set exactly one of "):
            listed = (
                rule["message"]
                .removeprefix("must set exactly one of ")
                .replace(" and ", ", ")
            )
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
"""A file is the same thing wherever it is read from; so are variables of a server and of an engine.
A price is in no manifest, nor is a rule of one's own."""
UNIONS = [
    pytest.param(path, members, id=path)
    for path, members in unions_of(RUN_SPEC)
    if not path.endswith(
        (".cost", ".rules[]", ".file", ".conversation", ".offline.env[]")
    )
]


@pytest.mark.parametrize(("path", "members"), UNIONS)
def test_every_member_is_in_a_golden_file(
    path: str, members: tuple[str, ...]
) -> None:
    assert [member for member in members if f"{path}.{member}" not in SET] == []


def test_every_place_of_a_file_is_in_a_golden_file() -> None:
    (places,) = {
        members for path, members in unions_of(RUN_SPEC) if path.endswith(".file")
    }
    assert [place for place in places if place not in FILES] == []
