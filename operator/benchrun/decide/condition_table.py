"""Which conditions a run or a sweep carries, for every way it can stand or end. GitOps tools and `kubectl wait` read these."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, TypeVar

from benchrun.api import BenchmarkRunStatus, Condition, ConditionStatus, ConditionType, Reason, with_condition
from benchrun.api.sweep.status import BenchmarkSweepStatus, SweepReason
from benchrun.decide.step import Step

_Status = TypeVar("_Status", BenchmarkRunStatus, BenchmarkSweepStatus)
Row = tuple[ConditionType, ConditionStatus, str, str]
"""Type, status, reason and message of a condition."""
_ACCEPTED: Row = ("Accepted", "True", "Accepted", "the spec can be acted on")
_LEFT: tuple[Row, ...] = (
    ("ClientReady", "False", Reason.FINISHED, "the run has ended"),
    ("ServerReady", "False", Reason.FINISHED, "the run has ended"),
)
_OBJECTIVES_REASON: dict[ConditionStatus, str] = {
    "True": Reason.OBJECTIVES_MET,
    "False": Reason.OBJECTIVES_MISSED,
    "Unknown": Reason.OBJECTIVES_INCONCLUSIVE,
}


def standing(
    status: _Status, rows: Iterable[Row], *, phase: str, message: str, generation: int, now: datetime
) -> _Status:
    """The status of what stands so. `rows` replace the conditions of their types, or are appended."""
    conditions = status.conditions
    for type_, value, reason, text in rows:
        new = Condition(type=type_, status=value, reason=reason, message=text, observed_generation=generation)
        conditions = with_condition(conditions, new, now=now)
    return status.model_copy(
        update={"observed_generation": generation, "phase": phase, "message": message, "conditions": conditions}
    )


# ---- runs ------------------------------------------------------------------------------------------------------------


def going_on(step: Step, *, has_objectives: bool, has_baseline: bool) -> list[Row]:
    """Of a run that has not ended."""
    client: ConditionStatus = "True" if step.client_ready else "False"
    server: ConditionStatus = "True" if step.server_ready else "False"
    reason, message = step.reason, step.message
    rows: list[Row] = [
        _ACCEPTED,
        ("ClientReady", client, "Ready" if step.client_ready else reason, "" if step.client_ready else message),
        ("ServerReady", server, "Ready" if step.server_ready else reason, "" if step.server_ready else message),
        ("Measured", "False", reason, message),
        *_unjudged("nothing was judged yet", reason, message, succeeded=message),
    ]
    if has_objectives:
        rows.append(("ObjectivesMet", "Unknown", reason, "nothing was judged yet"))
    if has_baseline:
        rows.append(("NotRegressed", "Unknown", reason, "nothing was compared yet"))
    return rows


def measured(
    valid_reason: str,
    message: str,
    *,
    objectives_met: ConditionStatus | None,
    not_regressed: tuple[ConditionStatus, str, str] | None = None,
) -> list[Row]:
    """All stages were measured. Invalid cells stall the run: a pipeline must not go on with such numbers.

    A missed objective or a regression is a result like any other, told by a condition of its own.
    """
    good = valid_reason not in (Reason.INVALID_CELLS, Reason.NOT_JUDGED)
    judged: ConditionStatus = "True" if good else "False"
    valid: ConditionStatus = "Unknown" if valid_reason == Reason.NOT_JUDGED else judged
    rows: list[Row] = [
        _ACCEPTED,
        *_LEFT,
        ("Measured", "True", Reason.MEASURED, message),
        *_complete(Reason.MEASURED, valid_reason, message, valid=valid, good=good),
    ]
    if objectives_met is not None:
        rows.append(("ObjectivesMet", objectives_met, _OBJECTIVES_REASON[objectives_met], ""))
    if not_regressed is not None:
        rows.append(("NotRegressed", *not_regressed))
    return rows


def ended_early(reason: str, message: str) -> list[Row]:
    """Of a run that failed, was refused or cancelled."""
    return [*_LEFT, ("Measured", "False", reason, message), *_incomplete("run", reason, message)]


# ---- sweeps: the same types, but for what a single run has -----------------------------------------------------------


def sweep_going_on(reason: str, message: str) -> list[Row]:
    """Of a sweep that has not ended."""
    return [_ACCEPTED, *_unjudged("not all was judged yet", reason, message)]


def sweep_measured(reason: str, message: str) -> list[Row]:
    """Every run has ended. Invalid cells and failed runs stall the sweep: a pipeline must not go on with such a table."""
    valid: ConditionStatus = "False" if reason == SweepReason.INVALID_CELLS else "True"
    good = reason in (SweepReason.ALL_VALID, SweepReason.SUSPECT)
    return [_ACCEPTED, *_complete(reason, reason, message, valid=valid, good=good)]


def sweep_ended_early(reason: str, message: str) -> list[Row]:
    """Of a sweep that failed, was refused or cancelled."""
    return _incomplete("sweep", reason, message)


# ---- what both say ---------------------------------------------------------------------------------------------------


def _unjudged(unjudged: str, reason: str, message: str, *, succeeded: str = "") -> list[Row]:
    return [
        ("Valid", "Unknown", reason, unjudged),
        ("Complete", "False", reason, message),
        ("Failed", "False", reason, ""),
        ("Succeeded", "Unknown", reason, succeeded),
        ("Ready", "False", reason, message),
        ("Reconciling", "True", reason, message),
        ("Stalled", "False", reason, ""),
    ]


def _complete(
    complete_reason: str, valid_reason: str, message: str, *, valid: ConditionStatus, good: bool
) -> list[Row]:
    yes: ConditionStatus = "True" if good else "False"
    no: ConditionStatus = "False" if good else "True"
    return [
        ("Valid", valid, valid_reason, message),
        ("Complete", "True", complete_reason, message),
        ("Failed", "False", complete_reason, ""),
        ("Succeeded", yes, valid_reason, message),
        ("Ready", yes, valid_reason, message),
        ("Reconciling", "False", complete_reason, ""),
        ("Stalled", no, valid_reason, "" if good else message),
    ]


def _incomplete(what: Literal["run", "sweep"], reason: str, message: str) -> list[Row]:
    """`Stalled` tells GitOps tools that waiting is over."""
    refused = reason == Reason.INVALID_SPEC
    valid: ConditionStatus = "Unknown" if reason == Reason.CANCELLED else "False"
    return [
        ("Accepted", "False", reason, message) if refused else _ACCEPTED,
        ("Valid", valid, reason, f"the {what} did not finish"),
        ("Complete", "False", reason, message),
        ("Failed", "True", reason, message),
        ("Succeeded", "False", reason, message),
        ("Ready", "False", reason, message),
        ("Reconciling", "False", reason, ""),
        ("Stalled", "True", reason, message),
    ]
