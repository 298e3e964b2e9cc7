"""From the engine's lists to a record: exact microseconds, exact gap counts, bounded size."""

import gzip
import json
import math
import random
from collections import Counter
from dataclasses import replace
from operator import sub
from typing import Any

import pytest
from benchrun_client.contract import (
    MAX_GAP_SLICES,
    MAX_GAP_VALUES,
    MAX_REQUESTS_A_STAGE,
    CachedTokens,
    CacheReset,
    Connections,
    PlannedPrompts,
    RequestColumns,
    RoundTrips,
    SamplingParams,
    ServerEdge,
    StageRecord,
    Streams,
    WarmupOutcome,
    open_record,
    seal,
)
from benchrun_client.contract.sessions import Beginning, TurnPlace
from benchrun_client.record_process import MAX_HEADLINE_BYTES, headline
from benchrun_client.stage_record import (
    MAX_ERRORS,
    MAX_SCALARS,
    RawStage,
    Thought,
    error_counts,
    gap_counts,
    micros,
    record_of,
    scalars_of,
    sealed,
)
from hypothesis import given, strategies as st
from unit.client.plans import raw_stage


def test_a_record_holds_every_request_in_microseconds() -> None:
    columns = record_of(raw_stage(due=[100.0, 100.25])).requests
    assert (columns.start_us, columns.queue_us, columns.ttft_us) == (
        (0, 500_000),
        (0, 250_000),
        (100_000, 0),
    )
    assert (columns.e2el_us, columns.input_tokens, columns.output_tokens) == (
        (170_000, 0),
        (32, 32),
        (4, 0),
    )
    assert (columns.asked_tokens, columns.ended, columns.ok) == (
        (4, 4),
        (1, 0),
        (1, 0),
    )


def test_requests_that_overtook_others_are_in_order_of_sending_with_all_that_is_theirs() -> (
    None
):
    """The third request is an answered user's next one, sent before the second user began."""
    raw = raw_stage(
        due=[100.0, 103.0, 100.0],
        sent=[100.0, 103.0, 101.0],
        answered=[100.9, 104.0, 102.0],
        ok=[True, True, True],
        ended=[True, False, True],
        ttfts=[0.1, 0.2, 0.3],
        itls=[[0.01], [0.02], [0.03]],
        input_lens=[10, 20, 30],
        expected_lens=[10, 20, 30],
        output_lens=[2, 3, 4],
        requested_lens=[5, 6, 7],
        errors=["", "", ""],
    )
    columns = record_of(raw).requests
    assert columns.start_us == (0, 1_000_000, 3_000_000)
    assert columns.queue_us == (0, 1_000_000, 0)
    assert columns.ttft_us == (100_000, 300_000, 200_000)
    assert columns.e2el_us == (110_000, 330_000, 220_000)
    assert columns.input_tokens == (10, 30, 20)
    assert columns.output_tokens == (2, 4, 3)
    assert columns.asked_tokens == (5, 7, 6)
    assert columns.ended == (1, 1, 0)


def test_the_clients_own_count_is_of_answers_that_the_server_counted() -> None:
    both = {"ok": [True, True], "ended": [True, True]}
    assert (
        record_of(
            raw_stage(input_lens=[33, 31], expected_lens=[30, 32], **both)
        ).expected_input_tokens
        == 62
    )
    assert record_of(raw_stage(expected_lens=[30, 32])).expected_input_tokens == 30
    assert record_of(raw_stage(ended=[False, False])).expected_input_tokens == 0


def test_where_no_gaps_are_known_the_time_to_the_last_token_is() -> None:
    record = record_of(raw_stage(itls=[[], []], decodes=[0.5, 0.0]))
    assert (record.requests.e2el_us, record.gaps.us) == ((600_000, 0), ())


def test_instants_are_unix_time_and_the_idle_time_is_since_the_answer_before() -> (
    None
):
    record = record_of(raw_stage())
    assert record.first_send_unix_us == 1_700_000_100_000_000
    assert (record.last_receive_unix_us, record.idle_before_us) == (
        1_700_000_101_500_000,
        250_000,
    )


def test_gaps_and_errors_are_those_of_the_requests_they_belong_to() -> None:
    record = record_of(
        raw_stage(
            itls=[[0.02, 0.03, 0.02], [9.0]], errors=["ignored", "Bad Request"]
        )
    )
    assert (record.gaps.us, record.gaps.count, record.errors) == (
        (20_000, 30_000),
        (2, 1),
        {"Bad Request": 1},
    )


