"""Whether several short series move the same way: exact chances of random orders."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

import pytest
from benchrun.measure.significance import common_order_p_value, surplus


@pytest.mark.parametrize(
    ("expected", "values"),
    [(0, []), (0, [1]), (1, [1, 2]), (-3, [3, 2, 1]), (0, [1, 1, 1]), (1, [2, 1, 3]), (2, [1, 1, 2])],
)
def test_surplus_of_rising_pairs(expected: int, values: Sequence[float]) -> None:
    assert surplus(values) == expected


@pytest.mark.parametrize(
    ("p_value", "series"),
    [
        pytest.param(1.0, [], id="nothing"),
        pytest.param(1.0, [[1], [2]], id="single values"),
        pytest.param(1.0, [[1, 2]], id="two in order"),
        pytest.param(2 / 24, [[1, 2, 3, 4]], id="four in order"),
        pytest.param(2 / 24, [[4, 3, 2, 1]], id="four in reverse"),
        pytest.param(2 / 36, [[1, 2, 3], [7, 8, 9]], id="twice three, levels apart"),
        pytest.param(1.0, [[1, 2, 3], [9, 8, 7]], id="against each other"),
        pytest.param(2 / 32, [[1, 2]] * 5, id="five pairs"),
    ],
)
def test_chance_of_a_common_order(p_value: float, series: Sequence[Sequence[float]]) -> None:
    assert common_order_p_value(series) == pytest.approx(p_value)


def test_chances_are_those_of_all_orders() -> None:
    """Counted out: every order of a series of four beside every order of one of three."""
    orders = [(one, other) for one, other in product(permutations(range(4)), permutations(range(3)))]
    for given in orders[::17]:
        seen = abs(sum(map(surplus, given)))
        as_far = sum(abs(sum(map(surplus, order))) >= seen for order in orders) / len(orders)
        assert common_order_p_value(given) == pytest.approx(as_far)


def test_many_series_cost_little_and_lose_no_digits() -> None:
    assert common_order_p_value([list(range(10))] * 64) < 1e-12
    level = [[0, 1], [1, 0]] * 512
    assert common_order_p_value(level) == 1.0
