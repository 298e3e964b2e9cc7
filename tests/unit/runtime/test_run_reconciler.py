"""One pass: what is decided is done, in order, once, and told in the status."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from benchrun import names
from benchrun.api import BenchmarkRunStatus, Blocked, as_json
from benchrun.decide import Decision, Event, Facts, Ref
from benchrun.effects import (
    ClusterError,
    Forbidden,
    Invalid,
    NotFound,
    Throttled,
    Unavailable,
)
from benchrun.observe import Declared
from benchrun.runtime.queue import Later
from benchrun.runtime.reconciler import REFUSED_RETRY_SECONDS
from benchrun.runtime.run_reconciler import SECOND_LOOK_SECONDS
from unit.runtime.bodies import (
    KEY,
    NAMESPACE,
    UID,
    child_body,
    run_body,
    stage_body,
)
from unit.runtime.memory_cluster import status_of
from unit.runtime.scene import (
    ENDED,
    NOW,
    PULL,
    RUNNING,
    SCRAPE,
    STAGE_0,
    Scene,
    arrival,
    manifest,
    stage,
)

DAY = 86_400


async def test_decision_sees_run_children_and_time(scene: Scene) -> None:
    scene.indexes.heard("Job", child_body("br-chat-4e20caa2-client"), deleted=False)
    await scene.once()
    facts = scene.facts_seen[0]
    assert (facts.run.uid, facts.now) == (UID, NOW)
    assert [c.name for c in facts.children.objects] == ["br-chat-4e20caa2-client"]


async def test_live_figures_are_written_less_often_when_many_runs_go_on(
    scene: Scene,
) -> None:
    await scene.once()
    scene.sessions.active = 200
    await scene.once()
    assert [w.context.live_interval_seconds for w in scene.facts_seen] == [
        5.0,
        10.0,
    ]


async def test_everything_is_done_in_order(scene: Scene) -> None:
    scene.cluster.add("Job", child_body("old", uid="old"))
    await scene.once(
        delete=(Ref("Job", NAMESPACE, "old", "old"),),
        apply=(manifest("a"), manifest("b")),
        acknowledge=2,
        events=(Event("Running", "go"),),
    )
    assert scene.cluster.log == [
        ("delete", "Job", "old"),
        ("apply", "Service", "a"),
        ("apply", "Service", "b"),
        ("acknowledge", "2"),
        ("status", "BenchmarkRun", "chat"),
        ("get", "BenchmarkRun", "chat"),
        ("event", "Running", "chat"),
    ]


async def test_passes_over_a_run_that_does_not_change_write_nothing(
    scene: Scene,
) -> None:
    await scene.once(apply=(manifest(),))
    scene.cluster.log.clear()
    for _ in range(5):
        await scene.once()
    assert scene.cluster.log == []


async def test_object_just_applied_is_known_before_the_watch_tells(
    scene: Scene,
) -> None:
    await scene.once(apply=(manifest(),))
    await scene.once()
    assert [c.name for c in scene.facts_seen[1].children.objects] == [
        manifest()["metadata"]["name"]
    ]


async def test_child_that_exists_is_never_corrected(scene: Scene) -> None:
    await scene.once(apply=(manifest(),))
    changed = {**manifest(), "spec": {"clusterIP": "None"}}
    await scene.once(apply=(changed,))
    assert (
        "spec"
        not in scene.cluster.objects[
            "Service", NAMESPACE, "br-chat-4e20caa2-server"
        ]
    )


async def test_requeue_is_what_the_decision_says(scene: Scene) -> None:
    assert await scene.once(requeue_after_seconds=12.5) == 12.5
    assert await scene.once(requeue_after_seconds=None) is None


async def test_background_follows_the_decision(scene: Scene) -> None:
    await scene.once(scrape=(SCRAPE,), pull=PULL)
    assert scene.sessions.followed == [((SCRAPE,), PULL)]


async def test_a_client_that_missed_the_first_notice_gets_another(
    scene: Scene,
) -> None:
    scene.sessions.hears = False
    await scene.once(acknowledge=1)
    scene.sessions.hears = True
    for _ in range(3):
        await scene.once(acknowledge=1)
    await scene.once(acknowledge=2)
    assert [e[1] for e in scene.cluster.log if e[0] == "acknowledge"] == [
        "1",
        "1",
        "2",
    ]


async def test_status_is_written_with_what_changed(scene: Scene) -> None:
    await scene.once()
    assert status_of(scene.cluster) == as_json(RUNNING)


async def test_stale_pass_never_overwrites_and_rereads(scene: Scene) -> None:
    theirs = {"message": "somebody else's", "observedGeneration": 0}
    scene.cluster.add("BenchmarkRun", run_body(version=150, status=theirs))
    with pytest.raises(Later):
        await scene.once(events=(Event("Running", "go"),))
    assert status_of(scene.cluster) == theirs
    assert scene.cluster.events == []
    assert scene.count("conflict") == 1
    await scene.once(events=(Event("Running", "go"),))
    assert status_of(scene.cluster) == as_json(RUNNING)
    assert [e.reason for e in scene.cluster.events] == ["Running"]


async def test_run_recreated_under_the_same_name_is_not_given_the_old_ones_status(
    scene: Scene,
) -> None:
    scene.cluster.add("BenchmarkRun", run_body(uid="other", version=150))
    with pytest.raises(Later):
        await scene.once()
    assert status_of(scene.cluster) == {}
    run = scene.indexes.run(KEY)
    assert run is not None
    assert run.uid == "other"


@pytest.mark.parametrize("uid", [UID, "made-anew"])
async def test_what_came_to_be_during_a_pass_is_never_overwritten(
    scene: Scene, uid: str
) -> None:
    """Once the newest version that was known was named, not the one that was decided on: an end
    that another operator had just written was taken back, and a run made anew was given the status
    of the old one."""
    over = run_body(
        uid=uid,
        version=150,
        status={"phase": "Completed", "message": "another operator's"},
    )

    async def meanwhile(ref: Ref) -> None:
        scene.cluster.add("BenchmarkRun", over)
        scene.indexes.heard("BenchmarkRun", over, deleted=False)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scene.cluster, "delete", meanwhile)
        patched.setattr(scene.cluster, "patch_status", blind_to_uids(scene))
        with pytest.raises(Later):
            await scene.once(delete=(Ref("Job", NAMESPACE, "old", "old"),))
    assert status_of(scene.cluster) == {
        "phase": "Completed",
        "message": "another operator's",
    }


def blind_to_uids(scene: Scene) -> Callable[..., Awaitable[dict[str, Any]]]:
    """As /status is, which heeds the version alone."""
    patch_status = scene.cluster.patch_status

    async def patch(
        declared: Declared, *, resource_version: str, changes: dict[str, Any]
    ) -> dict[str, Any]:
        there = scene.cluster.objects[
            declared.kind, declared.namespace, declared.name
        ]
        same = replace(declared, uid=there["metadata"]["uid"])
        return await patch_status(
            same, resource_version=resource_version, changes=changes
        )

    return patch


async def test_run_that_turns_out_to_be_gone_is_forgotten(scene: Scene) -> None:
    del scene.cluster.objects["BenchmarkRun", NAMESPACE, "chat"]
    scene.cluster.broken["status"] = NotFound("gone", code=404)
    with pytest.raises(Later):
        await scene.once()
    scene.indexes.heard("BenchmarkRun", run_body(version=101), deleted=True)
    assert await scene.once() is None
    assert len(scene.memories) == 0


async def test_run_that_is_over_is_forgotten_after_its_status_was_written(
    scene: Scene,
) -> None:
    await scene.once(scrape=(SCRAPE,))
    scene.cluster.add("BenchmarkRun", run_body(version=2000))
    with pytest.raises(Later):
        await scene.once(
            forget=True, status=RUNNING.model_copy(update={"message": "over"})
        )
    assert (len(scene.memories), scene.sessions.stopped) == (1, 0)
    await scene.once(
        forget=True,
        status=RUNNING.model_copy(update={"message": "over"}),
        requeue_after_seconds=9,
    )
    assert (len(scene.memories), scene.sessions.stopped) == (0, 1)


async def test_run_that_ended_reads_and_writes_nothing() -> None:
    scene = Scene(status=ENDED)
    scene.cluster.add("ConfigMap", stage_body())
    await scene.listed()
    await scene.once(status=BenchmarkRunStatus.model_validate(ENDED), forget=True)
    assert scene.cluster.log == []
    assert len(scene.memories) == 0


async def test_run_that_has_ended_and_holds_nothing_is_not_decided_on() -> None:
    """Of ten thousand such runs an operator that starts looks at each."""
    scene = Scene(status=ENDED)
    scene.cluster.add("ConfigMap", stage_body())
    await scene.listed()
    assert await scene.once() is None
    assert (scene.facts_seen, scene.cluster.log) == ([], [])
    scene.indexes.heard("Deployment", child_body(), deleted=False)
    await scene.once()
    assert len(scene.facts_seen) == 1


async def test_run_whose_time_is_up_is_deleted_by_uid(scene: Scene) -> None:
    await scene.once(delete_run=True, forget=True)
    assert ("BenchmarkRun", NAMESPACE, "chat") not in scene.cluster.objects


@pytest.fixture
async def finished() -> Scene:
    """A run that has ended and is to be deleted some day, in a cluster that was read."""
    scene = Scene(status=ENDED)
    scene.cluster.objects["BenchmarkRun", NAMESPACE, "chat"]["spec"] |= {
        "ttlSecondsAfterFinished": 7 * DAY
    }
    await scene.listed()
    return scene


@pytest.mark.parametrize(
    ("by_ours", "by_the_other", "is_deleted"),
    [(30 * DAY, 0, False), (0, 30 * DAY, False), (7 * DAY, 7 * DAY, True)],
    ids=["ours jumps ahead", "the other jumps ahead", "time passed"],
)
async def test_results_are_deleted_only_when_two_clocks_say_so(
    finished: Scene, by_ours: float, by_the_other: float, is_deleted: bool
) -> None:
    scene = finished
    reconciler = finished.reconciler
    scene.decide = lambda facts: Decision(
        status=BenchmarkRunStatus.model_validate(ENDED),
        delete_run=facts.now >= NOW + timedelta(days=7),
        forget=True,
    )
    reconciler.now = lambda: NOW + timedelta(seconds=by_ours)
    reconciler.second_clock = lambda: NOW + timedelta(seconds=by_the_other)
    seconds = await reconciler(KEY)
    assert (
        ("BenchmarkRun", NAMESPACE, "chat") not in scene.cluster.objects
    ) is is_deleted
    assert seconds == (None if is_deleted or not by_ours else SECOND_LOOK_SECONDS)


@pytest.mark.parametrize("gone", [True, False])
async def test_deleted_run_is_dropped_without_a_decision(
    scene: Scene, gone: bool
) -> None:
    await scene.once()
    body = run_body(version=2000, deletionTimestamp="2026-11-21T12:00:00Z")
    scene.indexes.heard("BenchmarkRun", body, deleted=gone)
    scene.cluster.log.clear()
    assert await scene.once() is None
    assert (scene.cluster.log, len(scene.facts_seen), len(scene.memories)) == (
        [],
        1,
        0,
    )
    assert scene.sessions.stopped == 1


SERVER = ("Deployment", names.child_name("chat", UID, names.ROLE_SERVER))
JOB = ("Job", names.child_name("chat", UID, names.ROLE_CLIENT))


def heard_child(scene: Scene, kind: str, name: str, **more: Any) -> None:
    role = name.rpartition("-")[2]
    body = child_body(name, uid=f"uid-of-{role}", role=role, **more)
    scene.cluster.add(kind, body)
    scene.indexes.heard(kind, body, deleted=False)


def heard_gone(scene: Scene) -> None:
    scene.cluster.objects.pop(("BenchmarkRun", NAMESPACE, "chat"), None)
    scene.indexes.heard("BenchmarkRun", run_body(version=2000), deleted=True)


def orphaned(scene: Scene) -> None:
    """The garbage collector takes the owner from what the run has, and then the run away."""
    for kind, name in (SERVER, JOB):
        heard_child(scene, kind, name)
        body = child_body(
            name, uid=f"uid-of-{name.rpartition('-')[2]}", version=300
        )
        body["metadata"]["ownerReferences"] = []
        body["metadata"]["labels"][names.LABEL_ROLE] = name.rpartition("-")[2]
        scene.indexes.heard(kind, body, deleted=False)
    heard_gone(scene)


def deleted_by(scene: Scene) -> list[tuple[str, ...]]:
    return [entry for entry in scene.cluster.log if entry[0] == "delete"]


@pytest.mark.parametrize("again", [False, True])
async def test_what_a_run_held_goes_with_it_also_when_it_was_orphaned(
    scene: Scene, again: bool
) -> None:
    await scene.once()
    orphaned(scene)
    if again:
        body = run_body(uid="again", version=3000)
        scene.cluster.add("BenchmarkRun", body)
        scene.indexes.heard("BenchmarkRun", body, deleted=False)
    scene.cluster.log.clear()
    await scene.once()
    assert [entry[1:3] for entry in deleted_by(scene)] == [SERVER, JOB]
    assert [entry[0] for entry in scene.cluster.log[:2]] == ["get", "delete"]


async def test_what_could_not_be_deleted_of_a_run_that_is_gone_is_retried(
    scene: Scene,
) -> None:
    orphaned(scene)
    scene.cluster.broken["delete"] = Unavailable("down")
    assert await scene.once() == REFUSED_RETRY_SECONDS


@pytest.mark.parametrize("known", [None, "earlier"])
async def test_children_heard_of_before_their_run_stay(known: str | None) -> None:
    """Each kind has a watch of its own, and another operator may have made the run just now."""
    scene = Scene()
    if known is not None:
        scene.indexes.heard(
            "BenchmarkRun", run_body(uid=known, version=1), deleted=False
        )
    for kind, name in (SERVER, JOB):
        heard_child(scene, kind, name)
    await scene.once()
    assert deleted_by(scene) == []
    assert scene.facts_seen[0].run.uid == UID


async def test_nothing_is_deleted_while_it_is_not_known_which_run_exists(
    scene: Scene,
) -> None:
    orphaned(scene)
    scene.cluster.broken["get"] = Unavailable("down")
    assert await scene.once() == REFUSED_RETRY_SECONDS
    assert deleted_by(scene) == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"name": "somebodys-server"}, id="of-another-name"),
        pytest.param(
            {"name": SERVER[1], "owner_uid": None}, id="that-was-never-owned"
        ),
        pytest.param(
            {"name": SERVER[1], "owner_uid": "other"}, id="of-another-run"
        ),
    ],
)
async def test_what_a_run_that_is_gone_did_not_make_stays(
    scene: Scene, body: dict[str, Any]
) -> None:
    child = child_body(**body)
    scene.indexes.heard("Deployment", child, deleted=False)
    heard_gone(scene)
    assert await scene.once() is None
    assert deleted_by(scene) == []


async def test_memory_of_a_run_is_not_handed_to_another_of_the_same_name(
    scene: Scene,
) -> None:
    await scene.once()
    scene.collected.conflict = "Service x is not ours"
    scene.indexes.heard(
        "BenchmarkRun", run_body(uid="again", version=2000), deleted=False
    )
    scene.cluster.add("BenchmarkRun", run_body(uid="again", version=2000))
    await scene.once()
    assert scene.facts_seen[1].collected.conflict is None


@pytest.mark.parametrize(
    "error",
    [Unavailable("down", code=503), Throttled("slow down", retry_after_seconds=1)],
)
async def test_a_transient_failure_is_retried_and_the_status_written(
    scene: Scene, error: ClusterError
) -> None:
    """A webhook that denies Jobs with 503 must not keep the deadlines from beginning."""
    scene.cluster.broken["apply"] = error
    with pytest.raises(Later, match=str(error)):
        await scene.once(
            apply=(manifest(), manifest("b")),
            acknowledge=1,
            events=(Event("Running", "go"),),
        )
    assert status_of(scene.cluster)["phase"] == "Running"
    assert [e[0] for e in scene.cluster.writes()] == ["apply", "status", "event"]
    assert ("acknowledge", "1") not in scene.cluster.log
    refused = scene.collected.refused_object
    assert refused is not None
    assert refused.is_transient
    del scene.cluster.broken["apply"]
    assert await scene.once(apply=(manifest(),), acknowledge=1) == 0.0
    await scene.once(acknowledge=1)
    assert ("acknowledge", "1") in scene.cluster.log


async def test_throttling_is_obeyed(scene: Scene) -> None:
    scene.cluster.broken["apply"] = Throttled("slow down", retry_after_seconds=17)
    with pytest.raises(Later) as later:
        await scene.once(apply=(manifest(),))
    assert later.value.seconds == 17


QUOTA = Forbidden(
    'deployments.apps "x" is forbidden: exceeded quota: gpus', code=403
)
INVALID = Invalid(
    'Deployment.apps "x" is invalid: spec.template.spec.tolerations[0]: nonsense',
    code=422,
)


@pytest.mark.parametrize(
    ("error", "reason", "curable"),
    [(QUOTA, "QuotaExceeded", True), (INVALID, "ChildInvalid", False)],
)
async def test_refusal_by_the_cluster_is_decided_upon_at_once_and_reported(
    scene: Scene, error: Forbidden | Invalid, reason: str, curable: bool
) -> None:
    scene.cluster.broken["apply"] = error
    assert await scene.once(apply=(manifest(), manifest("b"))) == 0.0
    assert ("apply", "Service", "b") not in scene.cluster.log
    await scene.once()
    refused = scene.facts_seen[1].collected.refused_object
    assert refused is not None
    assert (refused.kind, refused.name, refused.role) == (
        "Service",
        "br-chat-4e20caa2-server",
        "server",
    )
    assert (refused.message, refused.curable) == (str(error), curable)
    assert [(e.reason, e.warning) for e in scene.cluster.events] == [(reason, True)]


async def test_what_is_rejected_stands_in_the_status_and_is_retried_now_and_then(
    scene: Scene,
) -> None:
    scene.cluster.broken["apply"] = QUOTA
    waits = [
        await scene.once(apply=(manifest(),), requeue_after_seconds=100.0)
        for _ in range(4)
    ]
    assert waits == [0.0, 15.0, 15.0, 15.0]
    assert status_of(scene.cluster)["phase"] == "Running"
    assert len(scene.cluster.events) == 1
    del scene.cluster.broken["apply"]
    assert await scene.once(apply=(manifest(),)) == 0.0
    assert (
        await scene.once(apply=(manifest(),), requeue_after_seconds=100.0) == 100.0
    )
    assert scene.facts_seen[-1].collected.refused_object is None


async def test_words_that_change_with_every_answer_do_not_make_it_spin(
    scene: Scene,
) -> None:
    waits = []
    for request in range(3):
        scene.cluster.broken["apply"] = Forbidden(
            f"denied (request {request})", code=403
        )
        waits.append(await scene.once(apply=(manifest(),)))
    assert waits == [0.0, 15.0, 15.0]


async def test_nothing_is_acknowledged_or_finished_while_a_record_is_rejected(
    scene: Scene,
) -> None:
    scene.cluster.broken["apply"] = QUOTA
    one = arrival(0)
    two = arrival(1)
    for _ in range(3):
        await scene.once(apply=(stage(one), stage(two)), acknowledge=2, forget=True)
    assert [e for e in scene.cluster.log if e[0] in ("acknowledge", "status")] == []
    assert (
        "apply",
        "ConfigMap",
        names.stage_name("chat", UID, 1),
    ) in scene.cluster.log
    await scene.once(acknowledge=2, forget=True)
    assert [
        e[0] for e in scene.cluster.log if e[0] in ("acknowledge", "status")
    ] == [
        "acknowledge",
        "status",
    ]


async def test_when_a_record_was_refused_and_what_the_run_waits_for_is_remembered(
    scene: Scene,
) -> None:
    """The status may not be written for long, and records are not tried in every pass."""
    blocked = Blocked(by="Records", since="2026-11-21T11:55:00Z")
    status = RUNNING.model_copy(update={"blocked": blocked})
    scene.cluster.broken["apply"] = QUOTA
    scene.cluster.broken["status"] = Unavailable("down", code=503)
    await scene.once(apply=(stage(arrival()),), status=status)
    assert (scene.collected.refused_at, scene.collected.blocked) == (
        scene.now(),
        blocked,
    )
    scene.cluster.broken.clear()
    await scene.once(status=RUNNING)
    assert scene.collected.blocked is None
    assert scene.collected.refused_object is not None, "nothing was tried"


async def test_event_that_cannot_be_posted_fails_nothing(scene: Scene) -> None:
    scene.cluster.broken["event"] = Forbidden("no rights", code=403)
    assert (
        await scene.once(events=(Event("Running", "go"),), requeue_after_seconds=3)
        == 3
    )


async def test_name_taken_by_somebody_else_is_decided_upon_and_never_overwritten(
    scene: Scene,
) -> None:
    theirs = scene.cluster.add("Service", child_body(owner_uid=None, run=None))
    assert await scene.once(apply=(manifest(),)) == 0.0
    assert (
        scene.cluster.objects["Service", NAMESPACE, "br-chat-4e20caa2-server"]
        is theirs
    )
    await scene.once()
    assert (
        scene.facts_seen[1].collected.conflict
        == "Service br-chat-4e20caa2-server exists and has another owner"
    )


async def test_name_taken_by_another_run_is_a_conflict_too(scene: Scene) -> None:
    theirs = scene.cluster.add("Service", child_body(owner_uid="another-run"))
    scene.indexes.heard("Service", theirs, deleted=False)
    await scene.once(apply=(manifest(),))
    assert (
        scene.cluster.objects["Service", NAMESPACE, "br-chat-4e20caa2-server"]
        is theirs
    )
    await scene.once()
    assert scene.facts_seen[1].collected.conflict is not None


async def test_run_that_ends_for_a_taken_name_does_end(scene: Scene) -> None:
    """Its last pass meets the same name again, or another that is taken."""
    scene.cluster.add("ConfigMap", child_body(STAGE_0, owner_uid=None, run=None))
    scene.cluster.add("Service", child_body(owner_uid=None, run=None))
    await scene.once(apply=(manifest(),))
    over = RUNNING.model_copy(update={"phase": "Failed"})
    assert (
        await scene.once(
            apply=(stage(arrival()), manifest()), status=over, forget=True
        )
        is None
    )
    assert status_of(scene.cluster)["phase"] == "Failed"
    assert len(scene.memories) == 0


async def test_stage_that_holds_another_record_is_a_conflict(scene: Scene) -> None:
    """A namespace's editor made it before us."""
    forged = scene.cluster.add("ConfigMap", stage_body(0))
    assert await scene.once(apply=(stage(arrival(0)),), acknowledge=1) == 0.0
    assert (
        scene.collected.conflict
        == f"ConfigMap {STAGE_0} exists with another record"
    )
    assert ("acknowledge", "1") not in scene.cluster.log
    assert scene.cluster.objects["ConfigMap", NAMESPACE, STAGE_0] is forged


