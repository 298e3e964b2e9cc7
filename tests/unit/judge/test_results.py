"""The judged rows of a run, in the order of the plan, and their place in the status."""

from __future__ import annotations

import pytest
from benchrun.api.cells import Cell
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import BenchmarkRunStatus, Headline, ObjectiveResult, RoleFigures, Verdict
from benchrun.judge.results import Judged, results
from benchrun.measure.cells import pooled_metrics, pools_of
from benchrun.measure.samples import Sample
from benchrun_client.contract import StageRecord
from hypothesis import given
from hypothesis import strategies as st
from unit.judge.specs import spec
from unit.measure.records import cell, edge, record, requests, sample

TTFT_25_MS = {"metric": "TTFT", "percentile": "50", "maxMilliseconds": 25}
TTFT_24_MS = {"metric": "TTFT", "percentile": "50", "maxMilliseconds": 24}


def judge(
    cells: list[Cell],
    records: list[StageRecord],
    *samples: Sample,
    of: BenchmarkRunSpec | None = None,
) -> Judged:
    return results(cells, records, samples, spec=of or spec(), scrape_interval=1.0)


def failing(stage_id: str) -> StageRecord:
    return record(stage_id, requests=requests(ok=(0, 1)))


def test_a_row_of_one_good_stage() -> None:
    judged = judge([cell()], [record()], sample(1005.0))
    (row,) = judged.results
    assert (row.cell, row.workload, row.axis, row.value) == ("chat/rate=4", "chat", "rate", "4")
    assert (row.repeats, row.repeats_planned, row.verdict, row.findings) == (1, 1, "Valid", [])
    assert row.metrics == pooled_metrics([record()], pools_of([record()]), ["50", "99"])
    assert row.roles == [
        RoleFigures(
            role="server",
            running_mean=1.0,
            running_max=1.0,
            waiting_mean=0.0,
            waiting_max=0.0,
            kv_cache_mean_percent=50.0,
            kv_cache_max_percent=50.0,
            preemptions=0.0,
            prefix_hit_percent=0.0,
            samples=1,
            coverage_percent=10.0,
        )
    ]
    assert (judged.verdict, judged.findings, judged.truncated) == ("Valid", (), ())


def test_rows_follow_the_plan_not_the_records() -> None:
    cells = [cell(value="inf"), cell(value="1"), cell("other")]
    records = [record(c.stage_ids[0]) for c in reversed(cells)]
    assert [row.cell for row in judge(cells, records).results] == ["chat/rate=inf", "chat/rate=1", "other/rate=4"]


def test_repeats_are_pooled() -> None:
    both = [record("chat/rate=4/r1"), record("chat/rate=4/r2", requests=requests(ttft_us=(5, 5)))]
    (row,) = judge([cell(repeats=2)], both).results
    assert row.metrics == pooled_metrics(both, pools_of(both), ["50", "99"])
    assert (row.repeats, row.metrics["completed"]) == (2, 4)


def test_a_cell_without_one_repeat_is_invalid_and_keeps_its_figures() -> None:
    judged = judge([cell(repeats=2)], [record()])
    (row,) = judged.results
    assert (row.repeats, row.repeats_planned, row.verdict, row.findings) == (1, 2, "Invalid", ["RecordMissing"])
    assert row.metrics["completed"] == 2
    assert [(f.code, f.count, f.worst_stage) for f in judged.findings] == [("RecordMissing", 1, "chat/rate=4/r2")]


def test_a_cell_that_was_never_measured_is_invalid_beside_others() -> None:
    judged = judge([cell(), cell(value="8")], [record()])
    assert [row.verdict for row in judged.results] == ["Valid", "Invalid"]
    assert judged.results[1].metrics["mean_ttft_ms"] is None
    assert judged.results[1].roles == []


@pytest.mark.parametrize(
    "records", [pytest.param([], id="no record"), pytest.param([record("other/rate=9/r1")], id="none of these cells")]
)
def test_nothing_measured_is_unknown(records: list[StageRecord]) -> None:
    assert judge([cell(), cell(value="8")], records) == Judged((), (), "Unknown", None, ())