@pytest.mark.parametrize(
    ("gaps_ms", "api", "tokens"),
    [
        pytest.param([20, 30], "Chat", 3, id="role first"),
        pytest.param([0.04, 20, 30], "Completions", 3, id="completion"),
        pytest.param([0.04, 20, 30], "Chat", 4, id="as many chunks as tokens"),
    ],
)
def test_the_gap_behind_the_role_of_a_chat_is_not_one_between_tokens(
    gaps_ms: list[float], api: str, tokens: int
) -> None:
    record = record_of(
        raw_stage(
            itls=[[0.00004, 0.02, 0.03], []], api=api, output_lens=[tokens, 0]
        )
    )
    assert record.gaps.us == tuple(round(1000 * gap) for gap in gaps_ms)
    assert record.requests.e2el_us[0] == 150_040


@pytest.mark.parametrize(
    ("connects", "noted"),
    [
        (None, None),
        ([], Connections(opened=0, total_us=0, longest_us=0)),
        ([0.002, 0.0005], Connections(opened=2, total_us=2500, longest_us=2000)),
    ],
)
def test_connections_that_were_opened(
    connects: list[float] | None, noted: Connections | None
) -> None:
    raw = raw_stage()
    assert (
        record_of(
            replace(raw, instants=replace(raw.instants, connects=connects))
        ).connections
        == noted
    )


def streamed(**notes: Any) -> StageRecord:
    """Two answers, both good, and what was noted of their streams."""
    raw = raw_stage(ok=[True, True], ttfts=[0.2, 0.3], output_lens=[4, 5])
    scalars: dict[str, float | int | None] = {
        "output_throughput": 9.0,
        "mean_tpot_ms": 1.0,
        "mean_ttft_ms": 2.0,
    }
    return record_of(
        replace(raw, scalars=scalars, instants=replace(raw.instants, **notes))
    )


def test_tokens_that_no_server_has_counted_are_not_known() -> None:
    record = streamed(
        closed=[True, True], ended=[True, False], first_chunks=[0.0, 0.0]
    )
    assert record.requests.output_tokens == (4, 0)
    assert set(record.scalars) == {"mean_ttft_ms"}
    assert record.streams == Streams(closed=(1, 1), uncounted=1)


def test_a_stream_that_broke_off_is_told_from_one_without_counts() -> None:
    record = streamed(
        closed=[True, False], ended=[True, False], first_chunks=[0.0, 0.0]
    )
    assert record.streams == Streams(closed=(1, 0))


def test_usual_streams_need_no_words() -> None:
    usual: dict[str, Any] = {"closed": [True, True], "ended": [True, True]}
    assert streamed(**usual, first_chunks=[0.0, 0.0]).streams is None
    assert streamed().streams is None
    resent = streamed(**usual, first_chunks=[0.0, 0.0], reconnected=1).streams
    assert resent == Streams(closed=(1, 1), reconnected=1)


def test_a_first_chunk_without_content_is_kept_beside_ttft() -> None:
    raw = raw_stage()
    early = [raw.instants.sent[0] + 0.01, 0.0]
    record = streamed(closed=[True, True], ended=[True, True], first_chunks=early)
    assert record.requests.ttft_us == (200_000, 300_000)
    assert record.streams == Streams(
        closed=(1, 1), first_chunk_us=(10_000, 300_000)
    )


def test_what_answers_tell_of_the_cache_is_summed_over_those_that_were_answered() -> (
    None
):
    told = streamed(cached={0: (100, 64), 1: (50, 0)}).cached
    assert told == CachedTokens(answers=2, prompt_tokens=150, cached_tokens=64)
    failed = streamed(ok=[True, False], cached={0: (100, 64), 1: (50, 0)}).cached
    assert failed == CachedTokens(answers=1, prompt_tokens=100, cached_tokens=64)
    silent = streamed()
    assert silent.cached is None
    # Older operators do not know it.
    assert b"cached" not in gzip.decompress(seal(silent)[1])
    with pytest.raises(ValueError, match="no more tokens"):
        CachedTokens(answers=1, prompt_tokens=1, cached_tokens=2)


def test_a_record_says_how_tokens_were_chosen() -> None:
    sampling = SamplingParams(temperature=0.7)
    assert record_of(raw_stage(sampling=sampling)).sampling == sampling


def test_a_record_says_which_chat_template_was_given() -> None:
    digest = "a" * 64
    given = record_of(raw_stage(chat_template=digest))
    none = record_of(raw_stage())
    assert (given.chat_template, none.chat_template) == (digest, None)
    older = none.model_dump(mode="json", by_alias=True)
    del older["chat_template"]
    assert StageRecord.model_validate(older) == none


