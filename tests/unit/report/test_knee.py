"""Where the knee is, and when there is none."""

import pytest
from benchrun.report.knee import CurvePoint, knee
from hypothesis import given, strategies as st
from unit.golden_messages import golden


def saturating(
    load: float, *, capacity: float = 100.0, service: float = 0.01
) -> CurvePoint:
    """M/M/1: response time service / (1 - utilisation), all that arrives completed."""
    return CurvePoint(load, load, service / (1 - load / capacity))


def test_the_knee_of_a_queue_with_one_server_is_at_half_its_capacity() -> None:
    found = knee(
        [saturating(load) for load in (10, 20, 30, 40, 50, 60, 70, 80, 90)],
        unit="requests/s",
    )
    assert found.load == 50
    golden(found.sentence)


def test_throughput_that_stands_still_moves_the_knee_no_further() -> None:
    closed = [
        CurvePoint(users, min(users, 8) / 0.5, max(users, 8) / 8 * 0.5)
        for users in (1, 2, 4, 8, 16, 32)
    ]
    assert knee(closed, unit="users").load == 8


def test_a_load_point_far_beyond_saturation_does_not_move_it() -> None:
    within = [saturating(load) for load in (20, 40, 60, 80)]
    beyond = CurvePoint(400, 100, 30.0)
    assert knee(within, unit="").load == knee([*within, beyond], unit="").load == 40


@pytest.mark.parametrize(
    "loads",
    [
        pytest.param((60, 70, 80), id="lowest"),
        pytest.param((10, 20, 30), id="highest"),
        pytest.param((40, 60), id="two"),
        pytest.param((), id="none"),
    ],
)
def test_a_knee_that_is_not_bracketed_is_not_marked(
    loads: tuple[float, ...],
) -> None:
    found = knee([saturating(load) for load in loads], unit="requests/s")
    assert found.load is None
    golden(found.sentence)


def test_neighbours_whose_repeats_reach_as_much_power_are_reported() -> None:
    points = [
        CurvePoint(10, 10, 0.010, ((10, 0.010), (10, 0.010))),
        CurvePoint(20, 20, 0.0115, ((20, 0.0112), (20, 0.0118))),
        CurvePoint(30, 30, 0.017, ((30, 0.0165), (30, 0.0175))),
        CurvePoint(40, 40, 0.060, ((40, 0.059), (40, 0.061))),
    ]
    found = knee(points, unit="requests/s")
    assert (found.low, found.load, found.high) == (20, 30, 30)
    golden(found.sentence)


def test_one_repeat_reports_nothing_of_the_noise() -> None:
    points = [
        CurvePoint(p.load, p.throughput, p.response_seconds, ((p.load, 1e-9),))
        for p in map(saturating, (20, 50, 90))
    ]
    found = knee(points, unit="requests/s")
    assert found.low == found.high == 50


def test_order_of_measurement_does_not_matter() -> None:
    assert (
        knee([saturating(load) for load in (90, 10, 50, 70, 30)], unit="").load
        == 50
    )


def test_points_without_throughput_are_passed_over() -> None:
    assert (
        knee([CurvePoint(5, 0, 0.0), *map(saturating, (20, 50, 90))], unit="").load
        == 50
    )


@given(
    st.lists(
        st.tuples(st.floats(0.1, 1e4), st.floats(0.1, 1e4), st.floats(1e-3, 1e3)),
        min_size=1,
        max_size=12,
    )
)
def test_no_measured_load_has_more_power_than_the_knee(
    rows: list[tuple[float, float, float]],
) -> None:
    points = [CurvePoint(*row) for row in rows]
    found = knee(points, unit="")
    if found.load is not None:
        at_knee = max(
            p.throughput / p.response_seconds
            for p in points
            if p.load == found.load
        )
        assert at_knee == max(p.throughput / p.response_seconds for p in points)


def point(load: float, of_power: float, *repeats: float) -> CurvePoint:
    """A load point of that power, and repeats of these."""
    return CurvePoint(load, of_power, 1.0, tuple((each, 1.0) for each in repeats))


