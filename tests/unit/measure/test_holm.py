"""Holm's correction: a printed example, and what must hold for any list."""

from __future__ import annotations

import pytest
from benchrun.measure.holm import holm_adjusted
from hypothesis import given
from hypothesis import strategies as st

P_VALUES = st.lists(st.floats(0, 1), max_size=30)


def test_a_worked_example() -> None:
    assert holm_adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_one_question_needs_no_correction_and_none_none() -> None:
    assert holm_adjusted([0.03]) == [0.03]
    assert holm_adjusted([]) == []


@given(P_VALUES)
def test_adjusted_values_keep_their_order_and_never_fall(p_values: list[float]) -> None:
    adjusted = holm_adjusted(p_values)
    assert all(p <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
    by_p = [a for _, a in sorted(zip(p_values, adjusted, strict=True))]
    assert by_p == sorted(by_p)


@given(P_VALUES, st.floats(0.001, 0.2))
def test_what_it_finds_is_what_stepping_down_finds(p_values: list[float], error: float) -> None:
    found = 0
    for place, p in enumerate(sorted(p_values)):
        if p * (len(p_values) - place) > error:
            break
        found += 1
    assert sum(adjusted <= error for adjusted in holm_adjusted(p_values)) == found
