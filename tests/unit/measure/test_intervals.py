"""How many values a percentile takes, and what a comparison could find."""

import math
from random import Random

import pytest
from benchrun.judge.comparison.figures import NoisyFigure
from benchrun.judge.comparison.hypotheses import Hypothesis, answers
from benchrun.measure import (
    POWER,
    SERVERS,
    detectable_percent,
    detectable_shift,
    mean_of,
    power_sentence,
    welch,
)
from benchrun_client.contract import least_count
from hypothesis import given, strategies as st


@pytest.mark.parametrize(
    ("count", "percent"),
    [
        (10, 50),
        (50, 90),
        (100, 95),
        (500, 99),
        (5000, 99.9),
        (100, 5),
        (None, 0),
        (None, 100),
    ],
)
def test_how_many_values_a_percentile_needs(
    count: int | None, percent: float
) -> None:
    assert least_count(percent) == count


@given(st.floats(0.5, 99.5))
def test_as_many_have_five_values_beyond_it_and_one_less_does_not(
    percent: float,
) -> None:
    count = least_count(percent)
    share = min(percent, 100 - percent) / 100
    assert count is not None
    assert count * share >= 5 - 1e-3
    assert (count - 1) * share < 5


# What a comparison could find: told before, and true.


def found(
    random: Random, *, values: int, questions: int, change_percent: float
) -> bool:
    """Whether one changed figure among others that did not is called Worse."""
    shift = math.log1p(change_percent / 100)
    requested = []
    for number in range(questions):
        sides = [
            mean_of([random.gauss(at, 0.015) for _ in range(values)])
            for at in (0.0, 0.0 if number else shift)
        ]
        requested.append(
            Hypothesis("MeanTTFT", *(NoisyFigure(1.0, side) for side in sides))
        )
    return answers(requested)[0].word == "Worse"


@pytest.mark.parametrize(
    ("values", "questions"), [(2, 1), (3, 5), (5, 1), (5, 5), (10, 3)]
)
def test_a_change_as_small_as_told_is_found_in_80_percent(
    values: int, questions: int
) -> None:
    random = Random(values * 100 + questions)
    rounds = 1200 // questions**0.5
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
    random = Random(values + questions)
    rounds = 1500
    level = 0.05 / questions
    shift = math.log1p(detectable_percent(values, questions) / 100)
    sides = (
        [
            mean_of([random.gauss(at, 0.015) for _ in range(values)])
            for at in (0.0, shift)
        ]
        for _ in range(rounds)
    )
    assert sum(
        welch(*side).p_value <= level for side in sides
    ) / rounds == pytest.approx(POWER, abs=0.04)


@pytest.mark.parametrize(("values", "questions"), [(5, 5), (5, 30), (6, 30)])
def test_the_same_of_servers_compared_in_pairs(values: int, questions: int) -> None:
    random = Random(values * questions)
    rounds = 1500
    level = 0.05 / questions
    shift = math.log1p(detectable_percent(values, questions, in_blocks=True) / 100)
    pairs = (
        [random.gauss(shift, 0.015) - random.gauss(0, 0.015) for _ in range(values)]
        for _ in range(rounds)
    )
    assert sum(
        mean_of(each).p_value <= level for each in pairs
    ) / rounds == pytest.approx(POWER, abs=0.04)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(6, 0, 3.5139), (100, 0, 2.8291), (100, 100, 2.8153)],
)
def test_the_shift_of_a_noncentral_t(
    first: int, second: int, expected: float
) -> None:
    """As SciPy's nct gives it at 5 %: of Student's test exactly, of Welch's for many values
    nearly."""
    assert detectable_shift(first, second, error=0.05) == pytest.approx(
        expected, rel=2e-4
    )


def test_more_values_find_less_and_more_questions_find_more() -> None:
    assert (
        detectable_percent(2, 5)
        > detectable_percent(3, 5)
        > detectable_percent(10, 5)
    )
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
