"""Batch means keep the values' sum and order; the inflation is what resemblance of neighbours costs."""

from __future__ import annotations

import statistics
from random import Random

import pytest
from benchrun.measure.percentiles import batch_means, variance_inflation
from hypothesis import given
from hypothesis import strategies as st
from unit.measure.noise import correlated


def test_batches_are_consecutive_and_equally_long_to_within_one() -> None:
    assert batch_means([1, 3, 5, 7], batches=2) == [2, 6]
    assert batch_means([1, 2, 3, 4, 5], batches=2) == [1.5, 4]


@pytest.mark.parametrize("values", [[], [7.0], [3.0, 1.0]])
def test_fewer_values_than_batches_stand_for_themselves(values: list[float]) -> None:
    assert batch_means(values, batches=20) == values


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200), st.integers(1, 30))
def test_batch_means_lie_between_the_values_and_keep_their_mean(values: list[int], batches: int) -> None:
    means = batch_means(values, batches=batches)
    assert len(means) == min(batches, len(values))
    assert all(min(values) <= mean <= max(values) for mean in means)
    if len(values) % len(means) == 0:
        assert statistics.fmean(means) == pytest.approx(statistics.fmean(values), rel=1e-9, abs=1e-9)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=30), max_size=5), st.integers(1, 2))
def test_the_inflation_is_never_below_1_nor_without_bound(series: list[list[float]], fitted: int) -> None:
    assert 1 <= variance_inflation(series, fitted=fitted) <= 39.01


@pytest.mark.parametrize(("correlation", "expected"), [(0.0, 1.0), (0.5, 3.0), (0.8, 9.0)])
def test_the_inflation_of_a_long_series_is_that_of_its_correlation(correlation: float, expected: float) -> None:
    values = correlated(Random(3), 20_000, correlation=correlation, level=0)
    mean = statistics.fmean(values)
    assert variance_inflation([[v - mean for v in values]], fitted=1) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("fitted", "correlation"), [(1, 2 / 18), (2, 3 / 16)])
def test_what_fitting_hides_of_the_resemblance_is_put_back(fitted: int, correlation: float) -> None:
    # Ten pairs of neighbours are alike and nine opposite: 1 / 20, before it is corrected.
    pairs = [1.0, 1.0, -1.0, -1.0] * 5
    expected = (1 + correlation) / (1 - correlation)
    assert variance_inflation([pairs], fitted=fitted) == pytest.approx(expected)


def test_values_that_take_turns_are_not_more_certain_than_independent_ones() -> None:
    assert variance_inflation([[1.0, -1.0] * 10], fitted=1) == 1
