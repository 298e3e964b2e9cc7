"""Objects that the API server does not take: the status says so, and waits or ends."""

import pytest
from benchrun.decide import RefusedObject
from unit.decide.scenes import DEPLOYMENT, JOB, PLAN, SERVICE, Scene, instant
from unit.decide.summaries import applied, deleted, standing

QUOTA = 'deployments.apps "x" is forbidden: exceeded quota: gpus, requested: 8, used: 8, limited: 8'
POLICY = 'admission webhook "policy" denied the request: no latest tag'
NONSENSE = 'Deployment.apps "x" is invalid: spec.template.spec.tolerations[0].operator: Invalid value: "Same"'


def refusing(scene: Scene, kind: str, role: str, message: str, *, curable: bool = True) -> Scene:
    name = f"br-qwen-6316e01c-{role}"
    return scene.knowing(refused_object=RefusedObject(kind, name, role, message, curable=curable))


SERVER_REFUSED = refusing(Scene().client_ready().settled(), *DEPLOYMENT, QUOTA)


@pytest.mark.parametrize(
    ("reason", "message"),
    [pytest.param("QuotaExceeded", QUOTA, id="quota"), pytest.param("ChildRefused", POLICY)],
)
@pytest.mark.parametrize(
    ("scene", "refused"),
    [(Scene().client_ready().settled(), DEPLOYMENT), (Scene().having(PLAN, SERVICE), JOB)],
)
def test_it_waits_with_the_api_servers_words_and_retries(
    scene: Scene, refused: tuple[str, str], reason: str, message: str
) -> None:
    decision = refusing(scene, *refused, message).decide()
    assert standing(decision.status, "Ready", "Failed") == {
        "Ready": f"False ({reason})",
        "Failed": f"False ({reason})",
    }
    assert f"{refused[0]} br-qwen-6316e01c-{refused[1]}" in (decision.status.message or "")
    assert message in (decision.status.message or "")
    assert " ".join(refused) in applied(decision)


@pytest.mark.parametrize(
    ("remedy", "scene", "refused"),
    [
        pytest.param(
            "Correct spec.server", Scene().client_ready().settled(), DEPLOYMENT, id="server"
        ),
        pytest.param("Correct spec.client", Scene().having(PLAN, SERVICE), JOB, id="client"),
    ],
)
def test_what_is_invalid_ends_the_run_with_those_words(
    remedy: str, scene: Scene, refused: tuple[str, str]
) -> None:
    decision = refusing(scene, *refused, NONSENSE, curable=False).decide()
    assert standing(decision.status, "Failed") == {"Failed": "True (ChildInvalid)"}
    assert NONSENSE in (decision.status.message or "")
    assert remedy in (decision.status.message or "")
    assert applied(decision) == []


def test_a_server_that_is_never_taken_meets_the_pending_deadline() -> None:
    limited = SERVER_REFUSED.with_spec(pendingDeadlineSeconds=100)  # the client was ready at 10
    assert limited.at(109).decide().status.phase == "WaitingForNode"
    assert limited.at(100).decide().requeue_after_seconds == pytest.approx(10.0)
    ended = limited.at(110).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (PendingDeadlineExceeded)"}
    assert "exceeded quota: gpus" in (ended.message or "")


def test_pods_of_a_deployment_that_are_never_made_meet_the_pending_deadline() -> None:
    failure = "FailedCreate: pods are forbidden: exceeded quota: pods"
    scene = (
        Scene()
        .client_ready()
        .settled()
        .having(DEPLOYMENT, failure=failure)
        .with_spec(pendingDeadlineSeconds=100)
    )
    assert standing(scene.at(109).decide().status, "Complete") == {
        "Complete": "False (PodRejected)"
    }
    ended = scene.at(110).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (PendingDeadlineExceeded)"}
    assert "exceeded quota: pods" in (ended.message or "")


def test_a_client_that_is_never_taken_meets_the_startup_deadline() -> None:
    scene = refusing(Scene().having(PLAN, SERVICE).settled(), *JOB, QUOTA).with_spec(
        startupDeadlineSeconds=100
    )
    assert scene.at(99).decide().status.phase == "Preparing"
    ended = scene.at(100).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (StartupDeadlineExceeded)"}
    assert "exceeded quota" in (ended.message or "")


PODLESS = Scene().having(PLAN, SERVICE).having(JOB, created_at=instant(0)).settled()


