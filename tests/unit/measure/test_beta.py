"""The incomplete beta function against its closed forms and the identities it obeys."""

from __future__ import annotations

import math

import pytest
from benchrun.measure.significance import regularized_beta
from hypothesis import given
from hypothesis import strategies as st

PARAMETERS = st.floats(0.1, 10_000)
SHARES = st.floats(0.001, 0.999)


@given(st.floats(0.01, 1000), SHARES)
def test_with_one_parameter_of_1_it_is_a_power(a: float, x: float) -> None:
    assert regularized_beta(a, 1, x) == pytest.approx(x**a, rel=1e-10, abs=1e-300)


@given(SHARES)
def test_with_both_of_a_half_it_is_the_law_of_the_arcsine(x: float) -> None:
    assert regularized_beta(0.5, 0.5, x) == pytest.approx(2 / math.pi * math.asin(math.sqrt(x)), rel=1e-12)


@given(st.integers(1, 60), st.integers(0, 60), SHARES)
def test_it_is_the_tail_of_the_binomial(successes: int, failures: int, x: float) -> None:
    trials = successes + failures
    tail = math.fsum(math.comb(trials, k) * x**k * (1 - x) ** (trials - k) for k in range(successes, trials + 1))
    assert regularized_beta(successes, failures + 1, x) == pytest.approx(tail, rel=1e-9, abs=1e-15)


@given(PARAMETERS, PARAMETERS, SHARES)
def test_the_two_tails_are_everything(a: float, b: float, x: float) -> None:
    assert regularized_beta(a, b, x) + regularized_beta(b, a, 1 - x) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(("expected", "x"), [(0, 0), (0, -0.1), (1, 1), (1, 1.1)])
def test_beyond_its_ends_it_is_0_and_1(expected: float, x: float) -> None:
    assert regularized_beta(2, 3, x) == expected


def test_large_parameters_keep_nine_digits() -> None:
    # A symmetric beta has half its weight below the middle, however narrow it is.
    assert regularized_beta(500_000, 500_000, 0.5) == pytest.approx(0.5, abs=1e-9)
