"""What the end of a run means: its phase, its message and its conditions.

The judge writes them into the result document, and the operator into the status.
"""

from typing import Literal, NamedTuple

from benchrun.api.base import sentence
from benchrun.api.conditions import ConditionStatus, ConditionType, Reason
from benchrun.api.status import EndingStatus, Judgement, Phase

# type, status, reason and message of a condition
Row = tuple[ConditionType, ConditionStatus, str, str]
_YES_NO: tuple[ConditionStatus, ConditionStatus] = ("True", "False")
ACCEPTED: Row = ("Accepted", "True", "Accepted", "the spec can be acted on")
_LEFT: tuple[Row, ...] = (
    ("ClientReady", "False", Reason.FINISHED, "the run has ended"),
    ("ServerReady", "False", Reason.FINISHED, "the run has ended"),
)
_STORED: Row = ("Stored", "True", Reason.ALL_STORED, "no record was refused")
_OBJECTIVES_REASON: dict[ConditionStatus, str] = {
    "True": Reason.OBJECTIVES_MET,
    "False": Reason.OBJECTIVES_MISSED,
    "Unknown": Reason.OBJECTIVES_INCONCLUSIVE,
}


class RunEnd(NamedTuple):
    """The phase, the reason and the conditions of a run that ended."""

    phase: Phase
    # Why it ended early; None if it was measured to its end.
    ending: EndingStatus | None
    message: str
    conditions: list[Row]


def run_end(
    found: Judgement, ending: EndingStatus | None, *, has_objectives: bool
) -> RunEnd:
    """Return how a run ended, by what was found in it.

    `ending` says why it ended early; None means that every stage was measured. Even then a run has
    ended early if none of its records can be used, or if all its requests failed.
    """
    ending = ending or _failed_in_the_end(found)
    if ending is not None:
        message = sentence(ending.message)
        rows = ended_early("run", ending.reason, message)
        return RunEnd(early_phase(ending.reason), ending, message, rows)
    message = sentence(found.message)
    regressed = None
    if found.not_regressed is not None and found.comparison is not None:
        regressed = (
            found.not_regressed,
            found.not_regressed_reason,
            found.comparison.message,
        )
    rows = measured(
        found.valid_reason,
        message,
        objectives_met=found.objectives_met if has_objectives else None,
        objectives_message=found.objectives_message,
        not_regressed=regressed,
    )
    return RunEnd("Completed", None, message, rows)


def early_phase(reason: str) -> Literal["Cancelled", "Failed"]:
    """Return the phase of a run or sweep that ended early for this reason."""
    return "Cancelled" if reason == Reason.CANCELLED else "Failed"


def _failed_in_the_end(found: Judgement) -> EndingStatus | None:
    if not found.measured_anything:
        first = found.refused[0] if found.refused else "all of them are gone"
        message = sentence(f"none of the records can be used: {first}")
        return EndingStatus(reason=Reason.RECORDS_MISSING, message=message)
    if found.all_requests_failed:
        answer = (
            f"; the server's answer to one more: {found.diagnostic}"
            if found.diagnostic
            else ""
        )
        message = sentence(f"every request failed{answer}")
        return EndingStatus(reason=Reason.ALL_REQUESTS_FAILED, message=message)
    return None


def measured(
    valid_reason: str,
    message: str,
    *,
    objectives_met: ConditionStatus | None,
    objectives_message: str = "",
    not_regressed: tuple[ConditionStatus, str, str] | None = None,
) -> list[Row]:
    """Return the conditions of a run whose stages were all measured.

    Invalid load points stall the run: a pipeline must not continue with such numbers.
    """
    unusable: dict[str, ConditionStatus] = {
        Reason.INVALID_LOAD_POINTS: "False",
        Reason.NOT_JUDGED: "Unknown",
    }
    valid = unusable.get(valid_reason, "True")
    good = valid_reason not in unusable
    rows: list[Row] = [
        ACCEPTED,
        *_LEFT,
        ("Measured", "True", Reason.MEASURED, message),
        _STORED,
        *complete(Reason.MEASURED, valid_reason, message, valid=valid, good=good),
    ]
    if objectives_met is not None:
        reason = _OBJECTIVES_REASON[objectives_met]
        rows.append(("ObjectivesMet", objectives_met, reason, objectives_message))
    if not_regressed is not None:
        rows.append(("NotRegressed", *not_regressed))
    return rows


def complete(
    reason: str,
    valid_reason: str,
    message: str,
    *,
    valid: ConditionStatus,
    good: bool,
) -> list[Row]:
    """Return the conditions of a run or sweep that went to its end.

    `good`: whether its numbers may be used.
    """
    yes, no = _YES_NO if good else _YES_NO[::-1]
    return [
        ("Valid", valid, valid_reason, message),
        ("Complete", "True", reason, message),
        ("Failed", "False", reason, ""),
        ("Succeeded", yes, valid_reason, message),
        ("Ready", yes, valid_reason, message),
        ("Reconciling", "False", reason, ""),
        ("Stalled", no, valid_reason, "" if good else message),
    ]


def ended_early(
    what: Literal["run", "sweep"], reason: str, message: str
) -> list[Row]:
    """Return the conditions of a run or sweep that failed, was refused or was cancelled.

    GitOps tools stop waiting at `Stalled`.
    """
    refused = reason == Reason.INVALID_SPEC
    valid: ConditionStatus = "Unknown" if reason == Reason.CANCELLED else "False"
    of_run: list[Row] = [
        *_LEFT,
        ("Measured", "False", reason, message),
        unknown_records(reason) if reason == Reason.INTERNAL_ERROR else _STORED,
    ]
    return [
        *(of_run if what == "run" else ()),
        ("Accepted", "False", reason, message) if refused else ACCEPTED,
        ("Valid", valid, reason, f"the {what} did not finish"),
        ("Complete", "False", reason, message),
        ("Failed", "True", reason, message),
        ("Succeeded", "False", reason, message),
        ("Ready", "False", reason, message),
        ("Reconciling", "False", reason, ""),
        ("Stalled", "True", reason, message),
    ]


def unknown_records(reason: str) -> Row:
    """Return the condition Stored for a run that may not have stored all its records."""
    return (
        "Stored",
        "Unknown",
        reason,
        "whether every record is stored is unknown",
    )