def test_a_bad_repeat_makes_its_cell_and_the_run_invalid_but_not_its_neighbours() -> None:
    cells = [cell(repeats=2), cell(value="8", repeats=2)]
    records = [*[record(s) for c in cells for s in c.stage_ids][:3], failing("chat/rate=8/r2")]
    judged = judge(cells, records)
    assert [(row.verdict, row.findings) for row in judged.results] == [("Valid", []), ("Invalid", ["RequestsFailed"])]
    assert judged.verdict == "Invalid"


def test_the_specs_threshold_judges() -> None:
    lenient = spec(validity={"maxFailedPercent": "50"})
    assert judge([cell()], [failing("chat/rate=4/r1")], of=lenient).verdict == "Valid"
    assert judge([cell()], [failing("chat/rate=4/r1")]).verdict == "Invalid"


@pytest.mark.parametrize(
    ("outcome", "measured", "objective", "stage"),
    [
        pytest.param("Met", 25.0, TTFT_25_MS, record(), id="the limit itself is met"),
        pytest.param("Missed", 25.0, TTFT_24_MS, record(), id="above the limit"),
        pytest.param("Inconclusive", 30.0, TTFT_25_MS, failing("chat/rate=4/r1"), id="an invalid cell proves nothing"),
        pytest.param(
            "Inconclusive",
            None,
            {"metric": "TPOT", "maxMilliseconds": 25},
            record(requests=requests(output_tokens=(1, 1))),
            id="no data",
        ),
        pytest.param("Met", 11.0, {"metric": "ITL", "percentile": "100", "maxMilliseconds": 11}, record(), id="ITL"),
        pytest.param(
            "Missed", 130.0, {"metric": "E2EL", "percentile": "100", "maxMilliseconds": 129}, record(), id="E2EL"
        ),
        pytest.param("Met", 10.0, {"metric": "TPOT", "percentile": "99", "maxMilliseconds": 10}, record(), id="TPOT"),
        pytest.param(
            "Missed",
            25.0,
            TTFT_25_MS,
            record(requests=requests(ttft_us=(25_000, 25_001), e2el_us=(90_000, 90_000))),
            id="rounding for display does not decide: 25.0005 ms",
        ),
    ],
)
def test_objectives(outcome: str, measured: float | None, objective: dict[str, object], stage: StageRecord) -> None:
    of = spec().model_copy(update={"objectives": [_objective(objective)]})
    (found,) = judge([cell()], [stage], of=of).results[0].objectives
    assert (found.outcome, found.measured_milliseconds) == (outcome, measured)


def _objective(values: dict[str, object]) -> object:
    """100 is no percentile of a spec, yet the clearest one for a test."""
    percentile = values.get("percentile", "99")
    (objective,) = spec(objectives=[values | {"percentile": "50"}]).objectives
    return objective.model_copy(update={"percentile": percentile})


def test_an_objective_names_what_was_asked() -> None:
    (row,) = judge([cell()], [record()], of=spec(objectives=[TTFT_24_MS])).results
    assert row.objectives == [
        ObjectiveResult(
            metric="TTFT", percentile="50", max_milliseconds=24, measured_milliseconds=25.0, outcome="Missed"
        )
    ]


def test_a_suspect_cell_still_has_objectives() -> None:
    suspect = record(servers=(edge(rises={"prefix_cache_hits_total": 5.0, "prefix_cache_queries_total": 100.0}),))
    judged = judge([cell()], [suspect], of=spec(objectives=[TTFT_25_MS]))
    assert (judged.verdict, judged.results[0].objectives[0].outcome) == ("Suspect", "Met")


def test_an_objective_is_judged_by_any_percentile_not_only_those_shown() -> None:
    objective = {"metric": "TTFT", "percentile": "25", "maxMilliseconds": 25}
    (row,) = judge([cell()], [record()], of=spec(objectives=[objective])).results
    assert row.objectives[0].measured_milliseconds == 22.5
    assert "p25_ttft_ms" not in row.metrics


