"""The quota of a run in Kueue: does the run wait for it, has it, or has it lost it?

A run joins the queue that its label names before any of its objects exist. What Kueue gave it is
noted in its status before its first pod is created, so that all pods are made from the same note.
"""

from datetime import datetime, timedelta

from benchrun import names
from benchrun.api import QueueStatus, Reason, timestamp
from benchrun.child_kinds import WORKLOAD
from benchrun.decide.decision import Ending, QueuedWorkload
from benchrun.decide.run_state import RunState
from benchrun.observe import Child, Quota, instant

MAX_EVICTIONS = 10
"""Most evictions after which a run is queued again. Kueue evicts a run again and again that it
takes for not ready, and each time the run held a GPU in vain."""
NOTHING_SAID = Quota()


def joined(state: RunState) -> RunState:
    """Return the state after the run has joined the queue that its label names, if it names one.

    A label that is set after objects of the run exist is ignored.
    """
    if (queue := state.status.queue) is not None:
        return _up_to_date(state, queue)
    wanted = state.queue_label
    has_objects = (
        state.begun
        or state.server_exists
        or state.child("Job", names.ROLE_CLIENT) is not None
    )
    if wanted is None or has_objects:
        return state
    return with_queue(state, QueueStatus(name=wanted, since=timestamp(state.now)))


def _up_to_date(state: RunState, queue: QueueStatus) -> RunState:
    """Return the state with the current position in the queue, and since when the run has it."""
    if not state.waits_in_queue:
        return state
    update = {
        "since": queue.since or timestamp(state.now),
        "place": state.collected.places.get(queue.attempt),
    }
    return with_queue(state, queue.model_copy(update=update))


def with_queue(state: RunState, queue: QueueStatus | None) -> RunState:
    """Return the state with this `status.queue`."""
    return state.with_status(state.status.model_copy(update={"queue": queue}))


def queued_workload(state: RunState) -> Child | None:
    """Return the Workload of the current wait, even one being deleted; None if none is known."""
    if (queue := state.status.queue) is None:
        return None
    name = names.queued_name(state.owner.name, state.owner.uid, queue.attempt)
    return state.children.named(WORKLOAD, name)


def said_of(workload: Child | None) -> Quota:
    """Return what Kueue has written about the Workload."""
    known = None if workload is None else workload.quota
    return known or NOTHING_SAID


def lost(state: RunState) -> str | None:
    """Return why the run has lost its quota; None if it has not, or has no queue.

    A Workload counts as lost only if the API server has said that it is gone. An eviction that is
    noted goes on to its end even where the operator may no longer use Kueue: half of the run's
    objects are gone.
    """
    queue = state.status.queue
    if queue is not None and queue.evicted_time is not None:
        return queue.last_eviction or "Evicted"
    if queue is None or not state.facts.context.kueue:
        return None
    workload = queued_workload(state)
    if (evicted := said_of(workload).evicted) is not None:
        return evicted
    is_gone = queue.attempt in state.collected.gone_workloads
    is_going = is_gone if workload is None else workload.deleting
    if queue.admitted_time is not None and is_going:
        return "Deleted: its Workload was deleted"
    return None


def is_leaving(state: RunState) -> bool:
    """Return whether the status says that the run lost its quota and has to wait again.

    Such a run is not suspended now: instants of its first server would count for the next one.
    """
    queue = state.status.queue
    return queue is not None and queue.evicted_time is not None


def is_voided(state: RunState) -> bool:
    """Return whether the run lost its quota and has to wait for it again, from the beginning."""
    return (
        lost(state) is not None
        and state.ending is None
        and not state.spec.cancel
        and not state.all_measured
        and _may_wait_again(state)
    )


def ended_by_eviction(state: RunState) -> Ending | None:
    """Return the ending of a run that lost its quota and may not wait for it again; else None."""
    why = lost(state)
    if why is None:
        return None
    message = f"the run lost its quota in queue {_name(state)}: {why}"
    return Ending(Reason.QUOTA_LOST, message)


def _may_wait_again(state: RunState) -> bool:
    queue = state.status.queue
    until = leaves_until(state)
    return (
        queue is not None
        and state.spec.when_evicted == "QueueAgain"
        and queue.evictions < MAX_EVICTIONS
        and not said_of(queued_workload(state)).is_final
        and (until is None or state.now < until)
    )


def leaves_until(state: RunState) -> datetime | None:
    """Return when waiting for the pods of an evicted run ends; None if there is no limit.

    The limit is needed because a pod on a lost node stays for ever.
    """
    queue = state.status.queue
    since = None if queue is None else instant(queue.evicted_time)
    seconds = state.spec.pending_deadline_seconds
    return (
        None
        if since is None or seconds == 0
        else since + timedelta(seconds=seconds)
    )


def to_read(state: RunState) -> QueuedWorkload | None:
    """Return the Workload to read from now on; None if the run has none or must not have one."""
    queue = state.status.queue
    if queue is None or not state.facts.context.kueue:
        return None
    name = names.queued_name(state.owner.name, state.owner.uid, queue.attempt)
    place = queue.name if state.waits_in_queue else None
    return QueuedWorkload(name, queue.attempt, place)


def why_waiting(state: RunState) -> str:
    """Return a text with the position in the queue, and with Kueue's message on what is missing."""
    queue = state.status.queue
    if not state.facts.context.kueue:
        return (
            f"the label {names.LABEL_QUEUE} names queue {_name(state)}, but this operator may not "
            "use Kueue: ask your administrator for kueue.enabled in the chart, or make the run "
            "without the label"
        )
    said = said_of(queued_workload(state))
    ahead = None if queue is None else queue.place
    place = "" if ahead is None else f", {ahead} ahead of it"
    if said.is_admitted:
        return f"queue {_name(state)} has a quota for the run; its flavours are being read"
    words = said.waits or "Kueue has not looked at it yet"
    return f"waiting for a quota in queue {_name(state)}{place}: {words}"


def _name(state: RunState) -> str:
    return "" if state.status.queue is None else state.status.queue.name
