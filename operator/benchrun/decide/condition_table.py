"""Which conditions a run carries, for every way it can stand or end. GitOps tools and `kubectl wait` read these."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from benchrun.api.conditions import Condition, ConditionStatus, ConditionType, Reason, with_condition
from benchrun.decide.step import Step

Outcome = Literal["Measured", "Failed", "Cancelled"]
_Row = tuple[ConditionType, ConditionStatus, str, str]
_ACCEPTED: _Row = ("Accepted", "True", "Accepted", "the spec can be acted on")
_LEFT: tuple[_Row, ...] = (
    ("ClientReady", "False", Reason.FINISHED, "the run has ended"),
    ("ServerReady", "False", Reason.FINISHED, "the run has ended"),
)
_OBJECTIVES_REASON: dict[ConditionStatus, str] = {
    "True": Reason.OBJECTIVES_MET,
    "False": Reason.OBJECTIVES_MISSED,
    "Unknown": Reason.OBJECTIVES_INCONCLUSIVE,
}


def with_all(
    conditions: tuple[Condition, ...], rows: Iterable[_Row], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The conditions with these rows, each type, status, reason and message, replaced or appended."""
    for type_, status, reason, message in rows:
        new = Condition(type=type_, status=status, reason=reason, message=message, observed_generation=generation)
        conditions = with_condition(conditions, new, now=now)
    return conditions


def going_on(
    old: tuple[Condition, ...], step: Step, *, has_objectives: bool, has_baseline: bool, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Conditions of a run that has not ended."""
    client: ConditionStatus = "True" if step.client_ready else "False"
    server: ConditionStatus = "True" if step.server_ready else "False"
    reason, message = step.reason, step.message
    rows: list[_Row] = [
        _ACCEPTED,
        ("ClientReady", client, "Ready" if step.client_ready else reason, "" if step.client_ready else message),
        ("ServerReady", server, "Ready" if step.server_ready else reason, "" if step.server_ready else message),
        ("Measured", "False", reason, message),
        ("Valid", "Unknown", reason, "nothing was judged yet"),
        ("Complete", "False", reason, message),
        ("Failed", "False", reason, ""),
        ("Succeeded", "Unknown", reason, message),
        ("Ready", "False", reason, message),
        ("Reconciling", "True", reason, message),
        ("Stalled", "False", reason, ""),
    ]
    if has_objectives:
        rows.append(("ObjectivesMet", "Unknown", reason, "nothing was judged yet"))
    if has_baseline:
        rows.append(("NotRegressed", "Unknown", reason, "nothing was compared yet"))
    return with_all(old, rows, generation=generation, now=now)


def measured(
    old: tuple[Condition, ...],
    *,
    valid_reason: str,
    message: str,
    objectives_met: ConditionStatus | None,
    not_regressed: tuple[ConditionStatus, str, str] | None = None,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """All stages were measured. Invalid cells stall the run: a pipeline must not go on with such numbers.

    A missed objective or a regression is a result like any other, told by a condition of its own.
    """
    invalid = valid_reason in (Reason.INVALID_CELLS, Reason.NOT_JUDGED)
    good: ConditionStatus = "False" if invalid else "True"
    valid: ConditionStatus = "Unknown" if valid_reason == Reason.NOT_JUDGED else good
    bad: ConditionStatus = "True" if invalid else "False"
    rows: list[_Row] = [
        _ACCEPTED,
        *_LEFT,
        ("Measured", "True", Reason.MEASURED, message),
        ("Valid", valid, valid_reason, message),
        ("Complete", "True", Reason.MEASURED, message),
        ("Failed", "False", Reason.MEASURED, ""),
        ("Succeeded", good, valid_reason, message),
        ("Ready", good, valid_reason, message),
        ("Reconciling", "False", Reason.MEASURED, ""),
        ("Stalled", bad, valid_reason, message if invalid else ""),
    ]
    if objectives_met is not None:
        rows.append(("ObjectivesMet", objectives_met, _OBJECTIVES_REASON[objectives_met], ""))
    if not_regressed is not None:
        rows.append(("NotRegressed", *not_regressed))
    return with_all(old, rows, generation=generation, now=now)


def ended_early(
    old: tuple[Condition, ...],
    *,
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Failed, refused or cancelled. `Stalled` tells GitOps tools that waiting is over."""
    rows: list[_Row] = [
        *_LEFT,
        ("Measured", "False", reason, message),
        *early_rows("run", reason=reason, message=message),
    ]
    return with_all(old, rows, generation=generation, now=now)


def early_rows(what: Literal["run", "sweep"], *, reason: str, message: str) -> list[_Row]:
    """What a run and a sweep say alike when they did not finish."""
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
