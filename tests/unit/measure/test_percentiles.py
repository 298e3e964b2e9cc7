"""Distributions: exact, equal to numpy's default formula, and the same over values and over counts."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest
from benchrun.measure.percentiles import Distribution
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.lists(st.integers(0, 10**9), min_size=1, max_size=300)
PERCENTS = st.floats(0, 100)


def numpy_linear(values: list[int], percent: float) -> float:
    """numpy.percentile's default, told step by step: virtual index (n - 1) q, then interpolation."""
    ordered = sorted(values)
    index = (len(ordered) - 1) * (percent / 100)
    low = int(index)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] * (1 - (index - low)) + ordered[high] * (index - low)


def same(one: Distribution, other: Distribution) -> bool:
    """Every value in its place, and the rest to a billionth: sums may be made in another order."""
    values, others = ([of.at_rank(rank) for rank in range(1, of.count + 1)] for of in (one, other))
    figures, expected = ([of.mean() or 0.0, of.deviation() or 0.0] for of in (one, other))
    return values == others and figures == pytest.approx(expected, rel=1e-9, abs=1e-3)


@pytest.mark.parametrize(
    ("expected", "percent", "values"),
    [
        pytest.param(7, 99, [7], id="one value is every percentile"),
        pytest.param(1, 0, [3, 1, 2], id="0 is the least"),
        pytest.param(3, 100, [3, 1, 2], id="100 is the greatest"),
        pytest.param(2.5, 50, [1, 2, 3, 4], id="the median of an even number is between"),
        pytest.param(3.7, 90, [1, 2, 3, 4], id="linear between the two nearest"),
        pytest.param(99.01, 99, list(range(1, 101)), id="p99 of a hundred"),
        pytest.param(5, 37.5, [5, 5, 5, 5], id="equal values"),
    ],
)
def test_a_percentile(expected: float, percent: float, values: list[int]) -> None:
    assert Distribution.of(values).percentile(percent) == pytest.approx(expected, rel=1e-12)


@given(VALUES, PERCENTS)
def test_percentiles_are_numpys(values: list[int], percent: float) -> None:
    assert Distribution.of(values).percentile(percent) == pytest.approx(numpy_linear(values, percent), rel=1e-9)


@given(VALUES)
def test_the_median_is_the_textbooks(values: list[int]) -> None:
    assert Distribution.of(values).percentile(50) == statistics.median(values)


@given(VALUES)
def test_mean_and_deviation_are_those_of_the_population(values: list[int]) -> None:
    pool = Distribution.of(values)
    assert pool.mean() == pytest.approx(statistics.fmean(values), rel=1e-12)
    assert pool.deviation() == pytest.approx(statistics.pstdev(values), rel=1e-9, abs=1e-6)


@given(VALUES, PERCENTS)
def test_counts_say_the_same_as_the_values_they_count(values: list[int], percent: float) -> None:
    counted, single = Distribution.of_counts(Counter(values).items()), Distribution.of(values)
    assert same(counted, single)
    assert counted.count == len(values)
    assert counted.percentile(percent) == single.percentile(percent)


@given(VALUES, VALUES)
def test_pooling_counts_is_pooling_values(first: list[int], second: list[int]) -> None:
    pairs = [*Counter(first).items(), *Counter(second).items()]
    assert same(Distribution.of_counts(pairs), Distribution.of(first + second))


@given(VALUES, PERCENTS, PERCENTS)
def test_percentiles_never_fall(values: list[int], one: float, other: float) -> None:
    pool = Distribution.of(values)
    low, high = pool.percentile(min(one, other)), pool.percentile(max(one, other))
    assert low is not None
    assert high is not None
    assert min(values) <= low <= high * (1 + 1e-12) <= max(values) * (1 + 1e-11)


def test_a_large_count_is_not_expanded() -> None:
    pool = Distribution.of_counts([(10, 10**12), (20, 10**12)])
    assert pool.count == 2 * 10**12
    assert pool.mean() == 15
    assert pool.percentile(25) == 10
    assert pool.percentile(75) == 20
    assert pool.deviation() == 5


def test_an_empty_distribution_has_no_figures() -> None:
    empty = Distribution.of([])
    assert (empty.count, empty.mean(), empty.deviation(), empty.percentile(99)) == (0, None, None, None)


def test_counts_of_zero_are_no_values() -> None:
    assert Distribution.of_counts([(5, 0)]).count == 0
    assert same(Distribution.of_counts([(5, 0), (7, 1)]), Distribution.of([7]))


@pytest.mark.parametrize("percent", [-1, 100.5])
def test_a_percentile_outside_of_0_to_100_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        Distribution.of([1]).percentile(percent)
