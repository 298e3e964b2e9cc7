"""What can go wrong in a pass: writes that fail, are refused or would take another's object."""

from __future__ import annotations

import pytest
from benchrun import names
from benchrun.decide.decision import Decision, Event, World
from benchrun.effects.errors import ClusterError, Forbidden, Invalid, Throttled, Unavailable
from benchrun.runtime.queue import Later
from unit.runtime.bodies import NAMESPACE, UID, child_body, stage_body
from unit.runtime.memory_cluster import status_of
from unit.runtime.scene import RUNNING, STAGE_0, Scene, arrival, manifest, stage


@pytest.mark.parametrize("error", [Unavailable("down", code=503), Throttled("slow down", retry_after_seconds=1)])
async def test_what_fails_for_a_moment_is_tried_again_and_the_status_is_written_all_the_same(
    scene: Scene, error: ClusterError
) -> None:
    """A webhook that denies Jobs with 503 must not keep the deadlines from beginning."""
    scene.cluster.broken["apply"] = error
    with pytest.raises(Later, match=str(error)):
        await scene.once(apply=(manifest(), manifest("b")), acknowledge=1, events=(Event("Running", "go"),))
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


QUOTA = Forbidden('deployments.apps "x" is forbidden: exceeded quota: gpus', code=403)
INVALID = Invalid('Deployment.apps "x" is invalid: spec.template.spec.tolerations[0]: nonsense', code=422)


@pytest.mark.parametrize(
    ("error", "reason", "curable"), [(QUOTA, "QuotaExceeded", True), (INVALID, "ChildInvalid", False)]
)
async def test_refusal_by_the_cluster_is_decided_upon_at_once_and_told(
    scene: Scene, error: Forbidden | Invalid, reason: str, curable: bool
) -> None:
    scene.cluster.broken["apply"] = error
    assert await scene.once(apply=(manifest(), manifest("b"))) == 0.0
    assert ("apply", "Service", "b") not in scene.cluster.log
    await scene.once()
    refused = scene.worlds[1].collected.refused_object
    assert refused is not None
    assert (refused.kind, refused.name, refused.role) == ("Service", "br-chat-4e20caa2-server", "server")
    assert (refused.message, refused.curable) == (str(error), curable)
    assert [(e.reason, e.warning) for e in scene.cluster.events] == [(reason, True)]


async def test_what_is_refused_stands_in_the_status_and_is_offered_again_now_and_then(scene: Scene) -> None:
    scene.cluster.broken["apply"] = QUOTA
    waits = [await scene.once(apply=(manifest(),), requeue_after_seconds=100.0) for _ in range(4)]
    assert waits == [0.0, 15.0, 15.0, 15.0]
    assert status_of(scene.cluster)["phase"] == "Running"
    assert len(scene.cluster.events) == 1
    del scene.cluster.broken["apply"]
    assert await scene.once(apply=(manifest(),)) == 0.0
    assert await scene.once(apply=(manifest(),), requeue_after_seconds=100.0) == 100.0
    assert scene.worlds[-1].collected.refused_object is None


async def test_words_that_change_with_every_answer_do_not_make_it_spin(scene: Scene) -> None:
    waits = []
    for request in range(3):
        scene.cluster.broken["apply"] = Forbidden(f"denied (request {request})", code=403)
        waits.append(await scene.once(apply=(manifest(),)))
    assert waits == [0.0, 15.0, 15.0]


async def test_nothing_is_acknowledged_or_finished_while_a_record_is_refused(scene: Scene) -> None:
    scene.cluster.broken["apply"] = QUOTA
    one, two = arrival(0), arrival(1)
    for _ in range(3):
        await scene.once(apply=(stage(one), stage(two)), acknowledge=2, forget=True)
    assert [e for e in scene.cluster.log if e[0] in ("acknowledge", "status")] == []
    assert ("apply", "ConfigMap", names.stage_name("chat", UID, 1)) in scene.cluster.log
    await scene.once(acknowledge=2, forget=True)
    assert [e[0] for e in scene.cluster.log if e[0] in ("acknowledge", "status")] == ["acknowledge", "status"]


async def test_event_that_can_not_be_posted_fails_nothing(scene: Scene) -> None:
    scene.cluster.broken["event"] = Forbidden("no rights", code=403)
    assert await scene.once(events=(Event("Running", "go"),), requeue_after_seconds=3) == 3


async def test_name_taken_by_somebody_else_is_decided_upon_and_never_overwritten(scene: Scene) -> None:
    theirs = scene.cluster.add("Service", child_body(owner_uid=None, run=None))
    assert await scene.once(apply=(manifest(),)) == 0.0
    assert scene.cluster.objects["Service", NAMESPACE, "br-chat-4e20caa2-server"] is theirs
    await scene.once()
    assert scene.worlds[1].collected.conflict == "Service br-chat-4e20caa2-server exists and is not ours"


async def test_name_taken_by_another_run_is_a_conflict_too(scene: Scene) -> None:
    theirs = scene.cluster.add("Service", child_body(owner_uid="another-run"))
    scene.indexes.heard("Service", theirs, deleted=False)
    await scene.once(apply=(manifest(),))
    assert scene.cluster.objects["Service", NAMESPACE, "br-chat-4e20caa2-server"] is theirs
    await scene.once()
    assert scene.worlds[1].collected.conflict is not None


async def test_run_that_ends_for_a_taken_name_does_end(scene: Scene) -> None:
    """Its last pass meets the same name again, or another that is taken."""
    scene.cluster.add("ConfigMap", child_body(STAGE_0, owner_uid=None, run=None))
    scene.cluster.add("Service", child_body(owner_uid=None, run=None))
    await scene.once(apply=(manifest(),))
    over = RUNNING.model_copy(update={"phase": "Failed"})
    assert await scene.once(apply=(stage(arrival()), manifest()), status=over, forget=True) is None
    assert status_of(scene.cluster)["phase"] == "Failed"
    assert len(scene.memories) == 0


async def test_stage_that_holds_another_record_is_a_conflict(scene: Scene) -> None:
    """A namespace's editor made it before us."""
    forged = scene.cluster.add("ConfigMap", stage_body(0))
    assert await scene.once(apply=(stage(arrival(0)),), acknowledge=1) == 0.0
    assert scene.collected.conflict == f"ConfigMap {STAGE_0} holds another record"
    assert ("acknowledge", "1") not in scene.cluster.log
    assert scene.cluster.objects["ConfigMap", NAMESPACE, STAGE_0] is forged


async def test_bug_in_a_decision_is_counted_and_raised(scene: Scene) -> None:
    def broken(world: World) -> Decision:
        raise ZeroDivisionError

    scene.decide = broken
    with pytest.raises(ZeroDivisionError):
        await scene.once()
    assert scene.count("error") == 1
