"""What happens next to a sweep."""

from dataclasses import replace
from typing import Any

import pytest
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.decide.sweep.decide_sweep import decide
from benchrun.decide.sweep.sweep_state import NotCreated, SweepDecision
from benchrun.measure import power_sentence
from benchrun.observe import Run
from unit.plan.specs import spec_body
from unit.sweep.sweeps import (
    HELD_SECONDS,
    THREE,
    a_run,
    condition,
    created,
    decided,
    ended,
    facts,
    failed,
    later,
    sweep_body,
    variant,
)

DONE = ended()
REFUSED = NotCreated(
    "seqs-v1-r1", "run seqs-v1-r1 is refused by the API server: no", curable=True
)


def done(*names: str) -> list[Run]:
    return [a_run(name, status=DONE) for name in names]


def settled(*arguments: Any, **options: Any) -> BenchmarkSweepStatus:
    """The status that a pass writes."""
    return decided(*arguments, **options).status


# ---- starting
# ------------------------------------------------------------------------------------------------------


def test_a_new_sweep_starts_its_first_run_and_says_how_large_it_is() -> None:
    decision = decided(sweep_body(replications=2))
    assert created(decision) == ["seqs-v1-r1"]
    status = decision.status
    assert (status.phase, status.baseline) == ("Running", "base")
    assert status.estimate is not None
    assert (
        status.estimate.variants,
        status.estimate.runs,
        status.estimate.stages,
    ) == (2, 4, 4)
    assert status.estimate.requests == 400
    assert [(v.name, v.number, v.gpus) for v in status.variants] == [
        ("base", 1, 1),
        ("wide", 2, 1),
    ]
    assert status.runs is not None
    assert status.runs.summary == "0/4"
    assert condition(status, "Accepted") == ("True", "Accepted")


@pytest.mark.parametrize(
    ("replications", "values", "questions"),
    [(1, 2, 5), (3, 3, 5), (5, 5, 7)],
    ids=["repeats", "servers", "percentiles"],
)
def test_what_a_sweep_can_find_is_told_while_it_goes_on(
    replications: int, values: int, questions: int
) -> None:
    template = {**spec_body(), "repeats": 2}
    status = decided(
        sweep_body(replications=replications, template=template)
    ).status
    (awaited,) = (each for each in status.conditions if each.type == "Succeeded")
    unit = "repeats" if replications == 1 else "fresh servers"
    assert awaited.message == power_sentence(values, questions, unit=unit)


@pytest.mark.parametrize(
    ("parallel", "runs", "expected"),
    [
        pytest.param(1, [a_run("seqs-v1-r1")], [], id="the only place is taken"),
        pytest.param(1, done("seqs-v1-r1"), ["seqs-v2-r1"], id="one has ended"),
        pytest.param(
            2, [a_run("seqs-v1-r1")], ["seqs-v2-r1"], id="a place is left"
        ),
        pytest.param(
            3, [], ["seqs-v1-r1", "seqs-v2-r1", "seqs-v1-r2"], id="three at once"
        ),
        pytest.param(
            1, done("seqs-v2-r1"), ["seqs-v1-r1"], id="one of the middle exists"
        ),
        pytest.param(
            1,
            [a_run("seqs-v1-r1", status=failed("ImagePull"))],
            ["seqs-v2-r1"],
            id="one has failed",
        ),
    ],
)
def test_the_next_runs_in_order_and_never_one_that_exists(
    parallel: int, runs: list[Run], expected: list[str]
) -> None:
    assert (
        created(decided(sweep_body(replications=2, maxParallel=parallel), runs))
        == expected
    )


def test_runs_of_a_variant_that_failed_by_its_settings_are_not_started() -> None:
    runs = [a_run("seqs-v1-r1", status=failed("UsageError")), *done("seqs-v2-r1")]
    decision = decided(sweep_body(replications=2), runs)
    assert created(decision) == ["seqs-v2-r2"]
    assert decision.status.runs is not None
    assert (decision.status.runs.skipped, decision.status.runs.waiting) == (1, 1)


def test_a_failure_that_does_not_lie_in_the_settings_leaves_the_variant_its_other_runs() -> (
    None
):
    runs = [a_run("seqs-v1-r1", status=failed("CrashLoop")), *done("seqs-v2-r1")]
    assert created(decided(sweep_body(replications=2), runs)) == ["seqs-v1-r2"]


def test_a_run_of_a_foreign_name_is_left_alone() -> None:
    decision = decided(runs=[a_run("other")])
    assert created(decision) == ["seqs-v1-r1"]
    assert decision.cancel == ()


