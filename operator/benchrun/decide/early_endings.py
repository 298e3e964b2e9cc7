"""The causes that end a run early.

Each check looks for one cause; the first cause found is the reason.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from benchrun_client.contract import digest_of_token

from benchrun import names, observe
from benchrun.api import Reason
from benchrun.decide.deadlines import deadlines, out_of_time
from benchrun.decide.decision import CANCELLED, Ending, LogTail
from benchrun.decide.patience import blocked_by, with_patience
from benchrun.decide.quota import ended_by_eviction
from benchrun.decide.refusals import (
    refusal,
    refused_now,
    wanted_pods,
    why_unmade,
    with_claim_hint,
)
from benchrun.decide.run_state import RunState
from benchrun.observe import Diagnosis, Pod, instant
from benchrun.plan import division_of, nodes

CLOCK_SKEW_SECONDS = 2
"""Seconds that the clocks of the client's and the server's nodes may differ; one second of it is
due to rounding."""
# Reasons that lie in the settings of the server, and those that the server's log may explain
# better.
SERVER_SETTINGS = {
    Reason.USAGE_ERROR,
    Reason.INVALID_ARGUMENT,
    Reason.MODEL_NOT_FOUND,
    Reason.MODEL_GATED,
}
SERVER_SETTINGS |= {Reason.OUT_OF_GPU_MEMORY, Reason.KV_CACHE_TOO_SMALL}
ENDED_BY_SERVER = SERVER_SETTINGS | {
    Reason.OUT_OF_MEMORY,
    Reason.CRASH_LOOP,
    Reason.STARTUP_DEADLINE,
}


def ending(
    state: RunState, *, server: Diagnosis | None, client: Diagnosis | None
) -> Ending | None:
    """Return the first cause that ends the run early; None if there is none.

    Once every record was received there is none: nothing can spoil the records any more.
    """
    if (kept := state.ending) is not None:
        refined = (
            _terminal(server)
            if kept.reason in ENDED_BY_SERVER and state.log_tail is not None
            else None
        )
        return refined or kept
    if state.spec.cancel:
        return CANCELLED
    if (foreign := state.collected.conflict) is not None:
        return Ending(
            Reason.CONFLICT,
            f"{foreign}; delete that object or choose another name for the run",
        )
    # A ready client may hold every record. Within some seconds it is heard, or counts as silent.
    unheard = (
        state.client_runs
        and state.client_ready
        and not state.collected.client.answered
    )
    if state.all_measured or unheard:
        return None
    return next(
        (cause for cause in _causes(state, server, client) if cause is not None),
        None,
    )


def profile_lost(
    state: RunState, *, server: Diagnosis | None, client: Diagnosis | None
) -> bool:
    """Return whether a cause would end the run early while only its profile is missing.

    The run then ends as measured, without the profile.
    """
    if not state.all_measured:
        return False
    return state.is_released or any(
        cause is not None for cause in _causes(state, server, client)
    )


def _causes(
    state: RunState, server: Diagnosis | None, client: Diagnosis | None
) -> Iterator[Ending | None]:
    """Yield the causes that may end the run, in order of precedence.

    None stands for a cause that does not apply.
    """
    mismatch = state.collected.client.mismatch
    progress = state.collected.client.progress
    yield ended_by_eviction(state)
    yield _terminal(refusal(state))
    if server is not None and server.reason == Reason.EVICTED:
        # that another pod took its place is only a consequence
        yield _terminal(server)
    yield _restarted(state)
    # the failure of a client without a server is only a consequence
    yield _terminal(server)
    yield _down(state)
    yield _key_replaced(state)
    if mismatch is not None:
        yield Ending(
            Reason.CONTRACT_MISMATCH,
            f"the versions of operator and client do not match: {mismatch}",
        )
    if (
        progress is not None and progress.failure is not None
    ):  # the client reports why before it exits
        yield Ending(progress.failure.reason, progress.failure.message)
    yield _terminal(client)
    yield _records_missing(state)
    late = [
        Ending(d.reason, d.message) for d in deadlines(state) if d.passed(state.now)
    ]
    # Where the run's deadline has passed, another operator or the CronJob may have released what is
    # gone: the deadline is the cause.
    yield next(
        (end for end in late if end.reason == Reason.RUN_DEADLINE), None
    ) or _vanished(state)
    yield from late


def _key_replaced(state: RunState) -> Ending | None:
    """Return the ending of a run whose plan was written with another operator key; else None.

    The client accepts only the token that its plan names, so its records could never be read.
    """
    noted = None if state.plan is None else state.plan.token_digest
    if noted is None or noted == digest_of_token(state.token):
        return None
    return Ending(
        Reason.CONTRACT_MISMATCH,
        "the operator's key has changed since the run was started, so the client refuses this "
        "operator's requests; start a new run",
    )


def _terminal(diagnosis: Diagnosis | None) -> Ending | None:
    return (
        Ending(diagnosis.reason, diagnosis.message)
        if diagnosis is not None and diagnosis.terminal
        else None
    )


def with_blocked(state: RunState) -> RunState:
    """Return the state with the cause that keeps the run waiting within a time limit."""
    found = (refused_now(state), _server(state), _client(state))
    of_records = state.status.blocked if state.all_known else None
    update = {"blocked": blocked_by(state, found) or of_records}
    return state.with_status(state.status.model_copy(update=update))


def server_diagnosis(state: RunState) -> Diagnosis | None:
    return with_patience(state, with_claim_hint(state, _server(state)))


def client_diagnosis(state: RunState) -> Diagnosis | None:
    return with_patience(state, with_claim_hint(state, _client(state)))


def _server(state: RunState) -> Diagnosis | None:
    """Diagnose the server, however long the trouble has lasted; None if nothing is wrong."""
    if state.spec.started is None or state.all_known:
        return None
    found = (
        observe.diagnose_server(
            state.children.role_pods(role),
            state.workload(role),
            state.spec.engine,
            log_tail=state.log_tail,
            wanted=wanted_pods(state, role),
            refused=why_unmade(state, "StatefulSet"),
        )
        for role in state.server_roles
    )
    known = [diagnosis for diagnosis in found if diagnosis is not None]
    worst = next(
        (diagnosis for diagnosis in known if diagnosis.terminal),
        known[0] if known else None,
    )
    if worst is not None and state.spec.offline is not None:
        # Pods know their role, and not which field of the spec they come from.
        worst = replace(
            worst,
            message=worst.message.replace(
                "spec.server", f"spec.{state.spec.started_name}"
            ),
        )
    return worst


def _client(state: RunState) -> Diagnosis | None:
    """Diagnose the client, however long the trouble has lasted; None if nothing is wrong."""
    if state.all_known:
        return None
    pods = state.client_pods
    if state.begun and state.client_runs:
        # The polled pod reports what became of the others within seconds.
        pods = tuple(pod for pod in pods if pod is state.client_pod)
    found = observe.diagnose_client(
        pods,
        state.child("Job", names.ROLE_CLIENT),
        state.spec.engine,
        wanted=len(pods) if state.begun else division_of(state.effective).pods,
        refused=why_unmade(state, "Job"),
    )
    is_late = found is not None and found.reason == Reason.RUN_DEADLINE
    return out_of_time(state) if is_late and not state.begun else found


def hidden_cause(state: RunState) -> LogTail | None:
    """Return the log to read before the cause of a failed start is known; None if none is needed.

    It is needed if the pod's termination message only points further up in the log.
    """
    if state.measuring_started or state.spec.cancel:
        return None
    pod = observe.find_pod_with_hidden_cause(state.server_pods, state.spec.engine)
    return None if pod is None else _log_of(pod)


def last_words(
    state: RunState, end: Ending, *, server: Diagnosis | None
) -> LogTail | None:
    """Return the log of the failed server, to be read before the server is deleted.

    None if there is no log, the server did not fail, or its log was queried before.
    """
    pods = state.serving
    servers_fault = server is not None or end.reason in (
        Reason.SERVER_RESTARTED,
        Reason.STARTUP_DEADLINE,
    )
    if (
        not servers_fault
        or not pods
        or state.log_tails
        or end.reason == Reason.CANCELLED
    ):
        return None
    ended = (each for each in pods if each.ending is not None)
    pod = next(ended, None) or next(
        (each for each in pods if not each.ready), pods[-1]
    )
    if pod.started_at is None and pod.ending is None:
        return None
    return _log_of(pod)


def _log_of(pod: Pod) -> LogTail:
    """Return the log of the pod's failed container: the previous one, if the pod has restarted."""
    previous = pod.restarts > 0 and pod.terminated is None
    return LogTail(
        pod=pod.name, container=observe.main_container(pod.role), previous=previous
    )