def curve(*powers: float) -> list[CurvePoint]:
    return [point(float(2**place), each) for place, each in enumerate(powers)]


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(curve(1, 3, 2), id="in-the-middle"),
        pytest.param(curve(3, 2, 1), id="falling"),
        pytest.param(curve(1, 2, 3), id="rising"),
        pytest.param(curve(1, 2), id="two-points"),
    ],
)
def test_the_sentence_names_where_the_knee_lies(points: list[CurvePoint]) -> None:
    golden(knee(points, unit="users").sentence)


def test_loads_are_shown_as_they_were_requested() -> None:
    points = [point(0.25, 1), point(0.5, 3), point(1.5, 2)]
    assert (
        knee(points, unit="requests/s").sentence == "The knee is at 0.5 requests/s."
    )


@pytest.mark.parametrize(
    ("low", "high", "left", "right"),
    [
        pytest.param(4, 4, (2.9, 2.8), (2.7, 2.6), id="none-reaches-it"),
        pytest.param(
            2, 4, (2.9, 3.0), (2.7, 2.6), id="the-left-one-just-reaches-it"
        ),
        pytest.param(4, 8, (2.9, 2.8), (2.7, 3.1), id="the-right-one-does"),
        pytest.param(2, 8, (3.0, 1.0), (3.0, 1.0), id="both-do"),
        pytest.param(4, 4, (5.0,), (5.0,), id="one-repeat-has-no-range"),
    ],
)
def test_neighbours_count_as_good_from_the_least_of_its_repeats_on(
    low: float, high: float, left: tuple[float, ...], right: tuple[float, ...]
) -> None:
    points = [
        point(1, 1, 1, 1),
        point(2, 2.5, *left),
        point(4, 4, 3.0, 4.0),
        point(8, 2.5, *right),
        point(16, 1, 1, 1),
    ]
    found = knee(points, unit="users")
    assert (found.low, found.load, found.high) == (low, 4, high)
    assert ("not distinguishable from the others" in found.sentence) is (
        low != high
    )


def test_a_neighbour_behind_one_that_is_worse_is_not_measured() -> None:
    points = [
        point(1, 1, 1, 1),
        point(2, 3, 9, 9),
        point(4, 1, 1, 1),
        point(8, 4, 3, 4),
        point(16, 1, 1, 1),
    ]
    assert knee(points, unit="users").low == 8


def test_as_good_up_to_an_end_is_not_bracketed() -> None:
    found = knee(
        [point(1, 3, 3, 3.5), point(2, 4, 3, 4), point(4, 1, 1, 1)], unit="users"
    )
    assert (found.load, found.low, found.high) == (None, None, None)
    golden(found.sentence)
    everywhere = [point(1, 3, 3, 3.5), point(2, 4, 3, 4), point(4, 3, 3, 3)]
    golden(
        knee(everywhere, unit="users").sentence,
        knee(
            [point(1, 1, 1, 1), point(2, 4, 3, 4), point(4, 3, 3, 3)], unit="users"
        ).sentence,
    )


@pytest.mark.parametrize(
    "bad",
    [
        CurvePoint(2, 0, 1),
        CurvePoint(2, 1, 0),
        CurvePoint(2, -1, 1),
        CurvePoint(2, 1, -1),
    ],
)
def test_a_point_without_power_is_no_point(bad: CurvePoint) -> None:
    golden(knee([point(1, 1), bad, point(4, 1)], unit="users").sentence)


def test_repeats_that_took_no_time_are_none() -> None:
    best = CurvePoint(4, 4, 1.0, ((4, 1.0), (4, 0.0)))
    assert knee([point(1, 1), best, point(8, 1)], unit="users").load == 4


@given(st.lists(st.floats(0.5, 100), min_size=3, max_size=9))
def test_a_knee_has_less_power_on_either_side(powers: list[float]) -> None:
    found = knee(curve(*powers), unit="users")
    if found.load is not None:
        place = [2.0**n for n in range(len(powers))].index(found.load)
        assert 0 < place < len(powers) - 1
        assert max(powers) == powers[place]
