"""The frame of the checks: which ending counts, how often it happened, which diagnosis wins."""

from dataclasses import replace

import pytest
from benchrun.observe import (
    Check,
    Diagnosis,
    Evidence,
    Pod,
    diagnose_client,
    diagnose_server,
    diagnosed,
    diagnosis_of,
    evidence_of,
    first_diagnosis,
    is_structural,
    pod_of,
)
from benchrun_client.engines import ENGINES
from unit.observe.bodies import ended, gone, pending, pod_body, waiting

VLLM = ENGINES["VLLM"]

RUNNING = pod_of(pod_body())
CRASHED = {"terminated": {"exitCode": 1, "reason": "Error", "message": "x"}}


@pytest.mark.parametrize(
    ("endings", "pod"),
    [
        pytest.param(0, RUNNING, id="never"),
        pytest.param(1, ended(1), id="once, just now"),
        pytest.param(
            1, ended(1, restarts=1, restarted=True), id="once, and runs again"
        ),
        pytest.param(2, ended(1, restarts=1), id="twice, just now"),
        pytest.param(
            3,
            waiting("CrashLoopBackOff", restartCount=2, lastState=CRASHED),
            id="three times, and waits",
        ),
        pytest.param(0, waiting("ContainerCreating"), id="not even begun"),
    ],
)
def test_how_often_a_container_ended(endings: int, pod: Pod) -> None:
    assert evidence_of(pod, VLLM, None).endings == endings


HIDDEN = (
    f"RuntimeError: Engine core initialization failed. {VLLM.cause_is_above[0]}"
)


@pytest.mark.parametrize(
    ("log", "tail", "pod"),
    [
        pytest.param(
            "message", None, ended(1, "message"), id="its termination message"
        ),
        pytest.param(
            "message",
            None,
            ended(1, "message", restarts=1, restarted=True),
            id="that of the time before",
        ),
        pytest.param(
            "message",
            "tail",
            ended(1, "message"),
            id="its message even when a tail was fetched",
        ),
        pytest.param(
            "tail",
            "tail",
            ended(1, ""),
            id="the fetched tail where there is no message",
        ),
        pytest.param(
            "tail",
            "tail",
            ended(1, HIDDEN),
            id="the fetched tail where the message points further up",
        ),
        pytest.param(HIDDEN, "", ended(1, HIDDEN), id="unless that is empty"),
        pytest.param(
            "", "tail", RUNNING, id="nothing of a container that never ended"
        ),
    ],
)
def test_which_log_is_read(log: str, tail: str | None, pod: Pod) -> None:
    assert evidence_of(pod, VLLM, tail).log == log


def finds_word(word: str, *, terminal: bool) -> Check:
    """A check that fires where the log has the word."""

    def check(evidence: Evidence) -> Diagnosis | None:
        return Diagnosis(word, word, terminal) if word in evidence.log else None

    return check


HOPELESS = finds_word("hopeless", terminal=True)
HOPEFUL = finds_word("hopeful", terminal=False)


@pytest.mark.parametrize(
    ("reason", "logs"),
    [
        pytest.param("hopeful", ["hopeful"], id="one that may resolve"),
        pytest.param(
            "hopeless", ["hopeful", "hopeless"], id="the hopeless one of two pods"
        ),
        pytest.param(
            "hopeful", ["hopeful hopeless"], id="of one pod the first check"
        ),
        pytest.param(None, ["fine"], id="none"),
        pytest.param(None, [], id="no pods"),
    ],
)
def test_which_diagnosis_wins(reason: str | None, logs: list[str]) -> None:
    found = first_diagnosis(
        (evidence_of(ended(1, log), VLLM, None) for log in logs),
        [HOPEFUL, HOPELESS],
    )
    assert (found.reason if found else None) == reason


@pytest.mark.parametrize(
    ("reason", "pods"),
    [
        pytest.param(
            "Evicted",
            [gone("PreemptionByScheduler", deleting=True)],
            id="why it leaves",
        ),
        pytest.param(
            None,
            [replace(ended(1, "hopeless"), deleting=True)],
            id="how its container ended then is no cause",
        ),
        pytest.param(
            "hopeless",
            [gone("Evicted", deleting=True), ended(1, "hopeless")],
            id="a hopeless pod that stays",
        ),
        pytest.param(
            "Evicted",
            [gone("Evicted", deleting=True), ended(1, "hopeful")],
            id="is more than a hopeful one",
        ),
    ],
)
def test_pods_that_are_being_deleted(reason: str | None, pods: list[Pod]) -> None:
    found = diagnosis_of(pods, VLLM, [HOPEFUL, HOPELESS])
    assert (found.reason if found else None) == reason


@pytest.mark.parametrize("what", ["It broke", "It broke.", "It broke. "])
def test_a_sentence_has_one_full_stop(what: str) -> None:
    assert diagnosed("R", what, "Mend it.").message == "It broke. Mend it."