def _restarted(state: RunState) -> Ending | None:
    """Return the ending of a run whose server restarted; None if it did not.

    After a restart the cache is cold and the counters begin anew, so it counts as another server.
    This includes a restart between the first healthy answer and the first request, since the client
    keeps to the address that answered.
    """
    if (
        not (state.was_ready or state.measuring_started)
        or state.spec.started is None
    ):
        return None
    found = (_restarted_as(state, role) for role in state.server_roles)
    pod = next((pod for pod in found if pod is not None), None)
    return None if pod is None else _ended_while_measured(pod)


def _down(state: RunState) -> Ending | None:
    """Return the ending of a run whose server has ended and is not running again yet; else None.

    The kubelet may wait before it restarts the container, and counts the restart only then.
    """
    if not state.measuring_started or state.spec.server is None:
        return None
    ended = (
        pod
        for pod in state.serving
        # A pod that has failed as a whole is diagnosed by why it did.
        if pod.terminated is not None
        and pod.phase == "Running"
        and not pod.deleting
    )
    pod = next(ended, None)
    return None if pod is None else _ended_while_measured(pod, "ended")


def _ended_while_measured(pod: Pod, verb: str = "restarted") -> Ending:
    last = pod.last_terminated or pod.terminated
    code = f", exit code {last.exit_code}" if last is not None else ""
    which = (
        "the server"
        if pod.role == names.ROLE_SERVER
        else f"the server of the role {pod.role}"
    )
    message = (
        f"{which} {verb} while it was measured (pod {pod.name}{code}); later stages would be "
        "on another server"
    )
    return Ending(Reason.SERVER_RESTARTED, message)


