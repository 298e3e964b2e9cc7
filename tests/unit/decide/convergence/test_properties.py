"""What holds for every decision, whatever the facts. All is checked on each facts: making one costs
more than checking it."""

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import get_args

from benchrun.api import BenchmarkRunStatus, ConditionType, has_ended
from benchrun.decide import (
    SHORTEST_WAIT_SECONDS,
    Decision,
    RunState,
    Unacceptable,
    accept,
)
from benchrun.decide.deadlines import deadlines
from benchrun.names import SERVING_ROLES
from hypothesis import example, given, settings
from unit.decide.run_facts import OF_A_LATER_VERSION, Story, stories
from unit.decide.scenes import Scene
from unit.decide.summaries import applied, deleted
from unit.plan.specs import OWNER

HOLDERS = ("Deployment", "LeaderWorkerSet")
CONDITIONS_OF_EVERY_RUN = {
    "Accepted",
    "Measured",
    "Valid",
    "Complete",
    "Failed",
    "Succeeded",
    "Ready",
    "Reconciling",
    "Stalled",
}


@settings(max_examples=400, deadline=None)
@given(stories())
@example(
    Story("all measured", ("records are refused", "suspend", "short deadlines"), 30)
)
@example(Story("client created", ("spec of a newer operator", "suspend"), 0))
def test_every_decision(story: Story) -> None:
    scene = story.scene
    before = deepcopy(scene.collected)
    decision = scene.decide()
    assert scene.collected == before
    assert scene.decide() == decision
    its_own_outcome_seen_again_changes_nothing(scene, decision)
    an_end_applies_nothing_but_what_was_measured(decision)
    a_server_is_only_started_for_a_client_that_is_ready_and_waits(scene, decision)
    the_gpu_goes_before_the_client(decision)
    only_what_is_ours_is_deleted(scene, decision)
    nothing_is_deleted_and_made_in_one_pass(decision)
    only_what_is_known_is_acknowledged(scene, decision)
    who_knows_the_end_lets_go_of_every_server(scene, decision)
    the_status_is_small_and_reads_back_as_it_was(decision)
    every_condition_is_set_and_none_contradicts_another(decision)
    a_running_deadline_is_never_slept_through(scene, decision)


@settings(max_examples=200, deadline=None)
@given(
    stories(
        starts=(
            "measuring",
            "server loading",
            "completed",
            "failed",
            "cancelled",
            "refused",
        )
    ),
    stories(),
)
def test_an_end_is_for_ever(story: Story, another: Story) -> None:
    ended = story.scene.log_read().decide()
    if not has_ended(ended.status.conditions):
        return
    later = another.scene.with_status(ended.status)
    decision = later.at(story.scene.seconds + later.seconds).decide()
    assert decision.status == ended.status
    assert (applied(decision), decision.events) == ([], ())


@settings(max_examples=200, deadline=None)
@given(stories())
def test_whatever_the_client_does_a_deadline_ends_the_run(story: Story) -> None:
    """It is silent, it speaks another contract, its clock is wrong: once it counts as unreadable
    nothing is waited for."""
    limits = {
        "pendingDeadlineSeconds": 60,
        "startupDeadlineSeconds": 60,
        "runDeadlineSeconds": 60,
    }
    scene = story.scene.with_spec(**limits).client(silent=True).settled()
    late = scene.at(scene.seconds + 100_000)
    decision = late.decide()
    state = readable(late)
    waits_for_nothing = (
        decision.status.phase == "Suspended" or "acceptedTime" not in scene.status
    )
    if state is None or waits_for_nothing or decision.forget:
        return
    assert decision.ending is not None or state.all_known


def readable(scene: Scene) -> RunState | None:
    """Where the run stands; None: its spec is another version's, so that it is left alone."""
    facts = scene.facts()
    status = scene.decide().status
    try:
        return RunState(
            facts=facts,
            spec=accept(facts.run, begun=bool(status.accepted_time)),
            status=status,
        )
    except Unacceptable:
        return None


def who_knows_the_end_lets_go_of_every_server(
    scene: Scene, decision: Decision
) -> None:
    """In the first decision that knows, whatever is still to be stored, read or judged."""
    if (
        decision.ending is None
        and not decision.forget
        and decision.status.phase != "Collecting"
    ):
        return
    live = {
        (c.kind, c.name)
        for c in scene.objects
        if c.owner_uid == OWNER.uid
        and c.role in SERVING_ROLES
        and c.kind in HOLDERS
        and not c.deleting
    }
    assert live <= {(ref.kind, ref.name) for ref in decision.delete}
    assert not {m["kind"] for m in decision.apply} & set(HOLDERS)


