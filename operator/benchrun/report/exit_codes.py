"""Exit codes of a command whose run has ended, so that a pipeline can act on them."""

from collections.abc import Iterable

from benchrun.api import (
    BenchmarkRunStatus,
    Condition,
    Reason,
    find_condition,
    is_true,
)
from benchrun.api.sweep import BenchmarkSweepStatus, SweepReason

PASSED = 0
FAILED = 2
MISSED = 3
INVALID = 4
CANCELLED = 5
UNDECIDED = 6
UNFIT = 7  # `benchrun doctor` has found a problem


def failure_reason(conditions: tuple[Condition, ...]) -> str | None:
    """Return why a run or sweep failed or was cancelled; None if neither has happened."""
    failed = find_condition(conditions, "Failed")
    return failed.reason if failed is not None and failed.status == "True" else None


def exit_code(status: BenchmarkRunStatus) -> int | None:
    """Return the exit code of a run's result; None if it has not ended.

    - 0: measured and trustworthy.
    - 2: failed.
    - 3: an objective was missed or a figure regressed.
    - 4: some numbers are invalid, or none were judged.
    - 5: cancelled.
    - 6: objectives or the baseline's gate neither passed nor failed. This includes a gate with one
      server a side.
    """
    if (reason := failure_reason(status.conditions)) is not None:
        return CANCELLED if reason == "Cancelled" else FAILED
    if not is_true(status.conditions, "Complete"):
        return None
    valid = find_condition(status.conditions, "Valid")
    if valid is not None and (
        valid.status == "False" or valid.reason == Reason.NOT_JUDGED
    ):
        return INVALID
    gates = (
        find_condition(status.conditions, "ObjectivesMet"),
        find_condition(status.conditions, "NotRegressed"),
    )
    if any(gate is not None and gate.status == "False" for gate in gates):
        return MISSED
    return (
        UNDECIDED
        if any(gate is not None and gate.status == "Unknown" for gate in gates)
        else PASSED
    )


def sweep_exit_code(status: BenchmarkSweepStatus) -> int | None:
    """Return the exit code of a sweep's result; None if it has not ended.

    - 0: all measured and trustworthy.
    - 2: the sweep or one of its runs failed.
    - 4: some rows are invalid.
    - 5: cancelled.
    """
    if (reason := failure_reason(status.conditions)) is not None:
        return CANCELLED if reason == SweepReason.CANCELLED else FAILED
    if (
        complete := find_condition(status.conditions, "Complete")
    ) is None or complete.status != "True":
        return None
    if complete.reason in (SweepReason.RUNS_FAILED, SweepReason.NOT_JUDGED):
        return FAILED
    return INVALID if status.verdict == "Invalid" else PASSED


def worst_code(codes: Iterable[int]) -> int:
    """Return the worst of several exit codes; 0 if there are none.

    A code that is not a result, such as 1 for a run that can't be read, is worse than all others.
    """
    ranks = (PASSED, CANCELLED, UNDECIDED, MISSED, INVALID, FAILED)
    return max(
        codes,
        key=lambda code: ranks.index(code) if code in ranks else len(ranks),
        default=PASSED,
    )
