"""The course of a search: the next load, and the confirmation of the one found."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

from benchrun_client.contract import CONFIRMATIONS, Outcome, SearchPlan, spelled
from benchrun_client.search.bisection import (
    Position,
    after,
    first,
    may_follow,
    stage_at,
)
from hypothesis import given, strategies as st
from unit.client.search.searches import search

Steps = list[tuple[Position, Outcome]]


@dataclass(frozen=True)
class Bracket:
    """What a search has found when it ended: the highest load that met the objectives, the lowest
    that did not."""

    met: Decimal | None
    not_met: Decimal | None


def walked(
    search_spec: SearchPlan, outcome: Callable[[Position], Outcome]
) -> Steps:
    """The whole course of a search whose outcomes are these."""
    steps: Steps = []
    here: Position | None = first(search_spec)
    while here is not None:
        found = outcome(here)
        steps.append((here, found))
        here = after(search_spec, here, found)
    return steps


def looks(steps: Steps) -> Steps:
    return [step for step in steps if not step[0].confirmation]


def confirmations(steps: Steps) -> Steps:
    return [step for step in steps if step[0].confirmation]


def bracket(steps: Steps) -> Bracket:
    last = {
        position.number: (position.value, outcome)
        for position, outcome in looks(steps)
    }.values()
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
outcomes: st.SearchStrategy[Outcome] = st.sampled_from(
    ["Met", "Missed", "Inconclusive"]
)


@st.composite
def searches(draw: st.DrawFn) -> SearchPlan:
    axis = draw(st.sampled_from(["RequestRate", "Concurrency"]))
    numbers: st.SearchStrategy[Decimal] = (
        rates if axis == "RequestRate" else st.integers(1, 20_000).map(Decimal)
    )
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
    assert values(looks(steps)) == [
        "1",
        "2",
        "4",
        "8",
        "16",
        "11.31",
        "9.512",
        "10.37",
        "10.83",
    ]
    assert bracket(steps) == Bracket(Decimal("10.83"), Decimal("11.31"))


def test_a_load_is_looked_at_once_and_where_nothing_was_seen_it_bounds_the_search() -> (
    None
):
    unclear = Decimal(4)
    steps = walked(
        search(),
        lambda p: (
            "Inconclusive"
            if p.value == unclear
            else "Met"
            if p.value < unclear
            else "Missed"
        ),
    )
    assert [(p.number, p.repeat) for p, _ in steps if p.value == unclear] == [
        (3, 1)
    ]
    assert bracket(steps).not_met == unclear


def test_where_the_lowest_load_is_too_much_it_ends() -> None:
    assert values(walked(search(), keeps(Decimal("0.5")))) == ["1"]


def test_where_the_highest_load_is_kept_it_ends_there() -> None:
    assert values(looks(walked(search(highest="6"), keeps(Decimal(100))))) == [
        "1",
        "2",
        "4",
        "6",
    ]


def test_users_are_whole_and_the_bracket_ends_at_neighbours() -> None:
    steps = walked(
        search(axis="Concurrency", tolerance_percent="1"), keeps(Decimal(5))
    )
    assert values(looks(steps)) == ["1", "2", "4", "8", "6", "5"]
    assert bracket(steps) == Bracket(Decimal(5), Decimal(6))


@given(search_spec=searches(), data=st.data())
def test_a_search_ends_within_bounds_and_never_repeats_a_load(
    search_spec: SearchPlan, data: st.DataObject
) -> None:
    steps = walked(search_spec, lambda _: data.draw(outcomes))
    assert (
        max(position.number for position, _ in looks(steps))
        <= search_spec.max_probes
    )
    assert len(steps) <= search_spec.most_stages
    assert max(position.repeat for position, _ in steps) <= search_spec.max_repeats
    assert {(position.number, position.repeat) for position, _ in steps} <= set(
        search_spec.places
    )
    for some, begin in (
        (looks(steps), 1),
        (confirmations(steps), search_spec.max_probes + 1),
    ):
        of_some = {position.number for position, _ in some}
        assert of_some == set(range(begin, begin + len(of_some)))
    tried = {position.number: position.value for position, _ in looks(steps)}
    confirmed = list(
        {
            position.number: position.value for position, _ in confirmations(steps)
        }.values()
    )
    assert len(set(tried.values())) == len(tried)
    assert len(confirmed) <= CONFIRMATIONS
    assert all(higher > lower for higher, lower in pairwise(confirmed))
    for value in (*tried.values(), *confirmed):
        assert (
            Decimal(search_spec.lowest.value)
            <= value
            <= Decimal(search_spec.highest)
        )
        assert search_spec.lowest.axis == "RequestRate" or value == int(value)


@given(search_spec=searches(), data=st.data())
def test_whatever_comes_the_highest_load_that_met_is_confirmed_first(
    search_spec: SearchPlan, data: st.DataObject
) -> None:
    steps = walked(search_spec, lambda _: data.draw(outcomes))
    met = bracket(steps).met
    tried = confirmations(steps)
    assert [position.value for position, _ in tried][:1] == (
        [] if met is None else [met]
    )
    # It ends with the first load that is confirmed, and looks for no other one after that.
    assert [outcome for _, outcome in tried[:-1]].count("Met") == 0
    assert looks(steps) + tried == steps


def test_the_load_found_is_confirmed_by_a_stage_of_its_own() -> None:
    steps = walked(search(highest="6"), keeps(Decimal(100)))
    (last, outcome) = steps[-1]
    assert (
        last.number,
        last.repeat,
        spelled(last.value),
        last.confirmation,
        outcome,
    ) == (
        13,
        1,
        "6",
        1,
        "Met",
    )
    seeds = [stage_at(search(highest="6"), position).seed for position, _ in steps]
    assert len(set(seeds)) == len(seeds)


def unconfirmed(
    limit: Decimal, confirmed: Decimal
) -> Callable[[Position], Outcome]:
    """A server that keeps the objectives up to one load at first, and up to another one when that
    is to be confirmed."""
    return lambda position: (
        "Met"
        if position.value <= (confirmed if position.confirmation else limit)
        else "Missed"
    )


def test_a_load_that_is_not_confirmed_gives_way_to_lower_ones_by_rising_steps() -> (
    None
):
    steps = walked(
        search(tolerance_percent="10"), unconfirmed(Decimal(8), Decimal("5.2"))
    )
    assert values(confirmations(steps)) == ["8", "7.272", "5.194"]
    never = walked(
        search(tolerance_percent="10"), unconfirmed(Decimal(8), Decimal(1))
    )
    assert values(confirmations(never)) == ["8", "7.272", "5.194"]


def test_below_the_lowest_load_nothing_is_confirmed_and_users_fall_by_one_at_least() -> (
    None
):
    search_spec = search(
        axis="Concurrency", lowest="4", highest="5", tolerance_percent="5"
    )
    assert values(
        confirmations(walked(search_spec, unconfirmed(Decimal(5), Decimal(0))))
    ) == [
        "5",
        "4",
    ]


def test_a_confirmation_is_repeated_while_it_is_not_certain() -> None:
    steps = walked(
        search(highest="2"),
        lambda p: "Inconclusive" if p.confirmation and p.repeat < 3 else "Met",
    )
    assert [(p.number, p.repeat) for p, _ in confirmations(steps)] == [
        (13, 1),
        (13, 2),
        (13, 3),
    ]


@given(search_spec=searches(), data=st.data())
def test_whatever_comes_the_loads_that_met_lie_below_those_that_did_not(
    search_spec: SearchPlan, data: st.DataObject
) -> None:
    found = bracket(walked(search_spec, lambda _: data.draw(outcomes)))
    if found.met is not None and found.not_met is not None:
        assert found.met < found.not_met


@given(search_spec=searches(), share=st.floats(0, 1.2))
def test_enough_probes_bracket_the_truth_within_the_tolerance(
    search_spec: SearchPlan, share: float
) -> None:
    search_spec = search_spec.model_copy(update={"max_probes": 64})
    low = Decimal(search_spec.lowest.value)
    high = Decimal(search_spec.highest)
    truth = low + (high - low) * Decimal(share)
    found = bracket(walked(search_spec, keeps(truth)))
    assert found.met is not None
    assert found.met <= truth
    if found.not_met is None:
        assert found.met == high
        return
    assert truth < found.not_met
    finest = (
        Decimal(1)
        if search_spec.lowest.axis == "Concurrency"
        else Decimal("0.000001")
    )
    width = found.not_met - found.met
    assert width <= max(
        finest, found.met * Decimal(search_spec.tolerance_percent) / 100
    )


@given(search_spec=searches(), data=st.data())
def test_what_may_follow_holds_what_does(
    search_spec: SearchPlan, data: st.DataObject
) -> None:
    here: Position | None = first(search_spec)
    while here is not None:
        foreseen = may_follow(search_spec, here)
        assert len(foreseen) <= 3
        here = after(search_spec, here, data.draw(outcomes))
        assert here is None or stage_at(search_spec, here) in foreseen
