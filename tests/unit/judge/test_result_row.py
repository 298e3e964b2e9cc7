"""What a row of the results says beside its verdict."""

import hashlib
import json
import math
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, Result
from benchrun.judge.results import results
from benchrun_client.contract import (
    Connections,
    GapCounts,
    SamplingParams,
    StageRecord,
)
from unit.judge.specs import spec, workload
from unit.measure.records import load_point, record, requests

CAPPED = spec(
    workloads=[workload(load={"requestRates": ["4"], "maxConcurrency": 2})]
)
PERCENTILES = {
    f"p{p}_{latency}_ms"
    for p in (50, 99)
    for latency in ("ttft", "tpot", "itl", "e2el")
}

WAVES = [
    round(100_000 + 90_000 * math.sin(i / 20)) + i * 619 % 1000 for i in range(1000)
]
"""Answer times in microseconds that rise and fall together, as those of a queue do."""


def row(*records: StageRecord, run_spec: BenchmarkRunSpec | None = None) -> Result:
    """Of one load point with these repeats, in any order."""
    repeats = max(int(each.stage_id.rpartition("r")[2]) for each in records)
    used = run_spec or spec()
    cap = used.workloads[0].load.max_concurrency
    planned = load_point(repeats=repeats, max_concurrency=cap)
    sent = [each.model_copy(update={"load": planned.load}) for each in records]
    (found,) = results([planned], sent, [], spec=used).results
    assert (
        Result.model_validate(json.loads(found.model_dump_json(by_alias=True)))
        == found
    )
    return found


def stage(count: int, repeat: int = 1, **changes: Any) -> StageRecord:
    """Sent a quarter of a second apart; TTFT 20.001 ms, 20.002 ms ..., in no order."""
    any_order = sorted(range(count), key=lambda i: i * 619 % count)
    columns = {
        "start_us": [250_000 * i for i in range(count)],
        "ttft_us": [20_001 + i for i in any_order],
        "e2el_us": [120_001 + i for i in any_order],
        "output_tokens": [11] * count,
    }
    own = {
        name: changes.pop(name)
        for name in (*columns, "queue_us", "ok")
        if name in changes
    }
    values = {
        "requests": requests(**{**columns, **own}),
        "scalars": {"duration": count / 4},
    } | changes
    return record(f"chat/rate=4/r{repeat}", **values)


# ---- how sure percentiles are
# ---------------------------------------------------------------------------------------