# ---- holding on
# ----------------------------------------------------------------------------------------------------


def test_a_suspended_sweep_starts_nothing_and_lets_go_on_what_runs() -> None:
    decision = decided(sweep_body(suspend=True), [a_run("seqs-v1-r1")])
    assert (created(decision), decision.cancel) == ([], ())
    assert decision.status.phase == "Suspended"
    assert "seqs-v1-r1 is still running" in (decision.status.message or "")
    assert condition(decision.status, "Reconciling") == ("True", "Suspended")


def test_a_suspended_sweep_that_has_measured_everything_ends() -> None:
    assert (
        settled(sweep_body(suspend=True), done("seqs-v1-r1", "seqs-v2-r1")).phase
        == "Completed"
    )


def test_what_the_api_server_refuses_is_reported_and_offered_again() -> None:
    decision = decided(not_created=REFUSED)
    assert created(decision) == ["seqs-v1-r1"]
    assert condition(decision.status, "Complete") == ("False", "RunRefused")
    assert "refused by the API server" in (decision.status.message or "")


def test_a_quota_is_named() -> None:
    quota = NotCreated(
        "seqs-v1-r1",
        "run seqs-v1-r1 is refused: exceeded quota",
        curable=True,
        quota=True,
    )
    assert condition(settled(not_created=quota), "Complete") == (
        "False",
        "QuotaExceeded",
    )


@pytest.mark.parametrize(
    ("budget", "ended_runs", "parallel", "expected"),
    [
        pytest.param(1, 0, 1, ["seqs-v1-r1"], id="nothing is known of the cost"),
        pytest.param(199, 1, 1, [], id="no room for one more"),
        pytest.param(200, 1, 1, ["seqs-v2-r1"], id="just room"),
        pytest.param(250, 1, 2, ["seqs-v2-r1"], id="room for one of two places"),
    ],
)
def test_no_run_is_started_that_would_go_beyond_the_budget(
    budget: int, ended_runs: int, parallel: int, expected: list[str]
) -> None:
    spec = sweep_body(THREE, gpuSecondsBudget=budget, maxParallel=parallel)
    assert created(decided(spec, done("seqs-v1-r1")[:ended_runs])) == expected


def test_the_budget_counts_gpus() -> None:
    two = [
        variant("base", resources={"limits": {"nvidia.com/gpu": 2}}),
        variant("wide"),
    ]
    assert (
        settled(sweep_body(two), done("seqs-v1-r1")).gpu_seconds == 2 * HELD_SECONDS
    )


# ---- reading
# -------------------------------------------------------------------------------------------------------


def test_an_ended_run_requests_figures_first() -> None:
    decision = decided(runs=done("seqs-v1-r1"), figures={})
    assert decision == SweepDecision(
        status=BenchmarkSweepStatus(), read=("seqs-v1-r1",)
    )


def test_a_restarted_operator_does_not_read_again_what_is_in_the_table() -> None:
    runs = [*done("seqs-v1-r1"), a_run("seqs-v2-r1")]
    status = settled(runs=runs)
    repeated = decided(runs=runs, status=status, figures={})
    assert (repeated.read, repeated.status) == ((), status)


def test_the_last_table_is_made_of_what_is_read_then() -> None:
    runs = done("seqs-v1-r1", "seqs-v2-r1")
    unfinished = settled(runs=runs).model_copy(
        update={"conditions": (), "phase": "Running"}
    )
    assert decided(runs=runs, status=unfinished, figures={}).read == (
        "seqs-v1-r1",
        "seqs-v2-r1",
    )


# ---- ending
# --------------------------------------------------------------------------------------------------------


def test_all_measured() -> None:
    decision = decided(runs=done("seqs-v1-r1", "seqs-v2-r1"))
    status = decision.status
    assert (status.phase, status.verdict) == ("Completed", "Valid")
    assert decision.forget
    assert [
        condition(status, type_)[0]
        for type_ in (
            "Complete",
            "Failed",
            "Succeeded",
            "Valid",
            "Ready",
            "Stalled",
        )
    ] == [
        "True",
        "False",
        "True",
        "True",
        "True",
        "False",
    ]
    assert condition(status, "Complete")[1] == "AllValid"
    assert [
        (row.variant, row.load_point, row.verdict) for row in status.results
    ] == [
        ("base", "chat/rate=4", "Valid"),
        ("wide", "chat/rate=4", "Valid"),
    ]
    assert status.message == "measured 2 of 2 variants; every row is valid"


