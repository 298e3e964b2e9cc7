"""Where the plateau of a stage begins and ends, for each kind of load, and when there is none."""

import math

import pytest
from benchrun.measure import MIN_REQUESTS, NoPlateau, Plateau, find_plateau, in_flight
from benchrun_client.contract import RequestColumns
from hypothesis import given, strategies as st
from unit.measure.loads import closed_loop, open_loop
from unit.measure.records import requests

INF = math.inf
SECOND = 1_000_000


def found(columns: RequestColumns, *, rate: float = INF, cap: int | None = None) -> Plateau | NoPlateau:
    return find_plateau(columns, in_flight(columns), request_rate=rate, max_concurrency=cap)


def test_a_closed_loop_stands_once_95_percent_of_its_users_wait_and_until_the_last_send() -> None:
    columns = closed_loop(200, 20, duration_us=lambda i: SECOND + 1000 * i)
    standing = found(columns, cap=20)
    assert isinstance(standing, Plateau)
    assert standing.start_us == 18 * 100  # the nineteenth user's first request
    assert standing.end_us == max(columns.start_us)
    assert list(standing.started) == list(range(18, 200))
    assert standing.length_us == standing.end_us - 1800


def test_a_closed_loop_that_never_fills_its_cap_stands_where_it_is_fullest() -> None:
    standing = found(closed_loop(200, 10, duration_us=lambda i: SECOND), cap=64)
    assert isinstance(standing, Plateau)
    assert standing.start_us == 9 * 100


def test_an_open_loop_stands_after_the_mean_latency() -> None:
    standing = found(open_loop(300, gap_us=10_000, duration_us=lambda i: SECOND), rate=100)
    assert isinstance(standing, Plateau)
    assert (standing.start_us, standing.end_us) == (SECOND, 2_990_000)
    assert list(standing.started) == list(range(100, 300))


def test_an_open_loop_of_short_answers_stands_after_a_tenth_of_the_sending() -> None:
    standing = found(open_loop(301, gap_us=10_000, duration_us=lambda i: 5_000), rate=100, cap=8)
    assert isinstance(standing, Plateau)
    assert (standing.start_us, standing.end_us) == (300_000, 3_000_000)


def test_failed_requests_are_sent_too_but_say_nothing_of_the_latency() -> None:
    columns = open_loop(300, gap_us=10_000, duration_us=lambda i: SECOND if i % 2 else 0)
    columns = columns.model_copy(update={"ok": tuple(i % 2 for i in range(300))})
    standing = found(columns, rate=100)
    assert isinstance(standing, Plateau)
    assert standing.start_us == SECOND
    assert len(standing.started) == 200


@pytest.mark.parametrize(
    ("reason", "columns", "rate", "cap"),
    [
        pytest.param(NoPlateau.NO_REQUESTS, requests(ttft_us=[], e2el_us=[], output_tokens=[]), 4, None, id="empty"),
        pytest.param(NoPlateau.ALL_AT_ONCE, closed_loop(100, 100, duration_us=lambda i: SECOND), INF, None, id="burst"),
        pytest.param(
            NoPlateau.TOO_FEW_REQUESTS, closed_loop(64, 64, duration_us=lambda i: SECOND), INF, 64, id="all users once"
        ),
        pytest.param(NoPlateau.TOO_FEW_REQUESTS, closed_loop(1, 1, duration_us=lambda i: 5), INF, 1, id="one request"),
        pytest.param(
            NoPlateau.TOO_FEW_REQUESTS, open_loop(22, gap_us=1000, duration_us=lambda i: 2500), 1000, None, id="short"
        ),
        pytest.param(
            NoPlateau.TOO_FEW_REQUESTS,
            closed_loop(50, 50, duration_us=lambda i: 0, ramp_us=0),
            INF,
            8,
            id="all failed in the same moment",
        ),
        pytest.param(
            NoPlateau.ANSWERS_OUTLAST_SENDING,
            open_loop(100, gap_us=1000, duration_us=lambda i: SECOND),
            1000,
            None,
            id="slow answers",
        ),
        pytest.param(
            NoPlateau.ANSWERS_OUTLAST_SENDING, open_loop(1, gap_us=1, duration_us=lambda i: 5), 4, None, id="one"
        ),
    ],
)
def test_a_stage_without_a_plateau_says_why(
    reason: NoPlateau, columns: RequestColumns, rate: float, cap: int | None
) -> None:
    assert found(columns, rate=rate, cap=cap) is reason


ROWS = st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 50_000), st.booleans()), max_size=120)


@given(ROWS, st.one_of(st.none(), st.integers(1, 100)), st.sampled_from([INF, 0.5, 1000.0]))
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
    assert sent[-1] == standing.end_us == max(columns.start_us)
    assert standing.length_us > 0
