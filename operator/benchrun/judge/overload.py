"""Arrivals of an open loop that exceed what the server completes, as the steady-state rule found them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.judge.finding import Code, StageFinding
from benchrun.judge.rules import MeasuredStage
from benchrun.judge.steady import BEYOND_CAPACITY


@dataclass(frozen=True, slots=True)
class Overload:
    """One stage: what came and what was completed a second, and what that does to the requests under way."""

    arrival_rate: float
    completion_rate: float
    under_way_before: int
    """When half of the arrivals' time was over, those in the client's queue among them."""
    under_way_after: int
    """When the last request was due."""
    seconds: float
    """In between."""


def overload_of(stages: Sequence[MeasuredStage], found: Sequence[StageFinding]) -> Overload | None:
    """The stage where it is most marked; None where no stage was beyond capacity."""
    beyond = [f for f in found if f.code is Code.NOT_STEADY_STATE and f.evidence.get("cause") == BEYOND_CAPACITY]
    if not beyond:
        return None
    worst = max(beyond, key=lambda finding: finding.weight)
    stage = next((stage for stage in stages if stage.record.stage_id == worst.stage_id), None)
    arrived, completed = (worst.evidence.get(rate) for rate in ("arrivalsPerSecond", "completionsPerSecond"))
    if stage is None or not isinstance(arrived, float) or not isinstance(completed, float):
        return None
    columns, demand = stage.record.requests, stage.shape.demand
    # Under a cap the last sending is late: demand has fallen by then.
    due = [start - queue for start, queue in zip(columns.start_us, columns.queue_us, strict=True)]
    first, last = min(due), max(due)
    middle = (first + last) // 2
    return Overload(arrived, completed, demand.at(middle), demand.at(last), (last - middle) / 1e6)
