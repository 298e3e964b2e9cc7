"""Which runs to start now: in order, so many at a time, and none that the budget has no room for."""

from __future__ import annotations

from statistics import fmean

from benchrun.decide.sweep.situation import SweepSituation
from benchrun.plan.sweep.order import PlannedRun


def to_start(situation: SweepSituation) -> tuple[PlannedRun, ...]:
    """The next ones. A run that exists is never among them, whatever state it is in."""
    if situation.spec.suspend:
        return ()
    places = max(0, situation.spec.max_parallel - len(situation.active))
    return tuple(
        planned for ahead, planned in enumerate(situation.waiting[:places]) if budget_has_room(situation, ahead)
    )


def budget_has_room(situation: SweepSituation, ahead: int = 0) -> bool:
    """Whether one more run would stay within the budget, beside those that go on and `ahead` more. A run is taken to cost
    the mean of those that have ended."""
    budget = situation.spec.gpu_seconds_budget
    if budget is None:
        return True
    spent = sum(situation.gpu_seconds)
    expected = fmean(situation.gpu_seconds) if situation.gpu_seconds else 0.0
    return spent < budget and spent + expected * (len(situation.active) + ahead + 1) <= budget
