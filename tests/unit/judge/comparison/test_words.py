"""Better, Worse, no detectable difference, or not to be told; and an interval that says the same."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from benchrun.api import Change, ComparedMetric
from benchrun.judge.comparison.figures import NO_CV, ONE_REPEAT
from hypothesis import given, strategies as st
from unit.judge.comparison.sides import TYPICAL, changes, compared, repeated, row, run, servers, words


def ends(change: Change) -> list[float]:
    """Lower end, estimate, upper end."""
    found = (change.low_percent, change.change_percent, change.high_percent)
    return [end for end in found if end is not None]


@pytest.mark.parametrize(
    ("expected", "metric", "factor"),
    [
        ("Better", "OutputThroughput", 1.2),
        ("Worse", "OutputThroughput", 0.8),
        ("Better", "RequestThroughput", 1.2),
        ("Better", "TotalTokenThroughput", 1.2),
        ("Better", "MeanTTFT", 0.8),
        ("Worse", "MeanTTFT", 1.2),
        ("Worse", "MeanTPOT", 1.2),
        ("Worse", "MeanITL", 1.2),
        ("Worse", "MeanE2EL", 1.2),
        ("NoDetectableDifference", "MeanTTFT", 1.005),
        ("NoDetectableDifference", "OutputThroughput", 1.0),
    ],
)
def test_more_throughput_is_better_and_more_latency_is_worse(
    expected: str, metric: ComparedMetric, factor: float
) -> None:
    changed: dict[str, Any] = {metric: TYPICAL[metric] * factor}
    found = compared(repeated("a"), repeated("b", **changed), metric)
    assert words(found) == {metric: expected}
    assert found.outcome == expected


def test_the_interval_of_one_server_a_side_by_hand() -> None:
    """CV 2 % over 4 repeats on both sides: a standard error of 0.01414 in logarithms, and t is 2.447 at 6 degrees."""
    before, after = repeated("a", repeats=4, cv=2, MeanTTFT=100), repeated("b", repeats=4, cv=2, MeanTTFT=110)
    change = changes(compared(before, after, "MeanTTFT"))["MeanTTFT"]
    assert (change.baseline, change.value) == (100.0, 110.0)
    assert ends(change) == pytest.approx(
        [100 * math.expm1(0.09531 + t * 0.014141) for t in (-2.4469, 0, 2.4469)], abs=0.01
    )


def test_the_interval_of_several_servers_by_hand() -> None:
    """Welch's t-test of the logarithms, as SciPy computes it."""
    before = [run(f"a{n}", MeanTTFT=value) for n, value in enumerate((100.0, 102.0, 104.0))]
    after = [run(f"b{n}", MeanTTFT=value) for n, value in enumerate((110.0, 112.0, 114.0))]
    change = changes(compared(before, after, "MeanTTFT"))["MeanTTFT"]
    assert ends(change) == pytest.approx([5.2201, 9.8063, 14.5925], abs=0.005)
    assert (change.baseline, change.value) == (101.99, 111.99)


@pytest.mark.parametrize(
    ("reason", "after"),
    [
        pytest.param(ONE_REPEAT, repeated("b", repeats=1, MeanTTFT=200.0), id="one repeat"),
        pytest.param(NO_CV, run("b", repeats=3, MeanTTFT=200.0), id="an older operator did not say"),
    ],
)
def test_without_an_idea_of_the_noise_a_change_is_only_a_number(reason: str, after: object) -> None:
    found = compared(repeated("a", MeanTTFT=100.0), after, "MeanTTFT")  # type: ignore[arg-type]
    change = changes(found)["MeanTTFT"]
    assert (change.word, change.reason, found.outcome) == ("Unknown", reason, "Unknown")
    assert (change.change_percent, change.low_percent, change.high_percent) == (100.0, None, None)
    assert "95 %" not in found.message


def test_a_figure_that_one_side_lacks_is_not_comparable_and_the_others_are() -> None:
    found = compared(repeated("a"), repeated("b", MeanTTFT=None), "OutputThroughput", "MeanTTFT")
    assert words(found) == {"OutputThroughput": "NoDetectableDifference", "MeanTTFT": "NotComparable"}
    assert changes(found)["MeanTTFT"].reason == "b has no mean_ttft_ms"
    assert found.outcome == "NoDetectableDifference"


def test_a_throughput_of_zero_has_no_ratio() -> None:
    assert words(compared(repeated("a", OutputThroughput=0.0), repeated("b"), "OutputThroughput")) == {
        "OutputThroughput": "NotComparable"
    }


def test_better_and_worse_together_are_mixed() -> None:
    found = compared(repeated("a"), repeated("b", OutputThroughput=1500.0, MeanTTFT=60.0))
    assert (found.outcome, words(found)) == ("Mixed", {"OutputThroughput": "Better", "MeanTTFT": "Worse"})


def test_values_equal_to_their_last_digit_are_not_exact() -> None:
    """Results carry five digits: the last one may come from rounding."""
    before, after = (
        [run(f"{side}{n}", RequestThroughput=value) for n in range(3)] for side, value in (("a", 3.9999), ("b", 4.0))
    )
    assert words(compared(before, after, "RequestThroughput")) == {"RequestThroughput": "NoDetectableDifference"}


def test_more_figures_widen_every_interval() -> None:
    before, after = repeated("a"), repeated("b", MeanTTFT=43.9)
    alone = changes(compared(before, after, "MeanTTFT"))["MeanTTFT"]
    among = changes(compared(before, after, "MeanTTFT", "MeanTPOT", "MeanITL", "MeanE2EL"))["MeanTTFT"]
    assert ends(among)[2] > ends(alone)[2]


def test_two_values_a_side_leave_an_end_that_can_be_written() -> None:
    cells = [f"chat/rate={n}" for n in range(1, 65)]
    wild = [[run(f"{side}{n}", [row(c, MeanTTFT=43.0 * 9**n) for c in cells]) for n in range(2)] for side in "ab"]
    found = compared(wild[0], wild[1])
    ends = [change.high_percent for cell in found.cells for change in cell.changes]
    assert all(end is not None and end < 1e6 for end in ends)


@given(seed=st.integers(0, 10_000), effect=st.sampled_from((1.0, 1.01, 1.03, 1.1)), count=st.integers(2, 6))
def test_the_interval_leaves_zero_out_exactly_where_the_word_says_so(seed: int, effect: float, count: int) -> None:
    random = Random(seed)
    cells = ("chat/rate=1", "chat/rate=4")
    before = servers("a", random, count=count, cells=cells)
    after = servers("b", random, count=count, cells=cells, effect=effect)
    for cell in compared(before, after).cells:
        for change in cell.changes:
            low, middle, high = ends(change)
            assert low <= middle <= high
            leaves_out = low > 0 or high < 0
            assert leaves_out == (change.word in ("Better", "Worse"))


@given(seed=st.integers(0, 10_000))
def test_the_other_way_round_better_is_worse(seed: int) -> None:
    random = Random(seed)
    before, after = servers("a", random), servers("b", random, effect=1.03)
    turned = {"Better": "Worse", "Worse": "Better"}
    there, back = words(compared(before, after)), words(compared(after, before))
    assert back == {metric: turned.get(word, word) for metric, word in there.items()}
