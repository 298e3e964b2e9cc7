"""Results cut to their room, the least missed first, never more than needed, and never in
silence."""

from typing import Literal

import pytest
from benchrun.api import (
    Bottleneck,
    Explanation,
    Finding,
    ObjectiveResult,
    Result,
    RoleFigures,
    Waiting,
    WidthResult,
)
from benchrun.judge.status_size import fitted
from hypothesis import given, strategies as st
from kit.every_case import every

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
        load_point=f"chat/rate={number:02d}",
        workload="chat",
        axis="RequestRate",
        value=str(number),
        repeats=1,
        repeats_planned=1,
        metrics={
            f"{figure}_ttft_ms": 1.0
            for figure in ("mean", "median", "std", "p50", "p9", "p99.9")
        },
        objectives=[ObjectiveResult.model_validate(each) for each in objectives],
        verdict="Valid",
    )


ROWS = [row(number) for number in range(10)]


def size(rows: tuple[Result, ...] | list[Result]) -> int:
    return sum(
        len(each.model_dump_json(by_alias=True).encode()) + 1 for each in rows
    )


def contents(rows: list[Result]) -> str:
    figures = sorted({name.split("_")[0] for each in rows for name in each.metrics})
    objectives = max((len(each.objectives) for each in rows), default=0)
    return f"{len(rows)} x {' '.join(figures)}; {objectives} objectives"


@pytest.mark.parametrize(
    ("kept", "spared"),
    [
        pytest.param(
            "10 x mean median p50 p9 p99.9 std; 4 objectives", 0, id="all of it"
        ),
        pytest.param(
            "10 x mean median p50 p9 p99.9; 4 objectives",
            1,
            id="deviations go first",
        ),
        pytest.param(
            "10 x mean p50 p9 p99.9; 4 objectives", 200, id="then medians"
        ),
        pytest.param(
            "10 x mean p99.9; 4 objectives",
            400,
            id="then all percentiles but the highest",
        ),
        pytest.param(
            "10 x mean p99.9; 3 objectives", 750, id="then objectives that are open"
        ),
        pytest.param("10 x mean; 3 objectives", 2050, id="then that percentile"),
        pytest.param(
            "10 x mean; 2 objectives", 2250, id="then those that were met"
        ),
        pytest.param(
            "10 x mean; 1 objectives",
            4000,
            id="then all objectives but the one missed by most",
        ),
        pytest.param("10 x mean; 0 objectives", 5450, id="then all objectives"),
        pytest.param("7 x mean; 0 objectives", 6600, id="then rows from the end"),
        pytest.param("0 x ; 0 objectives", 10**9, id="and at last everything"),
    ],
)
def test_the_most_important_fields_are_kept(kept: str, spared: int) -> None:
    rows, _ = fitted(ROWS, max_bytes=size(ROWS) - spared)
    assert contents(rows) == kept
    assert [each.load_point for each in rows] == [
        each.load_point for each in ROWS[: len(rows)]
    ]


def test_the_objective_that_stays_is_the_one_missed_by_most() -> None:
    rows, _ = fitted(ROWS, max_bytes=size(ROWS) - 4000)
    assert {o.measured_milliseconds for each in rows for o in each.objectives} == {
        300
    }


def test_how_repeats_scatter_stays_longer_than_all_objectives_but_one() -> None:
    """A later run may be compared with this one."""
    given_rows = [
        each.model_copy(update={"repeat_cv_percent": {"mean_ttft_ms": 1.0}})
        for each in ROWS
    ]
    rows, _ = fitted(given_rows, max_bytes=size(given_rows) - 4000)
    assert {
        (len(each.objectives), len(each.repeat_cv_percent)) for each in rows
    } == {(1, 1)}


def test_widths_go_before_rows() -> None:
    width = WidthResult(metric="TTFT", percentile="99", percent="5")
    given_rows = [each.model_copy(update={"widths": [width] * 16}) for each in ROWS]
    kept, cut = fitted(given_rows, max_bytes=size(ROWS))
    assert len(kept) == len(ROWS)
    assert ("results[].widths", 160, 0) in [
        (each.field, each.total, each.included) for each in cut
    ]


@given(st.integers(0, 12_000))
def test_kept_rows_fit_the_limit(max_bytes: int) -> None:
    rows, _ = fitted(ROWS, max_bytes=max_bytes)
    assert size(rows) <= max_bytes


@pytest.mark.parametrize(
    ("reported", "spared"),
    [
        pytest.param({}, 0, id="nothing cut, nothing said"),
        pytest.param({"results[].metrics": (60, 50)}, 1, id="figures"),
        pytest.param(
            {"results[].metrics": (60, 20), "results[].objectives": (40, 30)},
            950,
            id="and objectives",
        ),
        pytest.param(
            {
                "results": (10, 7),
                "results[].metrics": (60, 7),
                "results[].objectives": (40, 0),
            },
            6600,
            id="and rows",
        ),
    ],
)
def test_truncated_fields_are_reported(
    reported: dict[str, tuple[int, int]], spared: int
) -> None:
    _, truncated = fitted(ROWS, max_bytes=size(ROWS) - spared)
    assert {cut.field: (cut.total, cut.included) for cut in truncated} == reported


