"""The status stays small, whatever the sweep is."""

import json

from benchrun.api import Change
from benchrun.api.sweep import (
    MAX_ROWS,
    BestVariant,
    FoundLoad,
    FrontPoint,
    SweepRow,
    SweepTable,
)
from benchrun.judge.sweep.judged_sweep import MAX_BYTES, fitted
from unit.plan.specs import concurrencies, spec_body, workload
from unit.report.finished_sweeps import Measured, finished_sweep
from unit.sweep.simulated import SimulatedCluster, SimulatedOperator
from unit.sweep.sweeps import a_run, failed, sweep_body, variant


def change(word: str) -> Change:
    return Change.model_validate(
        {
            "metric": "MeanTTFT",
            "word": word,
            "changePercent": -12.34,
            "lowPercent": -20.12,
            "highPercent": -3.456,
        }
    )


def rows(count: int, words: list[str]) -> list[SweepRow]:
    metrics: dict[str, float | None] = {
        "output_throughput": 1234.5,
        "mean_ttft_ms": 12.345,
    }
    changes = [change(word) for word in words]
    return [
        SweepRow(
            variant=f"variant-{n}",
            load_point="chat/rate=4",
            metrics=metrics,
            changes=changes,
            verdict="Valid",
        )
        for n in range(count)
    ]


def test_a_table_that_fits_is_unchanged() -> None:
    whole = SweepTable(results=rows(10, ["Better", "NoDetectableDifference"]))
    assert fitted(whole) == whole


def test_what_did_not_change_goes_first_and_what_got_worse_last() -> None:
    whole = SweepTable(
        results=rows(100, ["Worse", "Better", "NoDetectableDifference", "Unknown"])
    )
    kept = fitted(whole, max_bytes=30_000)
    assert {change.word for row in kept.results for change in row.changes} == {
        "Worse"
    }
    assert len(kept.results) == 100
    assert [(t.field, t.total, t.included) for t in kept.truncated] == [
        ("results[].changes", 400, 100)
    ]


SERVER = {
    "running_mean": 1.5,
    "waiting_mean": 2.5,
    "kv_cache_max_percent": 3.5,
    "prefix_hit_percent": 4.5,
}
DERIVED = {"output_throughput_per_gpu": 1234.5, "total_token_throughput": 12_345.0}


def with_figures(
    found: list[SweepRow], figures: dict[str, float]
) -> list[SweepRow]:
    return [
        row.model_copy(update={"metrics": row.metrics | figures}) for row in found
    ]


def test_server_side_tokens_win_over_word_counts_with_a_remark() -> None:
    whole = SweepTable(
        results=with_figures(
            rows(100, ["Worse", "NoDetectableDifference"]), SERVER | DERIVED
        )
    )
    kept = fitted(whole, max_bytes=36_000)
    assert {change.word for row in kept.results for change in row.changes} == {
        "Worse"
    }
    assert all(
        set(row.metrics) == {"output_throughput", "mean_ttft_ms", *DERIVED}
        for row in kept.results
    )
    assert [(t.field, t.total, t.included) for t in kept.truncated] == [
        ("results[].metrics", 800, 400),
        ("results[].changes", 200, 100),
    ]


def test_what_other_figures_give_goes_before_whole_rows() -> None:
    kept = fitted(
        SweepTable(results=with_figures(rows(100, []), SERVER | DERIVED)),
        max_bytes=20_000,
    )
    assert len(kept.results) == 100
    assert all(
        set(row.metrics) == {"output_throughput", "mean_ttft_ms"}
        for row in kept.results
    )
    assert [(t.field, t.total, t.included) for t in kept.truncated] == [
        ("results[].metrics", 800, 200)
    ]


def test_rows_go_from_the_end_when_nothing_else_is_left() -> None:
    kept = fitted(SweepTable(results=rows(200, [])), max_bytes=5_000)
    assert 0 < len(kept.results) < 200
    assert kept.results[0].variant == "variant-0"
    assert [t.field for t in kept.truncated] == ["results"]


def test_searches_go_before_rows_with_a_remark() -> None:
    found = [
        FoundLoad(workload=f"w{n}", axis="RequestRate", loads=["123.456"] * 10)
        for n in range(16)
    ]
    searches = {f"variant-{n}": found for n in range(32)}
    kept = fitted(SweepTable(results=rows(20, []), searches=searches))
    assert (len(kept.results), kept.searches) == (
        20,
        {name: [] for name in searches},
    )
    assert [(t.field, t.total, t.included) for t in kept.truncated] == [
        ("variants[].searches", 512, 0)
    ]


def test_every_list_keeps_its_bound() -> None:
    best = BestVariant(
        workload="w",
        objective="throughput",
        variant="v",
        load_point="c",
        throughput_per_gpu=1.0,
    )
    point = FrontPoint(
        workload="w",
        variant="v",
        load_point="c",
        throughput_per_gpu=1.0,
        mean_tpot_ms=1.0,
    )
    kept = fitted(
        SweepTable(results=rows(300, []), best=[best] * 100, front=[point] * 200),
        max_bytes=10**9,
    )
    assert (len(kept.results), len(kept.best), len(kept.front)) == (
        MAX_ROWS,
        64,
        128,
    )


def test_the_largest_sweep_has_a_status_below_100_kb() -> None:
    names = [f"{'x' * 57}-{n:02d}" for n in range(32)]
    template = spec_body(
        workloads=[workload("w" * 40, load=concurrencies(*range(1, 9)))],
        objectives=[
            {"metric": "TTFT", "percentile": str(p), "maxMilliseconds": 1}
            for p in range(80, 96)
        ],
    )
    cluster = SimulatedCluster(
        sweep_body(
            [variant(name) for name in names], template=template, replications=4
        )
    )
    for number in range(1, 33):
        for replication in range(1, 5):
            name = f"seqs-v{number}-r{replication}"
            cluster.runs[name] = a_run(name, status=failed("R" * 128, "m" * 4096))
    SimulatedOperator(cluster).make_pass()
    assert cluster.is_over
    assert len(json.dumps(cluster.status)) < 100_000
    assert MAX_BYTES < 100_000


def test_a_sweep_of_256_rows_with_every_figure_measured_stays_below_100_kb() -> (
    None
):
    load_points = [f"{'w' * 12}/concurrency={users}" for users in range(8, 16)]
    server = {
        "running_mean": 123.456,
        "waiting_mean": 234.567,
        "kv_cache_max_percent": 98.765,
        "prefix_hit_percent": 1.2,
    }
    measured = {
        f"variant-{number:02d}": Measured(server=server) for number in range(32)
    }
    load = workload("w" * 12, load=concurrencies(*range(8, 16)))
    found = finished_sweep(
        measured,
        load_points=load_points,
        replications=2,
        template=spec_body(workloads=[load]),
    )
    assert len(json.dumps(found.body["status"])) < 100_000
    assert len(found.status.results) > 200, (
        "figures go before rows; of whole rows not 150 would fit"
    )
    assert all("output_throughput" in row.metrics for row in found.status.results)
    assert "results[].metrics" in [cut.field for cut in found.status.truncated]
