"""Objects that the API server does not take: the status says so, and waits or ends."""

from dataclasses import replace

import pytest
from benchrun.decide import CANCELLED, Answer, PodsRefused, RefusedObject
from unit.decide.scenes import DEPLOYMENT, JOB, PLAN, SERVICE, Scene, instant
from unit.decide.summaries import applied, deleted, standing

QUOTA = 'deployments.apps "x" is forbidden: exceeded quota: gpus, requested: 8, used: 8, limited: 8'
POLICY = 'admission webhook "policy" denied the request: no latest tag'
NONSENSE = 'Deployment.apps "x" is invalid: spec.template.spec.tolerations[0].operator: Invalid value: "Same"'


def refusing(
    scene: Scene, kind: str, role: str, message: str, *, curable: bool = True
) -> Scene:
    name = f"br-qwen-6316e01c-{role}"
    return scene.knowing(
        refused_object=RefusedObject(kind, name, role, message, curable=curable)
    )


SERVER_REFUSED = refusing(Scene().client_ready().settled(), *DEPLOYMENT, QUOTA)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        pytest.param("QuotaExceeded", QUOTA, id="quota"),
        pytest.param("ChildRefused", POLICY),
    ],
)
@pytest.mark.parametrize(
    ("scene", "refused"),
    [
        (Scene().client_ready().settled(), DEPLOYMENT),
        (Scene().having(PLAN, SERVICE), JOB),
    ],
)
def test_it_waits_with_the_api_servers_words_and_retries(
    scene: Scene, refused: tuple[str, str], reason: str, message: str
) -> None:
    decision = refusing(scene, *refused, message).decide()
    assert standing(decision.status, "Ready", "Failed") == {
        "Ready": f"False ({reason})",
        "Failed": f"False ({reason})",
    }
    assert f"{refused[0]} br-qwen-6316e01c-{refused[1]}" in (
        decision.status.message or ""
    )
    assert message in (decision.status.message or "")
    assert " ".join(refused) in applied(decision)


