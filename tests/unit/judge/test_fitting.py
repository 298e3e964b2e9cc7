"""Results cut to their room, the least missed first, never more than needed, and never in silence."""

from __future__ import annotations

import pytest
from benchrun.api.status import ObjectiveResult, Result
from benchrun.judge.fitting import fitted
from hypothesis import given
from hypothesis import strategies as st

OUTCOMES = ("Met", "Missed", "Inconclusive", "Missed")


def row(number: int) -> Result:
    """Six figures, four objectives, the last missed by most."""
    objectives = [
        {
            "metric": "TTFT",
            "percentile": "99",
            "maxMilliseconds": 100,
            "measuredMilliseconds": 100 * i,
            "outcome": outcome,
        }
        for i, outcome in enumerate(OUTCOMES)
    ]
    return Result(
        cell=f"chat/rate={number:02d}",
        workload="chat",
        axis="rate",
        value=str(number),
        repeats=1,
        repeats_planned=1,
        metrics={f"{figure}_ttft_ms": 1.0 for figure in ("mean", "median", "std", "p50", "p9", "p99.9")},
        objectives=[ObjectiveResult.model_validate(each) for each in objectives],
        verdict="Valid",
    )


ROWS = [row(number) for number in range(10)]


def size(rows: tuple[Result, ...] | list[Result]) -> int:
    return sum(len(each.model_dump_json(by_alias=True).encode()) + 1 for each in rows)


def contents(rows: tuple[Result, ...]) -> str:
    figures = sorted({name.split("_")[0] for each in rows for name in each.metrics})
    objectives = max((len(each.objectives) for each in rows), default=0)
    return f"{len(rows)} x {' '.join(figures)}; {objectives} objectives"


@pytest.mark.parametrize(
    ("kept", "spared"),
    [
        pytest.param("10 x mean median p50 p9 p99.9 std; 4 objectives", 0, id="all of it"),
        pytest.param("10 x mean median p50 p9 p99.9; 4 objectives", 1, id="deviations go first"),
        pytest.param("10 x mean p50 p9 p99.9; 4 objectives", 200, id="then medians"),
        pytest.param("10 x mean p50 p9 p99.9; 3 objectives", 500, id="then objectives that were met"),
        pytest.param("10 x mean p50 p9 p99.9; 2 objectives", 1500, id="then those that are open"),
        pytest.param("10 x mean p99.9; 2 objectives", 2600, id="then all percentiles but the highest"),
        pytest.param("10 x mean p99.9; 1 objectives", 2900, id="then all objectives but the one missed by most"),
        pytest.param("9 x mean p99.9; 1 objectives", 4000, id="then rows from the end"),
        pytest.param("0 x ; 0 objectives", 10**9, id="and at last everything"),
    ],
)
def test_what_is_kept(kept: str, spared: int) -> None:
    rows, _ = fitted(ROWS, max_bytes=size(ROWS) - spared)
    assert contents(rows) == kept
    assert [each.cell for each in rows] == [each.cell for each in ROWS[: len(rows)]]


def test_the_objective_that_stays_is_the_one_missed_by_most() -> None:
    rows, _ = fitted(ROWS, max_bytes=size(ROWS) - 2900)
    assert {o.measured_milliseconds for each in rows for o in each.objectives} == {300}


@given(st.integers(0, 12_000))
def test_what_is_kept_fits(max_bytes: int) -> None:
    rows, _ = fitted(ROWS, max_bytes=max_bytes)
    assert size(rows) <= max_bytes


@pytest.mark.parametrize(
    ("said", "spared"),
    [
        pytest.param({}, 0, id="nothing cut, nothing said"),
        pytest.param({"results[].metrics": (60, 50)}, 1, id="figures"),
        pytest.param({"results[].metrics": (60, 40), "results[].objectives": (40, 30)}, 500, id="and objectives"),
        pytest.param(
            {"results": (10, 9), "results[].metrics": (60, 18), "results[].objectives": (40, 9)}, 4000, id="and rows"
        ),
    ],
)
def test_what_was_cut_is_said(said: dict[str, tuple[int, int]], spared: int) -> None:
    _, truncated = fitted(ROWS, max_bytes=size(ROWS) - spared)
    assert {cut.field: (cut.total, cut.included) for cut in truncated} == said


def test_no_results_need_no_room() -> None:
    assert fitted([], max_bytes=0) == ((), ())
