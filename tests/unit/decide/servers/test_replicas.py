"""Several servers of one kind: all must have a node, any one's fault is the run's, and what they
have is summed."""

from dataclasses import replace

import pytest
from benchrun.decide import Compilations
from unit.decide.scenes import (
    FIRST_REQUEST,
    SCHEDULED,
    SERVER_CREATED,
    SERVER_DIED,
    Scene,
    instant,
    unix_us,
)
from unit.decide.summaries import standing
from unit.golden_messages import golden
from unit.plan.specs import Json, rates, spec_body, workload

THREE: Json = spec_body(
    server={
        "image": "v",
        "replicas": 3,
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    },
    workloads=[workload("chat", load=rates("1", "4"))],
)
RUN = Scene(spec=THREE)


def three(scene: Scene) -> Scene:
    """Two more pods like the first."""
    return scene.another_server("server-2").another_server("server-3")


LOADING = three(RUN.server_loading())
MEASURING = three(RUN.measuring()).settled()


def restarted(scene: Scene, name: str) -> Scene:
    kept = [pod for pod in scene.pods if pod.name != name]
    repeated = scene.another_server(name, restarts=1, last_terminated=SERVER_DIED)
    return repeated.__class__(
        **{**vars(repeated), "pods": (*kept, repeated.pods[-1])}
    )