def test_a_record_says_which_commit_of_the_tokenizer_was_used() -> None:
    assert (
        record_of(raw_stage(tokenizer_commit="c" * 40)).tokenizer_commit == "c" * 40
    )


def test_a_clock_stepped_back_gives_no_negative_figures() -> None:
    assert record_of(raw_stage(previous_answer=200.0)).idle_before_us == 0


def test_edges_keep_their_server_and_an_unread_metrics_stays_none() -> None:
    edges = (
        ServerEdge(address="a", before={"x": 1.0}, after={"x": 2.0}),
        ServerEdge(address="b", before=None, after=None),
    )
    assert record_of(raw_stage(servers=edges)).servers == edges


@pytest.mark.parametrize(
    ("expected", "lags"),
    [
        pytest.param(
            (99_000, 98_000, 100_000),
            [n / 1000 for n in range(100, 0, -1)],
            id="a hundred ticks",
        ),
        pytest.param(
            (32_000, 500, 32_000),
            [0.0005] * 38 + [0.012, 0.032],
            id="one stall of a short stage is two ticks",
        ),
        pytest.param(
            (7_000, 1_000, 7_000), [0.001, 0.007], id="few ticks: the latest"
        ),
        pytest.param((None, None, None), [], id="none: unknown, not 0"),
    ],
)
def test_lag_is_its_99th_percentile_its_third_largest_and_its_maximum(
    expected: tuple[int | None, int | None, int | None], lags: list[float]
) -> None:
    client = record_of(raw_stage(lags=lags)).client
    figures = (client.lag_p99_us, client.lag_thrice_us, client.lag_max_us)
    assert figures == expected


def test_the_reset_of_the_caches_is_passed_on() -> None:
    reset = CacheReset(succeeded=False, attempts=3, answer="no")
    assert record_of(raw_stage(cache_reset=reset)).cache_reset == reset
    assert record_of(raw_stage()).cache_reset is None


def test_what_became_of_the_warm_up_is_passed_on() -> None:
    warmup = WarmupOutcome(requests=16, answered=7, failed=1, took_us=60_000_000)
    assert record_of(raw_stage(warmup=warmup)).warmup == warmup
    assert record_of(raw_stage()).warmup is None


def test_gaps_are_kept_by_time() -> None:
    """Two streams: one gap of 10 ms every 10 ms for a second, then one of 40 ms every 40 ms."""
    gaps = [0.01] * 100 + [0.04] * 25
    raw = raw_stage(
        sent=[100.0, 100.0], ttfts=[0.0, 0.0], itls=[gaps, gaps], ok=[True, True]
    )
    found = record_of(raw).gap_slices
    assert found is not None
    assert sum(found.gaps) == 250
    of_edge = dict(zip(found.edges_us, range(len(found.edges_us)), strict=True))
    above = [
        found.above[number * len(found.edges_us) + of_edge[10_000]]
        for number in range(MAX_GAP_SLICES)
    ]
    assert (above[:19], above[21:]) == ([0] * 19, list(found.gaps[21:]))
    assert sum(above) == 50


def test_a_stage_without_gaps_tells_none_by_time() -> None:
    assert record_of(raw_stage(itls=[[], []])).gap_slices is None


def test_a_record_of_the_version_before_is_read() -> None:
    """It tells neither of the warm-up, nor of the models, nor of the path or the node, nor of the
    client's own count of prompts."""
    stored = record_of(raw_stage()).model_dump(mode="json", by_alias=True)
    del stored["warmup"], stored["expected_input_tokens"], stored["gap_slices"]
    del (
        stored["round_trips"],
        stored["client"]["node_cpu_seconds"],
        stored["client"]["stolen_seconds"],
    )
    for edge in stored["servers"]:
        del edge["models"]
    read = StageRecord.model_validate_json(json.dumps(stored))
    assert (
        read.warmup,
        read.expected_input_tokens,
        [edge.models for edge in read.servers],
    ) == (
        None,
        None,
        [None],
    )
    assert read.gap_slices is None
    assert (
        read.round_trips,
        read.client.node_cpu_seconds,
        read.client.stolen_seconds,
    ) == (
        None,
        None,
        None,
    )


