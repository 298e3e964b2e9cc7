"""Prefill, decode and proxy: all of them are the server, and any one's fault is the run's."""

import pytest
from benchrun.api import Reason
from benchrun.decide import Decision
from unit.decide.scenes import (
    FIRST_REQUEST,
    HEALTHY,
    SCHEDULED,
    SERVER_CREATED,
    SERVER_DIED,
    Scene,
    instant,
    unix_us,
)
from unit.decide.summaries import applied, standing
from unit.plan.specs import Json, rates, spec_body, workload

ROLES = ("prefill", "decode", "proxy")
SPLIT: Json = spec_body(
    server={
        "image": "v",
        "disaggregated": {
            "prefill": {"resources": {"limits": {"nvidia.com/gpu": 1}}},
            "decode": {"resources": {"limits": {"nvidia.com/gpu": 2}}},
            "kvTransfer": {"connector": "NixlConnector"},
        },
    },
    workloads=[workload("chat", load=rates("1", "4"))],
)
RUN = Scene(spec=SPLIT)


def pods(scene: Scene) -> Scene:
    """A pod of each role, running on a node."""
    for number, role in enumerate(ROLES):
        scene = scene.pod(
            role,
            name=f"{role}-1",
            uid=f"{role}-uid",
            node="n1",
            ip=f"10.0.0.{number + 20}",
            phase="Running",
            scheduled_at=instant(SCHEDULED),
            started_at=instant(SCHEDULED),
        )
    return scene


def measuring() -> Scene:
    made = (
        RUN.client_ready()
        .having(*(("Deployment", role) for role in ROLES))
        .at(SERVER_CREATED)
        .settled()
    )
    healthy = (
        pods(made)
        .reports(phase="WarmingUp", healthy_unix_us=unix_us(HEALTHY))
        .at(HEALTHY)
        .settled()
    )
    first = unix_us(FIRST_REQUEST)
    return (
        healthy.reports(
            phase="Measuring", first_request_unix_us=first, stage="chat/rate=1/r1"
        )
        .at(FIRST_REQUEST)
        .settled()
    )


MEASURING = measuring()


def ended(decision: Decision) -> tuple[str | None, str]:
    """Phase, and the reason that Complete gives."""
    return decision.status.phase, next(
        c.reason for c in decision.status.conditions if c.type == "Failed"
    )


def test_all_deployments_come_when_the_client_is_ready_and_all_services_before() -> (
    None
):
    early = RUN.client_created().ended().apply
    assert {m["kind"] for m in early} == {"Service"}
    assert {m["metadata"]["labels"]["benchrun.dev/role"] for m in early} >= {
        "prefill",
        "decode",
    }
    made = [
        m for m in RUN.client_ready().ended().apply if m["kind"] == "Deployment"
    ]
    assert [m["metadata"]["labels"]["benchrun.dev/role"] for m in made] == list(
        ROLES
    )


@pytest.mark.parametrize("role", ROLES)
def test_without_a_node_for_one_of_them_the_run_waits(role: str) -> None:
    made = (
        RUN.client_ready()
        .having(*(("Deployment", each) for each in ROLES))
        .at(SERVER_CREATED)
        .settled()
    )
    scene = pods(made).pod(role, scheduled_at=None, node=None, phase="Pending")
    assert scene.ended().status.phase == "WaitingForNode"
    assert pods(made).ended().status.phase == "Starting"


def test_servers_of_which_one_had_a_node_are_not_made_again() -> None:
    """Somebody let go of the GPUs while another waited for a node."""
    made = (
        RUN.client_ready()
        .having(*(("Deployment", each) for each in ROLES))
        .at(SERVER_CREATED)
        .settled()
    )
    scene = (
        pods(made)
        .pod("decode", scheduled_at=None, node=None, phase="Pending")
        .settled()
    )
    for each in ROLES:
        scene = scene.without("Deployment", each)
    decision = scene.ended()
    assert (applied(decision), standing(decision.status, "Failed")) == (
        [],
        {"Failed": "True (ServerGone)"},
    )


