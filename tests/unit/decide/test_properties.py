"""What holds for every decision, whatever the world. All is checked on each world: making one costs more than checking it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import get_args

from benchrun.api.conditions import ConditionType
from benchrun.api.status import BenchmarkRunStatus
from benchrun.decide.acceptance import accept
from benchrun.decide.after_finish import is_finished
from benchrun.decide.deadlines import deadlines
from benchrun.decide.decision import Decision
from benchrun.decide.reconcile import SHORTEST_WAIT_SECONDS
from benchrun.decide.situation import Situation
from hypothesis import given, settings
from unit.decide.saying import applied, deleted
from unit.decide.scenes import Scene
from unit.decide.worlds import Story, stories
from unit.plan.specs import OWNER

CONDITIONS_OF_EVERY_RUN = {
    "Accepted", "Measured", "Valid", "Complete", "Failed", "Succeeded", "Ready", "Reconciling", "Stalled",
}  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(stories())
def test_every_decision(story: Story) -> None:
    scene = story.scene
    decision = scene.decide()
    its_own_outcome_seen_again_changes_nothing(scene, decision)
    an_end_applies_nothing_but_what_was_measured(decision)
    a_server_is_only_started_for_a_client_that_is_ready_and_waits(scene, decision)
    the_gpu_goes_before_the_client(decision)
    only_what_is_ours_is_deleted(scene, decision)
    nothing_is_deleted_and_made_in_one_pass(decision)
    only_what_is_known_is_acknowledged(scene, decision)
    the_status_is_small_and_reads_back_as_it_was(decision)
    if decision.log_wanted is None:
        every_condition_is_set_and_none_contradicts_another(decision)
        a_running_deadline_is_never_slept_through(scene, decision)


@settings(max_examples=200, deadline=None)
@given(stories(starts=("measuring", "server loading", "completed", "failed", "cancelled", "refused")), stories())
def test_an_end_is_for_ever(story: Story, another: Story) -> None:
    ended = story.scene.knowing(log_tail_tried=True).decide()
    if not is_finished(ended.status):
        return
    later = another.scene.with_status(ended.status)
    decision = later.at(story.scene.seconds + later.seconds).decide()
    assert decision.status == ended.status
    assert (applied(decision), decision.events) == ([], ())


def its_own_outcome_seen_again_changes_nothing(scene: Scene, decision: Decision) -> None:
    again = scene.with_status(decision.status).decide()
    assert again.status == decision.status
    assert again.events == ()


def an_end_applies_nothing_but_what_was_measured(decision: Decision) -> None:
    if is_finished(decision.status):
        assert {words.split()[1] for words in applied(decision)} <= {"stage", "timeline"}
        assert decision.forget


def a_server_is_only_started_for_a_client_that_is_ready_and_waits(scene: Scene, decision: Decision) -> None:
    if "Deployment server" in applied(decision):
        (client,) = [p for p in scene.pods if p.role == "client" and p.run_uid == OWNER.uid]
        heard = scene.collected.progress
        assert (client.ready, client.deleting) == (True, False)
        assert heard is not None
        assert heard.first_request_unix_us is None


def the_gpu_goes_before_the_client(decision: Decision) -> None:
    kinds = deleted(decision)
    assert kinds == sorted(kinds, key=["Deployment", "Service", "Job"].index)


def only_what_is_ours_is_deleted(scene: Scene, decision: Decision) -> None:
    ours = {(c.kind, c.name, c.uid) for c in scene.objects if c.owner_uid == OWNER.uid}
    assert {(r.kind, r.name, r.uid) for r in decision.delete} <= ours


def nothing_is_deleted_and_made_in_one_pass(decision: Decision) -> None:
    made = {(m["kind"], m["metadata"]["name"]) for m in decision.apply}
    assert not made & {(r.kind, r.name) for r in decision.delete}


def only_what_is_known_is_acknowledged(scene: Scene, decision: Decision) -> None:
    stored = {c.sequence for c in scene.objects if c.role == "stage"}
    stored |= {int(m["metadata"]["labels"].get("benchrun.dev/sequence", -1)) for m in decision.apply}
    known = stored | {r.sequence for r in scene.collected.records}
    assert set(range(decision.acknowledge or 0)) <= known


def the_status_is_small_and_reads_back_as_it_was(decision: Decision) -> None:
    text = decision.status.model_dump_json(by_alias=True, exclude_none=True)
    assert len(text.encode()) < 100_000
    assert BenchmarkRunStatus.model_validate_json(text) == decision.status


def every_condition_is_set_and_none_contradicts_another(decision: Decision) -> None:
    states = {c.type: c.status for c in decision.status.conditions}
    assert CONDITIONS_OF_EVERY_RUN <= states.keys() <= set(get_args(ConditionType))
    assert len(states) == len(decision.status.conditions)
    assert [states[t] for t in ("Complete", "Failed", "Reconciling")].count("True") == 1
    assert (states["Ready"], states["Stalled"]) != ("True", "True")
    assert ("True" in (states["Ready"], states["Stalled"])) == is_finished(decision.status)


def a_running_deadline_is_never_slept_through(scene: Scene, decision: Decision) -> None:
    world, wait = scene.world(), decision.requeue_after_seconds
    if is_finished(decision.status) or decision.status.phase == "Suspended":
        return
    running = deadlines(Situation(world=world, spec=accept(world.run), status=decision.status))
    for deadline in running:
        latest = max(deadline.ends_at, world.now + timedelta(seconds=SHORTEST_WAIT_SECONDS))
        assert wait is not None
        assert world.now + timedelta(seconds=wait) <= latest


def test_the_same_world_gives_the_same_decision() -> None:
    for scene in (Scene().measuring().arrived(0).sampled(71), Scene().measuring().arrived(0, 1), Scene()):
        assert replace(scene).decide() == scene.decide()