def test_no_results_need_no_room() -> None:
    assert fitted([], max_bytes=0) == ([], [])


# ---- a row with everything
# ------------------------------------------------------------------------------------------


def full_row(
    number: int, *, word: Literal["None", "KVCacheFull"] = "KVCacheFull"
) -> Result:
    """All that a row may hold beside figures and objectives."""
    keys = [
        f"{p}_{latency}_ms"
        for p in ("p50", "p99")
        for latency in ("ttft", "itl", "e2el_including_client_queue")
    ]
    return row(number).model_copy(
        update={
            "metrics": {
                "output_throughput": 1.0,
                "duration": 9.0,
                "mean_ttft_ms": 2.0,
                **dict.fromkeys(keys, 1.0),
            },
            "steady": {"mean_ttft_ms": 2.0, "p99_ttft_ms": 3.0},
            "intervals": {key: [1.0, 2.0] for key in keys if key.startswith("p50")},
            "independent": {key: 300 for key in keys if key.startswith("p50")},
            "uncertain": [key for key in keys if key.startswith("p99")],
            "repeat_cv_percent": {"mean_ttft_ms": 1.5},
            "traffic": "a" * 64,
            "waiting": Waiting(reason=word, sentence="w" * 50, evidence={"a": 1.0}),
            "bottleneck": Bottleneck(
                limit="None" if word == "None" else "KVMemory",
                sentence="b",
                evidence={"b": 2.0},
            ),
            "explanations": [
                Explanation(
                    question="TrueRun",
                    answer="Noise" if word == "None" else "PrefixCache",
                    sentence="t",
                    evidence={"c": 3.0},
                )
            ],
            "by_repeat": {"mean_ttft_ms": [1.0, 2.0]},
            "roles": [RoleFigures(role="server")],
            "findings": [f"Code{n}" for n in range(9)],
        }
    )


@every("max_bytes", range(0, 16_000, 250))
def test_a_percentile_never_stays_without_its_mark(max_bytes: int) -> None:
    rows, _ = fitted([full_row(number) for number in range(8)], max_bytes=max_bytes)
    for each in rows:
        figures = each.metrics | each.steady
        shown = {key for key in figures if key.startswith("p99_")}
        assert shown == {key for key in each.uncertain if key.startswith("p99_")}
        assert set(each.intervals) <= set(figures)


@every("max_bytes", range(3000, 16_000, 250))
def test_throughput_means_and_traffic_stay_with_their_row(max_bytes: int) -> None:
    rows, _ = fitted([full_row(number) for number in range(8)], max_bytes=max_bytes)
    assert rows
    for each in rows:
        assert {"output_throughput", "mean_ttft_ms"} <= set(each.metrics)
        assert each.traffic == "a" * 64


def test_percentiles_that_can_be_relied_on_stay_before_higher_ones() -> None:
    rows, _ = fitted([full_row(1)], max_bytes=1300)
    assert {key[:3] for key in rows[0].metrics if key.startswith("p")} == {"p50"}


def test_the_worst_codes_stay() -> None:
    rows, truncated = fitted([full_row(1)], max_bytes=800)
    assert rows[0].findings == [f"Code{n}" for n in range(3)]
    assert [
        (cut.total, cut.included)
        for cut in truncated
        if cut.field == "results[].findings"
    ] == [(9, 3)]


def test_that_nothing_limits_goes_before_what_limits() -> None:
    both = [full_row(1, word="None"), full_row(2)]
    reasons = []
    for max_bytes in range(4000, 0, -25):
        rows, _ = fitted(both, max_bytes=max_bytes)
        reasons.append(
            tuple(each.waiting.reason if each.waiting else None for each in rows)
        )
    assert list(dict.fromkeys(reasons)) == [
        ("None", "KVCacheFull"),
        (None, "KVCacheFull"),
        (None, None),
        (None,),
        (),
    ]


def test_findings_take_their_room_first() -> None:
    rows = [full_row(number) for number in range(8)]
    finding = Finding(
        code="A",
        severity="Note",
        count=1,
        worst_stage="s",
        sentence="s" * 1000,
        remedy="r" * 1000,
    )
    alone, beside = (
        fitted(rows, found, max_bytes=9000)[0] for found in ([], [finding] * 2)
    )
    assert (
        size(beside)
        <= 9000 - 2 * len(finding.model_dump_json(by_alias=True))
        < size(alone)
    )


def test_every_list_that_was_cut_is_named() -> None:
    _, truncated = fitted([full_row(number) for number in range(8)], max_bytes=1000)
    assert {cut.field for cut in truncated} == {
        "results",
        *(
            f"results[].{name}"
            for name in (
                "metrics",
                "steady",
                "intervals",
                "objectives",
                "findings",
                "roles",
            )
        ),
        *(
            f"results[].{name}"
            for name in (
                "waiting",
                "waiting.evidence",
                "bottleneck",
                "bottleneck.evidence",
            )
        ),
        "results[].repeatCvPercent",
        "results[].byRepeat",
        "results[].explanations",
    }
