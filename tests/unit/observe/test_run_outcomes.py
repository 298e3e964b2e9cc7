"""What is remembered of a run that has ended: the headline figures, of few load points, from
whatever a status holds."""

from datetime import UTC, datetime
from typing import Any

import pytest
from benchrun.api import Result
from benchrun.observe import (
    HEADLINE_FIGURES,
    MAX_ROWS,
    FinishedRun,
    finished_run_of,
)
from hypothesis import given, strategies as st
from unit.measure.records import load_of

ENDED = "2026-11-21T12:00:00Z"


def row(load_point: str = "chat/rate=4", **more: Any) -> dict[str, Any]:
    load = load_of(load_point)
    return {
        "loadPoint": load_point,
        "workload": "chat",
        "axis": load.axis,
        "value": load.value,
        "verdict": "Valid",
        **more,
    }


def found(**status: Any) -> FinishedRun:
    run = finished_run_of(
        {"completionTime": ENDED, "phase": "Completed", "verdict": "Valid"} | status
    )
    assert run is not None
    return run


def test_figures_stand_in_a_fixed_order_and_others_are_left_out() -> None:
    metrics = {
        name: float(place) for place, name in enumerate(HEADLINE_FIGURES)
    } | {"std_ttft_ms": 9.0}
    run = found(results=[row(metrics=metrics)])
    assert run.ended_at == datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert (run.phase, run.verdict, run.load_points_left_out) == (
        "Completed",
        "Valid",
        0,
    )
    load_point = run.load_points[0]
    assert (load_point.load_point, load_point.workload, load_point.axis, load_point.value, load_point.verdict) == (
        "chat/rate=4", "chat", "RequestRate", "4", "Valid",
    )  # fmt: skip
    assert load_point.figures == tuple(
        float(place) for place in range(len(HEADLINE_FIGURES))
    )


def test_figures_that_too_few_requests_bound_are_none() -> None:
    load_point = found(
        results=[
            row(
                metrics={"p99_ttft_ms": 12.5, "median_ttft_ms": 3},
                uncertain=["p99_ttft_ms"],
            )
        ]
    ).load_points[0]
    shown = dict(zip(HEADLINE_FIGURES, load_point.figures, strict=True))
    assert (shown["p99_ttft_ms"], shown["median_ttft_ms"]) == (None, 3.0)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="none"),
        pytest.param("12", id="text"),
        pytest.param(True, id="bool"),
        pytest.param(float("nan"), id="nan"),
        pytest.param(float("inf"), id="infinite"),
    ],
)
def test_a_non_finite_number_is_none(value: object) -> None:
    assert (
        found(results=[row(metrics={"output_throughput": value})])
        .load_points[0]
        .figures
        == (None,) * 8
    )


@pytest.mark.parametrize(
    ("throughput_of", "shown"),
    [("Plateau", 70), ("Arrivals", 70), ("Stage", 100), (None, 100), ([], 100)],
)
def test_figures_are_of_the_steady_part_where_the_row_says_so(
    throughput_of: object, shown: float
) -> None:
    steady = {"output_throughput": 70, "median_ttft_ms": 1}
    metrics = {"output_throughput": 100, "median_ttft_ms": 2}
    [load_point] = found(
        results=[row(metrics=metrics, steady=steady, throughputOf=throughput_of)]
    ).load_points
    figures = dict(zip(HEADLINE_FIGURES, load_point.figures, strict=True))
    ttft = 1 if shown == 70 else 2
    assert (figures["output_throughput"], figures["median_ttft_ms"]) == (
        shown,
        ttft,
    )


def test_load_points_are_bounded_and_the_headlines_is_kept() -> None:
    rows = [row(f"chat/rate={n}") for n in range(1, MAX_ROWS + 4)]
    last = rows[-1]["loadPoint"]
    run = found(results=rows, headline={"loadPoint": last})
    assert [load_point.load_point for load_point in run.load_points] == [
        last,
        *(r["loadPoint"] for r in rows[: MAX_ROWS - 1]),
    ]
    assert run.load_points_left_out == 3


def test_load_point_named_twice_counts_once() -> None:
    assert len(found(results=[row(), row()]).load_points) == 1


def test_run_that_failed_has_no_load_points() -> None:
    run = found(phase="Failed", verdict=None)
    assert (run.phase, run.verdict, run.load_points) == ("Failed", "", ())


def test_without_a_completion_time_nothing_is_remembered() -> None:
    assert finished_run_of({"results": [row()]}) is None
    assert finished_run_of({"completionTime": "yesterday"}) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*Result.model_fields, "x"]), inner)
    ),
    max_leaves=12,
)


@given(results=JSON, headline=JSON, verdict=JSON)
def test_nothing_in_a_status_raises(
    results: object, headline: object, verdict: object
) -> None:
    assert (
        len(found(results=results, headline=headline, verdict=verdict).load_points)
        <= MAX_ROWS
    )
