"""What ends a run before its time. Each check looks at one thing; the first that fires is the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from benchrun import names
from benchrun.api import Reason
from benchrun.decide.deadlines import deadlines, refusal, with_grace
from benchrun.decide.situation import Situation
from benchrun.decide.world import CANCELLED, Ending, LogTail
from benchrun.observe.failures import diagnose_client, diagnose_server, find_pod_with_hidden_cause
from benchrun.observe.untrusted_json import instant
from benchrun.observe.view_builders import main_container
from benchrun.observe.views import Diagnosis, Pod
from benchrun.plan.roles import nodes

CLOCK_SKEW_SECONDS = 2
"""Between the node of the client and that of the server. A whole second of it is what rounding costs."""


ENDED_BY_SERVER = frozenset(
    {
        Reason.USAGE_ERROR,
        Reason.INVALID_ARGUMENT,
        Reason.MODEL_NOT_FOUND,
        Reason.MODEL_GATED,
        Reason.OUT_OF_GPU_MEMORY,
        Reason.KV_CACHE_TOO_SMALL,
        Reason.OUT_OF_MEMORY,
        Reason.CRASH_LOOP,
        Reason.STARTUP_DEADLINE,
    }
)
"""Reasons that the server's log may tell more of."""


def ending(situation: Situation, *, server: Diagnosis | None, client: Diagnosis | None) -> Ending | None:
    """The first cause found, or None: the run goes on. Once every record is here nothing can spoil them any more."""
    kept = situation.ending
    if kept is not None:
        refined = _terminal(server) if kept.reason in ENDED_BY_SERVER and situation.log_tail is not None else None
        return refined or kept
    if situation.spec.cancel:
        return CANCELLED
    conflict = _conflict(situation)
    # A ready client may hold every record. Within some seconds it is heard, or counts as silent.
    unheard = situation.client_runs and situation.client_ready and not situation.collected.client.answered
    if conflict is not None or situation.all_known or unheard:
        return conflict
    checks: tuple[Callable[[Situation], Ending | None], ...] = (
        lambda s: _terminal(refusal(s)),
        _restarted,
        lambda _: _terminal(server),  # what the client says of a dead server is only a consequence
        _mismatched,
        _client_said,
        lambda _: _terminal(client),
        _records_missing,
        _vanished,
        _late,
    )
    return next((e for check in checks if (e := check(situation)) is not None), None)


def _terminal(diagnosis: Diagnosis | None) -> Ending | None:
    if diagnosis is None or not diagnosis.terminal:
        return None
    return Ending(diagnosis.reason, diagnosis.message)


def server_diagnosis(situation: Situation) -> Diagnosis | None:
    """What is wrong with the server, if anything."""
    if situation.spec.started is None or situation.all_known:
        return None
    tail = situation.log_tail
    each = [
        diagnose_server(situation.children.role_pods(role), situation.workload(role), log_tail=tail)
        for role in situation.server_roles
    ]
    known = [found for found in each if found is not None]
    worst = next((found for found in known if found.terminal), known[0] if known else None)
    return with_grace(situation, _at_its_field(situation, worst), situation.server_pods)


def _at_its_field(situation: Situation, found: Diagnosis | None) -> Diagnosis | None:
    """Pods know their role, and not which field of the spec they come from."""
    if found is None or situation.spec.offline is None:
        return found
    return replace(found, message=found.message.replace("spec.server", situation.spec.started_field))


def hidden_cause(situation: Situation) -> LogTail | None:
    """The log to read before the cause of a failed start is known: the pod's termination message only points further up."""
    if situation.measuring_started or situation.spec.cancel:
        return None
    pod = find_pod_with_hidden_cause(situation.server_pods)
    return None if pod is None else _log_of(pod)


def last_words(situation: Situation, end: Ending, *, server: Diagnosis | None) -> LogTail | None:
    """The log of the server that failed, to be read before the server is deleted; None: there is none, or it was tried."""
    pods = situation.serving
    servers_fault = server is not None or end.reason in (Reason.SERVER_RESTARTED, Reason.STARTUP_DEADLINE)
    if not servers_fault or not pods or situation.log_tails or end.reason == Reason.CANCELLED:
        return None
    ended = (each for each in pods if each.terminated or each.last_terminated)
    pod = next(ended, None) or next((each for each in pods if not each.ready), pods[-1])
    if pod.started_at is None and pod.terminated is None and pod.last_terminated is None:
        return None
    return _log_of(pod)


def _log_of(pod: Pod) -> LogTail:
    """The log of the pod's failed container: the one before, where it has been started again."""
    return LogTail(
        pod=pod.name, container=main_container(pod.role), previous=pod.restarts > 0 and pod.terminated is None
    )


