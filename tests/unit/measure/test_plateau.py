"""Figures of the plateau are those of a stage that never ends: no ramp, no drain, no slow answer
left out."""

import math

import pytest
from benchrun.measure import (
    NoPlateau,
    Plateau,
    RequestLimits,
    completed_in,
    find_plateau,
    in_flight,
    output_tokens_in,
    plateau_metrics,
    sent_in_plateau,
)
from benchrun_client.contract import (
    MIN_REQUESTS,
    AtOnceLoad,
    LoadKind,
    RateLoad,
    RequestColumns,
    StageRecord,
)
from hypothesis import given, strategies as st
from unit.measure.loads import closed_loop, open_loop
from unit.measure.records import record, requests

SECOND = 1_000_000


def sent_at(rate: float, cap: int | None) -> LoadKind:
    """Build a load at a rate, perhaps capped; where it is infinite, of users or all at once."""
    if math.isfinite(rate):
        return RateLoad(requests_per_second=f"{rate:g}", max_concurrency=cap)
    return AtOnceLoad(max_concurrency=cap)


def with_plateau(
    columns: RequestColumns, *, rate: float = math.inf, cap: int | None = None
) -> tuple[StageRecord, Plateau]:
    load = sent_at(rate, cap)
    found = find_plateau(columns, in_flight(columns), load)
    assert isinstance(found, Plateau)
    return record(requests=columns, load=load), found


def between(start_us: int, end_us: int) -> Plateau:
    return Plateau(start_us, end_us, ())


def test_a_closed_loop_has_its_users_over_the_latency_whatever_ramp_and_drain_do() -> (
    None
):
    columns = closed_loop(400, 20, duration_us=lambda i: SECOND, ramp_us=50_000)
    metrics = plateau_metrics([with_plateau(columns, cap=20)], ("50", "99"))
    assert metrics["sent"] == 401 - 19 - 20 - 40
    assert metrics["request_throughput"] == pytest.approx(20, rel=0.005)
    assert metrics["output_throughput"] == pytest.approx(220, rel=0.005)
    assert metrics["mean_e2el_ms"] == metrics["p99_e2el_ms"] == 1000
    assert metrics["mean_ttft_ms"] == metrics["median_ttft_ms"] == 100
    assert metrics["mean_tpot_ms"] == metrics["p50_tpot_ms"] == 90
    assert metrics["mean_itl_ms"] == metrics["median_itl_ms"] == 10


def test_an_open_loop_below_capacity_completes_what_it_sends() -> None:
    metrics = plateau_metrics(
        [
            with_plateau(
                open_loop(
                    1000,
                    gap_us=10_000,
                    duration_us=lambda i: SECOND + 997 * (i % 7),
                ),
                rate=100,
            )
        ],
        (),
    )
    assert metrics["request_throughput"] == pytest.approx(100, rel=0.005)
    assert metrics["output_throughput"] == pytest.approx(1100, rel=0.005)


def test_an_answer_that_ends_after_the_plateau_keeps_its_latency() -> None:
    stage = with_plateau(
        open_loop(
            400,
            gap_us=10_000,
            duration_us=lambda i: SECOND * 9 if i == 350 else 1000,
        ),
        rate=100,
    )
    assert stage[1].end_us < 3_950_000
    assert plateau_metrics([stage], ("100",))["p100_e2el_ms"] == 9000


def test_several_stages_are_one_pool() -> None:
    fast, slow = (
        with_plateau(closed_loop(200, 20, duration_us=of), cap=20)
        for of in (lambda i: SECOND, lambda i: 2 * SECOND)
    )
    one, other, both = (
        plateau_metrics(stages, ("99",))
        for stages in ([fast], [slow], [fast, slow])
    )
    assert (one["completed"], other["completed"], both["completed"]) == (
        121,
        121,
        242,
    )
    assert both["request_throughput"] == pytest.approx(242 / (6 + 12), rel=0.01)
    assert (both["mean_e2el_ms"], both["p99_e2el_ms"]) == (1500, 2000)


