"""The course of a search: results against the objectives, and the next load."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pytest
from benchrun.measure import Distribution, least_count, percentile_interval
from benchrun_client.contract import Limit, Search
from benchrun_client.search.bisection import (
    Outcome,
    Position,
    Tally,
    after,
    first,
    load_result,
    may_follow,
    outcome,
    outcome_of,
    spelled,
)
from benchrun_client.stage_record import RawStage
from hypothesis import given, strategies as st
from unit.client.plans import raw_stage
from unit.client.search.searches import search

Steps = list[tuple[Position, Outcome]]


@dataclass(frozen=True)
class Bracket:
    """What a search has found when it ended: the highest load that met the objectives, the lowest that did not."""

    met: Decimal | None
    not_met: Decimal | None


def walked(of: Search, outcome: Callable[[Position], Outcome]) -> Steps:
    """The whole course of a search whose outcomes are these."""
    steps: Steps = []
    here: Position | None = first(of)
    while here is not None:
        found = outcome(here)
        steps.append((here, found))
        here = after(of, here, found)
    return steps


def bracket(steps: Steps) -> Bracket:
    last = {position.number: (position.value, outcome) for position, outcome in steps}.values()
    met = [value for value, outcome in last if outcome == "Met"]
    not_met = [value for value, outcome in last if outcome != "Met"]
    return Bracket(max(met, default=None), min(not_met, default=None))


def keeps(limit: Decimal) -> Callable[[Position], Outcome]:
    """A server that keeps the objectives up to this load."""
    return lambda position: "Met" if position.value <= limit else "Missed"


def values(steps: Steps) -> list[str]:
    return [spelled(position.value) for position, _ in steps]


rates = st.decimals(min_value="0.01", max_value=10_000, places=2)
tolerances = st.sampled_from(["1", "2.5", "5", "20", "100"])
outcomes: st.SearchStrategy[Outcome] = st.sampled_from(["Met", "Missed", "Inconclusive"])


@st.composite
def searches(draw: st.DrawFn) -> Search:
    axis = draw(st.sampled_from(["rate", "concurrency"]))
    numbers: st.SearchStrategy[Decimal] = rates if axis == "rate" else st.integers(1, 20_000).map(Decimal)
    low, high = sorted([draw(numbers), draw(numbers)])
    return search(
        axis=axis,
        lowest=str(low),
        highest=str(high if high > low else low + 1),
        tolerance_percent=draw(tolerances),
        max_probes=draw(st.integers(1, 64)),
        max_repeats=draw(st.integers(1, 4)),
    )


def test_it_doubles_until_a_load_is_too_much_and_then_halves_the_bracket() -> None:
    steps = walked(search(), keeps(Decimal("11")))
    assert values(steps) == ["1", "2", "4", "8", "16", "11.31", "9.512", "10.37", "10.83"]
    assert bracket(steps) == Bracket(Decimal("10.83"), Decimal("11.31"))


def test_a_load_that_is_not_certain_is_measured_again_and_then_bounds_the_search_from_above() -> None:
    unclear = Decimal(4)
    steps = walked(
        search(), lambda p: "Inconclusive" if p.value == unclear else "Met" if p.value < unclear else "Missed"
    )
    assert [(p.number, p.repeat) for p, _ in steps if p.value == unclear] == [(3, 1), (3, 2), (3, 3)]
    assert bracket(steps).not_met == unclear


def test_one_repeat_that_settles_it_is_enough() -> None:
    steps = walked(search(highest="2"), lambda p: "Inconclusive" if p.repeat == 1 else "Met")
    assert [(spelled(p.value), p.repeat) for p, _ in steps] == [("1", 1), ("1", 2), ("2", 1), ("2", 2)]


def test_where_the_lowest_load_is_too_much_it_ends() -> None:
    steps = walked(search(), keeps(Decimal("0.5")))
    assert values(steps) == ["1"]


def test_where_the_highest_load_is_kept_it_ends_there() -> None:
    steps = walked(search(highest="6"), keeps(Decimal(100)))
    assert values(steps) == ["1", "2", "4", "6"]


def test_users_are_whole_and_the_bracket_ends_at_neighbours() -> None:
    steps = walked(search(axis="concurrency", tolerance_percent="1"), keeps(Decimal(5)))
    assert values(steps) == ["1", "2", "4", "8", "6", "5"]
    assert bracket(steps) == Bracket(Decimal(5), Decimal(6))


@given(of=searches(), data=st.data())
def test_whatever_comes_it_ends_within_its_bounds_and_never_measures_a_load_twice(
    of: Search, data: st.DataObject
) -> None:
    steps = walked(of, lambda _: data.draw(outcomes))
    numbers = [position.number for position, _ in steps]
    assert max(numbers) <= of.max_probes
    assert len(steps) <= of.most_stages
    assert max(position.repeat for position, _ in steps) <= of.max_repeats
    loads = {position.number: position.value for position, _ in steps}
    assert len(set(loads.values())) == len(loads) == max(numbers)
    assert all(Decimal(of.lowest) <= value <= Decimal(of.highest) for value in loads.values())
    if of.axis == "concurrency":
        assert all(value == int(value) for value in loads.values())


@given(of=searches(), data=st.data())
def test_whatever_comes_the_loads_that_met_lie_below_those_that_did_not(of: Search, data: st.DataObject) -> None:
    found = bracket(walked(of, lambda _: data.draw(outcomes)))
    if found.met is not None and found.not_met is not None:
        assert found.met < found.not_met


@given(of=searches(), share=st.floats(0, 1.2))
def test_with_probes_enough_the_bracket_holds_the_truth_and_is_as_narrow_as_asked(of: Search, share: float) -> None:
    of = of.model_copy(update={"max_probes": 64})
    low, high = Decimal(of.lowest), Decimal(of.highest)
    truth = low + (high - low) * Decimal(share)
    found = bracket(walked(of, keeps(truth)))
    assert found.met is not None
    assert found.met <= truth
    if found.not_met is None:
        assert found.met == high
        return
    assert truth < found.not_met
    finest = Decimal(1) if of.axis == "concurrency" else Decimal("0.000001")
    width = found.not_met - found.met
    assert width <= max(finest, found.met * Decimal(of.tolerance_percent) / 100)


@given(of=searches(), data=st.data())
def test_what_may_follow_holds_what_does(of: Search, data: st.DataObject) -> None:
    here: Position | None = first(of)
    while here is not None:
        foreseen = may_follow(of, here)
        assert len(foreseen) <= 3
        here = after(of, here, data.draw(outcomes))
        assert here is None or here in foreseen


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


def stage(*ttft_ms: float, failed: int = 0) -> RawStage:
    """Answers of three tokens, 10 ms apart, whose first came after so long; then some that failed."""
    ok = [True] * len(ttft_ms) + [False] * failed
    return raw_stage(
        ok=ok,
        ttfts=[ms / 1000 for ms in ttft_ms] + [0.0] * failed,
        itls=[[0.01, 0.01]] * len(ttft_ms) + [[]] * failed,
        output_lens=[3] * len(ttft_ms) + [0] * failed,
    )


@pytest.mark.parametrize(
    ("metric", "milliseconds", "tally"),
    [
        ("TTFT", 30, Tally(3, 2)),
        ("TTFT", 29, Tally(3, 1)),
        ("E2EL", 50, Tally(3, 2)),
        ("TPOT", 10, Tally(3, 3)),
        ("TPOT", 9, Tally(3, 0)),
        ("ITL", 10, Tally(6, 6)),
        ("ITL", 9, Tally(6, 0)),
    ],
)
def test_each_latency_is_held_against_its_own_limit(metric: str, milliseconds: int, tally: Tally) -> None:
    limit = Limit.model_validate({"metric": metric, "percentile": "90", "max_milliseconds": milliseconds})
    of = search(objectives=(limit,))
    assert load_result(of, stage(10, 30, 40)).tallies == (tally,)


def test_failed_requests_have_no_latency_and_are_counted() -> None:
    found = load_result(search(), stage(10, 10, failed=2))
    assert (found.requests, found.failed, found.tallies) == (4, 2, (Tally(2, 2),))


def test_one_token_has_no_time_per_token_after_the_first() -> None:
    of = search(objectives=(Limit(metric="TPOT", percentile="50", max_milliseconds=20),))
    assert load_result(of, raw_stage(ok=[True, True], itls=[[], [0.01]], output_lens=[1, 2])).tallies == (Tally(1, 1),)


def test_met_missed_and_neither() -> None:
    of = search()
    assert outcome_of(of, load_result(of, stage(*[50] * 60))) == "Met"
    assert outcome_of(of, load_result(of, stage(*[150] * 60))) == "Missed"
    assert outcome_of(of, load_result(of, stage(*[50] * 54, *[150] * 6))) == "Inconclusive"


def test_repeats_are_told_together() -> None:
    of = search()
    few = load_result(of, stage(*[50] * 30))
    assert outcome_of(of, few) == "Inconclusive"
    assert outcome_of(of, few + few) == "Met"


def test_every_objective_counts() -> None:
    of = search(
        objectives=(
            Limit(metric="TTFT", percentile="90", max_milliseconds=100),
            Limit(metric="TPOT", percentile="50", max_milliseconds=5),
        )
    )
    assert outcome_of(of, load_result(of, stage(*[50] * 60))) == "Missed"


def test_where_too_many_fail_the_load_is_too_much_however_fast_the_others_were() -> None:
    of = search(max_failed_percent="2")
    assert outcome_of(of, load_result(of, stage(*[50] * 98, failed=2))) == "Met"
    assert outcome_of(of, load_result(of, stage(*[50] * 97, failed=3))) == "Missed"
    assert outcome_of(of, load_result(of, stage(failed=40))) == "Missed"


TRUTH = 10.0
"""Load at which exactly nine requests of ten keep the limit."""
STEEPNESS = 8
REQUESTS = 200
RUNS = 200


def share_within(load: float) -> float:
    """Of requests that keep the limit, the fewer the higher the load."""
    return 1 / (1 + (load / TRUTH) ** STEEPNESS / 9)


def found(of: Search, chance: random.Random) -> tuple[Decimal, Decimal]:
    """What one search ends with."""
    here: Position | None = first(of)
    tally = Tally()
    met, not_met = Decimal(0), Decimal(10**6)
    while here is not None:
        share = share_within(float(here.value))
        tally += Tally(REQUESTS, sum(chance.random() < share for _ in range(REQUESTS)))
        what = outcome(tally, 90)
        following = after(of, here, what)
        if following is None or following.number != here.number:
            met, not_met = (max(met, here.value), not_met) if what == "Met" else (met, min(not_met, here.value))
            tally = Tally()
        here = following
    return met, not_met


def test_noise_leads_it_astray_no_more_often_than_it_says() -> None:
    brackets = [found(search(), random.Random(seed)) for seed in range(RUNS)]
    too_high = sum(float(met) > TRUTH for met, _ in brackets)
    far_too_low = sum(float(not_met) < 0.8 * TRUTH for _, not_met in brackets)
    assert all(met < not_met for met, not_met in brackets)
    assert too_high <= 0.05 * RUNS
    assert far_too_low <= 0.05 * RUNS
