"""How often load points are repeated until what is asked of them is decided. Pure.

The stages of the plan are all that there may be, repeat by repeat, each repeat in an order of its
own. They are measured in this order, without those of load points that are done. A load point is
looked at after certain repeats only, and each look may decide wrongly with an equal part of the
whole error: so the error holds however often is looked, and whenever the load point is done.

Repeats between two looks are measured of every load point that is not done, or not at all: what
was measured at the same time stays comparable. Where the budget does not last until the next look,
as many repeats as it has are the last ones, and end with a last look.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from benchrun_client import contract
from benchrun_client.search.load_results import LoadResult, sample_of


class StagesCost(NamedTuple):
    """What stages take, or have taken."""

    requests: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LookPosition:
    """The stage that is measured, and what is known before it."""

    number: int  # Position among the plan's stages.
    until: int  # The repeat after which is looked.
    done: frozenset[str] = frozenset()  # Load points that get no more repeats.


FIRST = LookPosition(0, 1)


def is_look(stage: contract.Stage, here: LookPosition) -> bool:
    """Return whether the load point of this stage is looked at once it is measured."""
    return stage.repeat == here.until


def is_done(auto: contract.AutoPlan, results: Sequence[LoadResult]) -> bool:
    """Return whether a load point needs no more repeats.

    Everything that is asked is decided, or so many requests failed that nothing can be.
    """
    requests = sum(each.requests for each in results)
    failed = sum(each.failed for each in results)
    if 100 * failed > float(auto.max_failed_percent) * requests:
        return True
    error = contract.look_error(auto.looks)
    return all(
        _is_decided(limit, results, error) for limit in auto.objectives
    ) and all(_is_narrow(width, results, error) for width in auto.widths)


def _is_decided(
    limit: contract.Limit, results: Sequence[LoadResult], error: float
) -> bool:
    sample = sample_of(limit.metric, results)
    if not sample.count:
        return False
    found = contract.decided(
        sample,
        float(limit.percentile),
        1000.0 * limit.max_milliseconds,
        error=error,
    )
    return found.outcome != "Inconclusive"


def _is_narrow(
    width: contract.Width, results: Sequence[LoadResult], error: float
) -> bool:
    sample = sample_of(width.metric, results)
    percent = float(width.percentile)
    found = contract.interval(sample, percent, error=error)
    if found is None or sample.repeats < contract.MIN_REPEATS:
        return False
    value = sample.percentile(percent)
    widest = max(found.high - value, value - found.low)
    return widest <= float(width.percent) / 100 * value


def following(
    auto: contract.AutoPlan,
    stages: Sequence[contract.Stage],
    here: LookPosition,
    *,
    done: bool,
    spent: StagesCost,
    costs: Mapping[str, StagesCost],
) -> LookPosition | None:
    """Return the next stage; None if all load points are done, or the budget ends.

    `done` says whether the load point of the stage at `here` is done with it. `spent` is what all
    stages so far have taken, `costs` what one repeat of each load point takes.
    """
    measured = stages[here.number]
    closed = here.done | (
        {contract.load_point_of(measured.id)} if done else frozenset()
    )
    after = next(
        (
            number
            for number in range(here.number + 1, len(stages))
            if contract.load_point_of(stages[number].id) not in closed
        ),
        None,
    )
    if after is None:
        return None
    if stages[after].repeat <= here.until:
        return replace(here, number=after, done=closed)
    until = _next_look(
        auto,
        here.until,
        spent,
        [costs[each] for each in costs if each not in closed],
    )
    return None if until is None else LookPosition(after, until, closed)


def may_follow(
    auto: contract.AutoPlan,
    stages: Sequence[contract.Stage],
    here: LookPosition,
    *,
    spent: StagesCost,
    costs: Mapping[str, StagesCost],
) -> tuple[contract.Stage, ...]:
    """Return every stage that may be the next, so that its prompts can be written before."""
    outcomes = (False, True) if is_look(stages[here.number], here) else (False,)
    found = (
        following(auto, stages, here, done=done, spent=spent, costs=costs)
        for done in outcomes
    )
    numbers = dict.fromkeys(each.number for each in found if each is not None)
    return tuple(stages[number] for number in numbers)


def _next_look(
    auto: contract.AutoPlan,
    repeats: int,
    spent: StagesCost,
    costs: Sequence[StagesCost],
) -> int | None:
    """Return after how many repeats is looked next; None if there is no next look."""
    wanted = next((look for look in auto.looks if look > repeats), None)
    if wanted is None:
        return None
    left = auto.max_requests - spent.requests
    more = left // max(1, sum(each.requests for each in costs))
    seconds = sum(each.seconds for each in costs)
    if auto.max_seconds is not None and seconds > 0:
        more = min(more, math.floor((auto.max_seconds - spent.seconds) / seconds))
    until = min(wanted, repeats + more)
    return until if until > repeats else None