def test_a_job_without_a_pod_is_reported_after_a_while() -> None:
    young = PODLESS.at(4).decide()
    assert standing(young.status, "Complete") == {"Complete": "False (PreparingClient)"}
    assert young.requeue_after_seconds == pytest.approx(6.0)
    status = PODLESS.at(10).decide().status
    assert standing(status, "Complete") == {"Complete": "False (NoPod)"}
    assert "kubectl describe job br-qwen-6316e01c-client" in (status.message or "")


def test_a_job_without_a_pod_meets_the_startup_deadline() -> None:
    ended = PODLESS.with_spec(startupDeadlineSeconds=100).at(100).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (StartupDeadlineExceeded)"}
    assert "kubectl describe job br-qwen-6316e01c-client" in (ended.message or "")


# ---- what was measured is refused
# ------------------------------------------------------------------------------------

LAST = Scene().measuring().stored(0).arrived(1).at(300)
LAST_REFUSED = refusing(LAST, "ConfigMap", "stage", QUOTA)


def test_a_record_that_is_rejected_does_not_stop_the_measurement() -> None:
    decision = refusing(Scene().measuring().arrived(0), "ConfigMap", "stage", QUOTA).decide()
    assert standing(decision.status, "Complete") == {"Complete": "False (QuotaExceeded)"}
    assert (decision.status.phase, applied(decision)) == ("Running", ["ConfigMap stage 0"])


def test_the_server_goes_while_the_last_record_waits_for_room() -> None:
    decision = LAST_REFUSED.decide()
    assert (deleted(decision), applied(decision)) == (["Deployment"], ["ConfigMap stage 1"])
    assert decision.status.phase == "Collecting"
    assert standing(decision.status, "Complete") == {"Complete": "False (QuotaExceeded)"}


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(
            LAST_REFUSED.with_spec(runDeadlineSeconds=240), id="the run's deadline has passed"
        ),
        pytest.param(
            refusing(LAST, "ConfigMap", "stage", "too large", curable=False),
            id="it will never be taken",
        ),
    ],
)
def test_results_are_not_lost_for_a_record_that_cannot_be_stored(scene: Scene) -> None:
    decision = scene.ended()
    assert (decision.status.phase, applied(decision)) == ("Completed", [])
    assert [r.verdict for r in decision.status.results] == ["Valid", "Valid"]
    assert [(t.field, t.total, t.included) for t in decision.status.truncated] == [
        ("records", 2, 1)
    ]


def test_the_others_are_judged_all_the_same_and_the_client_keeps_its_own_until_then() -> None:
    scene = refusing(LAST, "ConfigMap", "stage", "too large", curable=False)
    decision = scene.decide()
    assert (deleted(decision), applied(decision), decision.acknowledge, decision.forget) == (
        ["Deployment"],
        [],
        1,
        False,
    )
    assert scene.ended().acknowledge == 2


def test_what_the_api_server_has_no_time_for_is_reported_and_retried() -> None:
    """Once: the pass ended at the refusal, and its status was never written."""
    busy = RefusedObject(
        "Job",
        "br-qwen-6316e01c-client",
        "client",
        "etcd: too slow",
        curable=True,
        is_transient=True,
    )
    decision = Scene().having(PLAN, SERVICE).knowing(refused_object=busy).decide()
    assert standing(decision.status, "Ready", "Failed") == {
        "Ready": "False (ChildRefused)",
        "Failed": "False (ChildRefused)",
    }
    assert "etcd: too slow" in (decision.status.message or "")
    assert standing(decision.status, "Failed") == {"Failed": "False (ChildRefused)"}
    assert applied(decision) == ["Job client"]


def test_a_transient_refusal_meets_the_startup_deadline_too() -> None:
    busy = RefusedObject(
        "Job",
        "br-qwen-6316e01c-client",
        "client",
        "etcd: too slow",
        curable=True,
        is_transient=True,
    )
    scene = (
        Scene()
        .having(PLAN, SERVICE)
        .settled()
        .knowing(refused_object=busy)
        .with_spec(startupDeadlineSeconds=100)
    )
    assert standing(scene.at(100).decide().status, "Failed") == {
        "Failed": "True (StartupDeadlineExceeded)"
    }


def test_a_cancelled_run_ends_whatever_cannot_be_stored() -> None:
    decision = LAST_REFUSED.with_spec(cancel=True).ended()
    assert (decision.status.phase, applied(decision)) == ("Cancelled", [])
