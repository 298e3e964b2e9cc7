"""The least change between two statuses, and that it ends where it was meant to."""

from typing import Any

import pytest
from benchrun.api import (
    BenchmarkRunStatus,
    Condition,
    Live,
    ObjectiveResult,
    Progress,
    Result,
    ServerStatus,
    as_json,
    read_leniently,
    status_changes,
)
from benchrun.api.sweep import BenchmarkSweepStatus
from hypothesis import given, strategies as st
from unit.runtime.memory_cluster import merge

LIVE = Live(at="2026-11-21T12:00:00Z", running=4, waiting=0)
RESULT = Result(
    load_point="chat/rate=4",
    workload="chat",
    axis="RequestRate",
    value="4",
    repeats=1,
    repeats_planned=1,
    metrics={"p99_ttft_ms": 12.5, "mean_itl_ms": None},
    objectives=[
        ObjectiveResult(
            metric="TTFT",
            percentile="99",
            max_milliseconds=500,
            measured_milliseconds=None,
            outcome="Inconclusive",
        )
    ],
    verdict="Valid",
)
PROGRESS = Progress(
    stages_total=3, stages_done=1, stage="chat/rate=4/r2", summary="1/3"
)
FULL = BenchmarkRunStatus(
    observed_generation=1,
    phase="Running",
    message="measuring",
    conditions=(Condition(type="Ready", status="False", reason="Measuring"),),
    progress=PROGRESS,
    live=LIVE,
    servers=[
        ServerStatus(
            engine="VLLM", role="server", ready=True, reported={"block_size": "16"}
        )
    ],
    results=[RESULT],
)


def stored(status: BenchmarkRunStatus) -> dict[str, Any]:
    return merge({}, status_changes({}, status))


def test_status_as_stored_reads_back_the_same() -> None:
    assert BenchmarkRunStatus.model_validate(stored(FULL)) == FULL


def _live(**changes: Any) -> dict[str, Any]:
    return {"live": LIVE.model_copy(update=changes)}


@pytest.mark.parametrize(
    ("changes", "patch"),
    [
        ({}, {}),
        (
            {"message": "collecting", "phase": "Collecting"},
            {"message": "collecting", "phase": "Collecting"},
        ),
        (
            {"progress": PROGRESS.model_copy(update={"stages_done": 2})},
            {"progress": {"stagesDone": 2}},
        ),
        (_live(at="2026-11-21T12:00:05Z"), {}),
        (
            _live(at="2026-11-21T12:00:05Z", running=5.0),
            {"live": {"at": "2026-11-21T12:00:05Z", "running": 5.0}},
        ),
    ],
    ids=[
        "nothing",
        "two fields",
        "part of an object",
        "the time of live figures alone",
        "live figures",
    ],
)
def test_only_what_changed_is_written(
    changes: dict[str, Any], patch: dict[str, Any]
) -> None:
    there = stored(FULL) | {"fromTheFuture": 1}
    there["progress"]["eta"] = "soon"
    assert status_changes(there, FULL.model_copy(update=changes)) == patch


@pytest.mark.parametrize(
    ("changes", "patch"),
    [
        (
            dict.fromkeys(("message", "live"), None) | {"results": []},
            dict.fromkeys(("message", "live", "results"), None),
        ),
        (
            {"servers": [ServerStatus(engine="VLLM", role="server", ready=False)]},
            {"servers": [{"role": "server", "engine": "VLLM", "ready": False}]},
        ),
    ],
    ids=["removed", "lists are replaced whole"],
)
def test_the_patch_leads_to_the_changed_status(
    changes: dict[str, Any], patch: dict[str, Any]
) -> None:
    changed = FULL.model_copy(update=changes)
    found = status_changes(stored(FULL), changed)
    assert found.keys() == patch.keys()
    assert BenchmarkRunStatus.model_validate(merge(stored(FULL), found)) == changed


def test_first_live_figures_are_written() -> None:
    without = FULL.model_copy(update={"live": None})
    assert "live" in status_changes(stored(without), FULL)


def test_parts_that_memory_does_not_hold_are_never_touched() -> None:
    light = {
        name: value
        for name, value in stored(FULL).items()
        if name not in ("results", "servers")
    }
    wanted = BenchmarkRunStatus.model_validate(light)
    assert status_changes(light, wanted) == {}