def test_without_stages_there_are_no_figures() -> None:
    metrics = plateau_metrics([], ("99",))
    assert metrics["completed"] == 0
    assert metrics["request_throughput"] is None
    assert metrics["p99_ttft_ms"] is None


def test_a_plateau_of_failures_completes_nothing_and_has_no_latency() -> None:
    columns = closed_loop(200, 20, duration_us=lambda i: SECOND).model_copy(
        update={"ok": (0,) * 200}
    )
    metrics = plateau_metrics([with_plateau(columns, cap=20)], ("99",))
    assert (
        metrics["completed"],
        metrics["request_throughput"],
        metrics["output_throughput"],
    ) == (
        0,
        0,
        0,
    )
    assert (metrics["mean_ttft_ms"], metrics["p99_e2el_ms"]) == (None, None)


@pytest.mark.parametrize(
    ("tokens", "start_us", "end_us"),
    [
        pytest.param(11, 0, 2000, id="the whole answer"),
        pytest.param(0, 0, 99, id="before the first token"),
        pytest.param(1, 0, 100, id="the first token"),
        pytest.param(6, 0, 600, id="the first token and half of the rest"),
        pytest.param(5, 600, 1100, id="the other half"),
        pytest.param(2, 300, 500, id="from within"),
        pytest.param(0, 1100, 2000, id="after the last token"),
    ],
)
def test_tokens_come_evenly_from_the_first_to_the_last(
    tokens: float, start_us: int, end_us: int
) -> None:
    columns = requests(
        start_us=[0], ttft_us=[100], e2el_us=[1100], output_tokens=[11]
    )
    assert output_tokens_in(columns, between(start_us, end_us)) == pytest.approx(
        tokens
    )


@pytest.mark.parametrize(
    "row",
    [(100, 100, 1), (100, 100, 5), (200, 100, 5)],
    ids=["one token", "at once", "odd"],
)
def test_tokens_that_come_in_one_moment_belong_to_the_interval_that_ends_with_it(
    row: tuple[int, int, int],
) -> None:
    ttft, e2el, tokens = row
    columns = requests(
        start_us=[0], ttft_us=[ttft], e2el_us=[e2el], output_tokens=[tokens]
    )
    assert [
        output_tokens_in(columns, between(a, b))
        for a, b in ((0, ttft), (ttft, 500))
    ] == [
        tokens,
        0,
    ]


ROWS = st.lists(
    st.tuples(
        st.integers(0, 9_000),
        st.integers(0, 900),
        st.integers(0, 900),
        st.integers(0, 50),
        st.booleans(),
    ),
    max_size=40,
)


@given(ROWS, st.integers(0, 11_000))
def test_two_intervals_share_out_all_answers_and_tokens(
    rows: list[tuple[int, int, int, int, bool]], cut: int
) -> None:
    columns = requests(
        start_us=[row[0] for row in rows],
        ttft_us=[row[1] for row in rows],
        e2el_us=[row[1] + row[2] for row in rows],
        output_tokens=[row[3] for row in rows],
        ok=[row[4] for row in rows],
    )
    first = between(-1, cut)
    second = between(cut, 11_000)
    assert completed_in(columns, first) + completed_in(columns, second) == sum(
        columns.ok
    )
    answered = sum(row[3] for row in rows if row[4])
    shares = output_tokens_in(columns, first), output_tokens_in(columns, second)
    assert min(shares) >= 0
    assert sum(shares) == pytest.approx(answered, abs=1e-6)


def test_an_answer_completed_at_a_border_belongs_to_the_interval_before_it() -> (
    None
):
    columns = requests(start_us=[0], ttft_us=[10], e2el_us=[100], output_tokens=[2])
    assert [
        completed_in(columns, between(a, b))
        for a, b in ((0, 99), (0, 100), (100, 200))
    ] == [
        0,
        1,
        0,
    ]


