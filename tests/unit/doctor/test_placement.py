"""Pods against nodes: devices, labels, taints, room."""

from typing import Any

import pytest
from benchrun.doctor.asking import ApiAnswer, CheckLine
from benchrun.doctor.placement import (
    AUTOSCALER,
    GROUPS,
    NODES,
    PODS,
    placement_check,
    requests_of,
)
from benchrun.doctor.selecting import holds
from unit.doctor.worlds import SERVER, a_server, a_target, listed, of, read
from unit.plan.specs import Json

GPU = "nvidia.com/gpu"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}


def node(
    name: str = "a",
    *,
    gpus: int = 1,
    labels: Json | None = None,
    taints: tuple[Json, ...] = (),
    ready: str = "True",
    closed: bool = False,
    arch: str = "amd64",
) -> Json:
    allocatable = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    devices = {GPU: str(gpus)} if gpus else {}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints), "unschedulable": closed},
        "status": {
            "allocatable": {**allocatable, **devices},
            "conditions": [{"type": "Ready", "status": ready}],
            "nodeInfo": {"operatingSystem": "linux", "architecture": arch},
        },
    }


def holder(on: str, gpus: int = 1) -> Json:
    container = {"name": "x", "resources": {"limits": {GPU: str(gpus)}}}
    return {"spec": {"nodeName": on, "containers": [container]}}


def placed(
    *nodes: Json,
    pods: ApiAnswer | None = None,
    others: dict[Any, ApiAnswer] | None = None,
    **server: Any,
) -> CheckLine:
    """Return what is said of the server's pod."""
    target = a_target(server=a_server(**server))
    answers = {NODES: listed(*nodes), PODS: pods or listed(), **(others or {})}
    return of(read(placement_check(target), answers), "nodes", SERVER)


def test_a_node_with_room_is_enough() -> None:
    assert placed(node()).state == "Ok"


NO_NODE: dict[str, tuple[dict[str, Any], Json, str]] = {
    "no device": ({}, node(gpus=0), "no node has nvidia.com/gpu"),
    "not ready": ({}, node(ready="Unknown"), "no node is ready"),
    "closed": ({}, node(closed=True), "no node is ready"),
    "taint": (
        {},
        node(taints=(TAINT,)),
        "nvidia.com/gpu=present:NoSchedule",
    ),
    "label": (
        {"pod": {"nodeSelector": {"pool": "gpu"}}},
        node(labels={"pool": "cpu"}),
        "no node has the labels",
    ),
    "too small": (
        {"resources": {"limits": {GPU: 8}}},
        node(gpus=4),
        "nvidia.com/gpu (asks for 8, most 4)",
    ),
    "memory": (
        {"resources": {"limits": {GPU: 1, "memory": "65Gi"}}},
        node(),
        "memory",
    ),
}


@pytest.mark.parametrize(
    ("server", "only", "words"),
    [pytest.param(*case, id=name) for name, case in NO_NODE.items()],
)
def test_a_pod_that_fits_no_node_is_a_problem(
    server: dict[str, Any], only: Json, words: str
) -> None:
    found = placed(only, **server)
    assert (found.state, bool(found.remedy)) == ("Problem", True)
    assert words in found.sentence


@pytest.mark.parametrize(
    "others",
    [
        {GROUPS: ApiAnswer({"groups": [{"name": "karpenter.sh"}]})},
        {AUTOSCALER: ApiAnswer({"kind": "ConfigMap"})},
    ],
)
def test_an_autoscaler_may_bring_the_node(others: dict[Any, ApiAnswer]) -> None:
    assert placed(node(gpus=0), others=others).state == "Warning"


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": GPU, "operator": "Exists"},
        {"operator": "Exists"},
        {"key": GPU, "value": "present", "effect": "NoSchedule"},
    ],
)
def test_a_taint_that_is_tolerated_keeps_nothing_away(toleration: Json) -> None:
    found = placed(node(taints=(TAINT,)), pod={"tolerations": [toleration]})
    assert found.state == "Ok"


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": GPU, "value": "other"},
        {"key": GPU, "operator": "Exists", "effect": "NoExecute"},
        {"key": "other", "operator": "Exists"},
    ],
)
def test_another_toleration_does_not_help(toleration: Json) -> None:
    found = placed(node(taints=(TAINT,)), pod={"tolerations": [toleration]})
    assert found.state == "Problem"