@pytest.mark.parametrize(
    ("remedy", "scene", "refused"),
    [
        pytest.param(
            "Correct spec.server",
            Scene().client_ready().settled(),
            DEPLOYMENT,
            id="server",
        ),
        pytest.param(
            "Correct spec.client", Scene().having(PLAN, SERVICE), JOB, id="client"
        ),
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
    # the client was ready at 10
    limited = SERVER_REFUSED.with_spec(pendingDeadlineSeconds=100)
    assert limited.at(109).decide().status.phase == "Pending", "no node would help"
    assert limited.at(100).decide().requeue_after_seconds == pytest.approx(10.0)
    ended = limited.at(110).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (PendingDeadlineExceeded)"}
    assert "exceeded quota: gpus" in (ended.message or "")


def test_pods_of_a_deployment_that_are_never_made_meet_the_pending_deadline() -> (
    None
):
    failure = "FailedCreate: pods are forbidden: exceeded quota: pods"
    scene = (
        Scene()
        .client_ready()
        .settled()
        .having(DEPLOYMENT, failure=failure)
        .with_spec(pendingDeadlineSeconds=100)
    )
    assert standing(scene.at(109).decide().status, "Complete") == {
        "Complete": "False (QuotaExceeded)"
    }
    ended = scene.at(110).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (PendingDeadlineExceeded)"}
    assert "exceeded quota: pods" in (ended.message or "")


def test_a_client_that_is_never_taken_meets_the_startup_deadline() -> None:
    scene = refusing(
        Scene().having(PLAN, SERVICE).settled(), *JOB, QUOTA
    ).with_spec(startupDeadlineSeconds=100)
    assert scene.at(99).decide().status.phase == "Preparing"
    ended = scene.at(100).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (StartupDeadlineExceeded)"}
    assert "exceeded quota" in (ended.message or "")


PODLESS = Scene().having(PLAN, SERVICE).having(JOB, created_at=instant(0)).settled()


def test_a_job_without_a_pod_is_reported_after_a_while() -> None:
    young = PODLESS.at(4).decide()
    assert standing(young.status, "Complete") == {
        "Complete": "False (PreparingClient)"
    }
    assert young.requeue_after_seconds == pytest.approx(6.0)
    status = PODLESS.at(10).decide().status
    assert standing(status, "Complete") == {"Complete": "False (NoPod)"}
    assert "kubectl describe job br-qwen-6316e01c-client" in (status.message or "")


def test_a_job_without_a_pod_meets_the_startup_deadline() -> None:
    ended = PODLESS.with_spec(startupDeadlineSeconds=100).at(100).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (StartupDeadlineExceeded)"}
    assert "kubectl describe job br-qwen-6316e01c-client" in (ended.message or "")


# ---- for how long
# ------------------------------------------------------------------------------------

BUSY = RefusedObject(
    "Job",
    "br-qwen-6316e01c-client",
    "client",
    "etcd: too slow",
    curable=True,
    is_transient=True,
)
UNASKED = 'Internal error occurred: failed calling webhook "w": failed to call webhook: EOF'
NO_CLASS = 'pods "x" is forbidden: no PriorityClass with name gold was found'
TOO_MUCH = QUOTA.replace("requested: 8", "requested: gpu=16").replace(
    "limited: 8", "limited: gpu=8"
)
READY = Scene().client_ready().settled()
WAITING = Scene().having(PLAN, SERVICE).settled()
UNMADE = READY.having(DEPLOYMENT)


def failing(words: str) -> Scene:
    return READY.having(DEPLOYMENT, failure=f"FailedCreate: {words}")


def asked(words: str) -> Scene:
    """The client's Job has no pod, and an event says why."""
    return PODLESS.with_answers(
        {PodsRefused("Job", "br-qwen-6316e01c-client", "Job-uid"): Answer(words)}
    )


A_POLICY = refusing(READY, *DEPLOYMENT, f"x is forbidden: {POLICY}", curable=False)
LIMITED = [
    (60, "ChildRefused", "spec.client", refusing(WAITING, *JOB, POLICY)),
    (60, "ChildRefused", "spec.server", refusing(READY, *DEPLOYMENT, POLICY)),
    (60, "ChildRefused", "spec.server", A_POLICY),
    (
        60,
        "ChildRefused",
        "spec.server.resources",
        refusing(READY, *DEPLOYMENT, TOO_MUCH),
    ),
    (600, "ChildRefused", "", refusing(WAITING, *JOB, UNASKED)),
    (600, "ChildRefused", "", WAITING.knowing(refused_object=BUSY)),
    (60, "PodRejected", "spec.server.pod.priorityClassName", failing(NO_CLASS)),
    (600, "PodRejected", "", failing(UNASKED)),
    (60, "PodRejected", "spec.client.pod.priorityClassName", asked(NO_CLASS)),
    (600, "PodRejected", "", asked(UNASKED)),
]


@pytest.mark.parametrize(("seconds", "reason", "field", "scene"), LIMITED)
def test_what_is_no_full_quota_ends_the_run(
    seconds: int, reason: str, field: str, scene: Scene
) -> None:
    scene = scene.with_spec(startupDeadlineSeconds=0).at(1000)
    waiting = scene.settled().at(1000 + seconds - 1).decide()
    assert standing(waiting.status, "Failed") == {"Failed": f"False ({reason})"}
    assert waiting.status.phase != "WaitingForNode", "no node would help"
    assert waiting.requeue_after_seconds == pytest.approx(1.0)
    ended = scene.settled().at(1000 + seconds).decide().status
    assert standing(ended, "Failed") == {"Failed": f"True ({reason})"}
    assert field in (ended.message or "")


@pytest.mark.parametrize("scene", [SERVER_REFUSED, failing(QUOTA), asked(QUOTA)])
def test_a_quota_that_could_have_room_is_waited_for(scene: Scene) -> None:
    scene = (
        scene.with_spec(startupDeadlineSeconds=0).at(1000).settled().at(1_000_000)
    )
    status = scene.decide().status
    assert standing(status, "Failed") == {"Failed": "False (QuotaExceeded)"}
    assert status.phase in ("Pending", "Preparing"), "no node would help"
    assert status.blocked is None


def test_what_flaps_between_a_ruling_and_no_answer_ends_too() -> None:
    scene = failing(UNASKED).at(1000).settled()
    for seconds in range(1010, 1060, 10):
        words = NO_CLASS if seconds % 20 else UNASKED
        scene = replace(scene, objects=failing(words).objects).at(seconds).settled()
    assert scene.decide().status.phase == "Pending"
    ended = (
        replace(scene, objects=failing(NO_CLASS).objects).at(1060).decide().status
    )
    assert standing(ended, "Failed") == {"Failed": "True (PodRejected)"}


def test_what_is_admitted_after_all_goes_on() -> None:
    seen = failing(NO_CLASS).at(1000).settled()
    made = replace(seen, objects=UNMADE.objects).pod(
        "server", created_at=instant(1050)
    )
    status = made.at(2000).decide().status
    assert (status.phase, status.blocked) == ("WaitingForNode", None)


def test_why_a_job_has_no_pod_is_looked_up_again_and_again() -> None:
    query = PodsRefused("Job", "br-qwen-6316e01c-client", "Job-uid")
    assert query not in PODLESS.at(2).decide().lookups
    looking = PODLESS.at(3).decide()
    assert query in looking.lookups
    for late in (PODLESS.at(30), asked("").at(30)):
        decision = late.decide()
        assert (query in decision.lookups, decision.requeue_after_seconds) == (
            True,
            10.0,
        )
        assert standing(decision.status, "Complete") == {
            "Complete": "False (NoPod)"
        }
    made = PODLESS.pod("client").at(30).decide()
    assert query not in made.lookups


def test_a_job_that_is_made_now_is_looked_at_soon() -> None:
    """Where its pods are refused no event comes: neither the Job nor a pod changes."""
    for scene, seconds in (
        (Scene().having(PLAN, SERVICE), 3.0),
        (PODLESS.at(1), 2.0),
    ):
        assert scene.decide().requeue_after_seconds == seconds
    running = PODLESS.pod("client").at(1).decide()
    assert (running.requeue_after_seconds or 60.0) > 10.0


def test_a_client_deleted_by_hand_on_a_lost_node_frees_the_gpu() -> None:
    """Its pod never ends there, and its Job has not failed before it does."""
    scene = (
        Scene().measuring().pod("client", deleting=True).without("Job", "nobody")
    )
    objects = tuple(o for o in scene.objects if o.kind != "Job")
    failed = replace(scene, objects=objects).having(
        JOB, failure="BackoffLimitExceeded"
    )
    decision = failed.decide()
    assert (decision.ending or CANCELLED).reason == "ClientGone"
    assert "Deployment" in deleted(decision)


# ---- what was measured is refused
# ------------------------------------------------------------------------------------

LAST = Scene().measuring().stored(0).arrived(1).at(300)
LAST_REFUSED = refusing(LAST, "ConfigMap", "stage", QUOTA)


def test_a_record_that_is_rejected_does_not_stop_the_measurement() -> None:
    decision = refusing(
        Scene().measuring().arrived(0), "ConfigMap", "stage", QUOTA
    ).decide()
    assert standing(decision.status, "Complete") == {
        "Complete": "False (QuotaExceeded)"
    }
    assert (decision.status.phase, applied(decision)) == (
        "Running",
        ["ConfigMap stage 0"],
    )


def test_the_server_goes_while_the_last_record_waits_for_room() -> None:
    decision = LAST_REFUSED.decide()
    assert (deleted(decision), applied(decision)) == (
        ["Deployment"],
        ["ConfigMap stage 1"],
    )
    assert decision.status.phase == "Collecting"
    assert standing(decision.status, "Complete") == {
        "Complete": "False (QuotaExceeded)"
    }


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(
            LAST_REFUSED.with_spec(runDeadlineSeconds=240),
            id="the run's deadline has passed",
        ),
        pytest.param(
            refusing(LAST, "ConfigMap", "stage", "too large", curable=False),
            id="it will never be taken",
        ),
    ],
)
def test_results_are_not_lost_for_a_record_that_cannot_be_stored(
    scene: Scene,
) -> None:
    decision = scene.ended()
    assert (decision.status.phase, applied(decision)) == ("Completed", [])
    assert [r.verdict for r in decision.status.results] == ["Valid", "Valid"]
    assert [(t.field, t.total, t.included) for t in decision.status.truncated] == [
        ("records", 2, 1)
    ]


