"""Distributions: exact, equal to numpy's default formula, and the same over values and over
counts."""

import statistics
from collections import Counter
from random import Random

import pytest
from benchrun.measure import Distribution, batch_means, variance_inflation
from hypothesis import given, strategies as st
from unit.measure.noise import correlated

VALUES = st.lists(st.integers(0, 10**9), min_size=1, max_size=300)
PERCENTS = st.floats(0, 100)


def numpy_linear(values: list[int], percent: float) -> float:
    """numpy.percentile's default, told step by step: virtual index (n - 1) q, then
    interpolation."""
    ordered = sorted(values)
    index = (len(ordered) - 1) * (percent / 100)
    low = int(index)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] * (1 - (index - low)) + ordered[high] * (index - low)


def same(one: Distribution, other: Distribution) -> bool:
    """Every value in its place, and the rest to a billionth: sums may be made in another order."""
    values, others = (
        [distribution.at_rank(rank) for rank in range(1, distribution.count + 1)]
        for distribution in (one, other)
    )
    figures, expected = (
        [distribution.mean() or 0.0, distribution.deviation() or 0.0]
        for distribution in (one, other)
    )
    return values == others and figures == pytest.approx(
        expected, rel=1e-9, abs=1e-3
    )


@pytest.mark.parametrize(
    ("expected", "percent", "values"),
    [
        pytest.param(7, 99, [7], id="one value is every percentile"),
        pytest.param(1, 0, [3, 1, 2], id="0 is the least"),
        pytest.param(3, 100, [3, 1, 2], id="100 is the greatest"),
        pytest.param(
            2.5, 50, [1, 2, 3, 4], id="the median of an even number is between"
        ),
        pytest.param(3.7, 90, [1, 2, 3, 4], id="linear between the two nearest"),
        pytest.param(99.01, 99, list(range(1, 101)), id="p99 of a hundred"),
        pytest.param(5, 37.5, [5, 5, 5, 5], id="equal values"),
    ],
)
def test_a_percentile(expected: float, percent: float, values: list[int]) -> None:
    assert Distribution.of(values).percentile(percent) == pytest.approx(
        expected, rel=1e-12
    )


@given(VALUES, PERCENTS)
def test_percentiles_are_numpys(values: list[int], percent: float) -> None:
    assert Distribution.of(values).percentile(percent) == pytest.approx(
        numpy_linear(values, percent), rel=1e-9
    )


@given(VALUES)
def test_the_median_is_the_textbooks(values: list[int]) -> None:
    assert Distribution.of(values).percentile(50) == statistics.median(values)


@given(VALUES)
def test_mean_and_deviation_are_those_of_the_population(values: list[int]) -> None:
    pool = Distribution.of(values)
    assert pool.mean() == pytest.approx(statistics.fmean(values), rel=1e-12)
    assert pool.deviation() == pytest.approx(
        statistics.pstdev(values), rel=1e-9, abs=1e-6
    )


@given(VALUES, PERCENTS)
def test_counts_say_the_same_as_the_values_they_count(
    values: list[int], percent: float
) -> None:
    counted = Distribution.of_counts(Counter(values).items())
    single = Distribution.of(values)
    assert same(counted, single)
    assert counted.count == len(values)
    assert counted.percentile(percent) == single.percentile(percent)


@given(VALUES, VALUES)
def test_pooling_counts_is_pooling_values(
    first: list[int], second: list[int]
) -> None:
    pairs = [*Counter(first).items(), *Counter(second).items()]
    assert same(Distribution.of_counts(pairs), Distribution.of(first + second))


@given(VALUES, PERCENTS, PERCENTS)
def test_percentiles_never_fall(
    values: list[int], one: float, other: float
) -> None:
    pool = Distribution.of(values)
    low = pool.percentile(min(one, other))
    high = pool.percentile(max(one, other))
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
    assert (empty.count, empty.mean(), empty.deviation(), empty.percentile(99)) == (
        0,
        None,
        None,
        None,
    )


def test_counts_of_zero_are_no_values() -> None:
    assert Distribution.of_counts([(5, 0)]).count == 0
    assert same(Distribution.of_counts([(5, 0), (7, 1)]), Distribution.of([7]))


@pytest.mark.parametrize("percent", [-1, 100.5])
def test_a_percentile_outside_of_0_to_100_is_rejected(percent: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 100"):
        Distribution.of([1]).percentile(percent)


def test_batches_are_consecutive_and_equally_long_to_within_one() -> None:
    assert batch_means([1, 3, 5, 7], batches=2) == [2, 6]
    assert batch_means([1, 2, 3, 4, 5], batches=2) == [1.5, 4]


@pytest.mark.parametrize("values", [[], [7.0], [3.0, 1.0]])
def test_fewer_values_than_batches_stand_for_themselves(
    values: list[float],
) -> None:
    assert batch_means(values, batches=20) == values


@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=200), st.integers(1, 30)
)
def test_batch_means_lie_between_the_values_and_keep_their_mean(
    values: list[int], batches: int
) -> None:
    means = batch_means(values, batches=batches)
    assert len(means) == min(batches, len(values))
    assert all(min(values) <= mean <= max(values) for mean in means)
    if len(values) % len(means) == 0:
        assert statistics.fmean(means) == pytest.approx(
            statistics.fmean(values), rel=1e-9, abs=1e-9
        )


@given(
    st.lists(st.lists(st.floats(-1e6, 1e6), max_size=30), max_size=5),
    st.integers(1, 2),
)
def test_the_inflation_is_never_below_1_nor_without_bound(
    series: list[list[float]], fitted: int
) -> None:
    assert 1 <= variance_inflation(series, fitted=fitted) <= 39.01


@pytest.mark.parametrize(
    ("correlation", "expected"), [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0)]
)
def test_the_inflation_of_a_long_series_is_that_of_its_correlation(
    correlation: float, expected: float
) -> None:
    values = correlated(Random(3), 20_000, correlation=correlation, level=0)
    mean = statistics.fmean(values)
    assert variance_inflation(
        [[v - mean for v in values]], fitted=1
    ) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("fitted", "correlation"), [(1, 2 / 18), (2, 3 / 16)])
def test_what_fitting_hides_of_the_resemblance_is_put_back(
    fitted: int, correlation: float
) -> None:
    # Ten pairs of neighbours are alike and nine opposite: 1 / 20, before it is corrected.
    pairs = [1.0, 1.0, -1.0, -1.0] * 5
    expected = (1 + correlation) / (1 - correlation)
    assert variance_inflation([pairs], fitted=fitted) == pytest.approx(expected)


def test_values_that_take_turns_are_not_more_certain_than_independent_ones() -> (
    None
):
    assert variance_inflation([[1.0, -1.0] * 10], fitted=1) == 1