SELECTOR = "node(s) didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    ("structural", "message"),
    [
        pytest.param(
            True,
            f"0/1 nodes are available: 1 {SELECTOR}.",
            id="one node, one selector",
        ),
        pytest.param(
            True,
            f"0/3 nodes are available: 1 node(s) had untolerated taint {{nvidia.com/gpu: }}, 2 "
            f"{SELECTOR}. preemption: "
            "0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            id="every node, for one structural reason or another",
        ),
        pytest.param(
            True,
            f"0/1 nodes are available: 1 {SELECTOR}. no new claims to deallocate, preemption: 0/1 "
            "nodes are available: "
            "1 Preemption is not helpful for scheduling.",
            id="1.36 speaks of claims, too",
        ),
        pytest.param(
            True,
            "0/2 nodes are available: 2 node(s) had untolerated taint {team: a}.",
            id="a taint of people",
        ),
        pytest.param(
            True,
            "0/1 nodes are available: 1 node(s) didn't match the requested node name.",
            id="a node by name",
        ),
        pytest.param(
            True,
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            id="more than any node has",
        ),
        pytest.param(
            True,
            "0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient nvidia.com/gpu. "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            id="more of two resources than any node has",
        ),
        pytest.param(
            False,
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: 0/2 nodes are "
            "available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful "
            "for scheduling.",
            id="one of two nodes has as much, in use",
        ),
        pytest.param(
            False,
            "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable. "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            id="the node that has as much is cordoned",
        ),
        pytest.param(
            False,
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: not eligible due "
            "to preemptionPolicy=Never.",
            id="a pod that takes nobody's place",
        ),
        pytest.param(
            False,
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
            id="GPUs in use",
        ),
        pytest.param(
            False,
            "0/1 nodes are available: 1 Insufficient amd.com/gpu.",
            id="a resource nobody has reads the same",
        ),
        pytest.param(
            False,
            f"0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 {SELECTOR}. preemption: "
            "0/3 nodes are available: "
            "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for "
            "scheduling.",
            id="one node could, once it has room",
        ),
        pytest.param(
            False,
            "0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient nvidia.com/gpu.",
            id="a node may count twice",
        ),
        pytest.param(
            False,
            "0/1 nodes are available: 1 node(s) had untolerated taint "
            "{node.kubernetes.io/not-ready: }.",
            id="a node that is not ready",
        ),
        pytest.param(
            False,
            "0/1 nodes are available: 1 node(s) had untolerated taint "
            "{node.cloudprovider.kubernetes.io/uninitialized: true}.",
            id="a node that is coming up",
        ),
        pytest.param(
            False,
            "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
            id="a taint that is not named",
        ),
        pytest.param(
            False,
            "0/1 nodes are available: 1 node(s) were unschedulable.",
            id="a cordoned node",
        ),
        pytest.param(
            False,
            '0/1 nodes are available: persistentvolumeclaim "none" not found. not found',
            id="a claim that is missing",
        ),
        pytest.param(
            False,
            "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            id="not all nodes told",
        ),
        pytest.param(
            False, "no nodes available to schedule pods", id="an empty cluster"
        ),
        pytest.param(
            False,
            "0/0 nodes are available: .",
            id="an empty cluster, in other words",
        ),
        pytest.param(False, "the scheduler gave no reason", id="no reason"),
        pytest.param(False, "", id="nothing"),
    ],
)
def test_structural(structural: bool, message: str) -> None:
    assert is_structural(message) == structural
    found = diagnose_server([pending(message or "?")], None, VLLM)
    assert found is not None
    assert (found.reason, found.terminal) == ("Unschedulable", structural)


def test_the_message_leaves_out_preemption() -> None:
    message = (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
        "preemption: 0/1 nodes."
    )
    found = diagnose_server([pending(message)], None, VLLM)
    assert found is not None
    assert found.message == (
        "No node can take the pod now: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
        "The run continues when a "
        "node has enough free resources; if no node is large enough, lower "
        "spec.server.resources."
    )


def test_a_claim_that_is_missing_is_named_with_the_fields_that_name_claims() -> (
    None
):
    message = (
        '0/1 nodes are available: persistentvolumeclaim "none" not found. not found'
    )
    pod = "spec.model.source (pvc, hub.cacheClaim) and spec.{}.pod.volumes."
    for found, fields in (
        (
            diagnose_client([pending(message, role="client")], None, VLLM),
            f"the files of spec.workloads, {pod.format('client')}",
        ),
        (diagnose_server([pending(message)], None, VLLM), pod.format("server")),
    ):
        assert found is not None
        assert 'persistentvolumeclaim "none" not found' in found.message
        assert found.message.endswith(
            f"The run continues when the claim exists and is bound to a volume; check {fields}"
        )
