"""A server over several nodes: all its pods must live, one of them answers, and what they have is
summed."""

from dataclasses import replace

import pytest
from benchrun.decide import RefusedObject
from unit.decide.scenes import (
    FIRST_REQUEST,
    GROUPS,
    HEALTHY,
    SCHEDULED,
    SERVER_DIED,
    Scene,
    instant,
)
from unit.decide.summaries import applied, deleted, standing
from unit.plan.specs import Json, rates, spec_body, workload

TWO_NODES: Json = spec_body(
    server={
        "image": "v",
        "nodesPerReplica": 2,
        "resources": {"limits": {"nvidia.com/gpu": 8}},
    },
    workloads=[workload("chat", load=rates("1", "4"))],
)
RUN = Scene(spec=TWO_NODES)
WORKER = "server-1-1"


def with_worker(scene: Scene, **changes: object) -> Scene:
    """The second pod of the server. Made in the same second, it may come first in any order."""
    whole = scene.another_server(WORKER, rank=1, **changes)
    return replace(whole, pods=(whole.pods[-1], *whole.pods[:-1]))


def with_gpus(scene: Scene) -> Scene:
    return replace(
        scene,
        pods=tuple(
            replace(p, gpus=8 if p.role == "server" else 0) for p in scene.pods
        ),
    )


MEASURING = with_worker(with_gpus(RUN.measuring())).settled()


def changed(scene: Scene, name: str, **changes: object) -> Scene:
    pods = tuple(
        replace(pod, **changes)  # type: ignore[arg-type]
        if pod.name == name
        else pod
        for pod in scene.pods
    )
    return replace(scene, pods=pods).log_read()


def test_groups_are_made_when_the_client_is_ready_and_not_before() -> None:
    assert applied(RUN.client_created().ended()) == []
    assert applied(RUN.client_ready().ended()) == ["LeaderWorkerSet server"]
    assert applied(RUN.server_pending().ended()) == []


def test_the_run_waits_for_a_node_until_every_pod_has_one() -> None:
    loading = RUN.server_loading()
    waiting = with_worker(loading, scheduled_at=None, node=None, phase="Pending")
    assert waiting.ended().status.phase == "WaitingForNode"
    whole = (
        with_worker(loading, scheduled_at=instant(SCHEDULED + 30)).ended().status
    )
    assert (whole.phase, whole.scheduled_time) == (
        "Starting",
        "2026-01-01T00:00:50Z",
    )


def test_one_server_is_reported_by_its_leader_with_the_gpus_of_both() -> None:
    (server,) = MEASURING.ended().status.servers
    assert (server.pod, server.replicas, server.gpus) == ("server-1", 1, 16)


def test_only_the_leader_has_a_page_to_scrape() -> None:
    assert [target.pod for target in MEASURING.decide().scrape] == ["server-1"]


def test_as_long_as_both_live_the_run_goes_on() -> None:
    assert MEASURING.ended().status.phase == "Running"


@pytest.mark.parametrize("name", ["server-1", WORKER])
def test_a_restart_of_either_is_the_end(name: str) -> None:
    ended = changed(
        MEASURING, name, restarts=1, last_terminated=SERVER_DIED
    ).ended()
    assert standing(ended.status, "Failed") == {"Failed": "True (ServerRestarted)"}
    assert name in (ended.status.message or "")
    assert deleted(ended)[0] == "LeaderWorkerSet"


@pytest.mark.parametrize("started", [None, instant(FIRST_REQUEST + 12)])
def test_a_worker_that_was_replaced_under_its_own_name_is_the_end_before_it_starts(
    started: object,
) -> None:
    made = instant(FIRST_REQUEST + 10)
    scene = changed(
        MEASURING,
        WORKER,
        uid="another",
        created_at=made,
        started_at=started,
        scheduled_at=None,
    )
    ended = scene.at(FIRST_REQUEST + 13).ended()
    assert standing(ended.status, "Failed") == {"Failed": "True (ServerRestarted)"}


@pytest.mark.parametrize(("after_ready", "phase"), [(1, "Running"), (3, "Failed")])
def test_a_pod_that_was_made_when_the_server_was_ready_is_another_one(
    after_ready: int, phase: str
) -> None:
    """Within the two seconds by which clocks may differ it is not told."""
    scene = changed(
        MEASURING,
        WORKER,
        created_at=instant(HEALTHY + after_ready),
        started_at=None,
    )
    assert scene.ended().status.phase == phase


def test_groups_that_vanish_while_they_are_measured_are_the_end() -> None:
    ended = MEASURING.without(*GROUPS).ended().status
    assert standing(ended, "Failed") == {"Failed": "True (ServerGone)"}
    assert "LeaderWorkerSet was deleted" in (ended.message or "")


def test_with_the_last_record_groups_and_service_are_released() -> None:
    assert deleted(MEASURING.arrived(0, 1).ended())[:1] == ["LeaderWorkerSet"]


def test_of_a_run_whose_spec_is_rejected_groups_are_released_too() -> None:
    assert "LeaderWorkerSet" in deleted(
        MEASURING.with_spec(repeats=0, cancel=True).ended()
    )


def missing(scene: Scene) -> Scene:
    words = "this cluster does not have the resource leaderworkersets.leaderworkerset.x-k8s.io"
    refused = RefusedObject(
        "LeaderWorkerSet",
        "br-qwen-6316e",
        "server",
        words,
        curable=True,
        is_kind_missing=True,
    )
    return scene.knowing(refused_object=refused)


def test_without_the_kind_the_run_says_what_to_install_and_retries() -> None:
    decision = missing(RUN.client_ready().settled()).ended()
    assert standing(decision.status, "Ready", "Failed") == {
        "Ready": "False (NotInstalled)",
        "Failed": "False (NotInstalled)",
    }
    assert "Install LeaderWorkerSet (https://lws.sigs.k8s.io)" in (
        decision.status.message or ""
    )
    assert applied(decision) == ["LeaderWorkerSet server"]


def test_without_the_kind_the_pending_deadline_ends_the_wait() -> None:
    scene = missing(RUN.client_ready().settled()).with_spec(
        pendingDeadlineSeconds=100
    )
    ended = scene.at(110).ended().status
    assert standing(ended, "Failed") == {"Failed": "True (PendingDeadlineExceeded)"}
    assert "leaderworkersets.leaderworkerset.x-k8s.io" in (ended.message or "")
