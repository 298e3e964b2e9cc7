"""Whether a server did more when it had more at hand.

A server that runs twice as many requests at once and completes no more in a second has no room left: whatever else is
full, it is the work itself that takes the time. One that completes more for every request it may run is held back by what
keeps it from running more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from benchrun.measure.pace import Pace, Stretch, mean_pace

MIN_RUNNING_RATIO = 1.5
"""Less variation of what was running tells nothing about what it brings."""
FLAT_PERCENT = 5.0
"""Up to so much more throughput is none: half again as many running would bring 50 % if it helped in full."""
GROWING_EXPONENT = 0.3
"""Throughput that rises at least with this power of running grows: twice as many bring 23 % or more."""
MAX_SHARE_DIFFERENCE = 0.1
"""Paces whose share of prompt tokens is further from the whole's are of other work: a prompt token is cheap, an output
token dear, so their rates can't be compared."""
PART = 5
"""Neighbouring paces that are averaged first. A gauge is a moment: sorted one by one, readings that happen to be high would
be set against others that happen to be low, at one and the same load."""
MIN_PARTS = 6


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What a server had at hand on average, and what it did."""

    name: str
    running: float
    throughput: float
    """In any unit, the same for all points that are compared."""
    kv_percent: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two points, the one with more running last."""

    low: OperatingPoint
    high: OperatingPoint

    @property
    def running_ratio(self) -> float:
        """At least MIN_RUNNING_RATIO in a comparison that says anything."""
        return self.high.running / self.low.running

    @property
    def change_percent(self) -> float:
        """Of the throughput, from low to high."""
        return 100 * (self.high.throughput / self.low.throughput - 1)

    @property
    def is_flat(self) -> bool:
        """More running brought nothing."""
        return self.change_percent <= FLAT_PERCENT

    @property
    def grows(self) -> bool:
        """More running brought more."""
        ratio = self.high.throughput / self.low.throughput
        return ratio > 0 and math.log(ratio) >= GROWING_EXPONENT * math.log(self.running_ratio)


def comparisons(points: Iterable[OperatingPoint]) -> list[Comparison]:
    """Every pair far enough apart in what was running, the widest first."""
    known = sorted((p for p in points if p.running > 0 and p.throughput > 0), key=lambda p: p.running)
    pairs = (Comparison(low, high) for low, high in combinations(known, 2))
    telling = [pair for pair in pairs if pair.running_ratio >= MIN_RUNNING_RATIO]
    return sorted(telling, key=lambda pair: -pair.running_ratio)


def within(stretches: Iterable[Stretch], *, always_busy: bool) -> Comparison | None:
    """The least against the most busy third of a cell's own time; None where they don't differ enough.

    `always_busy`: the load keeps the server supplied (users, or all at once). Otherwise the busiest third must have had
    requests waiting: without, its throughput is that of the arrivals.
    """
    parts = [mean_pace(s[i : i + PART]) for s in stretches for i in range(0, len(s) - PART + 1, PART)]
    alike = sorted(_alike(parts), key=lambda part: part.running)
    if len(alike) < MIN_PARTS:
        return None
    third = len(alike) // 3
    most = mean_pace(alike[-third:])
    if not always_busy and most.waiting < 1:
        return None
    found = comparisons([_point("low", mean_pace(alike[:third])), _point("high", most)])
    return found[0] if found else None


def _alike(parts: Sequence[Pace]) -> list[Pace]:
    share = mean_pace(parts).prompt_share if parts else 0.0
    return [p for p in parts if p.token_rate > 0 and abs(p.prompt_share - share) <= MAX_SHARE_DIFFERENCE]


def _point(name: str, pace: Pace) -> OperatingPoint:
    return OperatingPoint(name, pace.running, pace.token_rate, pace.kv_percent)
