"""A pod that no node could ever take: it is waited for a node to be added, with the reason, then
the run ends."""

from dataclasses import replace

import pytest
from benchrun.api import Blocked
from unit.decide.scenes import CONTEXT, JOB, SERVER_CREATED, Scene, text
from unit.decide.summaries import standing

NO_SUCH_NODE = (
    "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
)
NO_ROOM = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
NOT_EVEN_EMPTY = f"{NO_ROOM} preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
GRACE = 100
SEEN = 5000


def short(scene: Scene) -> Scene:
    return replace(
        scene, context=replace(CONTEXT, unschedulable_grace_seconds=GRACE)
    )


# Both have waited for room for more than an hour when that is seen.
SERVER = short(
    Scene().server_pending().pod("server", unschedulable=NO_SUCH_NODE)
).at(SEEN)
CLIENT = short(
    Scene()
    .client_created()
    .with_spec(startupDeadlineSeconds=0)
    .pod("client", phase="Pending", ip=None, node=None, scheduled_at=None)
    .pod("client", unschedulable=NO_SUCH_NODE)
).at(SEEN)
TOO_SMALL = SERVER.pod("server", unschedulable=NOT_EVEN_EMPTY)
CASES = [
    pytest.param(
        "WaitingForNode", "didn't match Pod's node affinity", SERVER, id="server"
    ),
    pytest.param(
        "Preparing", "didn't match Pod's node affinity", CLIENT, id="client"
    ),
    pytest.param(
        "WaitingForNode", "Lower spec.server.resources", TOO_SMALL, id="too large"
    ),
]


@pytest.mark.parametrize(("phase", "words", "scene"), CASES)
def test_it_waits_from_when_that_was_seen_then_ends(
    phase: str, words: str, scene: Scene
) -> None:
    waiting = scene.settled().at(SEEN + GRACE - 1).decide()
    assert waiting.status.phase == phase
    assert standing(waiting.status, "Complete") == {
        "Complete": "False (Unschedulable)"
    }
    assert words in (waiting.status.message or "")
    assert f"The run waits {GRACE} s for such a node" in (
        waiting.status.message or ""
    )
    assert waiting.status.blocked == Blocked(by="Node", since=text(SEEN))
    ended = scene.settled().at(SEEN + GRACE).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (Unschedulable)"}
    assert "The run waits" not in (ended.message or "")
    assert ended.blocked is None


def test_another_reason_in_between_begins_it_anew() -> None:
    full = (
        SERVER.settled()
        .at(SEEN + 60)
        .pod("server", unschedulable=NO_ROOM)
        .settled()
    )
    again = full.at(SEEN + 90).pod("server", unschedulable=NO_SUCH_NODE).settled()
    assert again.at(SEEN + GRACE + 89).decide().status.phase == "WaitingForNode"
    assert again.at(SEEN + GRACE + 90).decide().status.phase == "Failed"


def test_it_is_remembered_where_the_status_could_not_be_written() -> None:
    scene = SERVER.knowing(blocked=Blocked(by="Node", since=text(SEEN)))
    assert scene.at(SEEN + GRACE).decide().status.phase == "Failed"


def test_an_instant_ahead_of_the_clock_does_not_move_it_away() -> None:
    scene = SERVER.knowing(blocked=Blocked(by="Node", since=text(10 * SEEN)))
    assert scene.decide().status.blocked == Blocked(by="Node", since=text(SEEN))


@pytest.mark.parametrize("scene", [SERVER, CLIENT, TOO_SMALL])
def test_where_a_pending_deadline_is_set_it_alone_decides(scene: Scene) -> None:
    limited = scene.at(50).with_spec(pendingDeadlineSeconds=6 * 3600).settled()
    waiting = limited.at(6 * 3600).decide().status
    assert standing(waiting, "Failed") == {"Failed": "False (Unschedulable)"}
    ended = limited.at(6 * 3600 + SERVER_CREATED).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (PendingDeadlineExceeded)"}


@pytest.mark.parametrize(("phase", "words", "scene"), CASES)
def test_a_pass_is_requested_when_it_ends(
    phase: str, words: str, scene: Scene
) -> None:
    wait = scene.settled().at(SEEN + GRACE - 30).decide().requeue_after_seconds
    assert wait == pytest.approx(30.0)


def test_without_grace_the_run_ends_at_once() -> None:
    at_once = replace(
        SERVER, context=replace(CONTEXT, unschedulable_grace_seconds=0)
    )
    assert at_once.at(SERVER_CREATED).decide().status.phase == "Failed"


def test_a_node_that_was_added_in_time_takes_the_pod() -> None:
    assert SERVER.pod("server", unschedulable=None, node="n1").at(
        SERVER_CREATED + 10 * GRACE
    ).decide().status.phase != ("Failed")


def test_a_pod_that_finds_no_room_is_not_hurried_by_it() -> None:
    full = SERVER.pod("server", unschedulable=NO_ROOM).at(
        SERVER_CREATED + 10 * GRACE
    )
    assert full.decide().status.phase == "WaitingForNode"


def test_a_job_that_ends_before_a_node_was_found_says_what_to_ask_less_of() -> None:
    """Its deadline comes after all others, and it does not know what was waited for."""
    late = "DeadlineExceeded: Job was active longer than specified deadline"
    week = 8 * 86_400
    full = SERVER.pod("server", unschedulable=NO_ROOM).without("Job", "client")
    ended = full.having(JOB, failure=late).at(week).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (PendingDeadlineExceeded)"}
    assert "3 Insufficient nvidia.com/gpu" in (ended.message or "")
    assert "spec.server.resources" in (ended.message or "")
    assert "runDeadlineSeconds" not in (ended.message or "")


def test_a_pod_with_gates_waits_for_no_node() -> None:
    scene = (
        Scene()
        .server_pending()
        .pod("server", gated="kueue.x-k8s.io/admission")
        .at(SEEN)
    )
    waiting = scene.settled().decide().status
    assert waiting.phase == "Pending"
    assert standing(waiting, "Complete") == {"Complete": "False (SchedulingGated)"}
    ended = scene.with_spec(pendingDeadlineSeconds=100).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (PendingDeadlineExceeded)"}
    assert "kueue.x-k8s.io/admission" in (ended.message or "")
