"""Intervals of percentiles: published ranks, exact probabilities, and how often they hold."""

import math
from random import Random

import pytest
from benchrun.judge.comparison.figures import Figure
from benchrun.judge.comparison.hypotheses import Question, answers
from benchrun.measure import (
    POWER,
    SERVERS,
    Distribution,
    detectable_percent,
    detectable_shift,
    mean_of,
    power_sentence,
    welch,
)
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
def test_ranks_that_bracket_a_percentile(
    ranks: tuple[int, int] | None, percent: float, count: int
) -> None:
    assert interval_ranks(count, percent) == ranks


@pytest.mark.parametrize(
    ("count", "percent"),
    [(6, 50), (36, 90), (72, 95), (368, 99), (3688, 99.9), (72, 5), (None, 0), (None, 100)],
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
def test_ranks_are_those_of_the_binomial_distribution(
    count: int, percent: float, error: float
) -> None:
    # The lowest rank whose value is below the percentile with a probability of at most `error`, and
    # its mirror image. Where that probability is `error` itself, rounding decides.
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
def test_the_interval_brackets_the_percentile_of_the_sample(
    count: int, percent: float, inflation: float
) -> None:
    ranks, middle = (
        interval_ranks(count, percent, inflation=inflation),
        Distribution.of(range(count)).percentile(percent),
    )
    assert middle is not None
    if ranks is not None:
        assert 1 <= ranks[0] <= middle + 1 <= ranks[1] <= count


@pytest.mark.parametrize(
    ("count", "inflation"), [(359_000, 1.0), (20_000, 4.0), (8_900_000, 17.8), (10**16, 1.0)]
)
@pytest.mark.parametrize("percent", [50, 99])
def test_the_reach_grows_with_the_root_of_the_independent_ones(
    count: int, inflation: float, percent: int
) -> None:
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


# What a comparison could find: told before, and true.


def found(random: Random, *, values: int, questions: int, change_percent: float) -> bool:
    """Whether one changed figure among others that did not is called Worse."""
    shift = math.log1p(change_percent / 100)
    requested = []
    for number in range(questions):
        sides = [
            mean_of([random.gauss(at, 0.015) for _ in range(values)])
            for at in (0.0, 0.0 if number else shift)
        ]
        requested.append(Question("MeanTTFT", *(Figure(1.0, side) for side in sides)))
    return answers(requested)[0].word == "Worse"


@pytest.mark.parametrize(("values", "questions"), [(2, 1), (3, 5), (5, 1), (5, 5), (10, 3)])
def test_a_change_as_small_as_told_is_found_in_80_percent(values: int, questions: int) -> None:
    random, rounds = Random(values * 100 + questions), 1200 // questions**0.5
    percents = detectable_percent(values, questions)
    share = sum(
        found(random, values=values, questions=questions, change_percent=percents)
        for _ in range(int(rounds))
    ) / int(rounds)
    assert share == pytest.approx(POWER, abs=0.05)


@pytest.mark.parametrize(("values", "questions"), [(3, 20), (5, 20), (5, 30)])
def test_the_same_of_many_questions(values: int, questions: int) -> None:
    """Only the changed figure is drawn: that the others did not change leaves it Bonferroni's
    level."""
    random, rounds, level = Random(values + questions), 1500, 0.05 / questions
    shift = math.log1p(detectable_percent(values, questions) / 100)
    sides = (
        [mean_of([random.gauss(at, 0.015) for _ in range(values)]) for at in (0.0, shift)]
        for _ in range(rounds)
    )
    assert sum(welch(*side).p_value <= level for side in sides) / rounds == pytest.approx(
        POWER, abs=0.04
    )


@pytest.mark.parametrize(("values", "questions"), [(5, 5), (5, 30), (6, 30)])
def test_the_same_of_servers_compared_in_pairs(values: int, questions: int) -> None:
    random, rounds, level = Random(values * questions), 1500, 0.05 / questions
    shift = math.log1p(detectable_percent(values, questions, in_blocks=True) / 100)
    pairs = (
        [random.gauss(shift, 0.015) - random.gauss(0, 0.015) for _ in range(values)]
        for _ in range(rounds)
    )
    assert sum(mean_of(each).p_value <= level for each in pairs) / rounds == pytest.approx(
        POWER, abs=0.04
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(6, 0, 3.5139), (100, 0, 2.8291), (100, 100, 2.8153)]
)
def test_the_shift_of_a_noncentral_t(first: int, second: int, expected: float) -> None:
    """As SciPy's nct gives it at 5 %: of Student's test exactly, of Welch's for many values
    nearly."""
    assert detectable_shift(first, second, error=0.05) == pytest.approx(expected, rel=2e-4)


def test_more_values_find_less_and_more_questions_find_more() -> None:
    assert detectable_percent(2, 5) > detectable_percent(3, 5) > detectable_percent(10, 5)
    assert detectable_percent(5, 30) > detectable_percent(5, 5)
    assert detectable_percent(5, 20) == pytest.approx(5.76, abs=0.05)


def test_thousands_of_questions_and_values_have_a_finite_shift() -> None:
    assert 2.8 < detectable_shift(5000, 5000, error=0.05) < 2.81
    assert math.isfinite(detectable_shift(2, 2, error=0.05 / 5000))


def test_unknown_values_are_left_out() -> None:
    assert "no change can be found" in power_sentence(1, 5, unit="repeats")
    assert "unknown" in power_sentence(5, 0, unit="repeats")
    assert "5.8 % in one figure" in power_sentence(5, 20, unit="repeats")
    assert "8.3 % in one figure" in power_sentence(5, 20, unit=SERVERS)