def test_a_taint_that_only_prefers_is_no_matter() -> None:
    taint = {**TAINT, "effect": "PreferNoSchedule"}
    assert placed(node(taints=(taint,))).state == "Ok"


def test_gpus_that_others_hold_are_waited_for() -> None:
    held = listed(holder("a"), holder("b", 2))
    found = placed(node("a"), node("b", gpus=3), pods=held, replicas=2)
    assert found.state == "Warning"
    assert "1 of 2" in found.sentence
    assert placed(node("a"), node("b", gpus=4), pods=held, replicas=2).state == "Ok"


def test_leader_and_workers_of_a_group_do_not_share_a_place() -> None:
    found = placed(node("a", gpus=2), nodesPerReplica=3)
    assert found.state == "Warning"
    assert "2 of 3" in found.sentence
    assert placed(node("a", gpus=2), node("b"), nodesPerReplica=3).state == "Ok"


def affinity(*expressions: Json, field: str = "matchExpressions") -> Json:
    term = {"nodeSelectorTerms": [{field: list(expressions)}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": term}
    return {"affinity": {"nodeAffinity": required}}


def test_an_affinity_chooses_by_labels_and_by_name() -> None:
    wants = {"key": "pool", "operator": "In", "values": ["gpu"]}
    here = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    assert placed(node(labels={"pool": "gpu"}), pod=affinity(wants)).state == "Ok"
    assert placed(node(), pod=affinity(wants)).state == "Problem"
    by_name = affinity(here, field="matchFields")
    assert placed(node("a"), pod=by_name).state == "Ok"
    assert placed(node("b"), pod=by_name).state == "Problem"


def test_a_term_of_an_affinity_without_expressions_chooses_no_node() -> None:
    assert placed(node(), pod=affinity()).state == "Problem"


@pytest.mark.parametrize(
    ("operator", "values", "met"),
    [
        ("In", ["8"], True),
        ("NotIn", ["8"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["7"], True),
        ("Lt", ["7"], False),
        ("Gt", ["many"], False),
        ("Resembles", ["8"], False),
    ],
)
def test_every_operator_of_an_expression(
    operator: str, values: list[str], met: bool
) -> None:
    expression = {"key": "gpus", "operator": operator, "values": values}
    assert holds(expression, {"gpus": "8"}) == met


def test_without_a_right_over_nodes_nothing_is_fine() -> None:
    check = placement_check(a_target())
    lines = read(check, {NODES: ApiAnswer(trouble="Forbidden")})
    assert [(line.name, line.state) for line in lines] == [("nodes", "NotChecked")]
    assert "list nodes" in lines[0].remedy


def test_without_a_right_over_pods_free_room_is_not_known() -> None:
    answers = {NODES: listed(node()), PODS: ApiAnswer(trouble="Forbidden")}
    lines = read(placement_check(a_target()), answers)
    assert of(lines, "free").state == "NotChecked"
    assert of(lines, "nodes", SERVER).state == "Ok"


def test_a_list_that_goes_on_is_not_known() -> None:
    more = ApiAnswer({"metadata": {"continue": "x"}, "items": [node()]})
    lines = read(placement_check(a_target()), {NODES: more})
    assert [(line.name, line.state) for line in lines] == [("nodes", "NotChecked")]


def test_the_platform_of_images_is_not_known_without_a_pull() -> None:
    answers = {NODES: listed(node(), node("b", arch="arm64")), PODS: listed()}
    found = of(read(placement_check(a_target()), answers), "platform")
    assert found.state == "NotChecked"
    assert "linux/amd64, linux/arm64" in found.sentence


def test_a_pod_asks_for_its_containers_or_an_init_container() -> None:
    def asks(cpu: str, **limits: str) -> Json:
        return {"resources": {"requests": {"cpu": cpu}, "limits": limits}}

    spec = {
        "containers": [asks("1", memory="1Gi"), asks("500m")],
        "initContainers": [asks("2", memory="1Mi")],
    }
    found = requests_of(spec)
    assert {key: float(value) for key, value in found.items()} == {
        "cpu": 2.0,
        "memory": 1024.0**3,
        "pods": 1.0,
    }
