"""The phase, reason and progress of a run, and the conditions of runs and sweeps."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from benchrun import api
from benchrun.api import ACCEPTED, Row, complete, unknown_records
from benchrun.api.sweep import BenchmarkSweepStatus, SweepReason
from benchrun.decide.run_state import RunState
from benchrun.observe import Declared, Diagnosis


@dataclass(frozen=True, slots=True)
class PhaseStep:
    phase: api.Phase
    reason: str
    message: str
    client_ready: bool = False
    server_ready: bool = False


def current_step(
    state: RunState, *, server: Diagnosis | None, client: Diagnosis | None
) -> PhaseStep:
    """Return the step that the run is in, from what can be observed.

    `server` and `client` are problems that may still go away by themselves; None without a problem.
    """
    if not state.client_ready:
        if client is not None:
            return PhaseStep("Preparing", client.reason, client.message)
        why = (
            state.client_pod.unschedulable if state.client_pod is not None else None
        )
        files = state.status.model
        if files is not None and files.state != "Complete":
            return PhaseStep(
                "Preparing", api.Reason.DOWNLOADING_MODEL, files.in_words
            )
        message = (
            f"the client waits for a node: {why}"
            if why
            else "the client checks plan, tokenizer and data"
        )
        return PhaseStep("Preparing", api.Reason.PREPARING_CLIENT, message)
    if state.status.server_ready_time is None and not state.measuring_started:
        return _waiting_for_server(state, server)
    if (
        heard := state.collected.client.progress
    ) is not None and heard.phase == "WarmingUp":
        return PhaseStep(
            "WarmingUp",
            api.Reason.WARMING_UP,
            "sending warm-up requests",
            True,
            True,
        )
    done = len(state.known)
    total = state.stages_in_words
    if state.all_known:
        message = f"all {total} stages measured; storing the records"
        return PhaseStep("Collecting", api.Reason.COLLECTING, message, True, True)
    stage = _stage(state) or "the next stage"
    return PhaseStep(
        "Running",
        api.Reason.MEASURING,
        f"measuring {stage}; {done} of {total} stages are done",
        True,
        True,
    )


def progress(state: RunState) -> api.Progress:
    known = state.total_stages
    done = len(state.known)
    total, bound = (state.most_stages, "<=") if known is None else (known, "")
    return api.Progress(
        stages_total=total,
        stages_done=done,
        stage=_stage(state),
        summary=f"{done}/{bound}{total}",
    )


def _stage(state: RunState) -> str | None:
    # It is shown with the record of the one before, which comes a moment later: both in one write.
    progress = state.collected.client.progress
    shown = state.status.progress
    if progress is None or progress.stage is None:
        return None
    is_ahead = progress.stage in state.planned[len(state.known) + 1 :]
    return shown.stage if is_ahead and shown is not None else progress.stage


def _waiting_for_server(state: RunState, server: Diagnosis | None) -> PhaseStep:
    if state.spec.endpoint is not None:
        return PhaseStep(
            "Starting",
            api.Reason.WAITING_FOR_ENDPOINT,
            "waiting for a healthy answer of the endpoint",
            True,
        )
    if not state.server_exists and not state.client_heard:
        message = "the client is ready; waiting for an answer on its port"
        return PhaseStep("Preparing", api.Reason.PREPARING_CLIENT, message, True)
    pods = state.serving
    waits_for_node = not pods or any(pod.scheduled_at is None for pod in pods)
    if server is not None:
        without_node: api.Phase = (
            "WaitingForNode" if server.node_helps else "Pending"
        )
        phase = without_node if waits_for_node else "Starting"
        return PhaseStep(phase, server.reason, server.message, True)
    if waits_for_node:
        return PhaseStep(
            "WaitingForNode",
            api.Reason.WAITING_FOR_NODE,
            "waiting for a node to take the server",
            True,
        )
    nodes = ", ".join(dict.fromkeys(pod.node or "a node" for pod in pods))
    count = sum(pod.rank == 0 for pod in pods)
    starting = "the server is" if count == 1 else f"{count} servers are"
    return PhaseStep(
        "Starting",
        api.Reason.SERVER_STARTING,
        f"{starting} starting on {nodes}",
        True,
    )


_Status = TypeVar("_Status", api.BenchmarkRunStatus, BenchmarkSweepStatus)


def standing(
    status: _Status,
    rows: Iterable[Row],
    phase: str,
    message: str,
    *,
    of: Declared,
    now: datetime,
) -> _Status:
    """Return the status of the run or sweep with this phase, message and conditions.

    Each of `rows` replaces the condition of its type, or is appended if there is none.
    """
    conditions = status.conditions
    for type_, value, reason, text in rows:
        new = api.Condition(
            type=type_,
            status=value,
            reason=reason,
            message=text,
            observed_generation=of.generation,
        )
        conditions = api.with_condition(conditions, new, now=now)
    update = {
        "observed_generation": of.generation,
        "phase": phase,
        "message": message,
        "conditions": conditions,
    }
    return status.model_copy(update=update)


def going_on(
    step: PhaseStep, *, has_objectives: bool, gate: str | None
) -> list[Row]:
    """Return the conditions of a run that has not ended.

    `gate` is a sentence on which differences from the baseline its comparison can detect; None if
    there is no baseline.
    """
    reason = step.reason
    message = step.message
    rows: list[Row] = [
        ACCEPTED,
        ("ClientReady", "True", "Ready", "")
        if step.client_ready
        else ("ClientReady", "False", reason, message),
        ("ServerReady", "True", "Ready", "")
        if step.server_ready
        else ("ServerReady", "False", reason, message),
        ("Measured", "False", reason, message),
        unknown_records(reason),
        *_unjudged("nothing was judged yet", reason, message, succeeded=message),
    ]
    if has_objectives:
        rows.append(("ObjectivesMet", "Unknown", reason, "nothing was judged yet"))
    if gate is not None:
        rows.append(
            ("NotRegressed", "Unknown", reason, f"nothing was compared yet; {gate}")
        )
    return rows


def sweep_going_on(reason: str, message: str, *, power: str) -> list[Row]:
    """Return the conditions of a sweep that has not ended.

    `power` is a sentence on which differences its comparisons can detect.
    """
    return [
        ACCEPTED,
        *_unjudged(
            "not every run was judged yet", reason, message, succeeded=power
        ),
    ]


def sweep_measured(reason: str, message: str) -> list[Row]:
    """Return the conditions of a sweep whose runs have all ended.

    With invalid load points or failed runs `Stalled` is True: a pipeline must not continue with
    such a table.
    """
    valid: api.ConditionStatus = (
        "False" if reason == SweepReason.INVALID_LOAD_POINTS else "True"
    )
    good = reason in (SweepReason.ALL_VALID, SweepReason.SUSPECT)
    return [ACCEPTED, *complete(reason, reason, message, valid=valid, good=good)]


def _unjudged(
    unjudged: str, reason: str, message: str, *, succeeded: str = ""
) -> list[Row]:
    return [
        ("Valid", "Unknown", reason, unjudged),
        ("Complete", "False", reason, message),
        ("Failed", "False", reason, ""),
        ("Succeeded", "Unknown", reason, succeeded),
        ("Ready", "False", reason, message),
        ("Reconciling", "True", reason, message),
        ("Stalled", "False", reason, ""),
    ]
