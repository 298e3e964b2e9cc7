"""The level at which Holm's procedure puts each question says the same as the p-value it corrects."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest
from benchrun.measure.holm import holm_levels
from hypothesis import given
from hypothesis import strategies as st


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Holm's procedure the other way round, in the order given: the smallest p-value is multiplied by their number, the next
    by one less, and so on; none falls below a smaller one's."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    scaled = (min(1.0, p_values[index] * (len(order) - place)) for place, index in enumerate(order))
    adjusted = dict(zip(order, accumulate(scaled, max), strict=True))
    return [adjusted[index] for index in range(len(order))]


def test_the_reference_agrees_with_a_worked_example() -> None:
    assert holm_adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize(
    ("expected", "p_values"),
    [
        pytest.param([], [], id="none"),
        pytest.param([0.05], [0.3], id="one"),
        pytest.param([0.0125, 0.05 / 3, 0.025, 0.05], [0.001, 0.002, 0.003, 0.004], id="all"),
        pytest.param(
            [0.05 / 3, 0.0125, 0.05 / 3, 0.05 / 3], [0.02, 0.001, 0.04, 0.5], id="after the first no, the same"
        ),
    ],
)
def test_levels(expected: list[float], p_values: list[float]) -> None:
    assert holm_levels(p_values, error=0.05) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), max_size=40))
def test_at_most_its_level_exactly_where_the_corrected_value_is_at_most_the_error(p_values: list[float]) -> None:
    levels = holm_levels(p_values, error=0.05)
    corrected = holm_adjusted(p_values)
    near = [abs(c - 0.05) < 1e-12 for c in corrected]
    answers = [p <= level for p, level in zip(p_values, levels, strict=True)]
    assert [a for a, n in zip(answers, near, strict=True) if not n] == [
        c <= 0.05 for c, n in zip(corrected, near, strict=True) if not n
    ]