def test_an_edit_after_the_end_is_seen_and_changes_nothing_else() -> None:
    over = settled(runs=done("seqs-v1-r1", "seqs-v2-r1"))
    seen = facts(runs=done("seqs-v1-r1", "seqs-v2-r1"), status=over)
    edited = replace(seen, sweep=replace(seen.sweep, generation=2))
    assert decide(edited).status == over.model_copy(
        update={"observed_generation": 2}
    )


def test_a_failed_variant_is_a_row_with_its_reason() -> None:
    runs = [
        *done("seqs-v1-r1"),
        a_run("seqs-v2-r1", status=failed("OutOfGPUMemory", "CUDA out of memory")),
    ]
    status = settled(runs=runs)
    assert status.phase == "Completed"
    assert condition(status, "Succeeded") == ("False", "RunsFailed")
    assert condition(status, "Valid") == ("True", "RunsFailed")
    row = status.results[1]
    assert (row.variant, row.verdict, row.reason, row.metrics) == (
        "wide",
        "Unknown",
        "OutOfGPUMemory",
        {},
    )
    wide = status.variants[1]
    assert (wide.reason, wide.run, wide.message) == (
        "OutOfGPUMemory",
        "seqs-v2-r1",
        "CUDA out of memory",
    )
    assert (
        status.message
        == "measured 1 of 2 variants; 1 run ended early; wide: OutOfGPUMemory"
    )


def test_nothing_was_measured() -> None:
    runs = [a_run(f"seqs-v{n}-r1", status=failed("ImagePull")) for n in (1, 2)]
    status = settled(runs=runs)
    assert condition(status, "Failed") == ("True", "AllFailed")
    assert "seqs-v1-r1: ImagePull" in (status.message or "")


def test_the_budget_is_spent_before_all_was_started() -> None:
    status = settled(sweep_body(gpuSecondsBudget=100), done("seqs-v1-r1"))
    assert condition(status, "Failed") == ("True", "GPUSecondsBudgetSpent")
    assert "1 runs were not started" in (status.message or "")
    assert [row.verdict for row in status.results] == ["Valid", "Unknown"]


def test_a_spent_budget_waits_for_what_runs() -> None:
    status = settled(
        sweep_body(THREE, gpuSecondsBudget=100),
        [*done("seqs-v1-r1"), a_run("seqs-v2-r1")],
    )
    assert condition(status, "Failed")[0] == "False"


def test_too_many_failed() -> None:
    runs = [a_run("seqs-v1-r1", status=failed("ImagePull")), a_run("seqs-v2-r1")]
    decision = decided(sweep_body(THREE, maxFailed=0, maxParallel=2), runs)
    assert [ref.name for ref in decision.cancel] == ["seqs-v2-r1"]
    assert created(decision) == []
    assert condition(decision.status, "Reconciling") == ("True", "Ending")
    gone = [runs[0], a_run("seqs-v2-r1", status=failed("Cancelled"))]
    over = settled(
        sweep_body(THREE, maxFailed=0, maxParallel=2), gone, status=decision.status
    )
    assert condition(over, "Failed") == ("True", "TooManyFailed")


def test_as_many_failures_as_are_allowed_do_not_end_it() -> None:
    runs = [a_run("seqs-v1-r1", status=failed("ImagePull"))]
    assert created(decided(sweep_body(maxFailed=1), runs)) == ["seqs-v2-r1"]


def test_a_run_that_a_user_cancelled_is_no_failure() -> None:
    runs = [a_run("seqs-v1-r1", status=failed("Cancelled"))]
    assert created(decided(sweep_body(maxFailed=0), runs)) == ["seqs-v2-r1"]


def test_cancel_ends_the_runs_first_and_each_is_reported_once() -> None:
    spec = sweep_body(THREE, cancel=True, maxParallel=2)
    decision = decided(
        spec, [a_run("seqs-v1-r1"), a_run("seqs-v2-r1", cancel=True)]
    )
    assert [(ref.name, ref.uid) for ref in decision.cancel] == [
        ("seqs-v1-r1", "uid-of-seqs-v1-r1")
    ]
    assert not decision.forget
    over = settled(
        spec, [a_run(f"seqs-v{n}-r1", status=failed("Cancelled")) for n in (1, 2)]
    )
    assert over.phase == "Cancelled"
    assert condition(over, "Failed") == ("True", "Cancelled")
    assert condition(over, "Valid") == ("Unknown", "Cancelled")


def test_cancel_before_anything_was_started() -> None:
    decision = decided(sweep_body(cancel=True))
    assert (decision.status.phase, created(decision)) == ("Cancelled", [])