def test_the_narrowed_record_holds_the_requests_of_the_plateau_and_its_gaps() -> (
    None
):
    stage, found = with_plateau(
        closed_loop(160, 20, duration_us=lambda i: SECOND + i), cap=20
    )
    narrowed = sent_in_plateau(stage, found)
    inside = [
        at for at in stage.requests.start_us if found.start_us <= at <= found.end_us
    ]
    assert narrowed.requests.start_us == tuple(sorted(inside))
    assert 80 <= len(narrowed.requests.ok) == len(found.started) < 160
    share = found.length_us / (max(stage.requests.start_us) + SECOND)
    assert sum(narrowed.gaps.count) == pytest.approx(
        share * sum(stage.gaps.count), rel=0.1
    )
    assert sum(stage.gaps.count) == 10 * 160
    assert len(stage.requests.ok) == 160


def test_goodput_and_the_wait_in_the_client_are_of_the_steady_part_too() -> None:
    """Every second request of the steady part is late; those before it all are."""
    columns = open_loop(400, gap_us=10_000, duration_us=lambda i: 1000)
    late = [i % 2 == 1 or i < 40 for i in range(400)]
    columns = columns.model_copy(
        update={"queue_us": tuple(50_000 * each for each in late)}
    )
    stage = with_plateau(columns, rate=100, cap=1000)
    metrics = plateau_metrics(
        [stage], ("50",), queued=True, limits=RequestLimits(e2el_ms=10)
    )
    assert metrics["request_goodput"] == pytest.approx(50, rel=0.01)
    assert metrics["mean_client_queue_time_ms"] == pytest.approx(25, rel=0.02)
    assert metrics["sent"] == len(stage[1].started)


# Where the plateau of a stage begins and ends, for each kind of load, and when there is none.

INF = math.inf
SECOND_STEADY = 1_000_000


def found(
    columns: RequestColumns, *, rate: float = INF, cap: int | None = None
) -> Plateau | NoPlateau:
    return find_plateau(columns, in_flight(columns), sent_at(rate, cap))


def test_a_closed_loop_stands_an_answer_after_95_percent_of_its_users_have_sent() -> (
    None
):
    columns = closed_loop(200, 20, duration_us=lambda i: SECOND_STEADY)
    standing = found(columns, cap=20)
    assert isinstance(standing, Plateau)
    assert (
        standing.start_us == 18 * 100 + SECOND_STEADY
    )  # the nineteenth user's first request
    assert standing.end_us == max(columns.start_us) - 2 * SECOND_STEADY
    assert list(standing.started) == list(range(38, 160))
    assert standing.length_us == standing.end_us - standing.start_us


def test_a_closed_loop_that_never_fills_its_cap_stands_where_it_is_fullest() -> (
    None
):
    standing = found(
        closed_loop(200, 10, duration_us=lambda i: SECOND_STEADY), cap=64
    )
    assert isinstance(standing, Plateau)
    assert standing.start_us == 9 * 100 + SECOND_STEADY


def test_an_open_loop_stands_after_two_mean_latencies_until_two_before_the_end() -> (
    None
):
    standing = found(
        open_loop(2000, gap_us=10_000, duration_us=lambda i: SECOND_STEADY),
        rate=100,
    )
    assert isinstance(standing, Plateau)
    assert (standing.start_us, standing.end_us) == (2 * SECOND_STEADY, 17_990_000)
    assert list(standing.started) == list(range(200, 1800))


def test_an_open_loop_of_short_answers_stands_after_a_tenth_of_the_sending() -> (
    None
):
    standing = found(
        open_loop(301, gap_us=10_000, duration_us=lambda i: 5_000), rate=100, cap=8
    )
    assert isinstance(standing, Plateau)
    assert (standing.start_us, standing.end_us) == (300_000, 2_990_000)


@pytest.mark.parametrize(("seconds", "stands"), [(13.35, True), (13.32, False)])
def test_at_most_three_tenths_of_sending_at_a_rate_are_left_out(
    seconds: float, stands: bool
) -> None:
    count = round(seconds * 100) + 1
    standing = found(
        open_loop(count, gap_us=10_000, duration_us=lambda i: SECOND_STEADY),
        rate=100,
    )
    assert isinstance(standing, Plateau)
    assert standing.is_steady is stands