def test_null_within_a_list_that_the_server_dropped_is_no_difference() -> None:
    there = stored(FULL)
    del there["results"][0]["metrics"]["mean_itl_ms"]
    assert status_changes(there, FULL) == {}


def test_figure_that_is_not_known_is_written_as_null() -> None:
    assert as_json(RESULT)["metrics"] == {"p99_ttft_ms": 12.5, "mean_itl_ms": None}


def test_fields_of_a_newer_operator_are_not_touched() -> None:
    assert status_changes(
        {"fromTheFuture": {"a": 1}, "empty": []}, BenchmarkRunStatus(message="m")
    ) == {
        "message": "m",
        "observedGeneration": -1,
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("phase", "Archiving"),
        ("scheduledTime", {"node": "2026-11-21T12:00:00Z"}),
        ("progress", {"stagesTotal": "three"}),
        ("results", [{"loadPoint": "chat/rate=4", "axis": "temperature"}]),
    ],
)
def test_what_could_not_be_read_and_was_not_decided_is_not_touched(
    field: str, value: Any
) -> None:
    there = {**stored(BenchmarkRunStatus(observed_generation=1)), field: value}
    wanted = read_leniently(BenchmarkRunStatus, there).model_copy(
        update={"message": "measuring"}
    )
    assert status_changes(there, wanted) == {"message": "measuring"}


def test_what_could_not_be_read_and_was_decided_is_written() -> None:
    there = {
        "phase": "Archiving",
        "progress": {"stagesTotal": "three", "stage": "a"},
    }
    wanted = read_leniently(BenchmarkRunStatus, there).model_copy(
        update={"phase": "Failed", "progress": Progress(stages_total=3)}
    )
    merged = merge(there, status_changes(there, wanted))
    assert (merged["phase"], merged["progress"]["stagesTotal"]) == ("Failed", 3)


def test_conditions_that_could_not_be_read_stay_in_the_list_that_is_written() -> (
    None
):
    newer = {"type": "Throttled", "status": "Partly", "reason": "New"}
    same_type = {"type": "Ready", "status": "Partly", "reason": "New"}
    there = {**stored(FULL), "conditions": [newer, same_type, "word"]}
    wanted = read_leniently(BenchmarkRunStatus, there).model_copy(
        update={"conditions": FULL.conditions}
    )
    written = status_changes(there, wanted)["conditions"]
    assert [(c["type"], c["status"]) for c in written] == [
        ("Ready", "False"),
        ("Throttled", "Partly"),
    ]
    assert status_changes(merge(there, {"conditions": written}), wanted) == {}


def test_the_same_holds_for_a_sweep() -> None:
    there = {"phase": "Paused", "gpuSeconds": 3, "fromTheFuture": 1}
    wanted = read_leniently(BenchmarkSweepStatus, there).model_copy(
        update={"observed_generation": 2}
    )
    assert status_changes(there, wanted) == {"observedGeneration": 2}


statuses = st.builds(
    BenchmarkRunStatus,
    observed_generation=st.integers(-1, 3),
    phase=st.sampled_from([None, "Pending", "Running", "Completed"]),
    message=st.none() | st.text(max_size=5, min_size=1),
    progress=st.none()
    | st.builds(
        Progress, stages_total=st.integers(0, 3), stage=st.none() | st.just("a")
    ),
    live=st.none()
    | st.builds(
        Live,
        at=st.sampled_from(["t1", "t2"]),
        running=st.none() | st.floats(0, 4),
        waiting=st.none(),
    ),
    servers=st.lists(
        st.builds(
            ServerStatus, role=st.just("server"), reported=st.just({"a": "b"})
        ),
        max_size=1,
    ),
    results=st.lists(st.just(RESULT), max_size=1),
)


@given(before=statuses, after=statuses)
def test_any_status_becomes_any_other_and_then_nothing_is_left_to_write(
    before: BenchmarkRunStatus, after: BenchmarkRunStatus
) -> None:
    patch = status_changes(stored(before), after)
    there = merge(stored(before), patch)
    read = BenchmarkRunStatus.model_validate(there)
    assert status_changes(there, after) == {}
    assert as_json(read) | {"live": None} == as_json(after) | {"live": None}


@pytest.mark.parametrize("status", [FULL, BenchmarkRunStatus()])
def test_as_json_holds_no_none_that_was_not_requested(
    status: BenchmarkRunStatus,
) -> None:
    assert None not in as_json(status).values()
