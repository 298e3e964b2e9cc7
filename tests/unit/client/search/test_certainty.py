"""When a percentile keeps its limit for certain: by the same test as the operator's."""

from __future__ import annotations

import pytest
from benchrun.measure.percentiles import Distribution, least_count, percentile_interval
from benchrun_client.search.course import Tally, outcome
from hypothesis import given
from hypothesis import strategies as st

LIMIT = 10.0


def by_interval(tally: Tally, percent: float) -> str:
    """As the operator judges a load point."""
    counts = [(LIMIT, tally.within), (LIMIT + 1, tally.values - tally.within)]
    interval = percentile_interval(Distribution.of_counts(counts), percent)
    if interval is None:
        return "Inconclusive"
    low, high = interval
    return "Met" if high <= LIMIT else "Missed" if low > LIMIT else "Inconclusive"


@pytest.mark.parametrize("percent", [50.0, 90.0, 95.0, 99.0])
def test_every_tally_is_judged_as_the_operator_judges_it(percent: float) -> None:
    for values in (*range(1, 130), 369, 500, 2000):
        if values < (least_count(percent) or 0):
            continue
        for within in range(values + 1):
            tally = Tally(values, within)
            assert outcome(tally, percent) == by_interval(tally, percent), tally


@given(values=st.integers(400, 20_000), share=st.floats(0, 1))
def test_large_tallies_too(values: int, share: float) -> None:
    tally = Tally(values, round(values * share))
    assert outcome(tally, 99.0) == by_interval(tally, 99.0)


def test_too_few_values_never_keep_a_limit_for_certain() -> None:
    assert outcome(Tally(367, 367), 99.0) == "Inconclusive"
    assert outcome(Tally(368, 368), 99.0) == "Met"


def test_a_few_values_can_miss_it() -> None:
    assert outcome(Tally(3, 0), 99.0) == "Missed"


def test_nothing_measured_is_no_outcome() -> None:
    assert outcome(Tally(), 50.0) == "Inconclusive"


def test_repeats_add_up() -> None:
    once = Tally(200, 200)
    assert outcome(once, 99.0) == "Inconclusive"
    assert outcome(once + once, 99.0) == "Met"
