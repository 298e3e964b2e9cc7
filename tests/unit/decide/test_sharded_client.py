"""A client of several pods: one to the operator, but ready only when all are, and lost with any of
them."""

from dataclasses import replace
from typing import Any

import pytest
from benchrun import names
from benchrun.observe import Termination
from benchrun_client.contract import Shards
from unit.decide.scenes import Scene
from unit.decide.summaries import applied, deleted, standing

FAILED = Termination(
    exit_code=2,
    reason="Error",
    message='{"reason": "DatasetNotFound", "message": "no file"}',
)
LOST = Termination(
    exit_code=1,
    reason="Error",
    message='{"reason": "ShardLost", "message": "shard 0 was lost"}',
)
OUT_OF_MEMORY = Termination(exit_code=137, reason="OOMKilled", message="")
KILLED = Termination(exit_code=137, reason="Error", message="")
TWO = Scene().with_spec(client={"parallelism": 2})


def second(scene: Scene, **changes: Any) -> Scene:
    """The second pod of the client, made like the first or changed."""
    first = next(
        p for p in scene.pods if p.role == names.ROLE_CLIENT and p.rank == 0
    )
    old = next(
        (p for p in scene.pods if p.rank == 1),
        replace(first, name="client-2", uid="client-2-uid", rank=1),
    )
    # Before the first: it is not by their order that they are told apart.
    return replace(
        scene,
        pods=(replace(old, **changes), *(p for p in scene.pods if p.rank == 0)),
    )


def measuring() -> Scene:
    return second(
        Scene().measuring().with_spec(client={"parallelism": 2}), ready=True
    )


def test_a_service_comes_with_several_pods_only() -> None:
    assert "Service client" in applied(TWO.ended())
    assert "Service client" not in applied(Scene().ended())
    in_one_pod = {"parallelism": 4, "resources": {"requests": {"cpu": "4"}}}
    assert "Service client" not in applied(
        Scene().with_spec(client=in_one_pod).ended()
    )


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("True (Ready)", {"ready": True}),
        ("False (PreparingClient)", {"ready": False}),
        ("False (PreparingClient)", {"ready": True, "deleting": True}),
    ],
)
def test_the_client_is_ready_when_all_its_pods_are(
    expected: str, changes: dict[str, Any]
) -> None:
    scene = second(
        TWO.client_created().pod(names.ROLE_CLIENT, ready=True), **changes
    ).reports(phase="Waiting")
    decision = scene.ended()
    assert standing(decision.status, "ClientReady")["ClientReady"] == expected
    assert ("Deployment server" in applied(decision)) is (
        expected == "True (Ready)"
    )


def test_a_pod_that_is_not_there_yet_is_waited_for() -> None:
    decision = (
        TWO.client_created()
        .pod(names.ROLE_CLIENT, ready=True)
        .reports(phase="Waiting")
        .ended()
    )
    assert standing(decision.status, "ClientReady")["ClientReady"].startswith(
        "False"
    )


def test_any_failed_pod_ends_the_run_before_it_measures() -> None:
    decision = second(
        TWO.client_created(), phase="Failed", terminated=FAILED
    ).ended()
    assert standing(decision.status, "Failed")["Failed"] == "True (DatasetNotFound)"


def test_a_measuring_run_waits_for_the_first_pods_report() -> None:
    scene = second(measuring(), phase="Failed", terminated=KILLED)
    assert standing(scene.ended().status, "Failed")["Failed"].startswith("False")
    failed = scene.fails(
        "ShardLost",
        "shard 1 of 2 was lost in stage chat/rate=1/r1: the connection was closed",
    )
    decision = failed.ended()
    assert standing(decision.status, "Failed")["Failed"] == "True (ShardLost)"
    assert "shard 1 of 2" in str(decision.status.message)
    assert "Job" in deleted(decision)


def test_where_the_first_cannot_speak_the_others_are_the_answer() -> None:
    scene = second(measuring(), phase="Failed", terminated=KILLED)
    gone = replace(
        scene,
        pods=tuple(
            p for p in scene.pods if p.rank != 0 or p.role != names.ROLE_CLIENT
        ),
    )
    assert standing(gone.ended().status, "Failed")["Failed"] == "True (ClientGone)"


def test_the_first_pods_failure_comes_before_reports_of_others() -> None:
    """They notice first: their word waits until it is known why."""
    scene = second(measuring(), phase="Failed", terminated=LOST)
    assert standing(scene.ended().status, "Failed")["Failed"].startswith("False")
    ended = replace(
        scene,
        pods=tuple(
            replace(p, phase="Failed", terminated=OUT_OF_MEMORY)
            if p.name == "client-1"
            else p
            for p in scene.pods
        ),
    )
    assert (
        standing(ended.ended().status, "Failed")["Failed"] == "True (OutOfMemory)"
    )


def test_records_are_requested_at_the_first_pod() -> None:
    decision = second(measuring(), ip="10.0.0.66").ended()
    assert decision.pull is not None
    assert decision.pull.pod == "client-1"


@pytest.mark.parametrize(
    ("processes", "shards"),
    [(3, Shards(count=3, start_skew_us=1, clock_error_us=1)), (None, None)],
)
def test_the_status_tells_how_many_processes_sent_the_load(
    processes: int | None, shards: Shards | None
) -> None:
    client = Scene().measuring().arrived(0, 1, shards=shards).ended().status.client
    assert client is not None
    assert client.shards == processes
