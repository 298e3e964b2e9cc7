"""Parts of a stage put together say what the stage itself would have said, to the last digit."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from statistics import fmean, pstdev
from typing import Any

import pytest
from benchrun_client.contract import (
    AnswerCheck,
    CachedTokens,
    Connections,
    Distribution,
    Shards,
    StageRecord,
    Streams,
    open_record,
    seal,
)
from benchrun_client.shards.merging import ShardedStage, figures_of, merged
from benchrun_client.stage_record import Instants, RawStage, Thought, record_of
from hypothesis import given, strategies as st
from unit.client.plans import raw_stage

PER_REQUEST = (
    "due",
    "sent",
    "answered",
    "ok",
    "ended",
    "ttfts",
    "itls",
    "input_lens",
    "expected_lens",
    "output_lens",
    "requested_lens",
    "errors",
)
INSTANTS = {each.name for each in dataclasses.fields(Instants)}
NAMES = dict.fromkeys(
    (
        *(
            f"{word}_{latency}_ms"
            for word in ("mean", "median", "std", "p50", "p99.9")
            for latency in ("ttft", "tpot", "itl", "e2el")
        ),
        *(
            "duration",
            "completed",
            "failed",
            "total_input_tokens",
            "total_output_tokens",
            "request_throughput",
        ),
        *(
            "output_throughput",
            "total_token_throughput",
            "max_concurrent_requests",
            "num_prompts",
            "max_concurrency",
        ),
        *("p99_client_queue_time_ms", "max_output_tokens_per_s"),
    ),
    0.0,
)
TOGETHER = ShardedStage(
    shards=Shards(count=2, start_skew_us=300, clock_error_us=40),
    began_unix_us=1_700_000_100_000_000,
)


@st.composite
def stages(draw: st.DrawFn) -> RawStage:
    """A stage of requests in order of sending."""
    micro = st.integers(min_value=1, max_value=3_000_000)
    rows: list[dict[str, Any]] = []
    sent = 100.0
    for _ in range(draw(st.integers(min_value=1, max_value=25))):
        # Later than the one before: whom the merge puts first is else a matter of taste.
        sent += draw(micro) / 1e6
        ok = draw(st.booleans())
        itls = (
            draw(st.lists(micro.map(lambda us: us / 1e6), max_size=5)) if ok else []
        )
        ttft = draw(micro) / 1e6 if ok else 0.0
        rows.append(
            {
                "due": sent - draw(st.integers(min_value=0, max_value=1000)) / 1e6,
                "sent": sent,
                "answered": sent + ttft + sum(itls) + 0.001,
                "ok": ok,
                "ended": ok,
                "ttfts": ttft,
                "itls": itls,
                "input_lens": draw(st.integers(min_value=1, max_value=90)),
                "expected_lens": draw(st.integers(min_value=1, max_value=90)),
                "output_lens": len(itls) + 1 if ok else 0,
                "requested_lens": 6,
                "errors": ""
                if ok
                else draw(st.sampled_from(["Bad Request", "Reset"])),
            }
        )
    return whole(rows)


def whole(rows: Sequence[dict[str, Any]], **changes: Any) -> RawStage:
    columns = {name: [row[name] for row in rows] for name in PER_REQUEST}
    return raw_stage(
        **{
            **columns,
            "scalars": NAMES,
            "unix_minus_perf": 1_700_000_000.0,
            **changes,
        }
    )


def rows_of(raw: RawStage) -> list[dict[str, Any]]:
    columns = {
        name: getattr(raw.instants if name in INSTANTS else raw, name)
        for name in PER_REQUEST
    }
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def on_another_clock(row: dict[str, Any], ahead: float) -> dict[str, Any]:
    return {
        **row,
        **{name: row[name] + ahead for name in ("due", "sent", "answered")},
    }


def split(raw: RawStage, shards: Sequence[int]) -> list[StageRecord]:
    """The parts, that of the first request first, each on a clock of its own."""
    parts = []
    for number, shard in enumerate(sorted(set(shards), key=shards.index)):
        ahead = 512.0 * number
        rows = [
            on_another_clock(row, ahead)
            for row, its in zip(rows_of(raw), shards, strict=True)
            if its == shard
        ]
        parts.append(
            record_of(whole(rows, unix_minus_perf=raw.unix_minus_perf - ahead))
        )
    return parts


@given(st.data())
def test_a_stage_split_any_way_is_the_same_put_together(
    data: st.DataObject,
) -> None:
    raw = data.draw(stages())
    shards = data.draw(
        st.lists(
            st.integers(0, 3),
            min_size=len(raw.instants.sent),
            max_size=len(raw.instants.sent),
        )
    )
    one = record_of(raw)
    parts = split(raw, shards)
    several = merged(parts, TOGETHER)
    for name in type(one.requests).model_fields:
        mine = getattr(several.requests, name)
        theirs = getattr(one.requests, name)
        # Another clock's instants are other floats: the last microsecond may round the other way.
        assert mine == (
            pytest.approx(theirs, abs=2)
            if name in ("start_us", "queue_us")
            else theirs
        ), name
    assert (several.gaps, several.errors) == (one.gaps, one.errors)
    assert several.first_send_unix_us == pytest.approx(
        one.first_send_unix_us, abs=2
    )
    assert several.last_receive_unix_us == pytest.approx(
        one.last_receive_unix_us, abs=2
    )
    assert several.idle_before_us == pytest.approx(one.idle_before_us, abs=2)
    figures = figures_of(
        one.requests, one.gaps, duration_seconds=1, max_concurrency=7, wanted=NAMES
    )
    latencies = [
        name for name in figures if name.endswith("_ms") and "queue" not in name
    ]
    assert [several.scalars[name] for name in latencies] == [
        figures[name] for name in latencies
    ]


@given(stages())
def test_figures_are_those_of_their_definitions(raw: RawStage) -> None:
    record = record_of(raw)
    columns = record.requests
    ok = [i for i, good in enumerate(record.requests.ok) if good]
    figures = figures_of(
        columns,
        record.gaps,
        duration_seconds=2.0,
        max_concurrency=None,
        wanted=NAMES,
    )
    values = {
        "ttft": [columns.ttft_us[i] / 1000 for i in ok],
        "tpot": [
            (columns.e2el_us[i] - columns.ttft_us[i])
            / (columns.output_tokens[i] - 1)
            / 1000
            for i in ok
            if columns.output_tokens[i] > 1
        ],
        "itl": [
            us / 1000
            for us, n in zip(record.gaps.us, record.gaps.count, strict=True)
            for _ in range(n)
        ],
        "e2el": [columns.e2el_us[i] / 1000 for i in ok],
    }
    for latency, sample in values.items():
        assert figures[f"mean_{latency}_ms"] == pytest.approx(
            fmean(sample) if sample else 0.0
        )
        assert figures[f"std_{latency}_ms"] == pytest.approx(
            pstdev(sample) if sample else 0.0, abs=1e-6
        )
        for percent, name in (
            (Fraction(50), "median"),
            (Fraction(50), "p50"),
            (Fraction("99.9"), "p99.9"),
        ):
            assert figures[f"{name}_{latency}_ms"] == pytest.approx(
                linear(sample, percent)
            )
    assert (figures["completed"], figures["failed"]) == (
        len(ok),
        len(columns.ok) - len(ok),
    )
    assert figures["request_throughput"] == len(ok) / 2.0
    assert "max_output_tokens_per_s" not in figures


def linear(sample: Sequence[float], percent: Fraction) -> float:
    """A percentile between neighbours, by exact arithmetic."""
    if not sample:
        return 0.0
    ascending = [Fraction(value) for value in sorted(sample)]
    place = (len(ascending) - 1) * percent / 100
    below = ascending[int(place)]
    above = ascending[min(int(place) + 1, len(ascending) - 1)]
    return float(below + (above - below) * (place - int(place)))


def test_percentiles_are_rounded_as_numpys_are() -> None:
    """`numpy.percentile` of these, which reckons from the upper neighbour where that is nearer;
    from the lower it is
    904.1974500000001."""
    assert (
        Distribution.of([332.695, 721.484, 711.192, 936.441]).percentile(95.0)
        == 904.19745
    )


def test_the_busiest_second_counts_those_under_way_in_it() -> None:
    def row(sent: float, took: float) -> dict[str, Any]:
        return {
            **rows_of(raw_stage())[0],
            "due": sent,
            "sent": sent,
            "answered": sent + took,
            "ttfts": took,
            "itls": [],
        }

    record = record_of(
        whole([row(100.0, 0.5), row(100.9, 0.3), row(101.5, 1.0), row(101.9, 0.2)])
    )
    figures = figures_of(
        record.requests,
        record.gaps,
        duration_seconds=1,
        max_concurrency=None,
        wanted={"max_concurrent_requests": 0},
    )
    assert figures == {"max_concurrent_requests": 3}


def parts(**second: Any) -> list[StageRecord]:
    return [
        record_of(raw_stage(scalars=NAMES)),
        record_of(
            raw_stage(
                **{
                    "scalars": NAMES,
                    "cpu_seconds": 0.25,
                    "wall_seconds": 2.5,
                    "throttled_periods": 3,
                    "lost_segments": 4,
                    "lags": [0.5],
                    "repeated_tokens": 5,
                    "servers": (),
                    **second,
                }
            )
        ),
    ]


def test_what_a_client_costs_is_added_and_what_holds_it_back_is_the_worst() -> None:
    client = merged(parts(), TOGETHER).client
    assert (client.cpu_seconds, client.wall_seconds, client.processes) == (
        0.75,
        2.5,
        2,
    )
    assert (client.throttled_periods, client.lost_segments) == (3, 4)
    lags = {client.lag_p99_us, client.lag_thrice_us, client.lag_max_us}
    assert lags == {500_000}


@pytest.mark.parametrize(
    ("second", "together"),
    [
        (
            Connections(opened=1, total_us=900, longest_us=900),
            Connections(opened=3, total_us=2400, longest_us=1400),
        ),
        (None, None),
    ],
)
def test_connections_are_those_of_all_shards(
    second: Connections | None, together: Connections | None
) -> None:
    first = Connections(opened=2, total_us=1500, longest_us=1400)
    parts = [
        record_of(raw_stage()).model_copy(update={"connections": each})
        for each in (first, second)
    ]
    assert merged(parts, TOGETHER).connections == together


@pytest.mark.parametrize(
    ("expected", "second"),
    [
        pytest.param((None, None), {}, id="no node tells"),
        pytest.param(
            (9.0, 0.5),
            {"node_cpu_seconds": 9.0, "stolen_seconds": 0.5},
            id="one does",
        ),
    ],
)
def test_the_node_with_most_stolen_cpu_counts(
    expected: tuple[float | None, float | None], second: dict[str, float]
) -> None:
    client = merged(parts(**second), TOGETHER).client
    assert (client.node_cpu_seconds, client.stolen_seconds) == expected


def test_what_only_the_first_has_seen_is_reported_by_it() -> None:
    first, _ = both = parts()
    record = merged(both, TOGETHER)
    assert (record.servers, record.repeated_tokens) == (first.servers, 5)
    assert record.shards is not None
    assert (
        record.shards.count,
        record.shards.start_skew_us,
        record.shards.clock_error_us,
    ) == (
        2,
        300,
        40,
    )
    assert record.scalars["max_concurrency"] == 2


def test_the_idle_time_ends_with_whoever_sends_first() -> None:
    early = {"due": [99.9, 99.9], "sent": [99.9, 100.5]}
    assert merged(parts(), TOGETHER).idle_before_us == 250_000
    assert merged(parts(**early), TOGETHER).idle_before_us == 150_000


def test_the_duration_is_from_the_agreed_instant_to_the_last_answer() -> None:
    late = dataclasses.replace(TOGETHER, began_unix_us=1_700_000_099_000_000)
    assert merged(parts(), late).scalars["duration"] == pytest.approx(2.5)


@pytest.mark.parametrize("name", ["prompts_digest", "plan_digest"])
def test_parts_of_other_traffic_are_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=f"do not agree on {name}"):
        merged(parts(**{name: "f" * 64}), TOGETHER)


def test_a_record_of_one_process_is_as_it_was() -> None:
    """Digests of records are what tells an operator that it has stored them."""
    alone = record_of(raw_stage())
    several = merged(parts(), TOGETHER)
    assert b'"shards"' not in plain(alone)
    assert open_record(seal(several)[1]).shards == several.shards


def plain(record: StageRecord) -> bytes:
    import gzip

    return gzip.decompress(seal(record)[1])


def test_what_answers_tell_of_the_cache_is_summed() -> None:
    first, second = parts()
    told = CachedTokens(answers=2, prompt_tokens=20, cached_tokens=5)
    both = [each.model_copy(update={"cached": told}) for each in (first, second)]
    assert merged(both, TOGETHER).cached == CachedTokens(
        answers=4, prompt_tokens=40, cached_tokens=10
    )
    assert merged([first, both[1]], TOGETHER).cached == told
    assert merged([first, second], TOGETHER).cached is None


def test_what_was_noted_of_streams_is_put_together_in_order_of_sending() -> None:
    """The second shard noted something; of the first, which noted nothing, all is as usual."""
    first, second = parts()
    count = len(second.requests.ok)
    noted = Streams(
        closed=(1,) * count, first_chunk_us=(7,) * count, uncounted=1, reconnected=2
    )
    whole = merged([first, second.model_copy(update={"streams": noted})], TOGETHER)
    assert whole.streams is not None
    assert (whole.streams.uncounted, whole.streams.reconnected) == (1, 2)
    assert len(whole.streams.closed) == len(whole.requests.ok)
    assert sorted(whole.streams.first_chunk_us) == sorted(
        [*first.requests.ttft_us, *(7,) * count]
    )
    assert merged([first, second], TOGETHER).streams is None


def thinking(tokens: int | None) -> StageRecord:
    """Return a part whose first answer has reasoning."""
    raw = raw_stage(scalars=NAMES)
    sent = raw.instants.sent[0]
    raw.instants.thoughts[0] = Thought(sent + 0.1, sent + 0.15, tokens)
    return record_of(raw)


def test_reasoning_in_one_part_only_is_put_together_with_answers_without() -> None:
    plain_part, _ = parts()
    whole = merged([thinking(3), plain_part], TOGETHER).requests
    rows = zip(
        whole.reasoning_us, whole.answer_us, whole.ttft_us, whole.ok, strict=True
    )
    assert sorted(row for row in rows if row[3]) == [
        (0, 100_000, 100_000, 1),
        (100_000, 150_000, 100_000, 1),
    ]
    assert sum(whole.reasoning_tokens) == 3
    unknown = merged([thinking(None), thinking(3)], TOGETHER).requests
    assert (len(unknown.reasoning_us), unknown.reasoning_tokens) == (4, ())
    assert merged([plain_part, plain_part], TOGETHER).requests.reasoning_us == ()


def test_answers_that_were_checked_are_added() -> None:
    first, second = (
        part.model_copy(update={"answers": answers})
        for part, answers in zip(
            parts(),
            (
                AnswerCheck(checked=3, broken=0),
                AnswerCheck(checked=4, broken=1, where="$: type"),
            ),
            strict=True,
        )
    )
    assert merged([first, second], TOGETHER).answers == AnswerCheck(
        checked=7, broken=1, where="$: type"
    )
    assert merged(parts(), TOGETHER).answers is None
