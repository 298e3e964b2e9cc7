"""The level at which Holm's procedure puts each question says the same as the p-value it corrects."""

from __future__ import annotations

import pytest
from benchrun.measure.holm import holm_adjusted, holm_levels
from hypothesis import given
from hypothesis import strategies as st


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