def test_intervals_hold_the_percentile_and_widen_with_waves() -> None:
    """Of requests that rise and fall together batches scatter more than of others."""
    alone = row(stage(1000))
    queued = row(stage(1000, e2el_us=WAVES, ttft_us=[us // 2 for us in WAVES]))
    assert set(alone.intervals) == PERCENTILES
    assert alone.uncertain == []
    for each in (alone, queued):
        low, high = each.intervals["p50_e2el_ms"]
        assert low <= (each.figure("p50_e2el_ms") or 0) <= high

    def width(of: Result) -> float:
        low, high = of.intervals["p50_e2el_ms"]
        return high / low - 1

    assert width(alone) < 0.003
    assert width(queued) > 0.3


def test_intervals_have_five_digits() -> None:
    found = row(
        stage(
            1000,
            start_us=[200_000_000 * i for i in range(1000)],
            e2el_us=[123_456_789] * 1000,
        )
    )
    assert found.intervals["p50_e2el_ms"] == [123_460.0, 123_460.0]


@pytest.mark.parametrize(("uncertain", "count"), [(True, 550), (False, 570)])
def test_a_p99_takes_500_steady_requests(uncertain: bool, count: int) -> None:
    found = row(stage(count))
    assert ("p99_ttft_ms" in found.uncertain) == uncertain
    assert "p50_ttft_ms" not in found.uncertain


def test_repeats_are_counted_together() -> None:
    assert "p99_ttft_ms" not in row(stage(290, 1), stage(290, 2)).uncertain


def test_what_was_not_measured_is_neither_sure_nor_unsure() -> None:
    found = row(stage(1000, output_tokens=[1] * 1000))
    assert not any("tpot" in key for key in (*found.intervals, *found.uncertain))


# ---- goodput
# --------------------------------------------------------------------------------------------------------

TTFT_AND_TPOT = [
    {"metric": "TTFT", "maxMilliseconds": 21},
    {"metric": "TPOT", "maxMilliseconds": 9},
]


def test_goodput_needs_objectives() -> None:
    assert "request_goodput" not in row(stage(100)).metrics


@pytest.mark.parametrize(
    ("goodput", "objectives"),
    [
        pytest.param(4.0, TTFT_AND_TPOT[:1], id="TTFT at most 21 ms: all"),
        pytest.param(0.0, TTFT_AND_TPOT, id="TPOT at most 9 ms, too: none"),
        pytest.param(
            4.0,
            [{"metric": "ITL", "maxMilliseconds": 1}],
            id="ITL is no limit on requests",
        ),
    ],
)
def test_goodput(goodput: float, objectives: list[dict[str, Any]]) -> None:
    assert (
        row(stage(100), run_spec=spec(objectives=objectives)).metrics[
            "request_goodput"
        ]
        == goodput
    )


# ---- the client's queue
# ---------------------------------------------------------------------------------------------

WITH_QUEUE = {
    "client_queue_time",
    "e2el_including_client_queue",
    "ttft_including_client_queue",
}


def test_a_cap_under_a_rate_shows_the_wait_it_causes() -> None:
    found = row(stage(400, queue_us=[100_000] * 400), run_spec=CAPPED)
    assert found.metrics["p99_ttft_ms"] == 20.396
    assert found.metrics["p99_ttft_including_client_queue_ms"] == 120.4
    assert found.metrics["mean_client_queue_time_ms"] == 100.0
    assert found.metrics["median_e2el_including_client_queue_ms"] == 220.2
    assert {f"p99_{name}_ms" for name in WITH_QUEUE} < set(found.intervals)


def test_without_a_cap_there_is_no_such_figure() -> None:
    assert not any("queue" in key for key in row(stage(400)).metrics)


def test_objectives_and_goodput_count_from_when_a_request_was_due() -> None:
    objectives = [{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 100}]
    capped = CAPPED.model_copy(
        update={"objectives": spec(objectives=objectives).objectives}
    )
    met = row(stage(400), run_spec=capped)
    missed = row(stage(400, queue_us=[180_000] * 400), run_spec=capped)
    assert (met.objectives[0].outcome, met.metrics["request_goodput"]) == (
        "Met",
        4.0,
    )
    assert (missed.objectives[0].outcome, missed.metrics["request_goodput"]) == (
        "Missed",
        0.0,
    )


# ---- the steady state
# -----------------------------------------------------------------------------------------------


def test_steady_figures_leave_out_ramp_and_drain() -> None:
    """The first tenth of the sending is ramp: it was a hundred times slower."""
    found = row(stage(400, ttft_us=[90_000] * 30 + [20_000] * 370))
    assert found.steady["p99_ttft_ms"] == found.steady["mean_ttft_ms"] == 20.0
    assert found.metrics["p99_ttft_ms"] == 90.0
    assert {
        "request_throughput",
        "output_throughput",
        "median_e2el_ms",
        "mean_tpot_ms",
    } < set(found.steady)
    assert found.steady["request_throughput"] == pytest.approx(4.0, rel=0.01)


def test_steady_figures_are_pooled_over_repeats() -> None:
    fast = stage(400, 1)
    slow = stage(400, 2, ttft_us=[40_000] * 400)
    assert row(fast, slow).steady["mean_ttft_ms"] == pytest.approx(30.1, abs=0.1)


def test_without_a_plateau_there_are_latencies_alone_which_count_from_due() -> None:
    late = row(stage(10, queue_us=[5_000] * 10))
    assert all(key.endswith("_ms") for key in late.steady)
    assert late.steady["median_ttft_ms"] == pytest.approx(25.006, abs=2e-3)
    assert late.metrics["median_ttft_ms"] == pytest.approx(20.006, abs=2e-3)


# ---- repeats and traffic
# --------------------------------------------------------------------------------------------


def test_the_noise_of_the_repeats() -> None:
    found = row(
        *(
            stage(100, n, ttft_us=[ttft] * 100)
            for n, ttft in enumerate((90_000, 100_000, 110_000), 1)
        )
    )
    assert found.repeat_cv_percent["mean_ttft_ms"] == pytest.approx(10.0)
    assert found.repeat_cv_percent["output_throughput"] == 0.0


def test_one_repeat_has_no_noise() -> None:
    assert row(stage(100)).repeat_cv_percent == {}


def test_traffic_is_reported_by_the_prompts_in_order_of_repeats() -> None:
    one = stage(9, 1, prompts_digest="1" * 64)
    two = stage(9, 2, prompts_digest="2" * 64)
    expected = hashlib.sha256(("1" * 64 + "\n" + "2" * 64).encode()).hexdigest()
    assert row(one, two).traffic == row(two, one).traffic == expected
    assert row(one).traffic != expected


# ---- gaps between chunks
# --------------------------------------------------------------------------------------------


def test_gaps_between_chunks_of_several_tokens_are_not_shown() -> None:
    chunks = stage(400, gaps=GapCounts(us=(20_000,), count=(2000,)))
    found = row(
        chunks,
        stage(400, 2),
        run_spec=spec(objectives=[{"metric": "ITL", "maxMilliseconds": 100}]),
    )
    assert "ChunksAreNotTokens" in found.findings
    assert found.steady
    shown = (
        *found.metrics,
        *found.steady,
        *found.intervals,
        *found.repeat_cv_percent,
    )
    assert not any("itl" in key for key in shown)
    assert (
        found.objectives[0].outcome,
        found.objectives[0].measured_milliseconds,
    ) == (
        "Inconclusive",
        None,
    )


def test_a_load_point_without_records_reports_nothing() -> None:
    found = results(
        [load_point(), load_point(value="8")], [record()], [], spec=spec()
    ).results[1]
    assert (found.intervals, found.uncertain, found.steady, found.traffic) == (
        {},
        [],
        {},
        None,
    )
    assert (found.waiting, found.bottleneck) == (None, None)


# ---- how tokens were chosen, and what connections cost
# --------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "each"),
    [
        ("greedy", [SamplingParams(), SamplingParams()]),
        ("temperature 0.7", [SamplingParams(temperature=0.7)]),
        (None, [SamplingParams(), None]),
        (None, [SamplingParams(), SamplingParams(temperature=0.7)]),
    ],
)
def test_how_tokens_were_chosen(
    expected: str | None, each: list[SamplingParams | None]
) -> None:
    assert (
        row(
            *(
                stage(10, number, sampling=sampling)
                for number, sampling in enumerate(each, 1)
            )
        ).sampling
        == expected
    )


def test_set_up_of_connections_stands_beside_ttft() -> None:
    """Over all requests, so that it can be taken off the mean: 3 ms of 10 + 20 requests."""
    parts = (
        Connections(opened=2, total_us=2500, longest_us=2000),
        Connections(opened=1, total_us=500, longest_us=500),
    )
    found = row(
        *(stage(10 * n, n, connections=each) for n, each in enumerate(parts, 1))
    )
    assert (found.metrics["mean_connect_ms"], found.metrics["max_connect_ms"]) == (
        0.1,
        2.0,
    )


@pytest.mark.parametrize(
    "known", [[], [Connections(opened=0, total_us=0, longest_us=0)]]
)
def test_set_up_that_was_not_noted_is_not_zero(known: list[Connections]) -> None:
    records = [
        stage(10, n, connections=each) for n, each in enumerate([None, *known], 1)
    ]
    assert not any("connect" in key for key in row(*records).metrics)