def test_the_headline_is_the_highest_valid_load_point() -> None:
    cells = [cell(value=value) for value in ("16", "4", "inf")]
    records = [record("chat/rate=16/r1"), record("chat/rate=4/r1"), failing("chat/rate=inf/r1")]
    assert judge(cells, records).headline == Headline(cell="chat/rate=16", throughput="2.20", p99_ttft="29.9 ms")


# ---- room in the status ---------------------------------------------------------------------------------------------

ASKED_FOR_EVERYTHING: dict[str, object] = {
    "measurement": {"percentiles": ["10", "25", "50", "75", "90", "95", "99", "99.9"]},
    "objectives": [{"metric": m, "percentile": p, "maxMilliseconds": 1} for m in ("TTFT", "TPOT", "ITL", "E2EL") for p in
                   ("50", "90", "95", "99")],
}  # fmt: skip
WORST_ROWS = requests(
    ttft_us=[123_457 + 13 * i for i in range(20)],
    e2el_us=[9_123_457 + 17 * i for i in range(20)],
    output_tokens=[1234] * 20,
)


def status_bytes(judged: Judged) -> int:
    status = BenchmarkRunStatus(
        results=list(judged.results),
        findings=list(judged.findings),
        verdict=judged.verdict,
        headline=judged.headline,
        truncated=list(judged.truncated),
        log_tail="x" * 8192,
    )
    return len(status.model_dump_json(by_alias=True).encode())


def sixty_four_cells(name: str, stage: StageRecord, asked: dict[str, object]) -> Judged:
    cells = [cell(name, value=f"{n}.000001") for n in range(100_000_000, 100_000_064)]
    records = [stage.model_copy(update={"stage_id": c.stage_ids[0], "sequence": i}) for i, c in enumerate(cells)]
    return judge(cells, records, *(sample(1000.0 + i, running=i / 7) for i in range(10)), of=spec(**asked))


@pytest.mark.parametrize(
    ("asked", "servers", "verdict"),
    [
        pytest.param({}, (edge(),), "Valid", id="defaults"),
        pytest.param(ASKED_FOR_EVERYTHING, (edge(),), "Valid", id="every percentile and objective"),
        pytest.param(
            ASKED_FOR_EVERYTHING, (edge(after={"process_start_time_seconds": 5.0}),), "Invalid", id="all invalid"
        ),
    ],
)
def test_sixty_four_cells_fit_the_status(asked: dict[str, object], servers: tuple[object], verdict: Verdict) -> None:
    stage = record(requests=WORST_ROWS, servers=servers)
    judged = sixty_four_cells("a" * 40, stage, asked)
    assert judged.verdict == verdict
    assert status_bytes(judged) < 92_000
    assert len(judged.results) == 64


def test_what_was_cut_is_said() -> None:
    judged = sixty_four_cells("a" * 40, record(requests=WORST_ROWS), ASKED_FOR_EVERYTHING)
    assert {cut.field: (cut.total, cut.included) for cut in judged.truncated} == {
        "results[].metrics": (64 * 52, sum(len(row.metrics) for row in judged.results)),
        "results[].objectives": (64 * 16, sum(len(row.objectives) for row in judged.results)),
    }


def test_ordinary_results_are_not_cut() -> None:
    cells = [cell(value=str(n)) for n in range(1, 9)]
    judged = judge(cells, [record(c.stage_ids[0]) for c in cells], of=spec(objectives=[TTFT_25_MS]))
    assert judged.truncated == ()
    assert all("std_ttft_ms" in row.metrics and row.objectives for row in judged.results)


@given(st.lists(st.integers(0, 5), max_size=6), st.integers(1, 3))
def test_the_run_is_as_good_as_its_worst_row(measured: list[int], repeats: int) -> None:
    cells = [cell(value=str(n), repeats=repeats) for n in range(6)]
    records = [record(stage) for n in set(measured) for stage in cells[n].stage_ids]
    judged = judge(cells, records)
    expected = "Unknown" if not records else "Valid" if len(set(measured)) == 6 else "Invalid"
    assert judged.verdict == expected
    assert [row.verdict for row in judged.results].count("Valid") == len(set(measured))