@pytest.mark.parametrize(
    ("role", "phase"), [("proxy", "WaitingForNode"), ("decode", "Failed")]
)
def test_the_deadline_to_start_counts_from_the_first_gpu(
    role: str, phase: str
) -> None:
    """The others wait for a node without a limit; a proxy takes none of what they wait for."""
    limits = {"startupDeadlineSeconds": 300, "pendingDeadlineSeconds": 0}
    made = (
        RUN.client_ready()
        .having(*(("Deployment", each) for each in ROLES))
        .at(SERVER_CREATED)
        .settled()
    )
    scene = pods(made).with_spec(**limits).log_read()
    for other in set(ROLES) - {role}:
        scene = scene.pod(other, scheduled_at=None, node=None, phase="Pending")
    assert scene.at(SCHEDULED + 301).decide().status.phase == phase


def test_a_proxy_that_holds_a_gpu_has_the_deadline_to_start() -> None:
    limits = {"startupDeadlineSeconds": 300, "pendingDeadlineSeconds": 0}
    made = (
        RUN.client_ready()
        .having(*(("Deployment", each) for each in ROLES))
        .at(SERVER_CREATED)
        .settled()
    )
    scene = pods(made).with_spec(**limits).log_read().pod("proxy", gpus=1)
    for other in ("prefill", "decode"):
        scene = scene.pod(other, scheduled_at=None, node=None, phase="Pending")
    assert scene.at(SCHEDULED + 301).decide().status.phase == "Failed"


def test_each_role_is_reported_separately_and_the_proxy_has_no_gpu() -> None:
    status = MEASURING.pod("prefill", gpus=1).pod("decode", gpus=2).ended().status
    assert [(s.role, s.pod, s.gpus, s.ready) for s in status.servers] == [
        ("prefill", "prefill-1", 1, True),
        ("decode", "decode-1", 2, True),
        ("proxy", "proxy-1", 0, True),
    ]


def test_both_vllms_are_scraped_and_the_proxy_is_not() -> None:
    assert [(t.role, t.url) for t in MEASURING.ended().scrape] == [
        ("prefill", "http://10.0.0.20:8000/metrics"),
        ("decode", "http://10.0.0.21:8000/metrics"),
    ]


@pytest.mark.parametrize("role", ROLES)
def test_one_that_restarts_ends_the_run(role: str) -> None:
    decision = (
        MEASURING.pod(role, restarts=1, last_terminated=SERVER_DIED)
        .log_read()
        .ended()
    )
    assert ended(decision) == ("Failed", Reason.SERVER_RESTARTED)
    assert f"of the role {role} restarted" in (decision.status.message or "")


@pytest.mark.parametrize("role", ROLES)
def test_one_that_was_replaced_ends_the_run(role: str) -> None:
    decision = (
        MEASURING.pod(role, name=f"{role}-2", uid="another").log_read().ended()
    )
    assert ended(decision) == ("Failed", Reason.SERVER_RESTARTED)


@pytest.mark.parametrize("role", ROLES)
def test_one_whose_deployment_is_deleted_ends_the_run(role: str) -> None:
    assert ended(MEASURING.without("Deployment", role).ended()) == (
        "Failed",
        Reason.SERVER_GONE,
    )


@pytest.mark.parametrize("role", ROLES)
def test_the_fault_of_one_is_the_runs_and_names_its_field(role: str) -> None:
    made = (
        RUN.client_ready()
        .having(*(("Deployment", each) for each in ROLES))
        .at(SERVER_CREATED)
        .settled()
    )
    broken = pods(made).pod(
        role, waiting_reason="InvalidImageName", waiting_message="no such name"
    )
    assert broken.decide().last_words is not None
    decision = broken.log_read().ended()
    assert decision.status.phase == "Failed"
    field = (
        "spec.server.disaggregated.proxy"
        if role == "proxy"
        else "spec.server.image"
    )
    assert field in (decision.status.message or "")


def test_the_end_releases_every_role_at_once() -> None:
    decision = MEASURING.arrived(0, 1).ended()
    released = {(ref.kind, ref.name) for ref in decision.delete}
    assert {
        ("Deployment", f"br-qwen-6316e01c-{role}") for role in ROLES
    } <= released
