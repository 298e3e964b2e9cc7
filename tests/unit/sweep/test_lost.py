"""Runs that were lost with a server or client: measured anew, under other names, as often as is
allowed."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunStatus
from benchrun.api.sweep import BenchmarkSweepStatus, RunCounts
from benchrun.observe import Run
from unit.sweep.sweeps import (
    HELD_SECONDS,
    a_run,
    condition,
    created,
    decided,
    ended,
    failed,
    measured,
    sweep_body,
)

OUTSIDE = ("Evicted", "ServerRestarted", "ServerGone", "ClientGone")
FIRST = "seqs-v1-r1"
SECOND = "seqs-v1-r1-a2"
THIRD = "seqs-v1-r1-a3"


def lost(*names: str, reason: str = "ServerRestarted") -> list[Run]:
    return [a_run(name, status=failed(reason)) for name in names]


def done(*names: str) -> list[Run]:
    return [a_run(name, status=ended()) for name in names]


def counts(status: BenchmarkSweepStatus) -> RunCounts:
    assert status.runs is not None
    return status.runs


def invalid(*codes: str) -> BenchmarkRunStatus:
    """Of a run that was measured to its end, with these findings."""
    found = measured(verdict="Invalid")
    return found.model_copy(
        update={
            "results": [
                found.results[0].model_copy(update={"findings": list(codes)})
            ]
        }
    )


def figures(*runs: Run, spoiled: str) -> dict[str, BenchmarkRunStatus]:
    restarted = invalid("RequestsFailed", "ServerRestarted")
    return {
        run.uid: restarted if run.name == spoiled else measured() for run in runs
    }


@pytest.mark.parametrize("reason", OUTSIDE)
def test_what_was_lost_is_measured_again_at_once(reason: str) -> None:
    decision = decided(runs=lost(FIRST, reason=reason))
    assert created(decision) == [SECOND]
    assert decision.status.phase == "Running"


@pytest.mark.parametrize(
    "reason",
    [
        "UsageError",
        "OutOfMemory",
        "CrashLoop",
        "ClientFailed",
        "AllRequestsFailed",
        "RunDeadlineExceeded",
    ],
)
def test_what_may_lie_in_the_variant_is_not(reason: str) -> None:
    assert created(decided(runs=lost(FIRST, reason=reason))) == ["seqs-v2-r1"]


def test_a_run_that_its_user_cancelled_is_not() -> None:
    assert created(decided(runs=lost(FIRST, reason="Cancelled"))) == ["seqs-v2-r1"]


@pytest.mark.parametrize(
    ("most", "runs", "expected"),
    [
        pytest.param(0, lost(FIRST), "seqs-v2-r1", id="not at all"),
        pytest.param(1, lost(FIRST), SECOND, id="once"),
        pytest.param(1, lost(FIRST, SECOND), "seqs-v2-r1", id="not twice"),
        pytest.param(2, lost(FIRST, SECOND), THIRD, id="twice"),
        pytest.param(
            0,
            lost(FIRST, SECOND),
            "seqs-v2-r1",
            id="no more, since the spec was changed",
        ),
        pytest.param(
            2, lost(SECOND), THIRD, id="the first one was deleted by somebody"
        ),
        pytest.param(
            3, lost(FIRST) + done(SECOND), "seqs-v2-r1", id="it is measured"
        ),
    ],
)
def test_a_lost_run_is_retried_up_to_the_limit(
    most: int, runs: list[Run], expected: str
) -> None:
    assert created(decided(sweep_body(maxRetries=most), runs)) == [expected]


def test_while_it_is_measured_again_nothing_else_is_started() -> None:
    decision = decided(runs=[*lost(FIRST), a_run(SECOND)])
    assert created(decision) == []
    assert "0 of 2 runs have ended, seqs-v1-r1-a2 is still running" in (
        decision.status.message or ""
    )
    assert (counts(decision.status).running, counts(decision.status).lost) == (1, 1)


def test_the_table_is_that_of_a_sweep_that_lost_nothing() -> None:
    whole = decided(runs=done(FIRST, "seqs-v2-r1")).status
    status = decided(runs=[*lost(FIRST), *done(SECOND, "seqs-v2-r1")]).status
    assert (status.results, status.best, status.front) == (
        whole.results,
        whole.best,
        whole.front,
    )
    assert (status.message, condition(status, "Succeeded")) == (
        whole.message,
        condition(whole, "Succeeded"),
    )
    assert [(v.completed, v.failed, v.lost, v.reason) for v in status.variants] == [
        (1, 0, 1, None),
        (1, 0, 0, None),
    ]
    assert counts(status) == counts(whole).model_copy(update={"lost": 1})


def test_lost_once_more_than_is_allowed_it_has_failed_and_says_so() -> None:
    status = decided(runs=[*lost(FIRST, SECOND), *done("seqs-v2-r1")]).status
    assert condition(status, "Succeeded") == ("False", "RunsFailed")
    assert (status.results[0].reason, status.results[0].verdict) == (
        "ServerRestarted",
        "Unknown",
    )
    first = status.variants[0]
    assert (first.failed, first.lost, first.reason, first.run) == (
        1,
        1,
        "ServerRestarted",
        SECOND,
    )


def test_what_was_lost_counts_as_failed_only_when_no_attempt_is_left() -> None:
    spec = sweep_body(maxFailed=0, maxRetries=1)
    assert created(decided(spec, lost(FIRST))) == [SECOND]
    assert condition(decided(spec, lost(FIRST, SECOND)).status, "Failed") == (
        "True",
        "TooManyFailed",
    )


def test_what_was_lost_has_cost_something() -> None:
    status = decided(
        sweep_body(gpuSecondsBudget=int(2 * HELD_SECONDS)), lost(FIRST)
    ).status
    assert status.gpu_seconds == HELD_SECONDS
    over = decided(
        sweep_body(gpuSecondsBudget=int(2 * HELD_SECONDS) - 1), lost(FIRST)
    ).status
    assert condition(over, "Failed") == ("True", "GPUSecondsBudgetSpent")


@pytest.mark.parametrize("stop", [{"cancel": True}, {"suspend": True}], ids=str)
def test_nothing_is_measured_again_in_a_sweep_that_was_stopped(
    stop: dict[str, Any],
) -> None:
    decision = decided(sweep_body(**stop), lost(FIRST))
    assert created(decision) == []
    assert (counts(decision.status).lost, counts(decision.status).waiting) == (1, 2)


def test_a_variant_that_fails_by_its_settings_is_not_tried_again() -> None:
    runs = [
        *lost(FIRST),
        *done("seqs-v2-r1"),
        a_run("seqs-v1-r2", status=failed("UsageError")),
    ]
    decision = decided(sweep_body(replications=2), runs)
    assert created(decision) == ["seqs-v2-r2"]
    assert counts(decision.status).failed == 2


def test_a_restart_that_only_the_judge_saw_is_a_loss_too() -> None:
    runs = done(FIRST, "seqs-v2-r1")
    known = figures(*runs, spoiled=FIRST)
    assert created(decided(runs=runs, figures=known)) == [SECOND]
    repeated = [*runs, *done(SECOND)]
    status = decided(
        runs=repeated, figures=known | {repeated[-1].uid: measured()}
    ).status
    assert (status.verdict, status.variants[0].lost) == ("Valid", 1)


def test_the_last_attempt_stands_as_it_is() -> None:
    runs = done(FIRST, "seqs-v2-r1")
    status = decided(
        sweep_body(maxRetries=0), runs, figures=figures(*runs, spoiled=FIRST)
    ).status
    assert condition(status, "Succeeded") == ("False", "InvalidLoadPoints")


def test_an_invalid_run_whose_server_stayed_is_not_measured_again() -> None:
    runs = done(FIRST, "seqs-v2-r1")
    known = {runs[0].uid: invalid("RequestsFailed"), runs[1].uid: measured()}
    assert decided(runs=runs, figures=known).status.phase == "Completed"


def test_a_restarted_operator_reads_before_it_believes_a_run_that_is_in_no_table() -> (
    None
):
    runs = done(FIRST)
    settled = decided(
        sweep_body(suspend=True), runs, figures=figures(*runs, spoiled=FIRST)
    ).status
    assert counts(settled).tabled == 0
    assert decided(runs=runs, status=settled, figures={}).read == (FIRST,)