def test_failed_requests_are_sent_too_but_say_nothing_of_the_latency() -> None:
    columns = open_loop(
        2000, gap_us=10_000, duration_us=lambda i: SECOND_STEADY if i % 2 else 0
    )
    columns = columns.model_copy(update={"ok": tuple(i % 2 for i in range(2000))})
    standing = found(columns, rate=100)
    assert isinstance(standing, Plateau)
    assert standing.start_us == 2 * SECOND_STEADY
    assert len(standing.started) == 1600


@pytest.mark.parametrize(
    ("reason", "columns", "rate", "cap"),
    [
        pytest.param(
            NoPlateau.NO_REQUESTS,
            requests(ttft_us=[], e2el_us=[], output_tokens=[]),
            4,
            None,
            id="empty",
        ),
        pytest.param(
            NoPlateau.ALL_AT_ONCE,
            closed_loop(100, 100, duration_us=lambda i: SECOND_STEADY),
            INF,
            None,
            id="burst",
        ),
        pytest.param(
            NoPlateau.TOO_FEW_REQUESTS,
            closed_loop(64, 64, duration_us=lambda i: SECOND_STEADY),
            INF,
            64,
            id="all users once",
        ),
        pytest.param(
            NoPlateau.ANSWERS_OUTLAST_SENDING,
            closed_loop(1, 1, duration_us=lambda i: 5),
            INF,
            1,
            id="one request",
        ),
        pytest.param(
            NoPlateau.TOO_FEW_REQUESTS,
            open_loop(11, gap_us=1000, duration_us=lambda i: 100),
            1000,
            None,
            id="short",
        ),
        pytest.param(
            NoPlateau.ANSWERS_OUTLAST_SENDING,
            closed_loop(50, 50, duration_us=lambda i: 0, ramp_us=0),
            INF,
            8,
            id="all failed in the same moment",
        ),
        pytest.param(
            NoPlateau.ANSWERS_OUTLAST_SENDING,
            open_loop(100, gap_us=1000, duration_us=lambda i: SECOND_STEADY),
            1000,
            None,
            id="slow answers",
        ),
        pytest.param(
            NoPlateau.ANSWERS_OUTLAST_SENDING,
            open_loop(1, gap_us=1, duration_us=lambda i: 5),
            4,
            None,
            id="one",
        ),
    ],
)
def test_a_stage_without_a_plateau_says_why(
    reason: NoPlateau, columns: RequestColumns, rate: float, cap: int | None
) -> None:
    assert found(columns, rate=rate, cap=cap) is reason


ROWS_STEADY = st.lists(
    st.tuples(st.integers(0, 100_000), st.integers(0, 50_000), st.booleans()),
    max_size=120,
)


@given(
    ROWS_STEADY,
    st.one_of(st.none(), st.integers(1, 100)),
    st.sampled_from([INF, 0.5, 1000.0]),
)
def test_any_record_has_a_plateau_of_enough_requests_or_a_reason(
    rows: list[tuple[int, int, bool]], cap: int | None, rate: float
) -> None:
    columns = requests(
        start_us=[row[0] for row in rows],
        e2el_us=[row[1] for row in rows],
        ttft_us=[row[1] // 2 for row in rows],
        output_tokens=[3] * len(rows),
        ok=[row[2] for row in rows],
    )
    standing = found(columns, rate=rate, cap=cap)
    if isinstance(standing, NoPlateau):
        return
    sent = [columns.start_us[i] for i in standing.started]
    assert sent == sorted(sent)
    assert len(set(standing.started)) == len(sent) >= MIN_REQUESTS
    assert 0 <= standing.start_us <= sent[0]
    assert sent[-1] <= standing.end_us <= max(columns.start_us)
    sending = max(columns.start_us) - min(columns.start_us)
    assert standing.length_us >= sending / 2
    assert standing.length_us > 0
