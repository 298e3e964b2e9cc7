"""The number in flight: a step function whose area is the requests' time, whatever the order of the
columns."""

import pytest
from benchrun.measure import InFlight, in_flight
from benchrun_client.contract import RequestColumns
from hypothesis import given, strategies as st
from unit.measure.records import requests

ROWS = st.lists(
    st.tuples(
        st.integers(0, 5_000),
        st.integers(0, 3_000),
        st.integers(0, 3_000),
        st.booleans(),
    ),
    max_size=60,
)
Row = tuple[int, int, int, bool]


def columns(rows: list[Row]) -> RequestColumns:
    """Requests of (start, queue, E2EL, ok)."""
    return requests(
        start_us=[row[0] for row in rows],
        queue_us=[row[1] for row in rows],
        e2el_us=[row[2] for row in rows],
        ttft_us=[0] * len(rows),
        output_tokens=[1] * len(rows),
        ok=[row[3] for row in rows],
    )


def under_way(rows: list[Row], instant: int) -> int:
    return sum(start <= instant < start + e2el for start, _, e2el, _ in rows)


TWO_AND_A_HALF: list[Row] = [
    (0, 0, 100, True),
    (50, 30, 100, True),
    (100, 0, 50, True),
]


def test_two_requests_that_overlap_and_one_that_takes_over() -> None:
    flight = in_flight(columns(TWO_AND_A_HALF))
    assert [
        flight.at(instant) for instant in (-1, 0, 49, 50, 99, 100, 149, 150, 1000)
    ] == [
        0,
        1,
        1,
        2,
        2,
        2,
        2,
        0,
        0,
    ]
    assert flight.maximum() == 2
    assert flight.mean(0, 150) == pytest.approx(250 / 150)
    assert flight.mean(25, 75) == 1.5
    assert flight.mean(-50, 0) == 0
    assert flight.mean(140, 240) == pytest.approx(0.2)
    assert (
        flight.first_reaching(1),
        flight.first_reaching(2),
        flight.first_reaching(2.5),
    ) == (
        0,
        50,
        None,
    )


def test_the_wait_in_the_client_counts_where_requested() -> None:
    flight = in_flight(columns(TWO_AND_A_HALF), with_client_queue=True)
    assert (flight.at(19), flight.at(20), flight.maximum()) == (1, 2, 2)
    assert flight.mean(0, 150) == pytest.approx(280 / 150)


def test_a_wait_that_began_before_the_first_send_counts_from_there() -> None:
    flight = in_flight(columns([(0, 40, 10, True)]), with_client_queue=True)
    assert (flight.at(-41), flight.at(-40), flight.at(9), flight.at(10)) == (
        0,
        1,
        1,
        0,
    )
    assert flight.mean(-40, 10) == 1


def test_no_requests_are_none_at_any_time() -> None:
    flight = in_flight(columns([]))
    assert flight == InFlight([], [], [])
    assert (
        flight.at(0),
        flight.maximum(),
        flight.first_reaching(0),
        flight.mean(0, 10),
    ) == (
        0,
        0,
        None,
        0,
    )


def test_a_failed_request_of_no_duration_is_never_under_way() -> None:
    flight = in_flight(columns([(10, 0, 0, False)]))
    assert (flight.at(10), flight.maximum(), flight.mean(0, 20)) == (0, 0, 0)


def test_an_interval_without_length_has_no_mean() -> None:
    assert in_flight(columns(TWO_AND_A_HALF)).mean(10, 10) is None


@given(ROWS, st.integers(0, 9_000))
def test_at_any_instant_it_is_what_counting_gives(
    rows: list[Row], instant: int
) -> None:
    assert in_flight(columns(rows)).at(instant) == under_way(rows, instant)


@given(ROWS)
def test_the_maximum_is_that_of_all_instants(rows: list[Row]) -> None:
    flight = in_flight(columns(rows))
    assert flight.maximum() == max(
        (under_way(rows, row[0]) for row in rows), default=0
    )
    if flight.maximum():
        reached = flight.first_reaching(flight.maximum())
        assert reached is not None
        assert under_way(rows, reached) == flight.maximum()


@given(ROWS)
def test_the_mean_over_all_is_the_sum_of_durations_over_the_window(
    rows: list[Row],
) -> None:
    assert in_flight(columns(rows)).mean(0, 8_000) == pytest.approx(
        sum(row[2] for row in rows) / 8_000
    )
    waiting_too = in_flight(columns(rows), with_client_queue=True).mean(
        -3_000, 8_000
    )
    assert waiting_too == pytest.approx(
        sum(row[1] + row[2] for row in rows) / 11_000
    )


@given(ROWS, st.integers(0, 4_000), st.integers(30, 4_000), st.integers(1, 30))
def test_the_parts_of_an_interval_average_to_the_whole(
    rows: list[Row], start: int, length: int, parts: int
) -> None:
    flight = in_flight(columns(rows))
    end = start + length
    means = flight.means(start, end, parts=parts)
    whole = flight.mean(start, end)
    assert whole is not None
    assert len(means) == parts
    assert all(0 <= mean <= flight.maximum() for mean in means)
    if length % parts == 0:
        assert sum(means) / parts == pytest.approx(whole, abs=1e-9)


def test_an_interval_too_short_for_its_parts_has_none() -> None:
    assert in_flight(columns(TWO_AND_A_HALF)).means(0, 19, parts=20) == []