def test_what_was_measured_before_the_cancel_stays_in_the_table() -> None:
    status = settled(sweep_body(cancel=True), done("seqs-v1-r1"))
    assert (
        status.results[0].metrics["output_throughput"],
        status.results[1].reason,
    ) == (
        1200,
        "not measured",
    )


def test_a_conflict_ends_it() -> None:
    status = settled(
        conflict="BenchmarkRun seqs-v1-r1 exists and has another owner"
    )
    assert condition(status, "Failed") == ("True", "Conflict")


def test_a_run_that_is_invalid_for_the_api_server_ends_it() -> None:
    never = NotCreated(
        "seqs-v1-r1",
        "run seqs-v1-r1 is refused by the API server: bad",
        curable=False,
    )
    assert condition(settled(not_created=never), "Failed") == ("True", "RunInvalid")


@pytest.mark.parametrize(
    ("seconds", "more"),
    [
        pytest.param(60, {}, id="a ruling"),
        pytest.param(600, {"retried": True}, id="no answer"),
        pytest.param(None, {"quota": True}, id="a quota may come free"),
        pytest.param(None, {"leftover": True}, id="a run of an earlier sweep goes"),
    ],
)
def test_a_run_that_is_refused_for_so_long_ends_it(
    seconds: int | None, more: dict[str, Any]
) -> None:
    refused = replace(REFUSED, since=later(0), **more)
    if seconds is None:
        status = settled(not_created=refused, now=later(1_000_000))
        assert condition(status, "Failed")[0] == "False"
        return
    waiting = settled(not_created=refused, now=later(seconds - 1))
    assert condition(waiting, "Failed") == ("False", "RunRefused")
    ended = settled(not_created=refused, now=later(seconds))
    assert condition(ended, "Failed") == ("True", "RunRefused")


def test_nothing_is_done_to_a_sweep_that_has_ended() -> None:
    runs = done("seqs-v1-r1", "seqs-v2-r1")
    over = settled(runs=runs)
    repeated = decided(runs=runs[:1], status=over, now=later(3600), figures={})
    assert repeated == SweepDecision(status=over, forget=True)


def test_a_status_of_a_newer_operator_is_read_as_far_as_it_can_be() -> None:
    newer = {"phase": "Paused", "variants": [{"name": 3}], "fromTheFuture": 1}
    assert created(decided(status=newer)) == ["seqs-v1-r1"]
    over = settled(runs=done("seqs-v1-r1", "seqs-v2-r1")).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    repeated = decided(status={**over, "phase": "Archived"}, figures={})
    assert (repeated.create, repeated.cancel, repeated.forget) == ((), (), True)


def test_a_sweep_that_is_being_deleted_only_cancels_its_runs() -> None:
    seen = facts(runs=[a_run("seqs-v1-r1")])
    decision = decide(replace(seen, sweep=replace(seen.sweep, deleting=True)))
    assert (
        decision.create,
        [ref.name for ref in decision.cancel],
        decision.forget,
    ) == (
        (),
        ["seqs-v1-r1"],
        True,
    )


# ---- specs that are none
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            sweep_body(baseline="none"),
            "spec.baseline: no variant of the matrix is called none",
            id="baseline",
        ),
        pytest.param(
            sweep_body(template=spec_body(repeats=0)),
            "spec.template.repeats: must be a whole number from 1 to 100, or Auto",
            id="template",
        ),
        pytest.param(
            sweep_body(
                [variant("v", *(f"--x{n}" for n in range(32)))],
                template=spec_body(server={"image": "i", "args": ["-"] * 100}),
            ),
            "spec.matrix: variant v: its run's spec.server.args",
            id="variant",
        ),
        pytest.param(
            sweep_body(
                [variant(f"v{n}") for n in range(32)],
                template=spec_body(
                    workloads=[
                        {
                            "name": "chat",
                            "dataset": {"random": {}},
                            "load": {"concurrencies": list(range(1, 10))},
                            "requests": 9,
                        }
                    ]
                ),
            ),
            "spec.template.workloads: 32 variants x 9 load points = 288 rows; the limit is 256",
            id="rows",
        ),
    ],
)
def test_a_spec_that_cannot_be_acted_on_ends_at_once_and_names_the_field(
    spec: dict[str, Any], message: str
) -> None:
    decision = decided(spec)
    assert created(decision) == []
    assert (decision.status.message or "").startswith(message)
    assert condition(decision.status, "Accepted") == ("False", "InvalidSpec")
    assert condition(decision.status, "Failed") == ("True", "InvalidSpec")
