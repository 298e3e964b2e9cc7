"""Every object of a run, field by field, as reviewed. An unplanned field, a lost one or another order of stages shows here.

After a wanted change: `UPDATE_GOLDEN=1 pytest tests/unit/plan/test_golden_manifests.py`, then read the diff. Such a run fails,
so that it can't be the one that is trusted.
"""

import json
import os
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import Arrival, Manifest, TimelinePart, stage_config_map, timeline_config_map
from benchrun_client.contract import PLAN_FILE
from unit.plan.cases import CASES, ENDPOINT_ADDRESSES
from unit.plan.objects import objects
from unit.plan.specs import OWNER

GOLDEN = Path(__file__).parent / "golden"
OLDEST_WITH_ALL_FIELDS = "1.33"


def stage(sequence: int, *, ends_search: str | None) -> Arrival:
    """A record as it came."""
    return Arrival(sequence, f"chat/rate=1/r{sequence}", "p" * 64, "d" * 64, b"record", ends_search)


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
    """The plan, one line of JSON in the object, is unfolded: canonical JSON says no more and no less than what it parses to."""
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
    assert list(yaml.safe_load_all(file.read_text())) == shown


def of_known_kinds(manifest: Manifest) -> list[Manifest]:
    """A LeaderWorkerSet is no kind of Kubernetes' own; its pods are, and the rest is held against the real one elsewhere."""
    if manifest["kind"] != "LeaderWorkerSet":
        return [manifest]
    group = manifest["spec"]["leaderWorkerTemplate"]
    return [{"apiVersion": "v1", "kind": "Pod", **group[pod]} for pod in ("leaderTemplate", "workerTemplate")]


@pytest.mark.parametrize("version", [OLDEST_WITH_ALL_FIELDS, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("case", [*CASES, "stored"])
def test_objects_fit_the_schema_of_their_kind(case: str, version: str) -> None:
    manifests = [each for manifest in planned(case) for each in of_known_kinds(manifest)]
    assert len([kubernetes_validate.validate(m, version, strict=True) for m in manifests]) == len(manifests)


def test_every_golden_file_has_its_case() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == {*CASES, "stored"}