PLAN_NAME = names.plan_name("chat", UID)


def planned(digest: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A plan of that digest, and the client's Job that reads it."""
    noted = {"annotations": {names.ANNOTATION_PLAN_DIGEST: digest}}
    config_map = manifest(PLAN_NAME, "ConfigMap", names.ROLE_PLAN)
    job = manifest(
        names.child_name("chat", UID, "client"), "Job", names.ROLE_CLIENT
    )
    config_map["metadata"] |= noted
    job["metadata"] |= noted
    return config_map, job


@pytest.mark.parametrize("theirs", ["another", None])
async def test_no_client_is_made_for_a_plan_that_another_operator_was_faster_with(
    scene: Scene, theirs: str | None
) -> None:
    there, _ = planned(theirs or "")
    there["metadata"] |= {"uid": "theirs", "resourceVersion": "500"}
    if theirs is None:  # of an earlier release
        del there["metadata"]["annotations"]
    scene.cluster.add("ConfigMap", there)
    with pytest.raises(Later):
        await scene.once(apply=planned("ours"))
    assert [kind for kind, _, _ in scene.cluster.objects if kind == "Job"] == []
    await scene.once(apply=())
    (child,) = scene.facts_seen[-1].children.objects
    assert (child.name, child.plan_digest) == (PLAN_NAME, theirs)


async def test_no_client_is_made_with_other_defaults_than_the_plans(
    scene: Scene,
) -> None:
    """Servers follow the plan: an operator whose platform has other defaults was faster."""
    there, _ = planned("ours")
    there["metadata"] |= {"uid": "theirs", "resourceVersion": "500"}
    there["metadata"]["annotations"][names.ANNOTATION_DEFAULTS] = "{}"
    scene.cluster.add("ConfigMap", there)
    with pytest.raises(Later):
        await scene.once(apply=planned("ours"))
    assert [kind for kind, _, _ in scene.cluster.objects if kind == "Job"] == []


async def test_bug_in_a_decision_is_counted_and_raised(scene: Scene) -> None:
    def broken(facts: Facts) -> Decision:
        raise ZeroDivisionError

    scene.decide = broken
    with pytest.raises(ZeroDivisionError):
        await scene.once()
    assert scene.count("error") == 1


# ---- what is not looked at
# ------------------------------------------------------------------------------------------------


def ended_with(*children: dict[str, Any], **spec: Any) -> Scene:
    """Return a scene whose index holds a run that has ended, and children of its name."""
    scene = Scene(status=ENDED)
    body = run_body(status=ENDED)
    body["spec"] |= spec
    scene.indexes.learnt("BenchmarkRun", body)
    for child in children:
        scene.indexes.learnt("Deployment", child)
    return scene


def test_a_run_that_has_ended_and_left_nothing_rests() -> None:
    scene = ended_with()
    assert scene.reconciler.rests(KEY)
    assert scene.facts_seen == []
    assert not Scene().reconciler.rests(KEY), "it is not known"


@pytest.mark.parametrize(
    "owner", [UID, "an-earlier-run"], ids=["its own", "of a namesake"]
)
def test_a_run_with_a_server_never_rests(owner: str) -> None:
    name = names.child_name("chat", owner, names.ROLE_SERVER)
    assert not ended_with(child_body(name, owner_uid=owner)).reconciler.rests(KEY)


def test_a_run_that_can_not_be_told_to_rest_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All runs are asked one after the other; that one is left to its own reconcile."""

    def raising(facts: Facts) -> bool:
        raise ZeroDivisionError(facts.run.name)

    scene = ended_with(child_body(role="unknown"))
    monkeypatch.setattr("benchrun.runtime.run_reconciler.rests", raising)
    assert not scene.reconciler.rests(KEY)


def test_a_run_that_is_to_be_deleted_or_is_remembered_does_not_rest() -> None:
    assert not ended_with(ttlSecondsAfterFinished=9).reconciler.rests(KEY)
    scene = ended_with()
    scene.memories.of(KEY, UID)
    assert not scene.reconciler.rests(KEY)
    going_on = Scene()
    going_on.indexes.learnt("BenchmarkRun", run_body())
    assert not going_on.reconciler.rests(KEY)
    scene = ended_with()
    gone = run_body(
        version=101, status=ENDED, deletionTimestamp="2026-11-21T12:00:00Z"
    )
    scene.indexes.learnt("BenchmarkRun", gone)
    assert not scene.reconciler.rests(KEY)


@pytest.fixture
async def in_short() -> Scene:
    """Return a scene whose index knows a run that has ended by the columns of a list."""
    at = {"completionTime": "2026-11-21T12:00:00Z"}
    scene = Scene(status=ENDED | at)
    await scene.listed()
    assert scene.indexes.is_in_short(KEY)
    return scene


async def test_a_run_in_short_rests_unless_it_has_left_something(
    in_short: Scene,
) -> None:
    assert in_short.reconciler.rests(KEY)
    stage = stage_body(0)
    in_short.indexes.learnt("ConfigMap", stage)
    assert in_short.reconciler.rests(KEY), "its records fit"
    in_short.indexes.learnt("Deployment", child_body())
    assert not in_short.reconciler.rests(KEY)


async def test_a_decision_about_a_run_in_short_is_made_of_the_whole_run(
    in_short: Scene,
) -> None:
    in_short.indexes.learnt("Deployment", child_body())
    await in_short.once()
    (facts,) = in_short.facts_seen
    assert facts.run.spec == {}
    assert "phase" in facts.run.status
    conditions = facts.run.status["conditions"]
    assert isinstance(conditions, list)
    assert len(conditions[0]) > 2
    assert ("get", "BenchmarkRun", "chat") in in_short.cluster.log
