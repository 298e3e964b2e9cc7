"""What ends a run before its time. Each check looks at one thing; the first that fires is the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from benchrun.api import names
from benchrun.api.conditions import Reason
from benchrun.decide.deadlines import deadlines
from benchrun.decide.decision import Ending, LogWanted
from benchrun.decide.grace import with_grace
from benchrun.decide.instants import instant
from benchrun.decide.refused import refusal
from benchrun.decide.situation import Situation
from benchrun.observe.client_failures import diagnose_client
from benchrun.observe.hidden_causes import find_pod_with_hidden_cause
from benchrun.observe.server_failures import diagnose_server
from benchrun.observe.views import Diagnosis, Pod
from benchrun.plan.roles import main_container, nodes

CLOCK_SKEW_SECONDS = 2
"""Between the node of the client and that of the server. A whole second of it is what rounding costs."""


def ending(situation: Situation, *, server: Diagnosis | None, client: Diagnosis | None) -> Ending | None:
    """The first cause found, or None: the run goes on. Once every record is here nothing can spoil them any more."""
    if situation.collected.ending is not None:
        return situation.collected.ending
    if situation.spec.cancel:
        return Ending(Reason.CANCELLED, "cancelled by spec.cancel")
    conflict = _conflict(situation)
    if conflict is not None or situation.all_known or situation.client_unheard:
        return conflict
    checks: tuple[Callable[[Situation], Ending | None], ...] = (
        lambda s: _terminal(refusal(s)),
        _restarted,
        lambda _: _terminal(server),  # what the client says of a dead server is only a consequence
        _client_said,
        lambda _: _terminal(client),
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
    tail = situation.collected.log_tail
    each = [
        diagnose_server(situation.children.role_pods(role), situation.workload(role), log_tail=tail)
        for role in situation.server_roles
    ]
    known = [found for found in each if found is not None]
    worst = next((found for found in known if found.terminal), known[0] if known else None)
    return with_grace(situation, _at_its_field(situation, worst), situation.server_pods)


def _at_its_field(situation: Situation, found: Diagnosis | None) -> Diagnosis | None:
    """Pods know their role, and not by which field they were asked for."""
    if found is None or situation.spec.offline is None:
        return found
    return replace(found, message=found.message.replace("spec.server", situation.spec.started_field))


def hidden_cause(situation: Situation) -> LogWanted | None:
    """The log to fetch before a failed start can be told apart: its last words only point further up."""
    if situation.collected.log_tail_tried or situation.measuring_started or situation.spec.cancel:
        return None
    pod = find_pod_with_hidden_cause(situation.server_pods)
    return None if pod is None else log_of(pod)


def log_of(pod: Pod) -> LogWanted:
    """The log of the pod's failed container: the one before, where it has been started again."""
    return LogWanted(
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
    return Ending(
        Reason.CONFLICT, f"{foreign} exists and belongs to somebody else; delete it or choose another name for the run"
    )


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
    """A pod of the role that tells of a restart; None: there was none."""
    pods = situation.serving_as(role)
    before = next((s for s in situation.status.servers if s.role == role), None)
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


def _client_said(situation: Situation) -> Ending | None:
    """The client's own word comes before its exit does."""
    progress = situation.collected.progress
    if progress is None or progress.failure is None:
        return None
    return Ending(progress.failure.reason, progress.failure.message)


def _vanished(situation: Situation) -> Ending | None:
    """Somebody deleted what the run needs. Never created again: the measurement would not be one."""
    measuring = situation.status.server_ready_time is not None
    if measuring and situation.spec.started is not None and not situation.server_is_whole:
        kind = "Deployment" if nodes(situation.spec) == 1 else "LeaderWorkerSet"
        return Ending(Reason.SERVER_GONE, f"the server's {kind} was deleted while it was measured")
    if measuring and situation.child("Job", names.ROLE_CLIENT) is None:
        return Ending(Reason.CLIENT_GONE, "the client's Job was deleted before every record was stored")
    return None


def _late(situation: Situation) -> Ending | None:
    late = next((d for d in deadlines(situation) if d.passed(situation.now)), None)
    return None if late is None else Ending(late.reason, late.message)
