"""Which conditions a sweep carries, for every way it can stand or end: the same types as those of a run."""

from __future__ import annotations

from datetime import datetime

from benchrun.api.conditions import Condition, ConditionStatus, ConditionType
from benchrun.api.sweep.status import SweepReason
from benchrun.decide.condition_table import early_rows, with_all

_Row = tuple[ConditionType, ConditionStatus, str, str]
_ACCEPTED: _Row = ("Accepted", "True", "Accepted", "the spec can be acted on")


def going_on(
    old: tuple[Condition, ...], *, reason: str, message: str, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Of a sweep that has not ended."""
    rows: list[_Row] = [
        _ACCEPTED,
        ("Valid", "Unknown", reason, "not all was judged yet"),
        ("Complete", "False", reason, message),
        ("Failed", "False", reason, ""),
        ("Succeeded", "Unknown", reason, ""),
        ("Ready", "False", reason, message),
        ("Reconciling", "True", reason, message),
        ("Stalled", "False", reason, ""),
    ]
    return with_all(old, rows, generation=generation, now=now)


def measured(
    old: tuple[Condition, ...], *, reason: str, message: str, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Every run has ended. Invalid cells and failed runs stall the sweep: a pipeline must not go on with such a table."""
    valid: ConditionStatus = "False" if reason == SweepReason.INVALID_CELLS else "True"
    good: ConditionStatus = "True" if reason in (SweepReason.ALL_VALID, SweepReason.SUSPECT) else "False"
    bad: ConditionStatus = "False" if good == "True" else "True"
    rows: list[_Row] = [
        _ACCEPTED,
        ("Valid", valid, reason, message),
        ("Complete", "True", reason, message),
        ("Failed", "False", reason, ""),
        ("Succeeded", good, reason, message),
        ("Ready", good, reason, message),
        ("Reconciling", "False", reason, ""),
        ("Stalled", bad, reason, message if bad == "True" else ""),
    ]
    return with_all(old, rows, generation=generation, now=now)


def ended_early(
    old: tuple[Condition, ...], *, reason: str, message: str, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Failed, refused or cancelled."""
    return with_all(old, early_rows("sweep", reason=reason, message=message), generation=generation, now=now)
