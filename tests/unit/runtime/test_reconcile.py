"""One pass: what is decided is done, in order, once, and told in the status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from benchrun import names
from benchrun.api import BenchmarkRunStatus, as_json
from benchrun.decide.decision import Event, Ref
from benchrun.effects.errors import NotFound
from benchrun.observe.views import Declared
from benchrun.plan.pods import stamped
from benchrun.runtime.queue import Later
from unit.runtime.bodies import KEY, NAMESPACE, UID, child_body, run_body, stage_body
from unit.runtime.memory_cluster import status_of
from unit.runtime.scene import ENDED, NOW, PULL, RUNNING, SCRAPE, Scene, manifest

# ---- what a decision sees --------------------------------------------------------------------------------------------


async def test_decision_sees_run_children_and_time(scene: Scene) -> None:
    scene.indexes.heard("Job", child_body("br-chat-4e20caa2-client"), deleted=False)
    await scene.once()
    world = scene.worlds[0]
    assert (world.run.uid, world.now) == (UID, NOW)
    assert [c.name for c in world.children.objects] == ["br-chat-4e20caa2-client"]


async def test_live_figures_are_written_less_often_when_many_runs_go_on(scene: Scene) -> None:
    await scene.once()
    scene.sessions.active = 200
    await scene.once()
    assert [w.context.live_interval_seconds for w in scene.worlds] == [5.0, 10.0]


# ---- order and economy -----------------------------------------------------------------------------------------------


async def test_everything_is_done_in_order(scene: Scene) -> None:
    scene.cluster.add("Deployment", child_body("old", uid="old"))
    await scene.once(
        delete=(Ref("Deployment", NAMESPACE, "old", "old"),),
        apply=(manifest("a"), manifest("b")),
        acknowledge=2,
        events=(Event("Running", "go"),),
    )
    assert scene.cluster.log == [
        ("delete", "Deployment", "old"),
        ("apply", "Service", "a"),
        ("apply", "Service", "b"),
        ("acknowledge", "2"),
        ("status", "BenchmarkRun", "chat"),
        ("get", "BenchmarkRun", "chat"),
        ("event", "Running", "chat"),
    ]


async def test_passes_over_a_run_that_does_not_change_write_nothing(scene: Scene) -> None:
    await scene.once(apply=(manifest(),))
    scene.cluster.log.clear()
    for _ in range(5):
        await scene.once()
    assert scene.cluster.log == []


async def test_object_just_applied_is_known_before_the_watch_tells(scene: Scene) -> None:
    await scene.once(apply=(manifest(),))
    await scene.once()
    assert [c.applied_hash for c in scene.worlds[1].children.objects] == [
        manifest()["metadata"]["annotations"][names.ANNOTATION_APPLIED]
    ]


async def test_child_that_exists_is_never_corrected(scene: Scene) -> None:
    await scene.once(apply=(manifest(),))
    changed = stamped({**manifest(), "spec": {"clusterIP": "None"}})
    await scene.once(apply=(changed,))
    assert "spec" not in scene.cluster.objects["Service", NAMESPACE, "br-chat-4e20caa2-server"]


async def test_requeue_is_what_the_decision_says(scene: Scene) -> None:
    assert await scene.once(requeue_after_seconds=12.5) == 12.5
    assert await scene.once(requeue_after_seconds=None) is None


async def test_background_follows_the_decision(scene: Scene) -> None:
    await scene.once(scrape=(SCRAPE,), pull=PULL)
    assert scene.sessions.followed == [((SCRAPE,), PULL)]


async def test_client_is_told_once_and_again_when_it_did_not_hear(scene: Scene) -> None:
    scene.sessions.hears = False
    await scene.once(acknowledge=1)
    scene.sessions.hears = True
    for _ in range(3):
        await scene.once(acknowledge=1)
    await scene.once(acknowledge=2)
    assert [e[1] for e in scene.cluster.log if e[0] == "acknowledge"] == ["1", "1", "2"]


# ---- the status ------------------------------------------------------------------------------------------------------


async def test_status_is_written_with_what_changed(scene: Scene) -> None:
    await scene.once()
    assert status_of(scene.cluster) == as_json(RUNNING)


async def test_stale_pass_never_overwrites_and_reads_again(scene: Scene) -> None:
    scene.cluster.add("BenchmarkRun", run_body(version=150, status={"message": "somebody else's"}))
    with pytest.raises(Later):
        await scene.once(events=(Event("Running", "go"),))
    assert status_of(scene.cluster) == {"message": "somebody else's"}
    assert scene.cluster.events == []
    assert scene.count("conflict") == 1
    await scene.once(events=(Event("Running", "go"),))
    assert status_of(scene.cluster) == as_json(RUNNING)
    assert [e.reason for e in scene.cluster.events] == ["Running"]


async def test_run_made_anew_under_the_same_name_is_not_given_the_old_ones_status(scene: Scene) -> None:
    scene.cluster.add("BenchmarkRun", run_body(uid="other", version=150))
    with pytest.raises(Later):
        await scene.once()
    assert status_of(scene.cluster) == {}
    run = scene.indexes.run(KEY)
    assert run is not None
    assert run.uid == "other"


@pytest.mark.parametrize("uid", [UID, "made-anew"])
async def test_what_came_to_be_during_a_pass_is_never_overwritten(scene: Scene, uid: str) -> None:
    """Once the newest version that was known was named, not the one that was decided on: an end that another operator had just
    written was taken back, and a run made anew was given the status of the old one."""
    over = run_body(uid=uid, version=150, status={"phase": "Completed", "message": "another operator's"})

    async def meanwhile(ref: Ref) -> None:
        scene.cluster.add("BenchmarkRun", over)
        scene.indexes.heard("BenchmarkRun", over, deleted=False)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scene.cluster, "delete", meanwhile)
        patched.setattr(scene.cluster, "patch_status", blind_to_uids(scene))
        with pytest.raises(Later):
            await scene.once(delete=(Ref("Deployment", NAMESPACE, "old", "old"),))
    assert status_of(scene.cluster) == {"phase": "Completed", "message": "another operator's"}


def blind_to_uids(scene: Scene) -> Callable[..., Awaitable[dict[str, Any]]]:
    """As /status is, which heeds the version alone."""
    patch_status = scene.cluster.patch_status

    async def patch(declared: Declared, *, resource_version: str, changes: dict[str, Any]) -> dict[str, Any]:
        there = scene.cluster.objects[declared.kind, declared.namespace, declared.name]
        same = replace(declared, uid=there["metadata"]["uid"])
        return await patch_status(same, resource_version=resource_version, changes=changes)

    return patch


async def test_run_that_turns_out_to_be_gone_is_forgotten(scene: Scene) -> None:
    del scene.cluster.objects["BenchmarkRun", NAMESPACE, "chat"]
    scene.cluster.broken["status"] = NotFound("gone", code=404)
    with pytest.raises(Later):
        await scene.once()
    scene.indexes.heard("BenchmarkRun", run_body(version=101), deleted=True)
    assert await scene.once() is None
    assert len(scene.memories) == 0


# ---- the end ---------------------------------------------------------------------------------------------------------


async def test_run_that_is_over_is_forgotten_after_its_status_was_written(scene: Scene) -> None:
    await scene.once(scrape=(SCRAPE,))
    scene.cluster.add("BenchmarkRun", run_body(version=2000))
    with pytest.raises(Later):
        await scene.once(forget=True, status=RUNNING.model_copy(update={"message": "over"}))
    assert (len(scene.memories), scene.sessions.stopped) == (1, 0)
    await scene.once(forget=True, status=RUNNING.model_copy(update={"message": "over"}), requeue_after_seconds=9)
    assert (len(scene.memories), scene.sessions.stopped) == (0, 1)


async def test_run_that_ended_reads_and_writes_nothing() -> None:
    scene = Scene(status=ENDED)
    scene.cluster.add("ConfigMap", stage_body())
    await scene.listed()
    await scene.once(status=BenchmarkRunStatus.model_validate(ENDED), forget=True)
    assert scene.cluster.log == []
    assert len(scene.memories) == 0


async def test_run_whose_time_is_up_is_deleted_by_uid(scene: Scene) -> None:
    await scene.once(delete_run=True, forget=True)
    assert ("BenchmarkRun", NAMESPACE, "chat") not in scene.cluster.objects


@pytest.mark.parametrize("gone", [True, False])
async def test_deleted_run_is_dropped_without_a_decision(scene: Scene, gone: bool) -> None:
    await scene.once()
    body = run_body(version=2000, deletionTimestamp="2026-11-21T12:00:00Z")
    scene.indexes.heard("BenchmarkRun", body, deleted=gone)
    scene.cluster.log.clear()
    assert await scene.once() is None
    assert (scene.cluster.log, len(scene.worlds), len(scene.memories)) == ([], 1, 0)
    assert scene.sessions.stopped == 1


async def test_memory_of_a_run_is_not_handed_to_another_of_the_same_name(scene: Scene) -> None:
    await scene.once()
    scene.collected.conflict = "Service x is not ours"
    scene.indexes.heard("BenchmarkRun", run_body(uid="again", version=2000), deleted=False)
    scene.cluster.add("BenchmarkRun", run_body(uid="again", version=2000))
    await scene.once()
    assert scene.worlds[1].collected.conflict is None
