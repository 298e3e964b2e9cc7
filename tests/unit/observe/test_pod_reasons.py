"""Every reason that a kubelet or a scheduler gives for a pod that does not start, as their source
has them, becomes a reason of ours that holds the words."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun.observe import Diagnosis, diagnose_client, diagnose_server, pod_of
from benchrun_client.engines import ENGINES
from kit.every_case import every
from unit.observe.bodies import condition, pod_body, waiting

VLLM = ENGINES["VLLM"]

REASONS: dict[str, dict[str, list[str]]] = yaml.load(
    Path(__file__).with_name("pod-reasons-1.36.yaml").read_text(), yaml.CSafeLoader
)


def all_of(kind: str) -> list[str]:
    return [reason for reasons in REASONS[kind].values() for reason in reasons]


def refused(reason: str, role: str) -> dict[str, Any]:
    status = {
        "phase": "Failed",
        "reason": reason,
        "message": "the words",
        "containerStatuses": [],
    }
    return pod_body(role, status=status)


def diagnosed(body: dict[str, Any], role: str) -> Diagnosis | None:
    pods = [pod_of(body)]
    return (
        diagnose_client(pods, None, VLLM)
        if role == "client"
        else diagnose_server(pods, None, VLLM)
    )


@pytest.mark.parametrize("reason", all_of("waiting"))
def test_a_container_that_waits_is_told_in_the_kubelets_words(reason: str) -> None:
    found = diagnose_server([waiting(reason, message="the words")], None, VLLM)
    assert found is not None
    assert "the words" in found.message
    assert found.reason == (
        "ImagePull" if is_about_its_image(reason) else "ContainerConfig"
    )


def is_about_its_image(reason: str) -> bool:
    others = ("RROUnsupported", "ImageVolumeMountFailed")
    files = ("pkg/kubelet/images/types.go", "k8s.io/cri-api/pkg/errors/errors.go")
    return reason not in others and any(
        reason in REASONS["waiting"][file] for file in files
    )


@pytest.mark.parametrize("reason", all_of("usual"))
def test_a_pod_on_its_way_is_no_failure(reason: str) -> None:
    assert (
        diagnose_server([waiting(reason, message="the words")], None, VLLM) is None
    )


@every("role", ["server", "client"])
@every("reason", all_of("refused"))
def test_a_pod_that_its_node_refuses_is_made_again(reason: str, role: str) -> None:
    found = diagnosed(refused(reason, role), role)
    assert found is not None
    assert (found.reason, found.terminal) == ("PodRejected", False)
    assert f"{reason}: the words" in found.message


@pytest.mark.parametrize("role", ["server", "client"])
@pytest.mark.parametrize("reason", all_of("taken"))
def test_a_pod_that_is_taken_away_is_evicted(reason: str, role: str) -> None:
    found = diagnosed(refused(reason, role), role)
    assert found is not None
    assert (found.reason, found.terminal) == ("Evicted", True)


@pytest.mark.parametrize("reason", all_of("unscheduled"))
def test_a_pod_without_a_node_is_told_in_the_schedulers_words(reason: str) -> None:
    found = diagnose_server([unscheduled(reason, "the words")], None, VLLM)
    assert found is not None
    gated = reason == "SchedulingGated"
    assert (found.reason, found.terminal) == (
        reason if gated else "Unschedulable",
        False,
    )
    assert gated or "the words" in found.message


@pytest.mark.parametrize("words", all_of("scheduler"))
def test_each_word_of_the_scheduler_is_passed_on(words: str) -> None:
    message = (
        f"0/3 nodes are available: 3 {words}. preemption: 0/3 nodes are available"
    )
    found = diagnose_server([unscheduled("Unschedulable", message)], None, VLLM)
    assert found is not None
    assert (found.reason, f"3 {words}" in found.message) == ("Unschedulable", True)
    # Who has no room for a volume is not helped by a smaller server.
    assert ("resources" in found.message) == (
        not is_about_volumes(words) and not lasts(words)
    )


def is_about_volumes(words: str) -> bool:
    return any(part in words for part in ("olume", "pvc", "storage", "disk"))


def lasts(words: str) -> bool:
    return "node affinity/selector" in words or "requested node name" in words


def unscheduled(reason: str, message: str) -> Any:
    told = condition("PodScheduled", "False", reason, message)
    body = pod_body(
        status={"phase": "Pending", "conditions": [told], "containerStatuses": []}
    )
    body["spec"].pop("nodeName", None)
    return pod_of(body)