def _restarted_as(state: RunState, role: str) -> Pod | None:
    """Return a pod of the role that shows a restart; None if there was none."""
    pods = state.serving_as(role)
    # What was noted before the servers were ready belongs to another start.
    before = next(
        (s for s in state.status.servers if s.role == role and state.was_ready),
        None,
    )
    restarted = (
        before is not None and sum(pod.restarts for pod in pods) > before.restarts
    )
    replaced = before is not None and before.pod not in {pod.name for pod in pods}
    # Instants count too: the operator may have been down when the restart happened. A pod created
    # after the servers were ready replaces another; in a StatefulSet it has the other's name.
    began = instant(state.status.start_time)
    ready = instant(state.status.server_ready_time)
    within = [
        pod
        for pod in pods
        if (pod.restarts and _is_after(pod.started_at, began))
        or _is_after(pod.created_at, ready)
    ]
    if not pods or not (restarted or replaced or within):
        return None
    return next(
        (each for each in (*within, *pods) if each.ending is not None), pods[-1]
    )


def _is_after(at: datetime | None, other: datetime | None) -> bool:
    return (
        at is not None
        and other is not None
        and at - other > timedelta(seconds=CLOCK_SKEW_SECONDS)
    )


def _records_missing(state: RunState) -> Ending | None:
    """Return the ending of a run that lacks a record which no longer exists anywhere; else None.

    Waiting for the record would hold the server until the run's deadline.
    """
    here = f"{len(state.known)} of {state.stages_in_words} records are left"
    lost = state.collected.client.lost_record
    pod = state.client_pod
    if lost is not None and lost not in state.known:
        message = (
            f"the ConfigMap of record {lost} was deleted; {here}. Start a new run."
        )
    elif pod is not None and pod.phase == "Succeeded":
        message = f"the client has ended and {here}: the others were deleted. Start a new run."
    else:
        return None
    return Ending(Reason.RECORDS_MISSING, message)


def _vanished(state: RunState) -> Ending | None:
    """Return the ending of a run whose servers' object or client's Job was deleted; else None.

    They are not created again: the measurement would not be valid.
    """
    measuring = state.status.server_ready_time is not None
    # A server that was on a node is not recreated either: its deletion was to free the GPU.
    held = (
        measuring
        or state.status.scheduled_time is not None
        or any(each.node for each in state.status.servers)
    )
    is_whole = all(state.workload(role) is not None for role in state.server_roles)
    was_needed = not (state.is_released or _client_has_measured(state))
    if held and state.spec.started is not None and not is_whole and was_needed:
        kind = "Deployment" if nodes(state.spec) == 1 else "LeaderWorkerSet"
        return Ending(
            Reason.SERVER_GONE,
            f"the server's {kind} was deleted before everything was measured",
        )
    if measuring and state.child("Job", names.ROLE_CLIENT) is None:
        return Ending(
            Reason.CLIENT_GONE,
            "the client's Job was deleted before every record was stored",
        )
    return None


def _client_has_measured(state: RunState) -> bool:
    """Return whether the client holds all records and only has to hand them over.

    Another operator may have received the records, released the server, and ended before the
    records were stored.
    """
    progress = state.collected.client.progress
    wanted = state.total_stages
    if progress is None or wanted is None or not state.client_runs:
        return False
    return progress.records >= wanted