def test_the_deployment_asks_for_all_of_them_and_the_client_waits_for_all() -> None:
    created = RUN.client_ready().ended().apply
    (deployment,) = [m for m in created if m["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 3


def test_a_server_without_a_node_keeps_the_run_waiting_for_one() -> None:
    scene = RUN.server_loading().another_server(
        "server-2", scheduled_at=None, node=None, phase="Pending"
    )
    assert scene.ended().status.phase == "WaitingForNode"
    assert LOADING.ended().status.phase == "Starting"


def test_scheduled_is_when_the_last_of_them_is() -> None:
    fresh = (
        RUN.client_ready()
        .having(("Deployment", "server"))
        .pod("server", scheduled_at=instant(SCHEDULED), node="n")
    )
    partly = fresh.another_server("server-2", scheduled_at=None).another_server(
        "server-3"
    )
    not_yet_made = fresh.another_server("server-2")
    wholly = fresh.another_server(
        "server-2", scheduled_at=instant(SCHEDULED + 60)
    ).another_server("server-3")
    assert partly.ended().status.scheduled_time is None
    assert not_yet_made.ended().status.scheduled_time is None
    scheduled = wholly.ended().status.scheduled_time
    assert scheduled is not None
    assert scheduled.startswith(instant(SCHEDULED + 60).isoformat()[:19])


@pytest.mark.parametrize("first", [True, False])
def test_servers_that_have_a_node_are_not_held_for_ever_by_one_that_has_none(
    first: bool,
) -> None:
    """From the first one's node on, whichever pod is looked at first, and the missing node is
    named; then again from the last one's."""
    scene = (
        RUN.with_spec(startupDeadlineSeconds=300, pendingDeadlineSeconds=0)
        .server_loading()
        .log_read()
    )
    without_node = {
        "scheduled_at": None,
        "node": None,
        "ready": False,
        "unschedulable": "0/1 nodes are available",
    }
    partly = scene.another_server("server-2", ready=True).another_server(
        "server-3", **without_node
    )
    partly = replace(partly, pods=partly.pods[::-1]) if first else partly
    assert partly.at(SCHEDULED + 299).ended().status.phase == "WaitingForNode"
    late = partly.at(SCHEDULED + 300).ended().status
    assert standing(late, "Failed") == {"Failed": "True (StartupDeadlineExceeded)"}
    assert "0/1 nodes are available" in (late.message or "")
    wholly = scene.another_server("server-2").another_server(
        "server-3", scheduled_at=instant(SCHEDULED + 60)
    )
    assert wholly.at(SCHEDULED + 359).ended().status.phase == "Starting"
    assert standing(wholly.at(SCHEDULED + 360).ended().status, "Failed") == {
        "Failed": "True (StartupDeadlineExceeded)"
    }


def test_a_server_that_lost_its_node_keeps_its_deadline() -> None:
    """It was scheduled once, as the status says; the pod that follows it has no node."""
    scene = (
        Scene()
        .with_spec(startupDeadlineSeconds=300, pendingDeadlineSeconds=0)
        .server_loading()
        .settled()
        .log_read()
    )
    replaced = scene.pod(
        "server", uid="another", scheduled_at=None, node=None, phase="Pending"
    )
    late = replaced.at(SCHEDULED + 300).ended().status
    assert standing(late, "Failed") == {"Failed": "True (StartupDeadlineExceeded)"}


def test_the_one_that_never_gets_a_node_is_the_one_that_is_named() -> None:
    scene = RUN.with_spec(pendingDeadlineSeconds=50).server_loading()
    late = scene.another_server(
        "server-2",
        scheduled_at=None,
        phase="Pending",
        unschedulable="0/3 nodes: no gpu",
        created_at=instant(SERVER_CREATED),
    ).at(SERVER_CREATED + 10_000)
    golden(str(late.log_read().ended().status.message))


def test_facts_of_equal_servers_are_shown_together() -> None:
    (server,) = MEASURING.ended().status.servers
    assert (server.replicas, server.pod) == (3, "server-1")


def test_server_facts_are_shown_after_their_pods_are_gone() -> None:
    """Once: of three servers that went one after the other the result told of one."""
    over = MEASURING.arrived(0, 1)
    released = over.knowing(released_at=instant(over.seconds))
    one_left = replace(
        released,
        pods=tuple(
            pod for pod in released.pods if pod.name in ("client-1", "server-3")
        ),
    )
    (server,) = one_left.ended().status.servers
    assert (server.replicas, server.pod) == (3, "server-1")


def test_nor_by_an_operator_that_was_started_while_they_went() -> None:
    """When they were released stands in no status yet. Once the throughput of a GPU was that of
    three, by one."""
    over = (
        MEASURING.stored(0, 1).operator_restarted().without("Deployment", "server")
    )
    (last,) = (pod for pod in MEASURING.pods if pod.name == "server-3")
    (server,) = replace(over, pods=(*over.pods, last)).ended().status.servers
    assert (server.replicas, server.pod) == (3, "server-1")


def test_every_page_is_scraped() -> None:
    assert {target.pod for target in MEASURING.ended().scrape} == {
        "server-1",
        "server-2",
        "server-3",
    }


@pytest.mark.parametrize("name", ["server-1", "server-2", "server-3"])
def test_a_restart_of_any_is_the_end(name: str) -> None:
    status = restarted(MEASURING, name).log_read().ended().status
    assert standing(status, "Failed")["Failed"] == "True (ServerRestarted)"


def test_one_that_was_replaced_is_the_end_as_well() -> None:
    others = [pod for pod in MEASURING.pods if pod.name != "server-3"]
    made = instant(FIRST_REQUEST + 60)
    fresh = MEASURING.another_server("server-4", created_at=made, started_at=made)
    replaced = fresh.__class__(**{**vars(fresh), "pods": (*others, fresh.pods[-1])})
    status = replaced.log_read().at(FIRST_REQUEST + 61).ended().status
    assert standing(status, "Failed")["Failed"] == "True (ServerRestarted)"


def test_as_long_as_all_live_the_run_goes_on() -> None:
    assert MEASURING.ended().status.phase == "Running"


def test_no_log_of_one_vouches_for_all() -> None:
    done = MEASURING.arrived(0, 1)
    alone = RUN.with_spec(server={"image": "v"}).measuring().arrived(0, 1)
    assert not any(
        isinstance(query, Compilations) for query in done.decide().lookups
    )
    assert any(isinstance(query, Compilations) for query in alone.decide().lookups)


def test_a_server_that_is_replaced_before_the_first_request_is_another_one_too() -> (
    None
):
    """The client keeps to the address that answered: every request would fail, and the fault would
    look like the variant's."""
    healthy = three(RUN.server_healthy()).settled()
    kept = tuple(pod for pod in healthy.pods if pod.name != "server-1")
    replaced = healthy.another_server("server-4")
    replaced = replaced.__class__(
        **{**vars(replaced), "pods": (*kept, replaced.pods[-1])}
    )
    decision = replaced.log_read().ended()
    assert decision.status.phase == "Failed"
    assert "restarted while it was measured" in (decision.status.message or "")


def test_one_that_was_replaced_while_it_loaded_is_not() -> None:
    loading = three(RUN.server_loading()).settled()
    kept = tuple(pod for pod in loading.pods if pod.name != "server-1")
    replaced = loading.another_server("server-4")
    replaced = replaced.__class__(
        **{**vars(replaced), "pods": (*kept, replaced.pods[-1])}
    )
    assert (
        replaced.reports(phase="WarmingUp", healthy_unix_us=unix_us(SCHEDULED + 5))
        .ended()
        .status.phase
        == "WarmingUp"
    )
