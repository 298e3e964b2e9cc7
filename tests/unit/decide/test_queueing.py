"""A run with a queue of Kueue: it waits, is given a quota, loses it, and leaves none behind."""

from dataclasses import replace
from typing import Any

import pytest
from benchrun import names
from benchrun.api import find_condition
from benchrun.child_kinds import WORKLOAD
from benchrun.decide import (
    Answer,
    Decision,
    Flavors,
    Query,
    RefusedObject,
    unneeded_servers,
)
from benchrun.observe import Flavor, Quota
from unit.decide.queues import (
    GRANTED,
    H200,
    KNOWN,
    NO_ROOM,
    PREEMPTED,
    QUEUE,
    WAITING,
    WITH_KUEUE,
    admitted,
    measuring,
    told,
    workload,
)
from unit.decide.scenes import CONTEXT, DEPLOYMENT, JOB, SERVICE, Scene, text
from unit.plan.specs import spec_body


def kinds(decision: Decision) -> list[str]:
    return [manifest["kind"] for manifest in decision.apply]


def deleted(decision: Decision) -> list[str]:
    return [ref.kind for ref in decision.delete]


def reason(decision: Decision) -> str:
    ready = find_condition(decision.status.conditions, "Ready")
    assert ready is not None
    return ready.reason


def test_a_run_without_the_label_knows_nothing_of_queues() -> None:
    decision = Scene(context=WITH_KUEUE).decide()
    assert decision.status.queue is None
    assert WORKLOAD not in kinds(decision)


def test_a_run_that_names_a_queue_makes_its_workload_and_nothing_else() -> None:
    decision = WAITING.decide()
    assert kinds(decision) == [WORKLOAD]
    (made,) = decision.apply
    assert made["spec"]["queueName"] == QUEUE
    counts = {each["name"]: each["count"] for each in made["spec"]["podSets"]}
    assert counts == {"client": 1, "server": 1}
    queue = decision.status.queue
    assert queue is not None
    assert (queue.name, queue.attempt, queue.since) == (QUEUE, 1, text(0))
    assert (decision.status.phase, reason(decision)) == (
        "Pending",
        "WaitingForQuota",
    )
    assert decision.status.accepted_time is None
    assert decision.queued is not None
    assert (decision.queued.attempt, decision.queued.queue) == (1, QUEUE)


@pytest.mark.parametrize("said", [None, Quota(), NO_ROOM])
def test_a_run_waits_without_an_object_and_says_why_in_kueues_words(
    said: Quota | None,
) -> None:
    decision = told(WAITING.settled(), said).at(3600).decide()
    assert (decision.apply, decision.delete, decision.lookups) == ((), (), ())
    assert decision.status.ending is None
    words = "Kueue has not looked" if not (said and said.waits) else said.waits
    assert words in (decision.status.message or "")
    assert decision.requeue_after_seconds is None


def test_the_status_says_how_many_are_ahead() -> None:
    decision = told(WAITING.settled(), NO_ROOM).knowing(places={1: 4}).decide()
    assert decision.status.queue is not None
    assert decision.status.queue.place == 4
    assert "4 ahead" in (decision.status.message or "")


def test_a_quota_is_noted_before_anything_is_made() -> None:
    granted = told(WAITING.settled(), GRANTED)
    asks = granted.decide()
    assert asks.lookups == (Flavors(("cpu", "h200")),)
    assert asks.apply == ()
    notes = granted.with_answers(KNOWN).at(5).decide()
    assert notes.apply == ()
    queue = notes.status.queue
    assert queue is not None
    assert queue.admitted_time == text(5)
    (server,) = (each for each in queue.placements if each.role == "server")
    assert server.node_selector == dict(H200.node_labels)
    assert [each.key for each in server.tolerations] == ["gpu"]
    assert notes.requeue_after_seconds == 1


def test_a_run_with_a_noted_quota_begins_and_its_deadlines_with_it() -> None:
    decision = admitted().at(100).decide()
    assert kinds(decision) == ["ConfigMap", "Job", "Service"]
    assert decision.status.accepted_time == text(100)
    assert decision.queued is not None
    assert (decision.queued.attempt, decision.queued.queue) == (1, None)