def client_diagnosis(situation: Situation) -> Diagnosis | None:
    """What is wrong with the client, if anything."""
    if situation.all_known:
        return None
    pods = situation.client_pods
    if situation.begun and situation.client_runs:
        # It has the last word on what became of the others, within seconds.
        pods = tuple(pod for pod in pods if pod is situation.client_pod)
    return with_grace(situation, diagnose_client(pods, situation.child("Job", names.ROLE_CLIENT)), pods)


def _conflict(situation: Situation) -> Ending | None:
    foreign = situation.collected.conflict
    if foreign is None:
        return None
    return Ending(Reason.CONFLICT, f"{foreign}; delete it or choose another name for the run")


def _restarted(situation: Situation) -> Ending | None:
    """A server that restarts mid-run is another server: its cache is cold, its counters begin anew. So is one that does between
    its first healthy answer and the first request: the client keeps to the address that answered."""
    if not (situation.was_ready or situation.measuring_started) or situation.spec.started is None:
        return None
    found = (_restarted_as(situation, role) for role in situation.server_roles)
    pod = next((pod for pod in found if pod is not None), None)
    if pod is None:
        return None
    last = pod.last_terminated or pod.terminated
    code = f", exit code {last.exit_code}" if last is not None else ""
    which = "the server" if pod.role == names.ROLE_SERVER else f"the server of the role {pod.role}"
    message = f"{which} restarted while it was measured (pod {pod.name}{code}); later stages would be on another server"
    return Ending(Reason.SERVER_RESTARTED, message)


def _restarted_as(situation: Situation, role: str) -> Pod | None:
    """A pod of the role that shows a restart; None: there was none."""
    pods = situation.serving_as(role)
    # What was noted before they were ready is of another start.
    before = next((s for s in situation.status.servers if s.role == role and situation.was_ready), None)
    restarted = before is not None and sum(pod.restarts for pod in pods) > before.restarts
    replaced = before is not None and before.pod not in {pod.name for pod in pods}
    within = [pod for pod in pods if _started_within(situation, pod)]
    if not pods or not (restarted or replaced or within):
        return None
    return next((each for each in (*within, *pods) if each.last_terminated or each.terminated), pods[-1])


def _started_within(situation: Situation, pod: Pod) -> bool:
    """Told by instants as well: the operator may have been away when the restart could be counted."""
    began, ready = instant(situation.status.start_time), instant(situation.status.server_ready_time)
    # A pod made when the servers were ready takes the place of another; in a StatefulSet it has the other's name.
    return _is_after(pod.started_at, began) or _is_after(pod.created_at, ready)


def _is_after(at: datetime | None, other: datetime | None) -> bool:
    return at is not None and other is not None and at - other > timedelta(seconds=CLOCK_SKEW_SECONDS)


def _mismatched(situation: Situation) -> Ending | None:
    """Operator and client do not understand each other, and will not."""
    mismatch = situation.collected.client.mismatch
    if mismatch is None:
        return None
    return Ending(Reason.CONTRACT_MISMATCH, f"operator and client do not understand each other: {mismatch}")


def _client_said(situation: Situation) -> Ending | None:
    """The client's own word comes before its exit does."""
    progress = situation.collected.client.progress
    if progress is None or progress.failure is None:
        return None
    return Ending(progress.failure.reason, progress.failure.message)


def _records_missing(situation: Situation) -> Ending | None:
    """A record that nobody has any more: waiting for it would hold the server until the run's deadline."""
    done, total = len(situation.known), situation.stages_in_words
    lost, pod = situation.collected.client.lost_record, situation.client_pod
    if lost is not None and lost not in situation.known:
        return Ending(
            Reason.RECORDS_MISSING,
            f"record {lost} was stored and is gone: its ConfigMap was deleted; {done} of {total} records are here. Start a new run.",
        )
    if pod is not None and pod.phase == "Succeeded":
        message = (
            f"the client has ended and {done} of {total} records are here: the others were deleted. Start a new run."
        )
        return Ending(Reason.RECORDS_MISSING, message)
    return None


def _vanished(situation: Situation) -> Ending | None:
    """Somebody deleted what the run needs. It is not created once more: the measurement would not be valid."""
    measuring = situation.status.server_ready_time is not None
    # Once it had its node it is not made again, either: whoever deleted it meant to have the GPU back.
    held = measuring or situation.status.scheduled_time is not None
    is_whole = all(situation.workload(role) is not None for role in situation.server_roles)
    if held and situation.spec.started is not None and not (is_whole or situation.is_released):
        kind = "Deployment" if nodes(situation.spec) == 1 else "LeaderWorkerSet"
        return Ending(Reason.SERVER_GONE, f"the server's {kind} was deleted before everything was measured")
    if measuring and situation.child("Job", names.ROLE_CLIENT) is None:
        return Ending(Reason.CLIENT_GONE, "the client's Job was deleted before every record was stored")
    return None


def _late(situation: Situation) -> Ending | None:
    late = next((d for d in deadlines(situation) if d.passed(situation.now)), None)
    return None if late is None else Ending(late.reason, late.message)
