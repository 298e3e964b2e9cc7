"""Pooled figures of a load point: for one stage they are vLLM's own, for several those of one long
stage."""

import math
import statistics
from collections import Counter

import pytest
from benchrun.measure import (
    ANSWERED_PERCENT,
    CACHED_BY_ANSWERS,
    QUEUED_LATENCIES,
    RequestLimits,
    duration_seconds,
    failed_requests,
    goodput,
    latencies,
    percentile_word,
    pooled_metrics,
    pools_of,
    rounded,
)
from benchrun_client.contract import CachedTokens, GapCounts, StageRecord
from hypothesis import given, strategies as st
from unit.measure.records import record, requests
from unit.measure.test_distributions import numpy_linear


def metrics(
    *records: StageRecord, percentiles: tuple[str, ...] = ("50", "99")
) -> dict[str, float | None]:
    return pooled_metrics(records, pools_of(records), percentiles)


def vllm_figures(
    stage: StageRecord, percentiles: tuple[str, ...]
) -> dict[str, float]:
    """`calculate_metrics` of vLLM's benchmark, from seconds, request by request."""
    columns = stage.requests
    rows = [
        (ttft / 1e6, e2el / 1e6, tokens_in, tokens_out)
        for ttft, e2el, tokens_in, tokens_out, ok in zip(
            columns.ttft_us,
            columns.e2el_us,
            columns.input_tokens,
            columns.output_tokens,
            columns.ok,
            strict=True,
        )
        if ok
    ]
    lists = {
        "ttft": [row[0] for row in rows],
        "e2el": [row[1] for row in rows],
        "tpot": [(row[1] - row[0]) / (row[3] - 1) for row in rows if row[3] > 1],
        "itl": [
            us / 1e6
            for us, n in zip(stage.gaps.us, stage.gaps.count, strict=True)
            for _ in range(n)
        ],
    }
    duration = stage.scalars["duration"] or math.nan
    found: dict[str, float] = {
        "completed": len(rows),
        "failed": len(columns.ok) - len(rows),
        "duration": duration,
        "total_input_tokens": sum(row[2] for row in rows),
        "total_output_tokens": sum(row[3] for row in rows),
        "request_throughput": len(rows) / duration,
        "output_throughput": sum(row[3] for row in rows) / duration,
        "total_token_throughput": sum(row[2] + row[3] for row in rows) / duration,
    }
    for name, seconds in lists.items():
        if not seconds:
            continue
        found |= {
            f"mean_{name}_ms": 1000 * statistics.fmean(seconds),
            f"median_{name}_ms": 1000 * statistics.median(seconds),
            f"std_{name}_ms": 1000 * statistics.pstdev(seconds),
        }
        found |= {
            f"p{p}_{name}_ms": numpy_linear(
                [round(1e9 * s) for s in seconds], float(p)
            )
            / 1e6
            for p in percentiles
        }
    return found


ROWS = st.tuples(
    st.integers(1, 10**7),
    st.integers(0, 10**8),
    st.integers(0, 5000),
    st.integers(0, 500),
    st.integers(0, 1),
)


@st.composite
def stages(draw: st.DrawFn) -> StageRecord:
    rows = draw(st.lists(ROWS, min_size=1, max_size=60))
    counted = sorted(
        Counter(draw(st.lists(st.integers(0, 10**6), max_size=80))).items()
    )
    return record(
        scalars={"duration": draw(st.floats(0.01, 10_000))},
        requests=requests(
            ttft_us=[row[0] for row in rows],
            e2el_us=[row[0] + row[1] for row in rows],
            input_tokens=[row[2] for row in rows],
            output_tokens=[row[3] for row in rows],
            ok=[row[4] for row in rows],
        ),
        gaps=GapCounts(
            us=tuple(us for us, _ in counted), count=tuple(n for _, n in counted)
        ),
    )


@given(stages())
def test_one_stage_has_vllms_own_figures(stage: StageRecord) -> None:
    percentiles = ("50", "95", "99.9")
    ours = metrics(stage, percentiles=percentiles)
    theirs = vllm_figures(stage, percentiles)
    assert {name for name, value in ours.items() if value is not None} - {
        ANSWERED_PERCENT
    } == set(theirs)
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, rel=6e-5, abs=2e-6), name


