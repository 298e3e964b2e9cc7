"""The deadlines of a run and the instants from which they are counted.

Instants are noted in the status, and with them how far the client has filled a claim with the
model. Three deadlines are counted from them: waiting for a node,
starting, running. A deadline of 0 is no limit.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from benchrun import names
from benchrun.api import Condition, ModelStatus, Reason, find_condition, timestamp
from benchrun.decide.quota import why_waiting
from benchrun.decide.refusals import no_pod, refusal, why_unmade
from benchrun.decide.run_state import RunState
from benchrun.observe import Diagnosis, Pod, diagnosed, instant
from benchrun.plan import estimate, nodes, role_replicas

CLIENT_GRACE_SECONDS = 30
"""Seconds that the operator waits for an endpoint after the client has given up: the client still
has to report the endpoint's last answer."""
_LAST_US = 253_402_300_799_000_000  # the end of the year 9999: datetime has no later instant


def noticed(state: RunState) -> RunState:
    """Return the state with the instants that have occurred; each is noted once and kept.

    An instant of the client's clock is bounded by the known instants before it and by now: a wrong
    clock must not move a deadline.
    """
    status = state.status
    heard = state.collected.client.progress
    now = state.now
    instants = [
        pod.scheduled_at for pod in state.serving if pod.scheduled_at is not None
    ]
    wanted_pods = sum(role_replicas(state.spec).values()) * nodes(state.spec)
    scheduled = max(instants) if len(instants) == wanted_pods > 0 else None
    accepted = instant(status.accepted_time)
    healthy = began = None
    if heard is not None:
        healthy = believed(
            from_unix_us(heard.healthy_unix_us),
            first_seen=now,
            not_before=scheduled or accepted,
        )
        began = believed(
            from_unix_us(heard.first_request_unix_us),
            first_seen=now,
            not_before=healthy or accepted,
        )
    update = {
        "accepted_time": status.accepted_time or timestamp(now),
        "estimate": status.estimate or estimate(state.spec),
        "model": _model_status(state),
        "scheduled_time": status.scheduled_time
        or (timestamp(scheduled) if scheduled is not None else None),
        "server_ready_time": status.server_ready_time
        or (timestamp(healthy) if healthy is not None else None),
        "start_time": status.start_time
        or (timestamp(began) if began is not None else None),
    }
    return state.with_status(status.model_copy(update=update))


def _model_status(state: RunState) -> ModelStatus | None:
    """Return how far the claim is filled with the model, by the client's last answer.

    An instant of the client's clock is bounded by acceptance and by now. Once complete it is kept.
    """
    old = state.status.model
    heard = state.collected.client.progress
    files = heard.model if heard is not None else None
    if files is None or (old is not None and old.state == "Complete"):
        return old
    completed = believed(
        from_unix_us(files.completed_unix_us),
        first_seen=state.now,
        not_before=instant(state.status.accepted_time),
    )
    return ModelStatus(
        **files.model_dump(exclude={"completed_unix_us"}),
        completed_time=timestamp(completed) if completed is not None else None,
    )


def from_unix_us(micros: int | None) -> datetime | None:
    """Convert Unix microseconds to an instant; None if they are None or out of range."""
    return (
        datetime.fromtimestamp(micros / 1e6, tz=UTC)
        if micros is not None and 0 <= micros <= _LAST_US
        else None
    )