def test_path_and_node_are_passed_on() -> None:
    trips = RoundTrips(count=20, median_us=300, p95_us=900)
    record = record_of(
        raw_stage(round_trips=trips, node_cpu_seconds=3.5, stolen_seconds=0.5)
    )
    assert record.round_trips == trips
    assert (record.client.node_cpu_seconds, record.client.stolen_seconds) == (
        3.5,
        0.5,
    )


def test_a_long_diagnostic_is_cut() -> None:
    diagnostic = record_of(raw_stage(diagnostic="x" * 5000)).diagnostic
    assert diagnostic is not None
    assert len(diagnostic) == 1000


@given(st.lists(st.floats(min_value=0, max_value=100)))
def test_gap_counts_are_exact(gaps: list[float]) -> None:
    counted = gap_counts(Counter(map(micros, gaps)))
    assert dict(zip(counted.us, counted.count, strict=True)) == Counter(
        round(gap * 1e6) for gap in gaps
    )


def test_too_many_distinct_gaps_are_rounded_to_the_finest_step_that_fits() -> None:
    gaps = [n / 1e6 for n in range(MAX_GAP_VALUES * 3)]
    counted = gap_counts(Counter(map(micros, gaps)))
    assert len(counted.us) <= MAX_GAP_VALUES
    assert sum(counted.count) == len(gaps)
    assert {us % 10 for us in counted.us} == {0}
    assert max(counted.us) >= MAX_GAP_VALUES * 3 - 10


def largest() -> RawStage:
    """Return a stage of as many requests as there may be, no two of them alike."""
    n = MAX_REQUESTS_A_STAGE
    rng = random.Random(1)
    sent = [100.0 + rng.uniform(3600, 7200) for _ in range(n)]
    return raw_stage(
        due=[s - rng.uniform(1000, 9000) for s in sent],
        sent=sent,
        answered=sent,
        ok=[True] * n,
        ended=[True] * n,
        requested_lens=[131_072] * n,
        ttfts=[rng.uniform(10, 99) for _ in range(n)],
        itls=[[rng.uniform(10, 99) for _ in range(2)] for _ in range(n)],
        input_lens=[131_072] * n,
        output_lens=[131_072] * n,
        errors=[""] * n,
    )


def test_the_largest_stage_fits_into_a_record() -> None:
    record = record_of(largest())
    assert open_record(seal(record)[1]) == record


def test_the_largest_stage_of_a_model_that_thinks_is_kept_a_little_coarser() -> (
    None
):
    raw = largest()
    raw.instants.due = raw.instants.sent
    rng = random.Random(2)
    raw.instants.thoughts = {
        number: Thought(
            sent + ttft, sent + ttft + rng.uniform(0.1, 60), rng.randrange(9000)
        )
        for number, (sent, ttft) in enumerate(
            zip(raw.instants.sent, raw.ttfts, strict=True)
        )
    }
    raw.instants.thoughts[7] = Thought(raw.instants.sent[7] + 1e-4, None, 9)
    exact = record_of(raw)
    with pytest.raises(ValueError):
        seal(exact)
    kept = open_record(sealed(exact)[1])
    for name in ("reasoning_us", "answer_us"):
        values, wanted = (getattr(of.requests, name) for of in (kept, exact))
        assert 0 < max(map(abs, map(sub, values, wanted))) <= 500
        assert [not us for us in values] == [not us for us in wanted]
    assert kept.requests.reasoning_tokens == ()
    for name in ("ttft_us", "e2el_us", "output_tokens"):
        assert getattr(kept.requests, name) == getattr(exact.requests, name)
    assert sum(kept.gaps.count) == sum(exact.gaps.count)
    assert len(kept.gaps.us) <= MAX_GAP_VALUES // 10


def test_what_prompts_begin_with_is_kept_with_the_order_of_sending() -> None:
    record = record_of(
        raw_stage(
            places=[TurnPlace(1, 1, (), 0.0), TurnPlace(0, 1, (), 0.0)],
            repeated=[0, 0],
            order=[1, 0],
            beginnings=[Beginning(0, 0), Beginning(0, 5), Beginning(1, 7)],
            lost_turns=1,
        )
    )
    assert record.sessions is not None
    assert record.sessions.prompts is not None
    assert len(record.sessions.prompts.like) == 3
    assert record.sessions.prompts.sent == (1, 0)
    assert open_record(sealed(record)[1]) == record


