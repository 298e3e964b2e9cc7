"""The Workload of a run: exactly the pods that the run will have, and what flavours add to them."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, FlavorToleration, Placement
from benchrun.child_kinds import KINDS, WORKLOAD
from benchrun.plan import Manifest
from benchrun.plan.queued_workload import placed, workload_manifest
from unit.plan.objects import objects
from unit.plan.specs import OWNER, endpoint_body, spec_body

SELECTED = {"pool": "gpus"}
TOLERATED = [{"key": "gpu", "operator": "Exists"}]
PLACED = {"nodeSelector": SELECTED, "tolerations": TOLERATED}
GPU = {"limits": {"nvidia.com/gpu": 2}}
SPECS = {
    "server": spec_body(
        server={
            "image": "vllm/vllm-openai:v0.32.0",
            "replicas": 3,
            "resources": GPU,
            "pod": PLACED,
        }
    ),
    "group": spec_body(
        server={
            "image": "vllm/vllm-openai:v0.32.0",
            "replicas": 2,
            "nodesPerReplica": 4,
            "args": ["--tensor-parallel-size=8"],
            "resources": GPU,
            "pod": PLACED,
        }
    ),
    "endpoint": endpoint_body({"url": "http://llm.example"}),
}
COUNTS = {
    "server": {"client": 1, "server": 3},
    "group": {"client": 1, "server": 8},
    "endpoint": {"client": 1},
}


def makers(which: str) -> list[Manifest]:
    spec = BenchmarkRunSpec.model_validate(SPECS[which])
    return [m for m in objects(OWNER, spec) if KINDS[m["kind"]].has_pods]


def templates(maker: Manifest) -> list[dict[str, Any]]:
    group = maker["spec"].get("leaderWorkerTemplate")
    if group is None:
        return [maker["spec"]["template"]["spec"]]
    return [group[part]["spec"] for part in ("leaderTemplate", "workerTemplate")]


def asked(which: str) -> Manifest:
    return workload_manifest(
        OWNER, queue="gpus", attempt=7, makers=makers(which), noted={"a": "b"}
    )


@pytest.mark.parametrize("which", SPECS)
def test_a_workload_counts_every_pod_of_the_run(which: str) -> None:
    made = asked(which)
    assert {p["name"]: p["count"] for p in made["spec"]["podSets"]} == COUNTS[which]


@pytest.mark.parametrize("which", SPECS)
def test_a_workload_asks_for_what_the_pods_have(which: str) -> None:
    by_role = {
        m["metadata"]["labels"]["benchrun.dev/role"]: m for m in makers(which)
    }
    for pods in asked(which)["spec"]["podSets"]:
        counted = pods["template"]["spec"]
        for real in templates(by_role[pods["name"]]):
            for field in ("nodeSelector", "tolerations", "priorityClassName"):
                assert counted.get(field) == real.get(field)
            for kind in ("containers", "initContainers"):
                assert [c["resources"] for c in counted.get(kind, [])] == [
                    c["resources"] for c in real.get(kind, [])
                ]


def test_a_workload_holds_no_variables_and_no_volumes() -> None:
    (_, server) = asked("server")["spec"]["podSets"]
    (container,) = server["template"]["spec"]["containers"]
    assert set(container) <= {"name", "image", "resources", "restartPolicy"}
    assert "volumes" not in server["template"]["spec"]


def test_a_workload_is_the_runs() -> None:
    made = asked("server")
    assert (made["apiVersion"], made["kind"]) == (
        "kueue.x-k8s.io/v1beta1",
        WORKLOAD,
    )
    assert made["spec"]["priority"] == 0
    about = made["metadata"]
    assert about["name"].endswith("-queue-7")
    assert about["ownerReferences"][0]["uid"] == OWNER.uid
    assert about["labels"]["benchrun.dev/run-uid"] == OWNER.uid
    assert about["annotations"] == {"a": "b"}


@pytest.mark.parametrize("which", ["server", "group"])
def test_a_flavour_is_on_every_pod_of_its_role_and_the_pods_own_win(
    which: str,
) -> None:
    given = Placement(
        role="server",
        node_selector={"pool": "others", "gpu": "H200"},
        tolerations=[
            FlavorToleration(key="gpu", operator="Exists"),
            FlavorToleration(key="spot", effect="NoSchedule"),
        ],
    )
    before = makers(which)
    for maker in before:
        is_server = maker["metadata"]["labels"]["benchrun.dev/role"] == "server"
        after = placed(maker, [given])
        assert (after == maker) is not is_server
        for pod in templates(after) if is_server else []:
            assert pod["nodeSelector"] == {"pool": "gpus", "gpu": "H200"}
            assert pod["tolerations"] == [
                *TOLERATED,
                {"key": "spot", "effect": "NoSchedule"},
            ]
    assert before == makers(which)