def believed(
    claimed: datetime | None, *, first_seen: datetime, not_before: datetime | None
) -> datetime | None:
    """Return the instant of an event by another clock, bounded by the operator's own.

    The event happened after `not_before` and was first seen at `first_seen`, both by the operator's
    clock. Deadlines are counted from the event: without the bounds, a clock that is ahead would
    postpone them, and a clock that is behind would end a run at once.
    """
    if claimed is None:
        return None
    latest = min(claimed, first_seen)
    return (
        latest if not_before is None else max(latest, min(not_before, first_seen))
    )


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant by which something must have happened."""

    reason: str
    ends_at: datetime
    message: str

    def passed(self, now: datetime) -> bool:
        return now >= self.ends_at


def deadlines(state: RunState) -> tuple[Deadline, ...]:
    """Return the deadlines that are running now."""
    if state.waits_in_queue:
        queue = _queue(state)
        return () if queue is None else (queue,)
    if state.status.server_ready_time is None:
        of_server = (
            (_endpoint(state),)
            if state.spec.endpoint is not None
            else (_pending(state), _startup(state))
        )
        of_client = (_client_pending(state), _client_start(state))
        return tuple(d for d in (*of_client, *of_server) if d is not None)
    seconds = state.spec.run_deadline_seconds
    done = len(state.known)
    total = state.stages_in_words
    measured = f"{done} of {total} stages were measured"
    message = f"{measured} within runDeadlineSeconds ({seconds} s); raise it or measure less"
    run = _deadline(
        Reason.RUN_DEADLINE,
        instant(state.status.server_ready_time),
        seconds,
        message,
    )
    return () if run is None else (run,)


def _deadline(
    reason: str, since: datetime | None, seconds: int, message: str
) -> Deadline | None:
    if since is None or seconds == 0:
        return None
    return Deadline(reason, since + timedelta(seconds=seconds), message)


def _queue(state: RunState) -> Deadline | None:
    """Return the deadline by which the run must get its quota; None if it is in no queue."""
    queue = state.status.queue
    seconds = state.spec.pending_deadline_seconds
    message = (
        f"the run got no quota within pendingDeadlineSeconds ({seconds} s): "
        f"{why_waiting(state)}"
    )
    since = None if queue is None else instant(queue.since)
    return _deadline(Reason.PENDING_DEADLINE, since, seconds, message)


def _client_pending(state: RunState) -> Deadline | None:
    pod = state.client_pod
    seconds = state.spec.pending_deadline_seconds
    if pod is None or pod.node is not None or pod.scheduled_at is not None:
        return None
    message = (
        f"no node took the client within pendingDeadlineSeconds ({seconds} s): "
        f"{_why(*_waits_for(pod))}"
    )
    return _deadline(Reason.PENDING_DEADLINE, _made(state, pod), seconds, message)


def _client_start(state: RunState) -> Deadline | None:
    pod = state.client_pod
    seconds = state.spec.startup_deadline_seconds
    if state.client_ready and (state.server_exists or state.client_heard):
        return None
    if pod is None:
        return _client_creation(state)
    message = (
        f"the client was not ready within startupDeadlineSeconds ({seconds} s): "
        f"{_why(pod.waiting_message, *_waits_for(pod))}"
    )
    since = _made(state, pod)
    if (files := state.status.model) is not None:
        if files.state != "Complete":
            return _download(state, files, since)
        since = instant(files.completed_time) or since
    return _deadline(Reason.STARTUP_DEADLINE, since, seconds, message)


def _download(
    state: RunState, files: ModelStatus, since: datetime | None
) -> Deadline | None:
    """Return the deadline of a download: pendingDeadlineSeconds, because no GPU waits for it."""
    seconds = state.spec.pending_deadline_seconds
    message = (
        f"the model was not on the claim within pendingDeadlineSeconds ({seconds} s): "
        f"{files.in_words}; raise the deadline, or fill the claim before"
    )
    return _deadline(Reason.PENDING_DEADLINE, since, seconds, message)


def _made(state: RunState, pod: Pod) -> datetime | None:
    """Return from when the deadlines of the client's pod are counted.

    That is the pod's creation. For a pod that is being deleted it is not before the acceptance of
    the run, because the pod may be left from before the run was suspended.
    """
    accepted = instant(state.status.accepted_time)
    if not pod.deleting or accepted is None or pod.created_at is None:
        return pod.created_at
    return max(pod.created_at, accepted)


def _client_creation(state: RunState) -> Deadline | None:
    """Return the deadline from acceptance until the client's pod exists.

    None while the pods of an endpoint's Service are queried first: another deadline bounds that.
    """
    refused = refusal(state)
    planned = state.plan is not None
    if state.spec.endpoint is not None and refused is None and not planned:
        return None
    seconds = state.spec.startup_deadline_seconds
    unmade = why_unmade(state, "Job") or no_pod(state)
    why = refused.message if refused is not None else unmade
    message = f"the client's pod was not created within startupDeadlineSeconds ({seconds} s): {why}"
    return _deadline(
        Reason.STARTUP_DEADLINE,
        instant(state.status.accepted_time),
        seconds,
        message,
    )


def _endpoint(state: RunState) -> Deadline | None:
    seconds = state.spec.startup_deadline_seconds
    pod = state.client_pod
    message = (
        f"the endpoint was not healthy within startupDeadlineSeconds ({seconds} s); check that it "
        "runs and answers /health"
    )
    since = (
        _made(state, pod)
        if pod is not None
        else instant(state.status.accepted_time)
    )
    ready = _client_ready(state)
    if ready is not None:
        since = _since(state, ready)
        seconds = seconds + (CLIENT_GRACE_SECONDS if seconds else 0)
    return _deadline(Reason.STARTUP_DEADLINE, since, seconds, message)


def _pending(state: RunState) -> Deadline | None:
    seconds = state.spec.pending_deadline_seconds
    if (
        unmade := next(
            (role for role in state.server_roles if not state.serving_as(role)),
            None,
        )
    ) is not None:
        return _server_creation(state, unmade)
    if (
        waiting := next(
            (pod for pod in state.serving if pod.scheduled_at is None), None
        )
    ) is None:
        return None
    message = (
        f"no node took the server within pendingDeadlineSeconds ({seconds} s): "
        f"{_why(*_waits_for(waiting))}"
    )
    return _deadline(Reason.PENDING_DEADLINE, waiting.created_at, seconds, message)


def _server_creation(state: RunState, role: str) -> Deadline | None:
    """Return the deadline from the client being ready until a pod of the role exists.

    It covers a workload that is refused, and a workload whose pods are refused.
    """
    ready = _client_ready(state)
    if not state.client_ready or ready is None:
        return None
    workload = state.workload(role)
    refused = refusal(state)
    seconds = state.spec.pending_deadline_seconds
    why = _why(
        refused.message if refused is not None else None,
        workload.failure if workload is not None else None,
        why_unmade(state, "StatefulSet"),
    )
    message = f"the server's pod was not created within pendingDeadlineSeconds ({seconds} s): {why}"
    return _deadline(
        Reason.PENDING_DEADLINE, _since(state, ready), seconds, message
    )


def _since(state: RunState, condition: Condition) -> datetime | None:
    """Return since when the condition holds.

    If that instant can't be read, return when the spec was accepted: an unreadable condition must
    not remove a deadline.
    """
    return instant(condition.last_transition_time) or instant(
        state.status.accepted_time
    )


def _startup(state: RunState) -> Deadline | None:
    """Return the deadline from the last pod being scheduled until the server is healthy.

    Until all pods are scheduled it is counted from the first that holds GPUs, since that one holds
    them while it waits for the others.
    """
    pods = state.serving
    seconds = state.spec.startup_deadline_seconds
    if not pods:
        return None
    without_node = next((pod for pod in pods if pod.scheduled_at is None), None)
    pod = without_node or next((each for each in pods if not each.ready), pods[-1])
    slow = "the server was still loading; raise startupDeadlineSeconds if the model needs longer"
    why = (
        f"a pod had no node: {_why(*_waits_for(pod))}"
        if without_node
        else _why(pod.waiting_message, pod.waiting_reason, slow)
    )
    message = (
        f"the server was not healthy within startupDeadlineSeconds ({seconds} s) of being "
        f"scheduled: {why}"
    )
    held = (
        pod.scheduled_at for pod in pods if pod.gpus or pod.role != names.ROLE_PROXY
    )
    first = min((each for each in held if each is not None), default=None)
    return _deadline(
        Reason.STARTUP_DEADLINE,
        instant(state.status.scheduled_time) or first,
        seconds,
        message,
    )


def _client_ready(state: RunState) -> Condition | None:
    """Return the ClientReady condition of the last status; None: the client was not ready."""
    found = find_condition(state.status.conditions, "ClientReady")
    return found if found is not None and found.status == "True" else None


def _why(*texts: str | None) -> str:
    return next(
        (t for t in texts if t), f"see the pod's events (label {names.LABEL_RUN})"
    )


def _waits_for(pod: Pod) -> tuple[str | None, ...]:
    """Return the reasons why no node has taken the pod, None for each that does not apply."""
    gates = (
        f"the pod has scheduling gates ({pod.gated})"
        if pod.gated is not None
        else None
    )
    return pod.unschedulable, gates


def out_of_time(state: RunState) -> Diagnosis:
    """Diagnose a client's Job that reached its deadline before anything was measured.

    The Job's deadline is later than every deadline of the spec. So the client was not slow: the run
    waited for something that did not come.
    """
    waiting = next((pod for pod in state.serving if pod.scheduled_at is None), None)
    if waiting is not None:
        what = (
            "No node took the server before the client's Job ended: "
            f"{_why(*_waits_for(waiting))}"
        )
        fields = f"spec.{state.spec.started_name}.resources"
        remedy = (
            f"Lower {fields}, or add a node that fits; a run with a lower "
            "spec.pendingDeadlineSeconds waits less."
        )
        return diagnosed(Reason.PENDING_DEADLINE, what, remedy)
    refused = refusal(state)
    words = (
        refused.message if refused is not None else None,
        *(
            w.failure
            for role in state.server_roles
            if (w := state.workload(role)) is not None
        ),
        state.status.message,
    )
    what = f"Nothing was measured before the client's Job ended: {_why(*words)}"
    remedy = "A run with a lower spec.startupDeadlineSeconds waits less."
    return diagnosed(Reason.STARTUP_DEADLINE, what, remedy)
