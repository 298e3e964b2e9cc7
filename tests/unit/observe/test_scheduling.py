"""The scheduler's message, told apart: no node ever, or no node now. Words are those of 1.20 to 1.36."""

from __future__ import annotations

import pytest
from benchrun.observe.failures.diagnosis import diagnose_client, diagnose_server
from benchrun.observe.failures.pods import is_structural
from unit.observe.bodies import pending

SELECTOR = "node(s) didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    ("structural", "message"),
    [
        pytest.param(True, f"0/1 nodes are available: 1 {SELECTOR}.", id="one node, one selector"),
        pytest.param(
            True,
            f"0/3 nodes are available: 1 node(s) had untolerated taint {{nvidia.com/gpu: }}, 2 {SELECTOR}. preemption: "
            "0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            id="every node, for one structural reason or another",
        ),
        pytest.param(
            True,
            f"0/1 nodes are available: 1 {SELECTOR}. no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 Preemption is not helpful for scheduling.",
            id="1.36 speaks of claims, too",
        ),
        pytest.param(
            True, "0/2 nodes are available: 2 node(s) had untolerated taint {team: a}.", id="a taint of people"
        ),
        pytest.param(
            True, "0/1 nodes are available: 1 node(s) didn't match the requested node name.", id="a node by name"
        ),
        pytest.param(False, "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", id="GPUs in use"),
        pytest.param(
            False, "0/1 nodes are available: 1 Insufficient amd.com/gpu.", id="a resource nobody has reads the same"
        ),
        pytest.param(
            False,
            f"0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 {SELECTOR}. preemption: 0/3 nodes are available: "
            "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
            id="one node could, once it has room",
        ),
        pytest.param(
            False,
            "0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient nvidia.com/gpu.",
            id="a node may count twice",
        ),
        pytest.param(
            False,
            "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.",
            id="a node that is not ready",
        ),
        pytest.param(
            False,
            "0/1 nodes are available: 1 node(s) had untolerated taint {node.cloudprovider.kubernetes.io/uninitialized: true}.",
            id="a node that is coming up",
        ),
        pytest.param(
            False, "0/1 nodes are available: 1 node(s) had untolerated taint(s).", id="a taint that is not named"
        ),
        pytest.param(False, "0/1 nodes are available: 1 node(s) were unschedulable.", id="a cordoned node"),
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
        pytest.param(False, "no nodes available to schedule pods", id="an empty cluster"),
        pytest.param(False, "0/0 nodes are available: .", id="an empty cluster, in other words"),
        pytest.param(False, "the scheduler gave no reason", id="no reason"),
        pytest.param(False, "", id="nothing"),
    ],
)
def test_structural(structural: bool, message: str) -> None:
    assert is_structural(message) == structural
    found = diagnose_server([pending(message or "?")], None)
    assert found is not None
    assert (found.reason, found.terminal) == ("Unschedulable", structural)


def test_the_message_leaves_out_preemption() -> None:
    message = (
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/1 nodes."
    )
    found = diagnose_server([pending(message)], None)
    assert found is not None
    assert found.message == (
        "No node can take the pod now: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. It goes on when a node has room; "
        "if none ever will, lower spec.server.resources."
    )


def test_a_claim_that_is_missing_is_named_with_the_fields_that_name_claims() -> None:
    message = '0/1 nodes are available: persistentvolumeclaim "none" not found. not found'
    pod = "spec.model.source.pvc and spec.{}.pod.volumes."
    for found, fields in (
        (
            diagnose_client([pending(message, role="client")], None),
            f"the files of spec.workloads, {pod.format('client')}",
        ),
        (diagnose_server([pending(message)], None), pod.format("server")),
    ):
        assert found is not None
        assert 'persistentvolumeclaim "none" not found' in found.message
        assert found.message.endswith(f"It goes on when the claim exists and has its volume; check {fields}")