def its_own_outcome_seen_again_changes_nothing(
    scene: Scene, decision: Decision
) -> None:
    for second in (
        scene.with_status(decision.status),
        scene.with_status(decision.status).knowing(ending=decision.ending),
    ):
        repeated = second.decide()
        assert (repeated.status, repeated.events) == (decision.status, ())


def an_end_applies_nothing_but_what_was_measured(decision: Decision) -> None:
    if has_ended(decision.status.conditions):
        assert {words.split()[1] for words in applied(decision)} <= {
            "stage",
            "timeline",
            "result",
        }
        assert decision.forget


def a_server_is_only_started_for_a_client_that_is_ready_and_waits(
    scene: Scene, decision: Decision
) -> None:
    if "Deployment server" in applied(decision):
        (client,) = [
            p for p in scene.pods if p.role == "client" and p.run_uid == OWNER.uid
        ]
        progress = scene.collected.client.progress
        assert (client.ready, client.deleting) == (True, False)
        assert progress is not None
        assert progress.first_request_unix_us is None


def the_gpu_goes_before_the_client(decision: Decision) -> None:
    kinds = deleted(decision)
    assert kinds == sorted(kinds, key=["Deployment", "Job"].index)


def only_what_is_ours_is_deleted(scene: Scene, decision: Decision) -> None:
    ours = {
        (c.kind, c.name, c.uid) for c in scene.objects if c.owner_uid == OWNER.uid
    }
    assert {(r.kind, r.name, r.uid) for r in decision.delete} <= ours


def nothing_is_deleted_and_made_in_one_pass(decision: Decision) -> None:
    made = {(m["kind"], m["metadata"]["name"]) for m in decision.apply}
    assert not made & {(r.kind, r.name) for r in decision.delete}


def only_what_is_known_is_acknowledged(scene: Scene, decision: Decision) -> None:
    stored = {c.sequence for c in scene.objects if c.role == "stage"}
    stored |= {
        int(m["metadata"]["labels"].get("benchrun.dev/sequence", -1))
        for m in decision.apply
    }
    known = stored | {*scene.collected.arrivals}
    assert set(range(decision.acknowledge or 0)) <= known


def the_status_is_small_and_reads_back_as_it_was(decision: Decision) -> None:
    text = decision.status.model_dump_json(by_alias=True, exclude_none=True)
    assert len(text.encode()) < 100_000
    assert BenchmarkRunStatus.model_validate_json(text) == decision.status


def every_condition_is_set_and_none_contradicts_another(decision: Decision) -> None:
    states = {c.type: c.status for c in decision.status.conditions}
    assert (
        CONDITIONS_OF_EVERY_RUN
        <= states.keys()
        <= {*get_args(ConditionType), OF_A_LATER_VERSION}
    )
    assert len(states) == len(decision.status.conditions)
    assert [states[t] for t in ("Complete", "Failed", "Reconciling")].count(
        "True"
    ) == 1
    assert (states["Ready"], states["Stalled"]) != ("True", "True")
    assert ("True" in (states["Ready"], states["Stalled"])) == has_ended(
        decision.status.conditions
    )


def a_running_deadline_is_never_slept_through(
    scene: Scene, decision: Decision
) -> None:
    facts = scene.facts()
    wait = decision.requeue_after_seconds
    state = readable(scene)
    if (
        has_ended(decision.status.conditions)
        or decision.status.phase == "Suspended"
        or state is None
        or (
            decision.status.phase == "Collecting"
            and decision.status.blocked is None
        )  # it ends
    ):
        return
    running = deadlines(state)
    for deadline in running:
        latest = max(
            deadline.ends_at, facts.now + timedelta(seconds=SHORTEST_WAIT_SECONDS)
        )
        assert wait is not None
        assert facts.now + timedelta(seconds=wait) <= latest


def test_the_same_world_gives_the_same_decision() -> None:
    for scene in (
        Scene().measuring().arrived(0).sampled(71),
        Scene().measuring().arrived(0, 1),
        Scene(),
    ):
        assert replace(scene).decide() == scene.decide()