@given(stages(), stages())
def test_pooled_counts_are_sums_and_rates_are_totals_over_summed_durations(
    one: StageRecord, other: StageRecord
) -> None:
    pooled = metrics(one, other)
    single = [vllm_figures(stage, ()) for stage in (one, other)]
    duration = sum(s["duration"] for s in single)
    for name in (
        "completed",
        "failed",
        "total_input_tokens",
        "total_output_tokens",
    ):
        assert pooled[name] == sum(s[name] for s in single)
    assert pooled["request_throughput"] == pytest.approx(
        sum(s["completed"] for s in single) / duration, rel=6e-5
    )
    assert pooled["output_throughput"] == pytest.approx(
        sum(s["total_output_tokens"] for s in single) / duration, rel=6e-5
    )


@given(stages(), stages())
def test_the_order_of_repeats_does_not_matter(
    one: StageRecord, other: StageRecord
) -> None:
    assert metrics(one, other) == metrics(other, one)


def test_keys_are_vllms() -> None:
    assert list(metrics(record(), percentiles=("99", "99.9"))) == [
        "completed",
        "failed",
        "duration",
        "total_input_tokens",
        "total_output_tokens",
        "request_throughput",
        "output_throughput",
        "total_token_throughput",
        *(
            f"{figure}_{latency}_ms"
            for latency in ("ttft", "tpot", "itl", "e2el")
            for figure in ("mean", "median", "std", "p99", "p99.9")
        ),
    ]


@pytest.mark.parametrize(
    ("word", "percentile"),
    [
        pytest.param("99", "99", id="whole"),
        pytest.param("99", "99.0", id="whole with a point"),
        pytest.param("99.9", "99.9", id="a decimal"),
        pytest.param("99.9", "99.90", id="a trailing zero"),
        pytest.param("0.5", "0.5", id="below one"),
    ],
)
def test_percentiles_are_written_as_vllm_writes_them(
    word: str, percentile: str
) -> None:
    assert percentile_word(percentile) == word


def test_the_pool_of_two_repeats_is_not_the_mean_of_their_percentiles() -> None:
    slow = record(
        "chat/rate=4/r2",
        requests=requests(ttft_us=(90_000, 90_000), e2el_us=(99_000, 99_000)),
    )
    assert latencies([record(), slow], "ttft").percentile(50) == 60_000


def test_failed_requests_have_no_latency() -> None:
    stage = record(
        requests=requests(
            ttft_us=(1, 30_000),
            e2el_us=(1, 130_000),
            output_tokens=(0, 11),
            ok=(0, 1),
        )
    )
    found = metrics(stage)
    assert (found["completed"], found["failed"], found["mean_ttft_ms"]) == (
        1,
        1,
        30.0,
    )
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (100, 11)
    assert failed_requests(stage) == 1


def test_one_token_answers_have_no_tpot() -> None:
    stage = record(
        requests=requests(
            ttft_us=(20, 20), e2el_us=(20, 1_000_020), output_tokens=(1, 101)
        )
    )
    assert list(latencies([stage], "tpot").values) == [10_000.0]


def test_nothing_answered_leaves_latencies_empty_and_rates_zero() -> None:
    found = metrics(record(requests=requests(ok=(0, 0)), gaps=GapCounts()))
    assert (found["completed"], found["failed"], found["output_throughput"]) == (
        0,
        2,
        0.0,
    )
    assert {value for name, value in found.items() if name.endswith("_ms")} == {
        None
    }


def test_no_stage_at_all_has_no_rates() -> None:
    found = metrics()
    assert (found["completed"], found["duration"], found["request_throughput"]) == (
        0,
        0.0,
        None,
    )


@pytest.mark.parametrize(
    ("seconds", "scalars"),
    [
        pytest.param(9.5, {"duration": 9.5}, id="the engine's own"),
        pytest.param(10.0, {}, id="first send to last answer"),
        pytest.param(10.0, {"duration": 0.0}, id="zero says nothing"),
        pytest.param(10.0, {"duration": None}, id="nor does null"),
    ],
)
def test_duration_of_a_stage(
    seconds: float, scalars: dict[str, float | None]
) -> None:
    assert duration_seconds(record(scalars=scalars)) == seconds


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        pytest.param(143.21, 143.2149, id="five digits"),
        pytest.param(0.0012346, 0.00123456, id="of a small number"),
        pytest.param(123460.0, 123456.7, id="of a large number"),
        pytest.param(None, None, id="nothing stays nothing"),
    ],
)
def test_rounding(expected: float | None, value: float | None) -> None:
    assert rounded(value) == expected


def test_counts_are_not_rounded() -> None:
    stage = record(
        requests=requests(
            output_tokens=(1_234_567, 1), ttft_us=(1, 1), e2el_us=(2, 2)
        )
    )
    assert metrics(stage)["total_output_tokens"] == 1_234_568


