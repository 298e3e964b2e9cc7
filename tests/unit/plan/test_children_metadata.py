"""Every child says whose it is, and what it was made from."""

import copy

from benchrun.plan import Manifest, stamped
from unit.plan.objects import objects, of_kind
from unit.plan.specs import OWNER, UID, spec

APPLIED = "benchrun.dev/applied-hash"


def hash_of(manifest: Manifest) -> str:
    return str(manifest["metadata"]["annotations"][APPLIED])


def test_every_child_has_the_run_as_its_controller() -> None:
    controllers = [
        [(r["kind"], r["uid"]) for r in m["metadata"]["ownerReferences"] if r["controller"]]
        for m in objects(OWNER, spec())
    ]
    assert controllers == [[("BenchmarkRun", UID)]] * 4


def test_selectors_meet_their_pods_and_only_theirs() -> None:
    manifests = objects(OWNER, spec())
    deployment, service, job = (of_kind(manifests, kind) for kind in ("Deployment", "Service", "Job"))
    pods = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == pods
    assert job["spec"]["template"]["metadata"]["labels"] != pods


def test_a_child_names_the_hash_of_itself() -> None:
    bare = {"kind": "ConfigMap", "metadata": {"name": "a", "annotations": {"kept": "yes"}}, "data": {"k": "v"}}
    before = copy.deepcopy(bare)
    found = stamped(bare)
    assert bare == before
    assert found["metadata"]["annotations"]["kept"] == "yes"
    assert hash_of(found) == hash_of(stamped(bare)) != hash_of(stamped(bare | {"data": {"k": "w"}}))


def test_planning_twice_gives_equal_objects() -> None:
    assert objects(OWNER, spec()) == objects(OWNER, spec())
