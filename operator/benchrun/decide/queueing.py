"""Decisions on a run that waits in a queue of Kueue, or has lost the quota that Kueue gave it.

Before a run has a quota, its Workload is its only object. If a run loses its quota, its servers are
deleted first, then its other objects, and the Workload last; then it waits again from the
beginning. The status is written before each step, so that any operator can continue.
"""

from itertools import islice

from benchrun.api import (
    BenchmarkRunStatus,
    FlavorToleration,
    Placement,
    QueueStatus,
    Reason,
    timestamp,
)
from benchrun.api.queueing import MAX_NODE_LABELS, MAX_TOLERATIONS
from benchrun.child_kinds import SERVER_KINDS, WORKLOAD
from benchrun.decide import quota
from benchrun.decide.condition_table import PhaseStep
from benchrun.decide.create_and_release import (
    ref_to,
    release_quota,
    release_servers,
    workload_to_queue,
)
from benchrun.decide.decision import Flavors, Ref
from benchrun.decide.run_state import RunState
from benchrun.observe import Flavor
from benchrun.plan import Manifest


def left_queue(state: RunState) -> bool:
    """Return whether a waiting run has to leave its queue, or needs a new Workload.

    Either its label has changed, or its Workload is being deleted, which may take any time.
    """
    queue = state.status.queue
    if queue is None:
        return False
    workload = quota.queued_workload(state)
    is_going = workload is not None and workload.deleting
    return is_going or state.queue_label != queue.name


def next_queue(state: RunState) -> QueueStatus | None:
    """Return `status.queue` of the run's next wait for a quota; None without a queue's label."""
    queue = state.status.queue
    name = state.queue_label
    if queue is None or name is None:
        return None
    return QueueStatus(
        name=name,
        attempt=queue.attempt + 1,
        since=queue.since if queue.evicted_time is None else timestamp(state.now),
        evictions=queue.evictions + (queue.evicted_time is not None),
        last_eviction=queue.last_eviction,
    )


def parked(state: RunState) -> QueueStatus | None:
    """Return `status.queue` of a suspended run, which has no quota and does not wait for one."""
    queue = state.status.queue
    if queue is None:
        return None
    is_known = quota.queued_workload(state) is not None
    is_used = is_known or queue.admitted_time is not None
    return QueueStatus(
        name=queue.name,
        attempt=queue.attempt + is_used,
        evictions=queue.evictions,
        last_eviction=queue.last_eviction,
    )


def to_queue(state: RunState) -> tuple[Manifest, ...]:
    """Return the Workload to create; nothing if it exists or must not be created."""
    queue = state.status.queue
    is_known = quota.queued_workload(state) is not None
    if queue is None or is_known or not state.facts.context.kueue:
        return ()
    return (workload_to_queue(state, queue),)


def flavors_wanted(state: RunState) -> Flavors | None:
    """Return the query for the flavours of a run that got a quota; None if it has none."""
    said = quota.said_of(quota.queued_workload(state))
    if not said.is_admitted:
        return None
    return Flavors(tuple(sorted({name for _, of in said.flavors for name in of})))


def admitted(state: RunState) -> QueueStatus | None:
    """Return `status.queue` of a run with quota and known flavours; None if it lacks them yet."""
    queue = state.status.queue
    known = state.collected.answers.value(flavors_wanted(state))
    if queue is None or known is None:
        return None
    by_name = {flavor.name: flavor for flavor in known}
    said = quota.said_of(quota.queued_workload(state))
    placements = [
        _placement(role, [by_name[name] for name in names if name in by_name])
        for role, names in dict(said.flavors).items()
    ]
    update = {
        "place": None,
        "admitted_time": timestamp(state.now),
        "placements": placements,
    }
    return queue.model_copy(update=update)


def waiting_step(state: RunState) -> PhaseStep:
    """Return what to do with a run that waits for its quota."""
    has_kueue = state.facts.context.kueue
    reason = Reason.WAITING_FOR_QUOTA if has_kueue else Reason.NO_KUEUE
    words = quota.why_waiting(state)
    query = flavors_wanted(state)
    answer = None if query is None else state.collected.answers.of(query)
    if answer is not None and answer.value is None:
        words = (
            f"the flavours of queue {_name(state)} can't be read: {answer.problem}"
        )
    return PhaseStep("Pending", reason, words)


def voided_step(state: RunState) -> PhaseStep:
    """Return what to do with a run that lost its quota and has to wait for it again."""
    words = (
        f"the run lost its quota in queue {_name(state)} ({quota.lost(state)}); it waits there "
        "again, from the beginning, once its pods are gone"
    )
    return PhaseStep("Pending", Reason.QUOTA_LOST, words)


def voided_queue(state: RunState) -> QueueStatus | None:
    """Return `status.queue` of a run that lost its quota, with the time and the reason."""
    queue = state.status.queue
    if queue is None or queue.evicted_time is not None:
        return queue
    why = (quota.lost(state) or "")[:MAX_WHY_CHARS]
    update = {"evicted_time": timestamp(state.now), "last_eviction": why}
    return queue.model_copy(update=update)


MAX_WHY_CHARS = 1000


def to_void(state: RunState) -> tuple[Ref, ...]:
    """Return what to delete now of a run that lost its quota: servers first, the Workload last.

    Records are deleted only after the status says that they do not count.
    """
    kinds: tuple[str, ...] = ("Job",)
    if _is_noted(state):
        kinds = ("Job", "ConfigMap")
    others = tuple(
        ref_to(state.facts, child)
        for child in state.children.objects
        if child.kind in kinds and not child.deleting
    )
    last = release_quota(state) if _is_noted(state) else ()
    return (*release_servers(state.facts), *others, *last)


def is_void(state: RunState) -> bool:
    """Return whether no object of a run that lost its quota is left, so that it can wait again.

    Where the operator may use Kueue no more, the Workload stays and goes with the run.
    """
    quotas = (WORKLOAD,) if state.facts.context.kueue else ()
    kinds = (*SERVER_KINDS, "Job", "ConfigMap", *quotas)
    left = any(child.kind in kinds for child in state.children.objects)
    return _is_noted(state) and not left and not state.children.pods


def begun_anew(state: RunState) -> BenchmarkRunStatus:
    """Return the status of a run that waits again and has no object any more."""
    old = state.status
    return BenchmarkRunStatus(
        observed_generation=old.observed_generation,
        conditions=old.conditions,
        estimate=old.estimate,
        queue=next_queue(state),
    )


def _is_noted(state: RunState) -> bool:
    """Return whether the status in the cluster says that the run lost its quota."""
    stored = state.facts.run.status.get("queue")
    return isinstance(stored, dict) and bool(stored.get("evictedTime"))


def _placement(role: str, flavors: list[Flavor]) -> Placement:
    """Return the node labels and tolerations that the flavours of a role add, each once.

    Those that do not fit into the status are left out.
    """
    given = dict.fromkeys(each for flavor in flavors for each in flavor.tolerations)
    tolerations = [
        FlavorToleration.model_validate(dict(each))
        for each in islice(given, MAX_TOLERATIONS)
    ]
    labels = {
        label: value for flavor in flavors for label, value in flavor.node_labels
    }
    return Placement(
        role=role[:63],
        flavors=[flavor.name for flavor in flavors],
        node_selector=dict(islice(labels.items(), MAX_NODE_LABELS)),
        tolerations=tolerations,
    )


def _name(state: RunState) -> str:
    return "" if state.status.queue is None else state.status.queue.name
