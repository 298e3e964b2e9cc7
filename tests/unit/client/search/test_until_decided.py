"""How often load points are repeated until what is asked of them is decided."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
from _records import columns
from benchrun_client.contract import (
    ERROR,
    LOOKS,
    AutoPlan,
    Limit,
    RateLoad,
    Stage,
    Width,
    load_point_of,
    look_error,
    looks_within,
)
from benchrun_client.search.load_results import LoadResult, result_of
from benchrun_client.search.until_decided import (
    FIRST,
    LookPosition,
    StagesCost,
    following,
    is_done,
    is_look,
    may_follow,
)
from hypothesis import given, strategies as st
from truth_kit.queues import MM8, percentile, stage as queue_stage
from unit.client.plans import stage

LIMIT = Limit(metric="E2EL", percentile="90", max_milliseconds=100)


def auto(**changes: Any) -> AutoPlan:
    fields: dict[str, Any] = {
        "objectives": (LIMIT,),
        "max_failed_percent": "1",
        "max_requests": 10_000,
        "looks": looks_within(12),
    }
    return AutoPlan(**(fields | changes))


def stages(load_points: int, repeats: int, *, seed: int = 1) -> list[Stage]:
    """Return all that there may be, each repeat in another order, 100 requests each."""
    found = []
    for repeat in range(1, repeats + 1):
        order = list(range(load_points))
        Random(f"{seed} {repeat}").shuffle(order)
        found += [
            stage(
                id=f"chat/concurrency={each}/r{repeat}", repeat=repeat, requests=100
            )
            for each in order
        ]
    return found


def walked(
    asked: AutoPlan,
    planned: Sequence[Stage],
    done_after: Mapping[str, int],
    *,
    seconds: float = 1.0,
) -> list[Stage]:
    """Return the stages that are measured if a load point is decided from so many repeats on."""
    here: LookPosition | None = FIRST
    measured: list[Stage] = []
    costs: dict[str, StagesCost] = {}
    while here is not None:
        now = planned[here.number]
        load_point = load_point_of(now.id)
        spent = StagesCost(100 * len(measured), seconds * len(measured))
        foreseen = may_follow(asked, planned, here, spent=spent, costs=costs)
        measured.append(now)
        costs[load_point] = StagesCost(now.requests, seconds)
        done = is_look(now, here) and now.repeat >= done_after.get(load_point, 99)
        spent = StagesCost(100 * len(measured), seconds * len(measured))
        here = following(asked, planned, here, done=done, spent=spent, costs=costs)
        if here is not None and len(costs) == len(
            {load_point_of(s.id) for s in planned}
        ):
            # Only the budget may have ended meanwhile.
            assert planned[here.number] in foreseen or now.repeat == 1
    return measured


def repeats_of(measured: Sequence[Stage]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for each in measured:
        counts[load_point_of(each.id).partition("=")[2]] += 1
    return dict(counts)


def test_all_looks_together_err_as_often_as_one() -> None:
    assert look_error((1, 3, 5)) == pytest.approx(ERROR / 4)
    assert looks_within(12) == (1, 2, 3, 5, 8, 12)
    assert looks_within(100) == LOOKS


def test_a_load_point_that_is_decided_gets_no_more_repeats() -> None:
    planned = stages(3, 12)
    done = {
        "chat/concurrency=0": 1,
        "chat/concurrency=1": 4,
        "chat/concurrency=2": 6,
    }
    measured = walked(auto(), planned, done)
    assert repeats_of(measured) == {"0": 1, "1": 5, "2": 8}
    # In the plan's order, which is another one in each repeat.
    assert measured == [s for s in planned if s in measured]


def test_the_most_repeats_end_what_is_never_decided() -> None:
    assert repeats_of(walked(auto(), stages(2, 14), {})) == {"0": 12, "1": 12}


@pytest.mark.parametrize(
    ("budget", "repeats"),
    [
        ({"max_requests": 1000}, 5),
        # Not enough for the look at eight: as many repeats as there is room for, then a last look.
        ({"max_requests": 1399}, 6),
        ({"max_requests": 399}, 1),
        ({"max_seconds": 10}, 5),
        ({"max_seconds": 13}, 6),
    ],
)
def test_the_budget_ends_whole_repeats(budget: Any, repeats: int) -> None:
    found = walked(auto(**budget), stages(2, 12), {})
    assert repeats_of(found) == {"0": repeats, "1": repeats}


def test_what_a_decided_load_point_saves_goes_to_the_others() -> None:
    asked = auto(max_requests=1200)
    both = walked(asked, stages(2, 12), {})
    assert repeats_of(both) == {"0": 6, "1": 6}
    one = walked(asked, stages(2, 12), {"chat/concurrency=0": 3})
    assert repeats_of(one) == {"0": 3, "1": 9}


@given(
    load_points=st.integers(1, 5),
    most=st.integers(1, 20),
    requests=st.integers(500, 9000),
    done=st.lists(st.integers(1, 30), min_size=5, max_size=5),
)
def test_repeats_are_whole_and_within_the_budget(
    load_points: int, most: int, requests: int, done: list[int]
) -> None:
    planned = stages(load_points, most)
    asked = auto(max_requests=requests, looks=looks_within(most))
    wanted = {f"chat/concurrency={n}": done[n] for n in range(load_points)}
    measured = walked(asked, planned, wanted)
    assert 100 * len(measured) <= requests
    counts = repeats_of(measured)
    going_on = {
        counts[name.partition("=")[2]]
        for name, after in wanted.items()
        if not any(
            look >= after and look <= counts[name.partition("=")[2]]
            for look in LOOKS
        )
    }
    # Those that are not decided have equally many, and the most of all.
    assert len(going_on) <= 1 or max(going_on) - min(going_on) == 0
    assert all(each == max(counts.values()) for each in going_on)


def results(repeats: int, *, failed: int = 0, seed: int = 1) -> list[LoadResult]:
    """Return the stages of a queue whose percentiles are known."""
    found = []
    for number in range(repeats):
        rows = queue_stage(MM8, 0.7, 1000, Random(f"{seed} {number}"))
        made = columns(
            [round(1e6 * row.sent) for row in rows],
            [round(1e6 * row.waited) for row in rows],
            [round(1e6 * row.sojourn) for row in rows],
            tokens=(1, 1),
        )
        ok = (0,) * failed + (1,) * (len(rows) - failed)
        load = RateLoad(requests_per_second="5.6")
        found.append(result_of(load, {"E2EL"}, made.model_copy(update={"ok": ok})))
    return found


def limit_at(times: float) -> Limit:
    true = 1000 * percentile(MM8, 0.7, 90)
    return LIMIT.model_copy(update={"max_milliseconds": round(true * times)})


def test_a_load_point_is_done_once_every_objective_is_decided() -> None:
    far = auto(objectives=(limit_at(3.0),))
    assert is_done(far, results(1))
    near = auto(objectives=(limit_at(1.3),))
    assert not is_done(near, results(1))
    assert is_done(near, results(8))
    both = auto(objectives=(limit_at(3.0), limit_at(1.0)))
    assert not is_done(both, results(8))


def test_a_width_is_asked_for_in_percent_of_the_percentile() -> None:
    def wanted(percent: str) -> AutoPlan:
        width = Width(metric="E2EL", percentile="90", percent=percent)
        return auto(objectives=(), widths=(width,))

    assert not is_done(wanted("25"), results(1))
    assert is_done(wanted("25"), results(8))
    assert not is_done(wanted("1"), results(8))


def test_where_too_many_fail_nothing_is_decided_by_more() -> None:
    assert is_done(auto(objectives=(limit_at(1.0),)), results(1, failed=11))
    assert not is_done(auto(objectives=(limit_at(1.0),)), results(1, failed=10))
