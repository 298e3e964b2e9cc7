"""Trends are found where there are some, and seldom where neighbours only resemble each other.

The bounds on false alarms are for fixed seeds, 200 series each. Not tested: series shorter than their own memory (a
queue at 95 % load seen for 200 requests): nobody can tell those from a trend, and about one in ten is taken for one.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from random import Random

import pytest
from benchrun.measure.significance import monotone_p_value, theil_sen_slope, trend
from hypothesis import given
from hypothesis import strategies as st
from unit.measure.noise import correlated, queueing

VALUES = st.lists(st.integers(0, 10**9), min_size=10, max_size=100)
SERIES = 200


@pytest.mark.parametrize(
    ("expected", "values"),
    [
        (1, []),
        (1, [5]),
        (1, [5, 6]),
        (2 / 6, [1, 2, 3]),
        (2 / 24, [1, 2, 3, 4]),
        (2 / 120, [5, 4, 3, 2, 1]),
        (10 / 120, [1, 2, 3, 5, 4]),
        (1, [7, 7, 7, 7]),
    ],
)
def test_the_p_value_of_an_order(expected: float, values: list[float]) -> None:
    assert monotone_p_value(values) == pytest.approx(expected)


def test_the_p_value_counts_all_orders() -> None:
    def surplus(values: tuple[int, ...]) -> int:
        return abs(sum(1 if b > a else -1 for i, a in enumerate(values) for b in values[i + 1 :]))

    orders = Counter(surplus(order) for order in permutations(range(6)))
    for order in permutations(range(6)):
        as_ordered = sum(count for size, count in orders.items() if size >= surplus(order))
        assert monotone_p_value(order) == pytest.approx(as_ordered / 720)


@given(VALUES)
def test_backwards_it_is_the_same_trend_the_other_way(values: list[int]) -> None:
    assert monotone_p_value(values) == monotone_p_value(values[::-1])
    assert theil_sen_slope(values) == pytest.approx(-theil_sen_slope(values[::-1]))


@given(VALUES, st.floats(1, 39))
def test_resemblance_of_neighbours_never_makes_an_order_rarer(values: list[int], inflation: float) -> None:
    assert 0 < monotone_p_value(values) <= monotone_p_value(values, inflation=inflation) <= 1


def test_a_few_large_values_do_not_turn_the_slope() -> None:
    assert theil_sen_slope([1, 2, 3, 4, 1000, 6, 7, 8, 9, 10]) == pytest.approx(1)
    assert theil_sen_slope([5]) == 0


@given(VALUES)
def test_any_series_has_a_trend_or_too_few_values(values: list[int]) -> None:
    found = trend(values)
    assert found is not None
    assert 0 <= found.p_value <= 1


@pytest.mark.parametrize("count", [0, 1, 9])
def test_too_few_values_have_none(count: int) -> None:
    assert trend(list(range(count))) is None


@pytest.mark.parametrize("level", [0, 7])
def test_a_constant_series_has_no_trend(level: int) -> None:
    found = trend([level] * 50)
    assert found is not None
    assert (found.relative_change, found.p_value) == (0, 1)


def test_the_change_is_from_begin_to_end_in_shares_of_the_mean() -> None:
    rising = trend([100 + i for i in range(100)])
    assert rising is not None
    assert rising.relative_change == pytest.approx(100 / 149.5)
    assert rising.p_value == 0
    falling = trend([300 - i for i in range(100)])
    assert falling is not None
    assert falling.relative_change == pytest.approx(-100 / 250.5)


def test_two_questions_asked_of_a_series_cost_twice_the_chance() -> None:
    # Neighbours on opposite sides of a line: nothing is taken off for resemblance, and the steps have no direction.
    values = [10 + i + (-3) ** (i % 2) for i in range(20)]
    found = trend(values)
    assert found is not None
    assert found.p_value == pytest.approx(2 * monotone_p_value(values))
    assert 0 < found.p_value < 1e-6


@pytest.mark.parametrize(("count", "correlation"), [(200, 0.0), (200, 0.5), (1000, 0.9)])
def test_noise_is_seldom_taken_for_a_trend(count: int, correlation: float) -> None:
    random = Random(11)
    found = [trend(correlated(random, count, correlation=correlation)) for _ in range(SERIES)]
    alarms = [each.p_value for each in found if each is not None]
    assert len(alarms) == SERIES
    assert sum(p < 0.05 for p in alarms) <= 0.05 * SERIES
    assert sum(p < 0.01 for p in alarms) <= 0.02 * SERIES


def test_a_busy_queue_is_seldom_taken_for_a_growing_one() -> None:
    random = Random(12)
    found = [trend(queueing(random, 400, utilisation=0.8)[40:]) for _ in range(SERIES)]
    assert sum(each is not None and each.p_value < 0.01 for each in found) <= 0.02 * SERIES


def test_a_growing_queue_is_found() -> None:
    random = Random(13)
    found = [trend(queueing(random, 400, utilisation=1.5)[40:]) for _ in range(50)]
    assert sum(each is not None and each.p_value < 0.01 and each.relative_change > 0.5 for each in found) >= 49


def test_a_slow_drift_under_noise_is_found() -> None:
    random = Random(14)
    for _ in range(20):
        noise = correlated(random, 1000, correlation=0.3)
        found = trend([value + 0.003 * i for i, value in enumerate(noise)])
        assert found is not None
        assert found.p_value < 0.05
        assert found.relative_change == pytest.approx(3 / 11.5, abs=0.15)
