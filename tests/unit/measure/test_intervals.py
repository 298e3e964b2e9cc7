"""Intervals of percentiles: published ranks, exact probabilities, and how often they hold."""

from __future__ import annotations

import math
from random import Random

import pytest
from benchrun.measure import (
    Distribution,
    is_certainly_above,
    least_count,
    lower_rank,
    percentile_interval,
    percentile_ranks,
    upper_rank,
)
from hypothesis import given, strategies as st
from scipy import stats

PERCENTS = st.sampled_from([1.0, 5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9])


@pytest.mark.parametrize(
    ("ranks", "percent", "count"),
    [
        (None, 99, 0),
        (None, 99, 1),
        (None, 99, 200),
        (None, 99, 367),
        ((360, 368), 99, 368),
        ((983, 997), 99, 1000),
        ((1971, 1989), 99, 2000),
        ((9880, 9920), 99, 10_000),
        ((184, 197), 95, 200),
        ((40, 61), 50, 100),
        (None, 50, 5),
        ((1, 6), 50, 6),
        (None, 0, 1000),
        (None, 100, 1000),
        (None, 5e-324, 1000),
    ],
)
def test_ranks_that_bracket_a_percentile(ranks: tuple[int, int] | None, percent: float, count: int) -> None:
    assert percentile_ranks(count, percent) == ranks


@pytest.mark.parametrize(
    ("count", "percent"), [(6, 50), (36, 90), (72, 95), (368, 99), (3688, 99.9), (72, 5), (None, 0), (None, 100)]
)
def test_how_many_values_a_percentile_needs(count: int | None, percent: float) -> None:
    assert least_count(percent) == count


@given(st.floats(0.5, 99.5))
def test_as_many_values_as_needed_are_enough_and_one_less_is_not(percent: float) -> None:
    count = least_count(percent)
    assert count is not None
    assert percentile_ranks(count, percent) is not None
    assert percentile_ranks(count - 1, percent) is None


@given(st.integers(1, 50_000), PERCENTS, st.sampled_from([0.05, 0.025]))
def test_ranks_are_those_of_the_binomial_distribution(count: int, percent: float, error: float) -> None:
    # The lowest rank whose value is below the percentile with a probability of at most `error`, and its mirror image. Where that
    # probability is `error` itself, rounding decides.
    def ranks(share: float) -> set[int | None]:
        found = {int(stats.binom.isf(error * (1 + off), count, share)) + 1 for off in (-1e-9, 1e-9)}
        return {rank if rank <= count else None for rank in found}

    assert upper_rank(count, percent, error=error) in ranks(percent / 100)
    mirrored = {rank and count + 1 - rank for rank in ranks(1 - percent / 100)}
    assert lower_rank(count, percent, error=error) in mirrored


@given(st.integers(1, 50_000), PERCENTS)
def test_the_interval_brackets_the_percentile_of_the_sample(count: int, percent: float) -> None:
    sample = Distribution(values=tuple(range(count)), through=tuple(range(1, count + 1)))
    interval, middle = percentile_interval(sample, percent), sample.percentile(percent)
    assert middle is not None
    if interval is not None:
        assert interval[0] <= middle <= interval[1]


@pytest.mark.parametrize(("count", "percent"), [(359_000, 50), (8_900_000, 99)])
def test_the_approximation_for_many_values_goes_on_where_the_sum_ends(count: int, percent: float) -> None:
    # Both sides of the border: the reach of the interval grows with the root of the count.
    for side in (count, count * 102 // 100):
        ranks = percentile_ranks(side, percent)
        assert ranks is not None
        share = percent / 100
        reach = 1.959964 * math.sqrt(side * share * (1 - share))
        assert ranks[0] == pytest.approx(side * share - reach, abs=1.6)
        assert ranks[1] == pytest.approx(side * share + reach + 1, abs=1.6)


def test_gaps_in_any_number_have_an_interval() -> None:
    gaps = Distribution.of_counts([(9_000, 10**12), (11_000, 10**12)])
    assert percentile_interval(gaps, 99) == (11_000, 11_000)
    assert percentile_interval(gaps, 50) == (9_000, 11_000)


@pytest.mark.parametrize(("certain", "above"), [(False, 15), (True, 16)])
def test_a_limit_is_certainly_missed_when_chance_seldom_puts_so_many_above(certain: bool, above: int) -> None:
    # Of 1000 values 10 are above p99 on average, 15 or more in 8.2 and 16 or more in 4.8 of 100 samples.
    values = Distribution.of_counts([(100, 1000 - above), (900, above)])
    assert is_certainly_above(values, 99, 500) is certain


def test_a_value_equal_to_the_limit_keeps_it() -> None:
    values = Distribution.of([500] * 1000)
    assert not is_certainly_above(values, 99, 500)
    assert is_certainly_above(values, 99, 499)


def test_no_values_certify_nothing() -> None:
    empty = Distribution.of([])
    assert percentile_interval(empty, 50) is None
    assert not is_certainly_above(empty, 99, 0)


@pytest.mark.parametrize(("percent", "count"), [(50, 60), (90, 150), (99, 500)])
def test_the_true_percentile_lies_within_95_of_100_intervals(percent: float, count: int) -> None:
    random, truth = Random(7), -math.log(1 - percent / 100)
    hits = 0
    for _ in range(400):
        interval = percentile_interval(Distribution.of(random.expovariate(1) for _ in range(count)), percent)
        assert interval is not None
        hits += interval[0] <= truth <= interval[1]
    assert 0.935 <= hits / 400 <= 0.995
