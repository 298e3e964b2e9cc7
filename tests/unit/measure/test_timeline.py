"""The timeline: packed and read back the same, thinned without losing extremes, summed up for
status.live."""

import gzip
import json
import tracemalloc
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from benchrun.api import Live
from benchrun.measure import (
    FULL_DETAIL_SAMPLES,
    MAX_SAMPLES,
    MAX_TIMELINE_BYTES,
    bucket_size,
    bucketed,
    decode,
    encode,
    live,
)
from benchrun.measure.metrics_page import Sample, parse_sample
from benchrun_client.engines import ENGINES
from hypothesis import given, strategies as st
from unit.measure.records import sample

VLLM = ENGINES["VLLM"]

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECOND = NOW.timestamp()

FIGURE = st.one_of(
    st.none(),
    st.integers(0, 10**9).map(float),
    st.integers(0, 10**6).map(lambda n: n / 10**6),
)
SAMPLES = st.lists(
    st.builds(
        Sample,
        at=st.integers(0, 2 * 10**12).map(lambda ms: ms / 1000),
        role=st.sampled_from(["server", "decode"]),
        pod=st.sampled_from(["a", "b", "c"]),
        running=FIGURE,
        waiting=FIGURE,
        kv_cache=FIGURE,
        generation_tokens=FIGURE,
        start_time=FIGURE,
    ),
    max_size=40,
    unique_by=lambda s: (s.at, s.role, s.pod),
)


@given(SAMPLES)
def test_packed_and_read_back_is_the_same(samples: list[Sample]) -> None:
    timeline = bucketed(samples, 1)
    assert decode(encode(timeline)) == timeline


def test_a_start_time_read_is_the_one_read_back() -> None:
    page = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1763748999.1234567\n"
    read = parse_sample(page, VLLM, at=5.0, role="server", pod="a")
    assert read.start_time is not None
    assert decode(encode((read,)))[0].start_time == read.start_time


@given(SAMPLES, st.integers(2, 9))
def test_so_are_buckets_but_for_the_sixth_decimal(
    samples: list[Sample], size: int
) -> None:
    timeline = bucketed(samples, size)
    repeated = decode(encode(timeline))
    assert decode(encode(repeated)) == repeated
    assert Counter((s.role, s.pod) for s in repeated) == Counter(
        (s.role, s.pod) for s in timeline
    )


def test_equal_timelines_have_equal_bytes() -> None:
    samples = [sample(float(i)) for i in range(5)]
    assert encode(bucketed(samples, 1)) == encode(bucketed(reversed(samples), 1))


def test_an_hour_of_one_server_is_small() -> None:
    samples = [
        sample(
            1.7e9 + i * 1.003,
            generation_tokens=float(i * 37),
            kv_cache=(i % 97) / 97,
        )
        for i in range(3600)
    ]
    assert len(encode(bucketed(samples, 1))) < 40_000


def test_figures_nobody_reported_take_no_room() -> None:
    document = json.loads(gzip.decompress(encode((sample(1.0, kv_cache=None),))))
    assert "kv_cache" not in document["servers"][0]
    assert decode(encode((sample(1.0, kv_cache=None),)))[0].kv_cache is None


def packed(document: Any) -> bytes:
    return gzip.compress(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("complaint", "data"),
    [
        pytest.param("not a timeline", b"plain", id="not gzip"),
        pytest.param("not a timeline", b"", id="empty"),
        pytest.param("cut short", encode((sample(1.0),))[:-9], id="cut short"),
        pytest.param(
            "larger than",
            gzip.compress(b" " * (MAX_TIMELINE_BYTES + 1)),
            id="a bomb",
        ),
        pytest.param("not a timeline", gzip.compress(b"{"), id="not JSON"),
        pytest.param(
            "not a timeline", gzip.compress(b"[" * 200_000), id="nested without end"
        ),
        pytest.param("not a timeline", packed([]), id="a list"),
        pytest.param(
            "schema", packed({"schema": "benchrun.timeline/9"}), id="another schema"
        ),
        pytest.param(
            "must have 2 values",
            packed(
                {
                    "schema": "benchrun.timeline/1",
                    "servers": [
                        {"role": "r", "pod": "p", "at": [1, 1], "running": [1]}
                    ],
                }
            ),
            id="uneven columns",
        ),
        pytest.param(
            "not a timeline",
            packed({"schema": "benchrun.timeline/1", "servers": [{"role": "r"}]}),
            id="no instants",
        ),
        pytest.param(
            "not a timeline",
            packed({"schema": "benchrun.timeline/1", "servers": 3}),
            id="no servers",
        ),
    ],
)
def test_an_invalid_timeline_is_rejected(complaint: str, data: bytes) -> None:
    with pytest.raises(ValueError, match=complaint) as refusal:
        decode(data)
    assert len(str(refusal.value)) < 300


