"""Intervals of percentiles: published ranks, exact probabilities, and how often they hold."""

import math
from random import Random

import pytest
from benchrun.measure import Distribution
from benchrun_client.contract import MOST_INDEPENDENT, interval_ranks, least_count
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
    assert interval_ranks(count, percent) == ranks


@pytest.mark.parametrize(
    ("count", "percent"), [(6, 50), (36, 90), (72, 95), (368, 99), (3688, 99.9), (72, 5), (None, 0), (None, 100)]
)
def test_how_many_values_a_percentile_needs(count: int | None, percent: float) -> None:
    assert least_count(percent) == count


@given(st.floats(0.5, 99.5))
def test_as_many_values_as_needed_are_enough_and_one_less_is_not(percent: float) -> None:
    count = least_count(percent)
    assert count is not None
    assert interval_ranks(count, percent) is not None
    assert interval_ranks(count - 1, percent) is None


@given(st.integers(1, 50_000), PERCENTS, st.sampled_from([0.05, 0.025]))
def test_ranks_are_those_of_the_binomial_distribution(count: int, percent: float, error: float) -> None:
    # The lowest rank whose value is below the percentile with a probability of at most `error`, and its mirror image. Where that
    # probability is `error` itself, rounding decides.
    def ranks(share: float) -> set[int | None]:
        found = {int(stats.binom.isf(error * (1 + off), count, share)) + 1 for off in (-1e-9, 1e-9)}
        return {rank if rank <= count else None for rank in found}

    found = interval_ranks(count, percent, error=error)
    lows = {rank and count + 1 - rank for rank in ranks(1 - percent / 100)}
    highs = ranks(percent / 100)
    if found is None:
        assert None in lows | highs
    else:
        assert found[0] in lows
        assert found[1] in highs


@given(st.integers(1, 50_000), PERCENTS, st.floats(1, 50))
def test_the_interval_brackets_the_percentile_of_the_sample(count: int, percent: float, inflation: float) -> None:
    ranks, middle = (
        interval_ranks(count, percent, inflation=inflation),
        Distribution.of(range(count)).percentile(percent),
    )
    assert middle is not None
    if ranks is not None:
        assert 1 <= ranks[0] <= middle + 1 <= ranks[1] <= count


@pytest.mark.parametrize(("count", "inflation"), [(359_000, 1.0), (20_000, 4.0), (8_900_000, 17.8), (10**16, 1.0)])
@pytest.mark.parametrize("percent", [50, 99])
def test_the_reach_grows_with_the_root_of_the_independent_ones(count: int, inflation: float, percent: int) -> None:
    ranks = interval_ranks(count, percent, inflation=inflation)
    assert ranks is not None
    share, independent = percent / 100, min(count / inflation, MOST_INDEPENDENT)
    reach = 1.959964 * math.sqrt(share * (1 - share) / independent)
    assert ranks[0] / count == pytest.approx(share - reach, abs=3 / independent)
    assert ranks[1] / count == pytest.approx(share + reach, abs=3 / independent)


@pytest.mark.parametrize(("percent", "count"), [(50, 60), (90, 150), (99, 500)])
def test_the_true_percentile_lies_within_95_of_100_intervals(percent: float, count: int) -> None:
    random, truth = Random(7), -math.log(1 - percent / 100)
    ranks, hits = interval_ranks(count, percent), 0
    assert ranks is not None
    for _ in range(400):
        values = sorted(random.expovariate(1) for _ in range(count))
        hits += values[ranks[0] - 1] <= truth <= values[ranks[1] - 1]
    assert 0.935 <= hits / 400 <= 0.995
