"""A status of another version is read as far as it can be: one unreadable value costs that value,
never the run."""

import json
from typing import Any

import pytest
from benchrun.api import MAX_CONDITIONS, BenchmarkRunStatus, is_true, read_leniently
from benchrun.api.sweep import BenchmarkSweepStatus
from hypothesis import given, settings, strategies as st

FAILED = {
    "type": "Failed",
    "status": "True",
    "reason": "UsageError",
    "message": "bad flag",
}
READY = {"type": "Ready", "status": "False", "reason": "UsageError"}
RESULT = {
    "loadPoint": "chat/rate=4",
    "workload": "chat",
    "axis": "RequestRate",
    "value": "4",
    "repeats": 1,
    "repeatsPlanned": 1,
    "verdict": "Valid",
    "metrics": {"p99_ttft_ms": 12.5},
}
GOOD = {
    "observedGeneration": 3,
    "phase": "Running",
    "conditions": [READY],
    "scheduledTime": "2026-11-21T12:00:00Z",
    "servers": [{"role": "server", "engine": "VLLM", "gpus": 2}],
    "results": [RESULT],
}


def test_a_status_of_this_version_is_read_whole() -> None:
    assert read_leniently(
        BenchmarkRunStatus, GOOD
    ) == BenchmarkRunStatus.model_validate(GOOD)


def test_an_unknown_phase_costs_the_phase_alone() -> None:
    read = read_leniently(BenchmarkRunStatus, {**GOOD, "phase": "Archiving"})
    assert read == BenchmarkRunStatus.model_validate(GOOD).model_copy(
        update={"phase": None}
    )


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param({**FAILED, "reason": "FromTheFuture"}, id="unknown reason"),
        pytest.param({**FAILED, "reason": 7}, id="reason of another type"),
        pytest.param({"type": "Failed", "status": "True"}, id="no reason"),
        pytest.param(
            {**FAILED, "message": "x" * 5000, "observedGeneration": "new"},
            id="what stands beside it",
        ),
        pytest.param({**FAILED, "reason": "R" * 200}, id="longer than may be"),
    ],
)
def test_a_run_that_has_failed_has_failed_whatever_else_its_condition_says(
    condition: dict[str, Any],
) -> None:
    assert is_true(
        read_leniently(BenchmarkRunStatus, {"conditions": [condition]}).conditions,
        "Failed",
    )


def test_conditions_are_read_one_by_one() -> None:
    unreadable = [
        {**READY, "status": "Maybe"},
        "word",
        {"status": "True"},
        {**READY, "type": "T" * 65},
    ]
    read = read_leniently(
        BenchmarkRunStatus, {"conditions": [*unreadable, FAILED], "phase": "Failed"}
    )
    assert [c.type for c in read.conditions] == ["Failed"]
    assert read.phase == "Failed"


def test_entries_of_a_list_are_read_one_by_one() -> None:
    unreadable = {**RESULT, "loadPoint": "chat/rate=8", "axis": "temperature"}
    assert [
        r.load_point
        for r in read_leniently(
            BenchmarkRunStatus,
            {"results": [unreadable, RESULT, {**unreadable, "verdict": 3}]},
        ).results
    ] == ["chat/rate=4"]


def test_a_figure_within_an_entry_is_left_out_alone() -> None:
    roles = [{"role": "server", "runningMean": "many", "waitingMean": 2.0}]
    (result,) = read_leniently(
        BenchmarkRunStatus,
        {"results": [{**RESULT, "roles": roles, "metrics": {"a": 1.0, "b": {}}}]},
    ).results
    assert (result.roles[0].running_mean, result.roles[0].waiting_mean) == (
        None,
        2.0,
    )
    assert result.metrics == {"a": 1.0}


def test_more_conditions_than_there_may_be_are_cut() -> None:
    many = [{**READY, "type": f"T{n}"} for n in range(MAX_CONDITIONS + 8)]
    assert (
        len(read_leniently(BenchmarkRunStatus, {"conditions": many}).conditions)
        == MAX_CONDITIONS
    )


def test_a_thousand_unreadable_entries_are_no_more_work_than_one() -> None:
    bad = [{**RESULT, "axis": "?", "repeats": "?"} for _ in range(1000)]
    read = read_leniently(
        BenchmarkRunStatus,
        {"results": bad, "truncated": [{"field": 1}], "phase": "Running"},
    )
    assert (read.results, read.phase) == ([], "Running")


def test_sweeps_are_read_alike() -> None:
    read = read_leniently(
        BenchmarkSweepStatus,
        {
            "phase": "Paused",
            "conditions": [FAILED],
            "gpuSeconds": 12,
            "variants": [{"name": 3}],
        },
    )
    assert is_true(read.conditions, "Failed")
    assert (read.phase, read.gpu_seconds, read.variants) == (None, 12.0, [])


WORDS = [
    name
    for model in (BenchmarkRunStatus, BenchmarkSweepStatus)
    for name in (field.alias or key for key, field in model.model_fields.items())
] + [
    "type",
    "status",
    "reason",
    "message",
    "role",
    "metrics",
    "loadPoint",
    "evidence",
    "axis",
    "name",
    "runningMean",
    "at",
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**20)])
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(
        [
            "True",
            "Failed",
            "Complete",
            "Valid",
            "\ud800",
            "2026-01-01T00:00:00Z",
            "server",
            "RequestRate",
        ]
    )
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=2), inner)
    ),
    max_leaves=25,
)


@settings(max_examples=100)
@given(VALUES | st.dictionaries(st.sampled_from(WORDS), VALUES))
def test_any_value_is_a_status_of_some_sort(stored: object) -> None:
    assert isinstance(
        read_leniently(BenchmarkRunStatus, stored), BenchmarkRunStatus
    )
    assert isinstance(
        read_leniently(BenchmarkSweepStatus, stored), BenchmarkSweepStatus
    )


@given(st.sampled_from(WORDS), VALUES)
def test_whatever_one_field_holds_the_run_has_still_failed(
    name: str, value: object
) -> None:
    stored = {name: value, "conditions": [{"type": "Odd", "status": 3}, FAILED]}
    assert is_true(read_leniently(BenchmarkRunStatus, stored).conditions, "Failed")


def test_what_is_nested_without_end_is_read_over() -> None:
    nested = json.loads("[" * 900 + "]" * 900)
    assert (
        read_leniently(
            BenchmarkRunStatus,
            {"phase": nested, "live": {"at": nested}, "conditions": [FAILED]},
        ).phase
        is None
    )
    assert (
        read_leniently(BenchmarkRunStatus, {"conditions": nested}).conditions == ()
    )


def test_reading_leaves_what_it_reads_as_it_is() -> None:
    stored = {
        **GOOD,
        "phase": "Archiving",
        "results": [{**RESULT, "metrics": {"a": "b"}}],
    }
    before = json.dumps(stored)
    read_leniently(BenchmarkRunStatus, stored)
    assert json.dumps(stored) == before