HOSTILE = {
    "an infinite instant": '{"role":"r","pod":"p","at":[1e999]}',
    "an infinite figure": '{"role":"r","pod":"p","at":[1],"running":[1e999]}',
    "a figure that no server has": '{"role":"r","pod":"p","at":[1],"running":[1e308]}',
    "a negative figure": '{"role":"r","pod":"p","at":[1],"running":[-1]}',
    "no number": '{"role":"r","pod":"p","at":[1],"running":[NaN]}',
    "a flag": '{"role":"r","pod":"p","at":[1],"running":[true]}',
    "a word": '{"role":"r","pod":"p","at":[1],"running":"1"}',
    "a whole number without end": '{"role":"r","pod":"p","at":[1],"running":[1'
    + "0" * 4000
    + "]}",
    "an instant after the last": '{"role":"r","pod":"p","at":[253402300800000]}',
    "an instant before the first": '{"role":"r","pod":"p","at":[5,-6]}',
    "half an instant": '{"role":"r","pod":"p","at":[1.5]}',
    "a role of another type": '{"role":{},"pod":"p","at":[1]}',
    "a pod without end": '{"role":"r","pod":"' + "p" * 254 + '","at":[1]}',
    "more samples than may be": '{"role":"r","pod":"p","at":['
    + "0," * MAX_SAMPLES
    + "0]}",
    "more values than may be": '{"role":"r","pod":"p","at":[1]},'
    + "[]," * 70_000
    + "[]",
}


@pytest.mark.parametrize("server", HOSTILE.values(), ids=HOSTILE)
def test_an_impossible_server_value_is_rejected(server: str) -> None:
    with pytest.raises(ValueError, match="not a timeline"):
        decode(
            gzip.compress(
                f'{{"schema":"benchrun.timeline/1","servers":[{server}]}}'.encode()
            )
        )


