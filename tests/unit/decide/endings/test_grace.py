"""A pod that no node could ever take: it is waited for a node to be added, with the reason, then
the run ends."""

from dataclasses import replace

import pytest
from unit.decide.scenes import CLIENT_CREATED, CONTEXT, SERVER_CREATED, Scene
from unit.decide.summaries import standing

NO_SUCH_NODE = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
NO_ROOM = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
GRACE = 100


def short(scene: Scene) -> Scene:
    return replace(scene, context=replace(CONTEXT, unschedulable_grace_seconds=GRACE))


SERVER = short(Scene().server_pending().pod("server", unschedulable=NO_SUCH_NODE))
CLIENT = short(
    Scene()
    .client_created()
    .pod("client", phase="Pending", ip=None, node=None, unschedulable=NO_SUCH_NODE)
)
CASES = [
    pytest.param("WaitingForNode", SERVER_CREATED + GRACE, SERVER, id="server"),
    pytest.param("Preparing", CLIENT_CREATED + GRACE, CLIENT, id="client"),
]


@pytest.mark.parametrize(("phase", "ends_at", "scene"), CASES)
def test_it_waits_with_the_reason_then_ends(phase: str, ends_at: int, scene: Scene) -> None:
    waiting = scene.at(ends_at - 1).decide()
    assert waiting.status.phase == phase
    assert standing(waiting.status, "Complete") == {"Complete": "False (Unschedulable)"}
    assert "didn't match Pod's node affinity" in (waiting.status.message or "")
    assert f"Waiting {GRACE} s for such a node" in (waiting.status.message or "")
    ended = scene.at(ends_at).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (Unschedulable)"}
    assert "Waiting" not in (ended.message or "")


@pytest.mark.parametrize(("phase", "ends_at", "scene"), CASES)
def test_a_pass_is_requested_when_it_ends(phase: str, ends_at: int, scene: Scene) -> None:
    wait = scene.with_spec(startupDeadlineSeconds=0).at(ends_at - 30).decide().requeue_after_seconds
    assert wait == pytest.approx(30.0)


def test_without_grace_the_run_ends_at_once() -> None:
    at_once = replace(SERVER, context=replace(CONTEXT, unschedulable_grace_seconds=0))
    assert at_once.at(SERVER_CREATED).decide().status.phase == "Failed"


def test_a_node_that_was_added_in_time_takes_the_pod() -> None:
    assert SERVER.pod("server", unschedulable=None, node="n1").at(
        SERVER_CREATED + 10 * GRACE
    ).decide().status.phase != ("Failed")


def test_a_pod_that_finds_no_room_is_not_hurried_by_it() -> None:
    full = SERVER.pod("server", unschedulable=NO_ROOM).at(SERVER_CREATED + 10 * GRACE)
    assert full.decide().status.phase == "WaitingForNode"
