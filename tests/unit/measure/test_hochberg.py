"""The levels of Hochberg's procedure: what they are, how often they err, what they find."""

from __future__ import annotations

import random

import pytest
from benchrun.measure.significance import hochberg_levels
from hypothesis import given
from hypothesis import strategies as st

P_VALUES = st.lists(st.floats(0, 1), max_size=40)


def yes(p_values: list[float], *, error: float = 0.05) -> list[bool]:
    return [p <= level for p, level in zip(p_values, hochberg_levels(p_values, error=error), strict=True)]


@pytest.mark.parametrize(
    ("expected", "p_values"),
    [
        pytest.param([], [], id="none"),
        pytest.param([0.05], [0.3], id="one"),
        pytest.param([0.05, 0.05, 0.05, 0.05], [0.04, 0.03, 0.04, 0.001], id="all at once, if the largest is small"),
        pytest.param([0.025, 0.025, 0.05], [0.02, 0.025, 0.06], id="the largest is not: half for the others"),
        pytest.param([0.05 / 3, 0.025, 0.025], [0.01, 0.026, 0.06], id="a third for the last, a no to the others"),
        pytest.param([0.05 / 3] * 3, [0.02, 0.03, 0.06], id="none of three"),
        pytest.param([0.025, 0.025], [1.0, 1.0], id="equals are told alike"),
    ],
)
def test_levels(expected: list[float], p_values: list[float]) -> None:
    assert hochberg_levels(p_values, error=0.05) == pytest.approx(expected)


@given(P_VALUES)
def test_a_smaller_p_value_is_never_a_no_where_a_larger_is_a_yes(p_values: list[float]) -> None:
    answers = sorted(zip(p_values, yes(p_values), strict=True))
    assert [answer for _, answer in answers] == sorted((answer for _, answer in answers), reverse=True)


@given(P_VALUES)
def test_at_least_what_dividing_by_their_number_finds(p_values: list[float]) -> None:
    divided = [p <= 0.05 / len(p_values) for p in p_values]
    assert all(found or not sure for found, sure in zip(yes(p_values), divided, strict=True))


@pytest.mark.parametrize("together", [0.0, 0.5, 1.0])
def test_one_wrong_yes_in_twenty_families(together: float) -> None:
    """Five p-values a family, of nothing but chance, independent or moving together."""
    draw = random.Random(7)
    families = 4000
    wrong = 0
    for _ in range(families):
        common = draw.random()
        wrong += any(yes([common if draw.random() < together else draw.random() for _ in range(5)]))
    assert wrong / families < 0.06
