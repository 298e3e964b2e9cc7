"""Where the knee is said to be, and when none is."""

from __future__ import annotations

import pytest
from benchrun.report.knee import CurvePoint, knee, power
from hypothesis import given
from hypothesis import strategies as st


def saturating(load: float, *, capacity: float = 100.0, service: float = 0.01) -> CurvePoint:
    """M/M/1: response time service / (1 - utilisation), all that arrives completed."""
    return CurvePoint(load, load, service / (1 - load / capacity))


def test_the_knee_of_a_queue_with_one_server_is_at_half_its_capacity() -> None:
    found = knee([saturating(load) for load in (10, 20, 30, 40, 50, 60, 70, 80, 90)], unit="requests/s")
    assert found.load == 50
    assert found.sentence == "The knee is at 50 requests/s."


def test_throughput_that_stands_still_moves_the_knee_no_further() -> None:
    closed = [CurvePoint(users, min(users, 8) / 0.5, max(users, 8) / 8 * 0.5) for users in (1, 2, 4, 8, 16, 32)]
    assert knee(closed, unit="users").load == 8


def test_a_load_point_far_beyond_saturation_does_not_move_it() -> None:
    within = [saturating(load) for load in (20, 40, 60, 80)]
    beyond = CurvePoint(400, 100, 30.0)
    assert knee(within, unit="").load == knee([*within, beyond], unit="").load == 40


@pytest.mark.parametrize(
    ("loads", "says"),
    [
        pytest.param((60, 70, 80), "it lies there or below", id="lowest"),
        pytest.param((10, 20, 30), "it lies there or above", id="highest"),
        pytest.param((40, 60), "takes 3 load points", id="two"),
        pytest.param((), "takes 3 load points", id="none"),
    ],
)
def test_a_knee_that_is_not_bracketed_is_not_marked(loads: tuple[float, ...], says: str) -> None:
    found = knee([saturating(load) for load in loads], unit="requests/s")
    assert found.load is None
    assert says in found.sentence


def test_neighbours_whose_repeats_reach_as_much_power_are_said() -> None:
    points = [
        CurvePoint(10, 10, 0.010, ((10, 0.010), (10, 0.010))),
        CurvePoint(20, 20, 0.0115, ((20, 0.0112), (20, 0.0118))),
        CurvePoint(30, 30, 0.017, ((30, 0.0165), (30, 0.0175))),
        CurvePoint(40, 40, 0.060, ((40, 0.059), (40, 0.061))),
    ]
    found = knee(points, unit="requests/s")
    assert (found.low, found.load, found.high) == (20, 30, 30)
    assert "can't be told from the others between 20 and 30 requests/s" in found.sentence


def test_one_repeat_tells_nothing_of_the_noise() -> None:
    points = [
        CurvePoint(p.load, p.throughput, p.response_seconds, ((p.load, 1e-9),)) for p in map(saturating, (20, 50, 90))
    ]
    found = knee(points, unit="requests/s")
    assert found.low == found.high == 50


def test_order_of_measurement_does_not_matter() -> None:
    points = [saturating(load) for load in (90, 10, 50, 70, 30)]
    assert knee(points, unit="").load == 50


def test_points_without_throughput_are_passed_over() -> None:
    assert knee([CurvePoint(5, 0, 0.0), *map(saturating, (20, 50, 90))], unit="").load == 50


@given(st.lists(st.tuples(st.floats(0.1, 1e4), st.floats(0.1, 1e4), st.floats(1e-3, 1e3)), min_size=1, max_size=12))
def test_no_measured_load_has_more_power_than_the_knee(rows: list[tuple[float, float, float]]) -> None:
    points = [CurvePoint(*row) for row in rows]
    found = knee(points, unit="")
    if found.load is not None:
        at_knee = max(power(p.throughput, p.response_seconds) for p in points if p.load == found.load)
        assert at_knee == max(power(p.throughput, p.response_seconds) for p in points)
