"""How often the words are wrong: 5 fresh servers a side, each figure with a CV of 1.5 %."""

from random import Random

from benchrun.api import DEFAULT_METRICS
from unit.judge.comparison.sides import compared, servers, words

DIFFERENT = ("Better", "Worse", "Mixed")


def test_equals_are_called_different_in_at_most_5_percent_of_2000_pairs() -> None:
    random = Random(20260101)
    outcomes = [compared(servers("a", random), servers("b", random), *DEFAULT_METRICS).outcome for _ in range(2000)]
    assert sum(outcome in DIFFERENT for outcome in outcomes) <= 100


def test_a_true_effect_of_5_percent_is_found_in_at_least_90_percent() -> None:
    random = Random(20260102)
    found = [compared(servers("a", random), servers("b", random, effect=1.05), *DEFAULT_METRICS) for _ in range(400)]
    assert sum(each.outcome == "Worse" for each in found) >= 0.9 * len(found)
    figures = [word for each in found for word in words(each).values()]
    assert figures.count("Worse") >= 0.9 * len(figures)
    assert "Better" not in figures