@pytest.mark.parametrize("restarted", [False, True])
def test_the_pods_get_what_the_flavours_of_their_role_say(restarted: bool) -> None:
    scene = replace(admitted(), pods=()).client_ready()
    if restarted:
        scene = scene.operator_restarted().reports(phase="Waiting")
    (server,) = (m for m in scene.decide().apply if m["kind"] == "Deployment")
    pod = server["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == dict(H200.node_labels)
    assert {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"} in pod[
        "tolerations"
    ]
    (client,) = (m for m in admitted().decide().apply if m["kind"] == "Job")
    assert "nodeSelector" not in client["spec"]["template"]["spec"]


def test_flavours_that_add_more_than_the_status_holds_end_no_run() -> None:
    names = tuple(f"f{number}" for number in range(9))
    flavors = tuple(
        Flavor(
            name,
            tuple((f"{name}/{label}", "x") for label in range(8)),
            (
                (("key", "gpu"), ("operator", "Exists")),
                *((("key", f"{name}/{key}"),) for key in range(7)),
            ),
        )
        for name in names
    )
    quota = Quota(is_admitted=True, flavors=(("server", names),))
    scene = told(WAITING.settled(), quota).with_answers(
        {Flavors(names): Answer(flavors)}
    )
    queue = scene.decide().status.queue
    assert queue is not None
    (placed,) = queue.placements
    assert (len(placed.tolerations), len(placed.node_selector)) == (32, 64)
    assert [each.key for each in placed.tolerations].count("gpu") == 1


def test_a_flavour_that_cannot_be_read_is_said_and_read_again() -> None:
    unread: dict[Query[Any], Answer[Any]] = {
        Flavors(("cpu", "h200")): Answer(None, "not allowed")
    }
    decision = told(WAITING.settled(), GRANTED).with_answers(unread).decide()
    assert decision.apply == ()
    assert "not allowed" in (decision.status.message or "")
    assert decision.lookups == (Flavors(("cpu", "h200")),)
    assert decision.requeue_after_seconds == 10


def test_waiting_counts_against_the_pending_deadline_alone() -> None:
    spec = spec_body(pendingDeadlineSeconds=600, startupDeadlineSeconds=60)
    waiting = told(replace(WAITING, spec=spec).settled(), NO_ROOM)
    assert waiting.at(599).decide().requeue_after_seconds == 1
    ended = waiting.at(600).decide()
    assert ended.ending is not None
    assert ended.ending.reason == "PendingDeadlineExceeded"
    assert NO_ROOM.waits in ended.ending.message
    assert deleted(ended) == [WORKLOAD]


def test_where_the_operator_may_not_use_kueue_the_run_waits_and_says_so() -> None:
    decision = replace(WAITING, context=CONTEXT).decide()
    assert decision.apply == ()
    assert decision.queued is None
    assert reason(decision) == "NoKueue"
    assert "kueue.enabled" in (decision.status.message or "")


@pytest.mark.parametrize("missing", [True, False])
def test_a_workload_that_is_refused_is_said(missing: bool) -> None:
    refused = RefusedObject(
        kind=WORKLOAD,
        name="br",
        role=names.ROLE_QUEUE,
        message="no such thing",
        curable=True,
        is_kind_missing=missing,
    )
    decision = WAITING.settled().knowing(refused_object=refused).decide()
    assert reason(decision) == ("NotInstalled" if missing else "ChildRefused")
    assert ("Install Kueue" in (decision.status.message or "")) is missing
    assert kinds(decision) == [WORKLOAD]


def test_a_label_that_comes_late_changes_nothing() -> None:
    scene = replace(
        Scene().client_ready(), labels=WAITING.labels, context=WITH_KUEUE
    )
    assert scene.decide().status.queue is None
    assert "Deployment" in kinds(scene.decide())


# ---- leaving a queue


def test_another_label_means_another_workload() -> None:
    scene = told(WAITING.settled(), NO_ROOM)
    moved = replace(scene, labels=((names.LABEL_QUEUE, "others"),))
    decision = moved.decide()
    assert deleted(decision) == [WORKLOAD]
    queue = decision.status.queue
    assert queue is not None
    assert (queue.name, queue.attempt) == ("others", 2)
    (made,) = moved.settled().decide().apply
    assert made["metadata"]["name"].endswith("-queue-2")


def test_a_run_whose_label_is_taken_away_begins_without_a_quota() -> None:
    scene = replace(told(WAITING.settled(), NO_ROOM), labels=())
    assert deleted(scene.decide()) == [WORKLOAD]
    begun = replace(scene.settled(), objects=())
    assert "Job" in kinds(begun.decide())


def test_a_workload_that_somebody_deletes_is_replaced_by_another() -> None:
    going = told(WAITING.settled(), NO_ROOM, deleting=True)
    assert going.decide().apply == ()
    (made,) = going.settled().decide().apply
    assert made["metadata"]["name"].endswith("-queue-2")


@pytest.mark.parametrize("known", [True, False])
def test_a_suspended_run_gives_its_quota_back(known: bool) -> None:
    """Also where the Workload was deleted, and the status could not be written after that."""
    scene = admitted().with_spec(suspend=True)
    scene = scene if known else replace(scene, objects=())
    decision = scene.decide()
    assert deleted(decision) == ([WORKLOAD] if known else [])
    assert decision.status.phase == "Suspended"
    queue = decision.status.queue
    assert queue is not None
    assert (queue.attempt, queue.since, queue.admitted_time) == (2, None, None)
    again = replace(scene.settled(), objects=()).with_spec(suspend=False).at(90)
    (made,) = again.decide().apply
    assert made["metadata"]["name"].endswith("-queue-2")
    assert again.decide().status.queue == queue.model_copy(
        update={"since": text(90)}
    )


def test_a_cancelled_run_leaves_its_queue() -> None:
    decision = told(WAITING.settled(), NO_ROOM).with_spec(cancel=True).decide()
    assert deleted(decision) == [WORKLOAD]
    assert decision.ending is not None


# ---- losing the quota


@pytest.mark.parametrize(
    "said",
    [
        PREEMPTED,
        Quota(is_admitted=True, evicted="ClusterQueueStopped: stopped", flavors=()),
    ],
)
def test_an_eviction_lets_go_of_the_server_first(said: Quota) -> None:
    decision = told(measuring(), said).decide()
    assert deleted(decision) == ["Deployment", "Job"]
    assert decision.scrape == ()
    assert decision.pull is None
    queue = decision.status.queue
    assert queue is not None
    assert queue.evicted_time == text(70)
    assert queue.last_eviction == said.evicted
    assert reason(decision) == "QuotaLost"
    assert not decision.forget


def test_the_quota_is_given_back_when_the_pods_are_gone_and_the_status_says_so() -> (
    None
):
    evicted = told(measuring(), PREEMPTED)
    unwritten = evicted.without(*DEPLOYMENT).without(*JOB)
    assert deleted(unwritten.decide()) == []
    noted = evicted.settled()
    assert deleted(noted.decide()) == [
        "Deployment",
        "ConfigMap",
        "Job",
        "ConfigMap",
    ]
    gone = noted.without(*DEPLOYMENT)
    assert WORKLOAD not in deleted(replace(gone, pods=noted.pods).decide())
    assert WORKLOAD in deleted(gone.decide())


def test_a_run_of_which_nothing_is_left_waits_again_from_the_beginning() -> None:
    noted = told(measuring(), PREEMPTED).settled()
    empty = replace(noted, objects=(), pods=()).having(SERVICE).at(300)
    decision = empty.decide()
    assert decision.forget
    status = decision.status
    assert status.queue is not None
    assert (status.queue.attempt, status.queue.evictions) == (2, 1)
    assert (status.queue.since, status.queue.admitted_time) == (text(300), None)
    assert status.start_time is None
    assert status.server_ready_time is None
    assert status.servers == []
    again = empty.settled().operator_restarted()
    (made,) = again.decide().apply
    assert made["metadata"]["name"].endswith("-queue-2")
    assert made["spec"]["queueName"] == QUEUE


def test_an_evicted_run_that_is_suspended_keeps_nothing_of_its_first_server() -> (
    None
):
    loading = replace(admitted().server_loading(), labels=WAITING.labels)
    noted = told(loading, PREEMPTED).settled()
    assert noted.status["scheduledTime"]
    leaving = noted.without(*DEPLOYMENT).with_spec(suspend=True).at(100)
    assert leaving.decide().status.phase != "Suspended"
    assert deleted(leaving.decide()) == ["ConfigMap", "Job", WORKLOAD]
    empty = replace(leaving, objects=(), pods=()).settled()
    suspended = empty.operator_restarted().settled()
    assert suspended.status["phase"] == "Suspended"
    assert "scheduledTime" not in suspended.status
    assert suspended.status["queue"]["evictions"] == 1
    waiting = suspended.with_spec(suspend=False).at(5000)
    (made,) = waiting.decide().apply
    assert made["kind"] == WORKLOAD


def test_what_is_said_of_an_earlier_workload_is_never_taken_for_the_present_one() -> (
    None
):
    noted = told(measuring(), PREEMPTED).settled()
    again = (
        replace(noted, objects=(), pods=()).at(300).settled().operator_restarted()
    )
    both = replace(
        again, objects=(workload(PREEMPTED), workload(NO_ROOM, attempt=2))
    )
    decision = both.decide()
    assert reason(decision) == "WaitingForQuota"
    late = replace(again, objects=(workload(GRANTED),)).with_answers(KNOWN)
    assert kinds(late.decide()) == [WORKLOAD]
    assert late.decide().status.queue.admitted_time is None  # type: ignore[union-attr]


@pytest.mark.parametrize("by", ["policy", "deactivated", "count"])
def test_an_eviction_ends_a_run_that_may_not_wait_again(by: str) -> None:
    said = replace(PREEMPTED, is_final=by == "deactivated")
    scene = told(measuring(), said)
    if by == "policy":
        scene = scene.with_spec(whenEvicted="End")
    if by == "count":
        queue = {**scene.status["queue"], "evictions": 10}
        scene = replace(scene, status={**scene.status, "queue": queue})
    decision = scene.decide()
    assert deleted(decision)[0] == "Deployment"
    assert decision.ending is not None
    assert decision.ending.reason == "QuotaLost"
    assert "Preempted" in decision.ending.message


def test_an_eviction_after_the_last_record_takes_nothing_away() -> None:
    scene = told(measuring().stored(1), PREEMPTED)
    decision = scene.decide()
    assert decision.status.phase == "Collecting"
    assert decision.ending is None


def test_an_eviction_before_the_note_only_waits_again() -> None:
    decision = told(WAITING.settled(), PREEMPTED).decide()
    assert decision.delete == ()
    noted = told(WAITING.settled(), PREEMPTED).settled()
    assert deleted(noted.decide()) == [WORKLOAD]


@pytest.mark.parametrize("seen", [True, False])
def test_only_a_workload_that_is_seen_to_be_gone_is_lost(seen: bool) -> None:
    scene = measuring().without(WORKLOAD, names.ROLE_QUEUE)
    scene = scene.knowing(gone_workloads={1} if seen else set())
    assert (reason(scene.decide()) == "QuotaLost") is seen
    assert ("Deployment" in deleted(scene.decide())) is seen


def test_pods_that_do_not_go_end_the_run_by_its_deadline() -> None:
    spec = {**measuring().spec, "pendingDeadlineSeconds": 60}
    noted = replace(told(measuring(), PREEMPTED), spec=spec).settled()
    assert noted.at(129).decide().ending is None
    ended = noted.at(130).decide().ending
    assert ended is not None
    assert ended.reason == "QuotaLost"


def test_servers_of_an_evicted_run_are_let_go_where_nothing_else_can_be_read() -> (
    None
):
    noted = told(measuring(), PREEMPTED).settled()
    assert [ref.kind for ref in unneeded_servers(noted.facts())] == ["Deployment"]
    assert unneeded_servers(measuring().facts()) == ()


@pytest.mark.parametrize("known", [True, False])
def test_an_eviction_goes_on_where_the_operator_may_use_kueue_no_more(
    known: bool,
) -> None:
    """Half of the run is gone by then. It waits again, and says for what; the Workload, which may
    not be deleted any more, goes with the run."""
    noted = replace(told(measuring(), PREEMPTED).settled(), context=CONTEXT)
    assert deleted(noted.decide()) == [
        "Deployment",
        "ConfigMap",
        "Job",
        "ConfigMap",
    ]
    gone = replace(noted, objects=(), pods=())
    gone = told(gone, PREEMPTED) if known else gone
    assert gone.decide().ending is None
    waits = gone.settled().operator_restarted()
    assert reason(waits.decide()) == "NoKueue"
    assert waits.status["queue"]["evictions"] == 1
    begun = replace(waits, labels=()).settled()
    assert "Job" in kinds(begun.decide())


def test_a_run_with_a_quota_goes_on_where_the_operator_may_use_kueue_no_more() -> (
    None
):
    """Also where Kueue evicts it then: nobody tells the operator of that."""
    decision = replace(told(measuring(), PREEMPTED), context=CONTEXT).decide()
    assert (decision.delete, decision.ending) == ((), None)
    assert decision.status.phase == "Running"


# ---- the end


def test_a_run_that_is_measured_gives_its_quota_back_when_its_server_is_gone() -> (
    None
):
    measured = measuring().stored(1)
    assert WORKLOAD not in deleted(measured.decide())
    assert WORKLOAD in deleted(measured.without(*DEPLOYMENT).decide())


@pytest.mark.parametrize("kueue", [True, False])
def test_a_finished_run_keeps_no_workload(kueue: bool) -> None:
    measured = measuring().stored(1).without(*DEPLOYMENT)
    ended = measured.with_status(measured.ended().status)
    ended = replace(ended, context=replace(ended.context, kueue=kueue))
    assert (WORKLOAD in deleted(ended.decide())) is kueue


def test_a_run_with_an_invalid_spec_keeps_no_workload() -> None:
    waiting = told(WAITING, NO_ROOM)
    assert deleted(waiting.with_spec(repeats=0).decide()) == [WORKLOAD]