def test_prompts_of_other_requests_than_were_sent_are_refused() -> None:
    record = record_of(
        raw_stage(
            places=[TurnPlace(0, 1, (), 0.0), TurnPlace(1, 1, (), 0.0)],
            repeated=[0, 0],
            order=[0, 1],
            beginnings=[Beginning(0, 0), Beginning(0, 5)],
        )
    )
    document = record.model_dump(mode="json", by_alias=True)
    document["sessions"]["prompts"]["sent"] = [1]
    with pytest.raises(ValueError, match=r"prompts\.sent"):
        StageRecord.model_validate(document)


def test_a_record_that_is_too_large_goes_without_what_prompts_begin_with() -> None:
    raw = largest()
    rng = random.Random(4)
    order = list(range(len(raw.input_lens)))
    rng.shuffle(order)
    raw.instants.due = raw.instants.sent
    raw.instants.order = order
    record = record_of(
        replace(
            raw,
            places=[TurnPlace(n // 10, 1 + n % 10, (), 0.0) for n in order],
            repeated=[0 for _ in order],
            beginnings=[
                Beginning(rng.randrange(n + 1), rng.randrange(10**9))
                for n in range(len(order))
            ],
        )
    )
    with pytest.raises(ValueError):
        seal(record)
    assert record.sessions is not None
    kept = open_record(sealed(record)[1])
    assert kept.sessions is not None
    assert kept.sessions.prompts is None
    assert kept.sessions.lost_turns == record.sessions.lost_turns
    assert kept.requests == record.requests


@pytest.mark.parametrize(
    "changes",
    [{"like": [1, 0]}, {"tokens": [1]}, {"sent": [0, 0]}, {"sent": [2]}],
)
def test_prompts_that_begin_like_none_are_refused(
    changes: dict[str, list[int]],
) -> None:
    with pytest.raises(ValueError):
        PlannedPrompts(
            **{"like": [0, 0], "tokens": [0, 5], "sent": [0, 1], **changes}
        )


def test_a_record_that_fits_is_sealed_as_it_is() -> None:
    record = record_of(raw_stage())
    assert sealed(record) == seal(record)


def test_a_traceback_becomes_its_last_line() -> None:
    traceback = (
        "Traceback (most recent call last):\n  File ...\naiohttp.ClientOSError: [Errno 104] "
        "reset\n\n"
    )
    assert error_counts([traceback, traceback, ""]) == {
        "aiohttp.ClientOSError: [Errno 104] reset": 2,
        "no error text": 1,
    }


def test_only_the_most_frequent_errors_are_kept_and_none_is_long() -> None:
    counts = error_counts(
        [f"error {n} " + "x" * 1000 for n in range(20) for _ in range(n)]
    )
    assert list(counts.values()) == [19, 18, 17, 16, 15, 14, 13, 12]
    assert len(counts) == MAX_ERRORS
    assert {len(text) for text in counts} == {300}


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (1, 1),
        (1.5, 1.5),
        (None, None),
        (None, math.nan),
        (None, math.inf),
        (None, 1e308),
        (None, -(10**400)),
        (1e15, 1e15),
    ],
)
def test_numbers_and_none_are_scalars(expected: float | None, value: Any) -> None:
    assert scalars_of({"x": value}) == {"x": expected}


@pytest.mark.parametrize("value", ["inf", True, [1.0], {"a": 1}])
def test_everything_else_is_not(value: Any) -> None:
    assert scalars_of({"x": value}) == {}


def test_scalars_are_bounded_in_number_and_name() -> None:
    assert len(scalars_of({str(n): n for n in range(1000)})) == MAX_SCALARS
    assert scalars_of({"x" * 81: 1}) == {}


def test_a_headline_is_one_bounded_line_with_the_digest() -> None:
    record = record_of(
        raw_stage(scalars={f"{'n' * 70}{n}": n * 1.000000001 for n in range(200)})
    )
    line = headline(record, digest="d" * 64)
    assert len(line.encode()) <= MAX_HEADLINE_BYTES
    assert "\n" not in line
    assert '"digest":"' + "d" * 64 in line
    assert '"stage":"chat/concurrency=2/r1"' in line
    assert '"' + "n" * 70 + '0":0.0' in line


def test_a_small_headline_holds_all_figures() -> None:
    assert '"scalars":{"completed":1,"failed":1}' in headline(
        record_of(raw_stage()), digest="d" * 64
    )


def test_columns_are_equally_long() -> None:
    stored = record_of(raw_stage()).requests.model_dump()
    with pytest.raises(ValueError, match="equally long"):
        RequestColumns.model_validate({**stored, "start_us": ()})
    with pytest.raises(ValueError, match="equally long"):
        RequestColumns.model_validate({**stored, "ended": (1,)})
