"""The judged rows of a run, in the order of the plan, and their place in the status."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from benchrun.api import (
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    Code,
    Finding,
    Headline,
    LoadPoint,
    Result,
    RoleFigures,
    RunIdentity,
)
from benchrun.judge.judged_run import (
    MAX_DATASETS,
    Surroundings,
    dataset_statuses,
    judged_run,
    status_rows,
)
from benchrun.judge.results import Judged, results
from benchrun.judge.rules.all_rules import MAX_FINDINGS_BYTES, within
from benchrun.judge.status_size import MAX_BYTES, fitted
from benchrun.measure import pooled_metrics, pools_of
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import DatasetFacts, StageRecord
from hypothesis import given, settings, strategies as st
from unit.judge.specs import spec, workload
from unit.measure.records import edge, load_point, record, requests, sample

RUN = Surroundings(identity=RunIdentity(namespace="lab", name="chat", uid="uid"))
TTFT_25_MS = {"metric": "TTFT", "percentile": "50", "maxMilliseconds": 25}


def judge(
    load_points: list[LoadPoint],
    records: list[StageRecord],
    *samples: Sample,
    run_spec: BenchmarkRunSpec | None = None,
) -> Judged:
    return results(load_points, records, samples, spec=run_spec or spec())


def failing(stage_id: str) -> StageRecord:
    return record(stage_id, requests=requests(ok=(0, 1)))


def test_a_row_of_one_good_stage() -> None:
    judged = judge([load_point()], [record()], sample(1005.0))
    (row,) = judged.results
    assert (row.load_point, row.workload, row.axis, row.value) == (
        "chat/rate=4",
        "chat",
        "RequestRate",
        "4",
    )
    assert (row.repeats, row.repeats_planned, row.verdict) == (1, 1, "Valid")
    assert row.metrics == pooled_metrics(
        [record()], pools_of([record()]), ["50", "99"]
    )
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
            transfer_failures=0.0,
            samples=1,
            coverage_percent=10.0,
        )
    ]
    assert {finding.severity for finding in judged.findings} == {"Note"}
    assert {finding.code for finding in judged.findings} == set(row.findings)
    assert judged.verdict == "Valid"


def test_rows_follow_the_plan_not_the_records() -> None:
    load_points = [
        load_point(value="inf"),
        load_point(value="1"),
        load_point("other"),
    ]
    records = [record(c.stage_ids[0]) for c in reversed(load_points)]
    found = judge(
        load_points,
        records,
        run_spec=spec(workloads=[workload("chat"), workload("other")]),
    )
    assert [row.load_point for row in found.results] == [
        "chat/rate=inf",
        "chat/rate=1",
        "other/rate=4",
    ]


def test_repeats_are_pooled() -> None:
    both = [
        record("chat/rate=4/r1"),
        record("chat/rate=4/r2", requests=requests(ttft_us=(5, 5))),
    ]
    (row,) = judge([load_point(repeats=2)], both).results
    assert row.metrics == pooled_metrics(both, pools_of(both), ["50", "99"])
    assert (row.repeats, row.metrics["completed"]) == (2, 4)


def test_a_load_point_without_one_repeat_is_invalid_and_keeps_its_figures() -> None:
    judged = judge([load_point(repeats=2)], [record()])
    (row,) = judged.results
    assert (row.repeats, row.repeats_planned, row.verdict, row.findings[0]) == (
        1,
        2,
        "Invalid",
        "RecordMissing",
    )
    assert row.metrics["completed"] == 2
    assert (judged.findings[0].code, judged.findings[0].worst_stage) == (
        "RecordMissing",
        "chat/rate=4/r2",
    )


def test_a_load_point_that_was_never_measured_is_invalid_beside_others() -> None:
    judged = judge([load_point(), load_point(value="8")], [record()])
    assert [row.verdict for row in judged.results] == ["Valid", "Invalid"]
    assert judged.results[1].metrics["mean_ttft_ms"] is None
    assert judged.results[1].roles == []


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([], id="no record"),
        pytest.param([record("other/rate=9/r1")], id="none of these load points"),
    ],
)
def test_nothing_measured_is_unknown(records: list[StageRecord]) -> None:
    assert judge([load_point(), load_point(value="8")], records) == Judged()


def test_a_bad_repeat_makes_its_load_point_and_the_run_invalid_but_not_its_neighbours() -> (
    None
):
    load_points = [load_point(repeats=2), load_point(value="8", repeats=2)]
    records = [
        *[record(s) for c in load_points for s in c.stage_ids][:3],
        failing("chat/rate=8/r2"),
    ]
    judged = judge(load_points, records)
    assert [row.verdict for row in judged.results] == ["Valid", "Invalid"]
    assert ["RequestsFailed" in row.findings for row in judged.results] == [
        False,
        True,
    ]
    assert (judged.results[1].findings[0], judged.verdict) == (
        "RequestsFailed",
        "Invalid",
    )


def test_the_specs_threshold_judges() -> None:
    lenient = spec(validity={"maxFailedPercent": "50"})
    assert (
        judge([load_point()], [failing("chat/rate=4/r1")], run_spec=lenient).verdict
        == "Valid"
    )
    assert judge([load_point()], [failing("chat/rate=4/r1")]).verdict == "Invalid"


def test_the_headline_is_the_highest_valid_load_point_and_marks_what_is_uncertain() -> (
    None
):
    load_points = [load_point(value=value) for value in ("16", "4", "inf")]
    records = [
        record("chat/rate=16/r1"),
        record("chat/rate=4/r1"),
        failing("chat/rate=inf/r1"),
    ]
    assert judge(load_points, records).headline == Headline(
        load_point="chat/rate=16", throughput="2.20", p99_ttft="29.9? ms"
    )


# ---- room in the status
# ---------------------------------------------------------------------------------------------

ASKED_FOR_EVERYTHING: dict[str, Any] = {
    "measurement": {
        "percentiles": ["10", "25", "50", "75", "90", "95", "99", "99.9"]
    },
    "objectives": [
        {"metric": m, "percentile": p, "maxMilliseconds": 1}
        for m in ("TTFT", "TPOT", "ITL", "E2EL")
        for p in ("50", "90", "95", "99")
    ],
}
MANY = requests(
    ttft_us=[123_457 + 13 * i for i in range(500)],
    e2el_us=[9_123_457 + 17 * i for i in range(500)],
    queue_us=[1_234_567 + 19 * i for i in range(500)],
    output_tokens=[1234] * 500,
)
CAPPED = {"requestRates": ["4"], "maxConcurrency": 64}
RESTARTED = edge(after={"process_start_time_seconds": 5.0})


def status_of(judged: Judged) -> BenchmarkRunStatus:
    rows, truncated = status_rows(spec(), judged)
    return BenchmarkRunStatus(
        results=rows,
        findings=judged.findings,
        verdict=judged.verdict,
        headline=judged.headline,
        truncated=truncated,
        log_tail="x" * 8192,
    )


@cache
def sixty_four_load_points(*, restarted: bool) -> Judged:
    """A run as large as can be, which takes seconds to judge."""
    server = RESTARTED if restarted else edge()
    stage = record(requests=MANY, servers=(server,))
    name = "a" * 40
    load_points = [
        load_point(name, value=f"{n}.000001", repeats=2, max_concurrency=64)
        for n in range(100_000_000, 100_000_064)
    ]
    stages = [stage_id for each in load_points for stage_id in each.stage_ids]
    records = [
        stage.model_copy(update={"stage_id": stage_id, "sequence": i})
        for i, stage_id in enumerate(stages)
    ]
    samples = [
        sample(
            1000.0 + i,
            running=i / 7,
            waiting=i * 10.0,
            prompt_tokens=i * 1e4,
            kv_cache=0.99,
        )
        for i in range(10)
    ]
    return judge(
        load_points,
        records,
        *samples,
        run_spec=spec(
            workloads=[workload(name, load=CAPPED)], **ASKED_FOR_EVERYTHING
        ),
    )


@pytest.mark.parametrize("restarted", [False, True])
def test_sixty_four_load_points_fit_the_status(restarted: bool) -> None:
    """With every percentile and objective; and where all are invalid."""
    status = status_of(sixty_four_load_points(restarted=restarted))
    assert len(status.model_dump_json(by_alias=True).encode()) < 94_000
    assert len(status.results) == 64
    assert (
        BenchmarkRunStatus.model_validate_json(
            status.model_dump_json(by_alias=True)
        )
        == status
    )


def with_every_rule_firing(
    rows: Sequence[Result],
) -> tuple[list[Result], list[Finding]]:
    """As long as sentences and evidence are, and cut as those of a run are."""
    every = [
        Finding(
            code=code,
            severity="Suspect",
            count=64,
            worst_stage="a" * 60,
            evidence={f"figure{n}": 1234.5 for n in range(8)},
            sentence="s" * 250,
        )
        for code in Code
    ]
    codes = [code.value for code in Code]
    findings = within(MAX_FINDINGS_BYTES, every)
    return [row.model_copy(update={"findings": codes}) for row in rows], findings


def test_sixty_four_load_points_fit_beside_every_finding() -> None:
    stage = record(requests=MANY)
    load_points = [
        load_point(value=f"{n}.000001", max_concurrency=64)
        for n in range(100_000_000, 100_000_064)
    ]
    run_spec = spec(workloads=[workload(load=CAPPED)], **ASKED_FOR_EVERYTHING)
    one = judge(
        load_points[:1],
        [stage.model_copy(update={"stage_id": load_points[0].stage_ids[0]})],
        run_spec=run_spec,
    ).results[0]
    rows, findings = with_every_rule_firing(
        [one.model_copy(update={"load_point": each.id}) for each in load_points]
    )
    kept, truncated = fitted(rows, findings)
    status = BenchmarkRunStatus(
        results=list(kept), findings=findings, truncated=list(truncated)
    )
    assert len(status.model_dump_json(by_alias=True).encode()) < 87_050
    assert len(kept) == 64
    assert {"results[].metrics", "results[].findings"} <= {
        cut.field for cut in truncated
    }


def test_truncated_results_are_reported() -> None:
    judged = status_of(sixty_four_load_points(restarted=False))
    cuts = {cut.field: (cut.total, cut.included) for cut in judged.truncated}
    assert cuts["results[].metrics"] == (
        64 * (8 + 4 * 11 + 3 * 10 + 1),
        sum(len(row.metrics) for row in judged.results),
    )
    assert cuts["results[].objectives"] == (
        64 * 16,
        sum(len(row.objectives) for row in judged.results),
    )


def test_ordinary_results_are_not_cut() -> None:
    load_points = [load_point(value=str(n)) for n in range(1, 9)]
    judged = judge(
        load_points,
        [record(c.stage_ids[0]) for c in load_points],
        run_spec=spec(objectives=[TTFT_25_MS]),
    )
    assert status_of(judged).truncated == []
    assert status_of(judged).results == judged.results
    assert all(
        "std_ttft_ms" in row.metrics and row.objectives for row in judged.results
    )


@settings(max_examples=30)
@given(st.lists(st.integers(1, 6), max_size=6), st.integers(1, 3))
def test_the_run_is_as_good_as_its_worst_row(
    measured: list[int], repeats: int
) -> None:
    load_points = {
        n: load_point(value=str(n), repeats=repeats) for n in range(1, 7)
    }
    records = [
        record(stage) for n in set(measured) for stage in load_points[n].stage_ids
    ]
    judged = judge(list(load_points.values()), records)
    expected = (
        "Unknown"
        if not records
        else "Valid"
        if len(set(measured)) == 6
        else "Invalid"
    )
    assert judged.verdict == expected
    assert [row.verdict for row in judged.results].count("Valid") == len(
        set(measured)
    )


def facts(**changes: Any) -> DatasetFacts:
    return DatasetFacts(
        **{
            "source": "/data/chat/pvc/rows.jsonl",
            "sha256": "a" * 64,
            "rows_read": 100,
            "rows_used": 40,
            "rows_dropped": {"TooLongForModel": 3},
            **changes,
        }
    )


def stage(stage_id: str, *datasets: DatasetFacts) -> StageRecord:
    return record(stage_id=stage_id, datasets=datasets)


def test_each_workload_is_reported_once_with_its_counts() -> None:
    records = [
        stage("chat/rate=1/r1", facts()),
        stage("plain/rate=1/r1"),
        stage("chat/rate=2/r1", facts()),
        stage("bulk/search-01/r1", facts(sha256="b" * 64)),
    ]
    found = dataset_statuses(records, workloads=3)
    assert [(d.name, d.sha256[0], d.rows_read, d.rows_used) for d in found] == [
        ("chat", "a", 100, 40),
        ("bulk", "b", 100, 40),
    ]
    assert found[0].rows_dropped == {"TooLongForModel": 3}


def test_parts_of_a_mix_are_distinguished() -> None:
    found = dataset_statuses(
        [stage("chat/rate=1/r1", facts(part=0), facts(part=2))], workloads=1
    )
    assert [d.name for d in found] == ["chat/0", "chat/2"]


def test_the_end_of_a_long_name_is_kept() -> None:
    (found,) = dataset_statuses(
        [stage("chat/rate=1/r1", facts(source="/" + "d" * 280 + "/rows.jsonl"))],
        workloads=1,
    )
    assert len(found.source) == 160
    assert found.source.endswith("d/rows.jsonl")


def test_entries_beyond_the_status_size_are_truncated_with_a_remark() -> None:
    records = [
        stage(f"w{n}/rate=1/r1", facts(part=0), facts(part=1)) for n in range(16)
    ]
    workloads = [workload(f"w{n}") for n in range(16)]
    judgement, document = judged_run(RUN, spec(workloads=workloads), records, ())
    (cut,) = [each for each in judgement.truncated if each.field == "datasets"]
    assert (len(judgement.datasets), cut.total, cut.included) == (
        MAX_DATASETS,
        32,
        MAX_DATASETS,
    )
    assert len(document.datasets) == 32


def test_no_more_records_are_opened_than_it_takes_to_meet_all_workloads() -> None:
    records = iter(
        [
            stage("chat/rate=1/r1", facts()),
            stage("bulk/rate=1/r1", facts()),
            stage("chat/rate=2/r1"),
        ]
    )
    assert [d.name for d in dataset_statuses(records, workloads=2)] == [
        "chat",
        "bulk",
    ]
    assert [record.stage_id for record in records] == ["chat/rate=2/r1"]


def test_what_is_said_of_objectives_does_not_depend_on_the_room_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = spec(
        objectives=[{"metric": "TTFT", "percentile": "99", "maxMilliseconds": 40}]
    )
    for room in (MAX_BYTES, 600):
        monkeypatch.setattr("benchrun.judge.judged_run.MAX_BYTES", room)
        found = judged_run(RUN, asked, [record()], ()).judgement
        kept = [
            outcome.outcome for each in found.results for outcome in each.objectives
        ]
        assert (found.objectives_met, kept) == (
            "Unknown",
            ["Inconclusive"] if room > 600 else [],
        )