@pytest.mark.parametrize("deadline", [0, 100_000])
def test_records_are_tried_every_15_seconds_for_ten_minutes_then_judged_from_memory(
    deadline: int,
) -> None:
    scene = LAST_REFUSED.with_spec(runDeadlineSeconds=deadline).without(
        "Deployment", "server"
    )
    posts = []
    seconds = 300
    while seconds < 2000 and scene.at(seconds).decide().status.blocked is not None:
        decision = scene.at(seconds).answered_but_judged()
        if decision.apply:
            posts.append(seconds)
            scene = scene.knowing(refused_at=instant(seconds))
        scene = scene.at(seconds).settled()
        seconds += int(decision.requeue_after_seconds or 1)
    assert (posts[0], posts[1], posts[-1], len(posts)) == (300, 315, 885, 40)
    assert seconds == 900
    decision = scene.at(seconds).ended()
    assert (decision.status.phase, decision.forget) == ("Completed", True)


def test_news_in_between_do_not_have_them_tried() -> None:
    scene = LAST_REFUSED.knowing(refused_at=instant(300)).settled()
    assert applied(scene.at(314).decide()) == []
    assert applied(scene.at(315).decide()) == ["ConfigMap stage 1"]
    measuring = refusing(
        Scene().measuring().arrived(0), "ConfigMap", "stage", QUOTA
    )
    refused = measuring.knowing(refused_at=instant(80))
    assert applied(refused.at(94).decide()) == []
    assert refused.at(94).decide().requeue_after_seconds == pytest.approx(1.0)
    assert applied(refused.at(95).decide()) == ["ConfigMap stage 0"]


