"""What limits a load point, in a sentence with its numbers.

Something is always full; the question is whether more of it would bring more. Compute is therefore claimed only where it
shows: throughput that stays flat while more runs at once, between load points or within one, or steps full of prompts.
Where throughput grew with what ran, or nothing is known about it, the limit is what holds the queue back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.api.status import Bottleneck
from benchrun.judge.bottleneck_sentences import (
    client_limits,
    kept_up,
    memory_is_full,
    not_told,
    places_are_taken,
    steps_are_full,
    throughput_is_flat,
)
from benchrun.judge.finding import StageFinding
from benchrun.judge.waiting import MIN_QUEUED_SHARE
from benchrun.measure.full_steps import full_steps
from benchrun.measure.pace import Stretch
from benchrun.measure.pressure import Hold, Lengths, Pressure
from benchrun.measure.scaling import Comparison, OperatingPoint, comparisons, within

MAX_PREEMPTED_PERCENT = 1.0
"""Of the requests: with more, work is done twice, and a throughput that does not grow proves nothing about compute."""


@dataclass(frozen=True, slots=True)
class Observed:
    """All that is known of one load point."""

    point: OperatingPoint | None
    """Its place among the others of its workload; None without readings or throughput."""
    pressure: Pressure | None
    stretches: Sequence[Stretch]
    lengths: Lengths | None
    requests: int
    always_busy: bool
    """Whether the load keeps the server supplied: users, or all at once."""
    client: StageFinding | None
    """ClientSaturated, where the client was found to be."""

    @property
    def queues(self) -> bool:
        """Whether requests waited in the server for more than a moment."""
        found = self.pressure
        return found is not None and found.queued > 0 and found.queued >= MIN_QUEUED_SHARE * found.readings

    @property
    def works_twice(self) -> bool:
        """Whether preemptions were more than a few."""
        preemptions = self.pressure.preemptions if self.pressure is not None else None
        return preemptions is not None and 100 * preemptions > MAX_PREEMPTED_PERCENT * self.requests

    @property
    def comparable(self) -> OperatingPoint | None:
        """The point, if its throughput is the server's own and of work done once."""
        return None if self.works_twice or self.client is not None else self.point


def bottleneck(observed: Observed, others: Sequence[OperatingPoint]) -> Bottleneck:
    """Of one load point; `others` are the comparable ones of its workload."""
    # A client that is late and yet keeps a queue standing at the server is not what holds it back.
    if observed.client is not None and not observed.queues:
        return client_limits(observed.client)
    pressure = observed.pressure
    if pressure is None:
        return Bottleneck(
            limit="Unknown",
            sentence="What limits the server can't be told: 0 readings show it busy.",
            evidence={"readings": 0},
        )
    among = _flat_among(observed.comparable, others)
    if among is not None:
        return throughput_is_flat(among, f"from {among.low.name} to {among.high.name}")
    inside = None if observed.works_twice else within(observed.stretches, always_busy=observed.always_busy)
    if inside is not None and inside.is_flat:
        return throughput_is_flat(inside, "within this load point")
    return _held(observed, pressure, inside) if observed.queues else kept_up(pressure, observed.point)


def _flat_among(point: OperatingPoint | None, others: Sequence[OperatingPoint]) -> Comparison | None:
    """The widest comparison of this point with another that shows no gain."""
    if point is None:
        return None
    pairs = (pair for other in others for pair in comparisons([point, other]))
    return max((pair for pair in pairs if pair.is_flat), key=lambda pair: pair.running_ratio, default=None)


def _held(observed: Observed, pressure: Pressure, inside: Comparison | None) -> Bottleneck:
    """Requests wait. Full steps prove compute unless throughput grew with what ran, or work was done twice."""
    grew = inside if inside is not None and inside.grows else None
    if grew is None and not observed.works_twice:
        full = full_steps(pressure, observed.stretches, observed.lengths)
        if full is not None:
            return steps_are_full(full, pressure)
    if pressure.hold is Hold.SEQUENCES:
        return places_are_taken(pressure, grew)
    return memory_is_full(pressure, grew) if pressure.hold is Hold.KV_CACHE else not_told(pressure)
