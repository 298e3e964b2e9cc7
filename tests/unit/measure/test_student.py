"""Student's distribution against printed tables; Welch's interval against worked figures and its own symmetries."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from benchrun.measure.significance import Contrast, log_ratio_percent, mean_of, student_p_value, student_quantile, welch
from hypothesis import given
from hypothesis import strategies as st

SAMPLES = st.lists(st.floats(1, 1e6), min_size=2, max_size=20)


def between(first: Sequence[float], second: Sequence[float]) -> Contrast:
    return welch(mean_of(first), mean_of(second))


def ratio(first: Sequence[float], second: Sequence[float]) -> Contrast:
    """Of geometric means: a difference of logarithms."""
    return between([math.log(v) for v in first], [math.log(v) for v in second])


@pytest.mark.parametrize(
    ("expected", "confidence", "degrees"),
    [
        (12.70620474, 0.95, 1),
        (4.302652730, 0.95, 2),
        (2.776445105, 0.95, 4),
        (2.306004135, 0.95, 8),
        (2.228138852, 0.95, 10),
        (2.042272456, 0.95, 30),
        (1.983971519, 0.95, 100),
        (63.65674116, 0.99, 1),
        (4.604094871, 0.99, 4),
        (3.169272673, 0.99, 10),
        (2.131846786, 0.90, 4),
        (0.740697084, 0.50, 4),
    ],
)
def test_quantiles_are_those_of_the_tables(expected: float, confidence: float, degrees: float) -> None:
    assert student_quantile(confidence, degrees) == pytest.approx(expected, rel=1e-8)


@given(st.floats(0, 1000))
def test_with_1_degree_of_freedom_it_is_cauchys_law(t: float) -> None:
    assert student_p_value(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), abs=1e-10)


@given(st.floats(0, 1000))
def test_with_2_degrees_of_freedom_it_is_algebraic(t: float) -> None:
    assert student_p_value(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-10)


@given(st.floats(0, 8))
def test_with_many_degrees_of_freedom_it_is_normal(t: float) -> None:
    assert student_p_value(t, 1e12) == pytest.approx(math.erfc(t / math.sqrt(2)), abs=1e-6)


@given(st.floats(0.01, 0.999), st.floats(1, 10_000))
def test_the_quantile_inverts_the_p_value(confidence: float, degrees: float) -> None:
    assert student_p_value(student_quantile(confidence, degrees), degrees) == pytest.approx(1 - confidence, abs=1e-9)


def test_a_tail_is_not_lost_to_rounding() -> None:
    assert student_p_value(1e6, 10) == pytest.approx(1.7e-55, rel=0.5)
    assert student_p_value(math.inf, 3) == 0


def test_welchs_interval_of_a_worked_example() -> None:
    # Means 3 and 9, squared errors 0.5 and 2, so 2.5 with 2.5^2 / (0.5^2 / 4 + 2^2 / 4) degrees of freedom.
    found = between([1, 2, 3, 4, 5], [5, 7, 9, 11, 13])
    assert found.estimate == pytest.approx(6)
    assert found.degrees_of_freedom == pytest.approx(6.25 / 1.0625)
    assert found.reach(0.95) == pytest.approx(student_quantile(0.95, 6.25 / 1.0625) * math.sqrt(2.5))
    assert found.p_value == pytest.approx(student_p_value(6 / math.sqrt(2.5), 6.25 / 1.0625))
    assert 0.005 < found.p_value < 0.01


@given(SAMPLES, SAMPLES)
def test_the_interval_leaves_out_0_if_and_only_if_the_p_value_is_small(first: list[float], second: list[float]) -> None:
    found = between(first, second)
    if abs(found.p_value - 0.05) > 1e-6:
        assert (abs(found.estimate) > found.reach(0.95)) == (found.p_value < 0.05)


@given(SAMPLES, SAMPLES)
def test_the_other_way_round_it_is_the_same_with_the_other_sign(first: list[float], second: list[float]) -> None:
    one, other = between(first, second), between(second, first)
    assert one.estimate == -other.estimate
    assert one.reach(0.95) == pytest.approx(other.reach(0.95), rel=1e-6, abs=1e-6)
    assert one.p_value == pytest.approx(other.p_value, abs=1e-9)


@pytest.mark.parametrize(("p_value", "second"), [(1, [5.0, 5.0]), (0, [6.0, 6.0])])
def test_without_scatter_the_interval_is_a_point(p_value: float, second: list[float]) -> None:
    found = between([5.0, 5.0], second)
    assert found.estimate == second[0] - 5
    assert (found.reach(0.95), found.p_value) == (0, p_value)


def test_a_change_in_percent() -> None:
    found = ratio([99.0, 100.0, 101.0, 100.5, 99.5], [104.0, 105.0, 106.0, 105.5, 104.5])
    reach = found.reach(0.95)
    assert log_ratio_percent(found.estimate) == pytest.approx(5, abs=0.01)
    assert 3.5 < log_ratio_percent(found.estimate - reach) < 5 < log_ratio_percent(found.estimate + reach) < 6.5
    assert found.p_value < 0.001


@given(SAMPLES, SAMPLES, st.floats(0.001, 1000))
def test_a_ratio_knows_no_unit(first: list[float], second: list[float], unit: float) -> None:
    one, other = ratio(first, second), ratio([unit * v for v in first], [unit * v for v in second])
    assert one.estimate == pytest.approx(other.estimate, rel=1e-6, abs=1e-9)
    assert one.reach(0.95) == pytest.approx(other.reach(0.95), rel=1e-5, abs=1e-9)


def test_an_interval_too_wide_for_a_number_is_without_bound() -> None:
    found = ratio([1e-300, 1e300], [1e-300, 1e300])
    reach = found.reach(0.95)
    assert (log_ratio_percent(found.estimate - reach), log_ratio_percent(found.estimate + reach)) == (-100, math.inf)