def test_a_run_says_which_records_are_lost_and_why() -> None:
    status = (
        refusing(LAST, "ConfigMap", "stage", QUOTA).settled().at(900).ended().status
    )
    assert standing(status, "Stored", "Complete") == {
        "Stored": "False (RecordsNotStored)",
        "Complete": "True (Measured)",
    }
    stored = next(c for c in status.conditions if c.type == "Stored")
    assert QUOTA in stored.message
    lost = "chat/rate=4/r1"
    assert all(lost in words for words in (stored.message, status.message or ""))
    found = {finding.code: finding for finding in status.findings}[
        "RecordNotStored"
    ]
    assert (found.severity, found.worst_stage) == ("Note", lost)
    assert found.evidence == {"unstored": 1, "stages": lost}
    assert status.verdict == "Valid"


def test_what_was_judged_before_a_record_was_refused_is_judged_with_it() -> None:
    """The last pass of a cancelled run is the first that meets the refusal."""
    judged = LAST.with_spec(cancel=True).answered()
    decision = refusing(judged, "ConfigMap", "stage", QUOTA).ended()
    assert decision.status.phase == "Cancelled"
    assert "RecordNotStored" in {
        finding.code for finding in decision.status.findings
    }


def test_a_run_whose_records_are_all_stored_says_so() -> None:
    status = Scene().measuring().stored(0, 1).at(300).ended().status
    assert standing(status, "Stored") == {"Stored": "True (AllStored)"}
    assert "RecordNotStored" not in {finding.code for finding in status.findings}


def test_the_others_are_judged_all_the_same_and_the_client_keeps_its_own_until_then() -> (
    None
):
    scene = refusing(LAST, "ConfigMap", "stage", "too large", curable=False)
    decision = scene.decide()
    assert (
        deleted(decision),
        applied(decision),
        decision.acknowledge,
        decision.forget,
    ) == (
        ["Deployment"],
        [],
        1,
        False,
    )
    assert scene.ended().acknowledge == 2


def test_what_the_api_server_has_no_time_for_is_reported_and_retried() -> None:
    """Once: the pass ended at the refusal, and its status was never written."""
    decision = Scene().having(PLAN, SERVICE).knowing(refused_object=BUSY).decide()
    assert standing(decision.status, "Ready", "Failed") == {
        "Ready": "False (ChildRefused)",
        "Failed": "False (ChildRefused)",
    }
    assert "etcd: too slow" in (decision.status.message or "")
    assert applied(decision) == ["Job client"]


def test_a_transient_refusal_meets_the_startup_deadline_too() -> None:
    scene = WAITING.knowing(refused_object=BUSY).with_spec(
        startupDeadlineSeconds=100
    )
    assert standing(scene.at(100).decide().status, "Failed") == {
        "Failed": "True (StartupDeadlineExceeded)"
    }


def test_a_cancelled_run_ends_whatever_cannot_be_stored() -> None:
    decision = LAST_REFUSED.with_spec(cancel=True).ended()
    assert (decision.status.phase, applied(decision)) == ("Cancelled", [])