@pytest.mark.parametrize("unit", ["0,", "[],", "{},", '"ab",', "1e9,"])
def test_little_that_unfolds_to_much_costs_little(unit: str) -> None:
    servers = unit * ((MAX_TIMELINE_BYTES - 100) // len(unit)) + "0"
    data = gzip.compress(
        f'{{"schema":"benchrun.timeline/1","servers":[],"more":[{servers}]}}'.encode()
    )
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="not a timeline"):
            decode(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24 * 1024 * 1024


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "pod", "at", "running", "start_time", "x"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(
    st.binary(max_size=80)
    | st.binary(max_size=80).map(gzip.compress)
    | st.dictionaries(st.sampled_from(["servers", "low", "high", "x"]), VALUES).map(
        lambda document: packed({"schema": "benchrun.timeline/1", **document})
    )
)
def test_any_bytes_are_a_timeline_or_refused(data: bytes) -> None:
    try:
        found = decode(data)
    except ValueError:
        return
    assert decode(encode(bucketed(found, 4))) is not None
    live(found, NOW)


def test_many_samples_go_into_larger_buckets_and_can_be_read_back() -> None:
    many = [
        sample(float(n // 16), pod=f"p{n % 16}", running=float(n))
        for n in range(2 * MAX_SAMPLES)
    ]
    found = decode(encode(bucketed(many, 1)))
    assert len(found) == MAX_SAMPLES
    assert max((s.high or s).running or 0 for s in found) == 2 * MAX_SAMPLES - 1


def test_a_bucket_has_mean_least_and_greatest() -> None:
    samples = [
        sample(float(i), running=running)
        for i, running in enumerate((1.0, 5.0, 3.0, 7.0))
    ]
    found = bucketed(samples, 3)
    assert [(s.at, s.running) for s in found] == [(1.0, 3.0), (3.0, 7.0)]
    ends = [
        (s.low.running, s.high.running)
        for s in decode(encode(found))
        if s.low and s.high
    ]
    assert ends == [(1.0, 5.0), (7.0, 7.0)]


@given(SAMPLES, st.integers(2, 9))
def test_buckets_keep_the_extremes_of_every_server(
    samples: list[Sample], size: int
) -> None:
    found = bucketed(samples, size)
    for pod in ("a", "b", "c"):
        values = [
            s.running for s in samples if s.pod == pod and s.running is not None
        ]
        low = [
            s.low.running
            for s in found
            if s.pod == pod and s.low and s.low.running is not None
        ]
        high = [
            s.high.running
            for s in found
            if s.pod == pod and s.high and s.high.running is not None
        ]
        assert (min(low, default=None), max(high, default=None)) == (
            min(values, default=None),
            max(values, default=None),
        )


def test_a_bucket_leaves_silent_samples_out_of_the_mean() -> None:
    found = bucketed([sample(0.0, running=None), sample(1.0, running=4.0)], 2)
    assert [s.running for s in found] == [4.0]


def test_a_bucket_does_not_mix_start_times() -> None:
    (found,) = bucketed(
        [sample(0.0, start_time=10.0), sample(1.0, start_time=20.0)], 2
    )
    assert found.low is not None
    assert [s.start_time for s in (found, found.low)] == [20.0, 20.0]


def test_an_error_number_is_the_last_one_and_no_mean() -> None:
    (found,) = bucketed(
        [sample(0.0, gpu_xid=13.0), sample(1.0, gpu_xid=31.0), sample(2.0)], 3
    )
    assert found.gpu_xid == 31.0


def test_a_bucket_of_buckets_keeps_the_extremes() -> None:
    twice = bucketed(
        bucketed([sample(float(i), running=float(i)) for i in range(4)], 2), 2
    )
    assert [
        (s.running, s.low and s.low.running, s.high and s.high.running)
        for s in twice
    ] == [(1.5, 0.0, 3.0)]


@pytest.mark.parametrize(
    ("size", "taken"),
    [
        pytest.param(1, 0, id="the first"),
        pytest.param(1, FULL_DETAIL_SAMPLES - 1, id="the last in full detail"),
        pytest.param(16, FULL_DETAIL_SAMPLES, id="the first bucket"),
        pytest.param(
            16, 2 * FULL_DETAIL_SAMPLES - 1, id="until the run has doubled"
        ),
        pytest.param(32, 2 * FULL_DETAIL_SAMPLES, id="then twice as large"),
        pytest.param(64, 4 * FULL_DETAIL_SAMPLES, id="and again"),
    ],
)
def test_bucket_size(size: int, taken: int) -> None:
    assert bucket_size(taken) == size


def test_a_week_of_thirteen_servers_stays_under_3600_samples() -> None:
    taken = 0
    kept = 0.0
    while taken < 13 * 7 * 86_400:
        kept += FULL_DETAIL_SAMPLES / bucket_size(taken)
        taken += FULL_DETAIL_SAMPLES
    assert kept <= 3600


def test_live_figures_of_two_servers() -> None:
    samples = (
        sample(
            SECOND - 3,
            pod="a",
            running=9.0,
            generation_tokens=100.0,
            prompt_tokens=0.0,
        ),
        sample(
            SECOND - 1,
            pod="a",
            running=2.0,
            generation_tokens=150.0,
            prompt_tokens=40.0,
            kv_cache=0.2,
            preemptions=1.0,
        ),
        sample(
            SECOND - 4,
            pod="b",
            running=9.0,
            generation_tokens=10.0,
            prompt_tokens=0.0,
        ),
        sample(
            SECOND - 2,
            pod="b",
            running=3.0,
            generation_tokens=20.0,
            prompt_tokens=0.0,
            kv_cache=0.4,
            preemptions=2.0,
        ),
    )
    assert live(samples, NOW) == Live(
        at="2026-01-02T03:04:04Z",
        running=5.0,
        waiting=0.0,
        kv_cache_percent=40.0,
        generation_tokens_per_second=30.0,  # 50 / 2 s + 10 / 2 s
        prompt_tokens_per_second=20.0,
        preemptions=3.0,
    )


@pytest.mark.parametrize(
    ("rate", "samples"),
    [
        pytest.param(None, [sample(SECOND)], id="one reading has no rate"),
        pytest.param(
            None,
            [
                sample(SECOND - 1, generation_tokens=50.0),
                sample(SECOND, generation_tokens=3.0),
            ],
            id="a restart has none",
        ),
        pytest.param(
            None,
            [
                sample(SECOND - 1, generation_tokens=None),
                sample(SECOND, generation_tokens=3.0),
            ],
            id="nor a silent page",
        ),
        pytest.param(
            None,
            [sample(SECOND), sample(SECOND)],
            id="nor two readings of one instant",
        ),
        pytest.param(
            0.0,
            [
                sample(SECOND - 1, generation_tokens=3.0),
                sample(SECOND, generation_tokens=3.0),
            ],
            id="an idle server has 0",
        ),
    ],
)
def test_live_rate(rate: float | None, samples: list[Sample]) -> None:
    found = live(samples, NOW)
    assert found is not None
    assert found.generation_tokens_per_second == rate


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param([], id="nothing read yet"),
        pytest.param([sample(SECOND - 61)], id="the last reading is a minute old"),
    ],
)
def test_no_live_figures(samples: list[Sample]) -> None:
    assert live(samples, NOW) is None


def test_a_server_that_is_gone_no_longer_counts() -> None:
    found = live(
        [
            sample(SECOND - 90, pod="gone", running=7.0),
            sample(SECOND, pod="here", running=1.0),
        ],
        NOW,
    )
    assert found is not None
    assert found.running == 1.0


def test_what_no_server_said_is_none_in_live_figures() -> None:
    found = live([sample(SECOND, running=None, kv_cache=None, waiting=0.0)], NOW)
    assert found is not None
    assert (found.running, found.waiting, found.kv_cache_percent) == (
        None,
        0.0,
        None,
    )


def test_a_little_in_a_large_cache_is_not_nothing() -> None:
    found = live([sample(SECOND, kv_cache=100 / 1_000_000)], NOW)
    assert found is not None
    assert found.kv_cache_percent == 0.01
