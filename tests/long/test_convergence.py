"""The operator dies, is cut off, or is another release at every instant: a run and a search end as
they would have ended. The unit tests try a sample of these."""

import pytest
from hypothesis import given, settings, strategies as st
from unit.decide.convergence import (
    test_another_release as another_release,
    test_convergence as runs,
    test_search_convergence as searches,
)
from unit.decide.convergence.test_convergence import DEATHS, MISHAPS, Death

MANY_MISHAPS = settings(max_examples=200, deadline=None)
pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("death", DEATHS, ids=str)
def test_the_operator_of_a_run_may_die_at_every_moment(death: Death) -> None:
    runs.ends_the_same_after_a_death(death)


@pytest.mark.parametrize("death", DEATHS, ids=str)
def test_the_operator_of_a_search_may_die_at_every_moment(death: Death) -> None:
    searches.ends_the_same_after_a_death(death)


@pytest.mark.parametrize("rounds", another_release.ROUNDS)
def test_another_release_takes_over_after_every_round(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    another_release.ends_well_after(rounds, monkeypatch)


@MANY_MISHAPS
@given(st.lists(MISHAPS, max_size=70), st.booleans())
def test_a_run_ends_the_same_after_any_mishaps(
    mishaps: list[tuple[str, int]], broken: bool
) -> None:
    runs.ends_the_same_after(mishaps, broken=broken)


@MANY_MISHAPS
@given(st.lists(MISHAPS, max_size=70))
def test_a_search_ends_the_same_after_any_mishaps(
    mishaps: list[tuple[str, int]],
) -> None:
    searches.ends_the_same_after(mishaps)