@pytest.mark.parametrize(
    ("told", "percent"),
    [
        ([(4, 400, 100), (4, 100, 100)], 40.0),
        ([(4, 400, 0)], 0.0),
        # An answer that does not say it may have found all or nothing.
        ([(3, 300, 100)], None),
        ([(4, 400, 100), None], None),
        ([(4, 0, 0)], None),
        ([None], None),
    ],
)
def test_the_cached_share_by_answers_is_known_if_all_of_them_tell(
    told: list[tuple[int, int, int] | None], percent: float | None
) -> None:
    columns = requests(ttft_us=[1] * 4, e2el_us=[2] * 4, output_tokens=[2] * 4)
    stages = [
        record(
            requests=columns,
            cached=None
            if each is None
            else CachedTokens(
                answers=each[0], prompt_tokens=each[1], cached_tokens=each[2]
            ),
        )
        for each in told
    ]
    assert metrics(*stages).get(CACHED_BY_ANSWERS) == percent


@pytest.mark.parametrize(
    ("ok", "percent"),
    [((1, 1, 1, 1), None), ((1, 0, 1, 1), 75.0), ((0, 0, 0, 0), 0.0)],
)
def test_latencies_say_of_what_share_of_requests_they_are(
    ok: tuple[int, ...], percent: float | None
) -> None:
    columns = requests(
        ttft_us=[1] * 4, e2el_us=[2] * 4, output_tokens=[2] * 4, ok=ok
    )
    assert metrics(record(requests=columns)).get(ANSWERED_PERCENT) == percent


# Good requests a second. The default stage has two requests in ten seconds: TTFT 20 and 30, E2EL
# 120 and 130, TPOT 10 ms.


@pytest.mark.parametrize(
    ("good", "limits"),
    [
        pytest.param(2, RequestLimits(), id="no limit"),
        pytest.param(1, RequestLimits(ttft_ms=20), id="the limit itself is kept"),
        pytest.param(0, RequestLimits(ttft_ms=19), id="TTFT"),
        pytest.param(1, RequestLimits(e2el_ms=120), id="E2EL"),
        pytest.param(2, RequestLimits(tpot_ms=10), id="TPOT kept"),
        pytest.param(0, RequestLimits(tpot_ms=9.9), id="TPOT not kept"),
        pytest.param(
            0, RequestLimits(ttft_ms=20, tpot_ms=9.9), id="every limit counts"
        ),
    ],
)
def test_limits(good: int, limits: RequestLimits) -> None:
    assert goodput([record()], limits) == pytest.approx(good / 10)


def test_an_answer_of_one_token_has_no_time_per_token_to_keep() -> None:
    one_token = record(requests=requests(output_tokens=(1, 11)))
    assert goodput([one_token], RequestLimits(tpot_ms=1)) == pytest.approx(0.1)


def test_a_failed_request_is_not_good() -> None:
    assert goodput(
        [record(requests=requests(ok=(1, 0)))], RequestLimits()
    ) == pytest.approx(0.1)


def test_the_wait_in_the_clients_queue_counts_with_the_option() -> None:
    waited = record(requests=requests(queue_us=(1000, 90_000)))
    limits = RequestLimits(ttft_ms=35)
    assert goodput([waited], limits) == pytest.approx(0.2)
    assert goodput([waited], limits, since_due=True) == pytest.approx(0.1)
    assert goodput(
        [waited], RequestLimits(e2el_ms=130), since_due=True
    ) == pytest.approx(0.1)


def test_repeats_are_pooled() -> None:
    longer = record(scalars={"duration": 30.0})
    assert goodput([record(), longer], RequestLimits()) == pytest.approx(4 / 40)


def test_nothing_measured_has_no_goodput() -> None:
    assert goodput([], RequestLimits()) is None


# Latencies with the wait in the client.

WAITED = record(requests=requests(queue_us=(0, 50_000)))


def test_since_a_request_was_due() -> None:
    means = {
        name: pool.mean()
        for name, pool in pools_of([WAITED], QUEUED_LATENCIES).items()
    }
    assert means == {
        "client_queue_time": 25_000,
        "ttft_including_client_queue": 50_000,
        "e2el_including_client_queue": 150_000,
    }


def test_failed_requests_are_left_out() -> None:
    failed = record(requests=requests(queue_us=(0, 50_000), ok=(1, 0)))
    assert {
        pool.count for pool in pools_of([failed], QUEUED_LATENCIES).values()
    } == {1}


def test_repeats_are_pooled_client_queue() -> None:
    assert {
        pool.count
        for pool in pools_of([WAITED, record()], QUEUED_LATENCIES).values()
    } == {4}
