"""The knee of a load: up to where more load brings more throughput than it costs in latency.

By Kleinrock's power, throughput / mean response time (L. Kleinrock, "Power and Deterministic Rules of Thumb for Probabilistic
Problems in Computer Communications", ICC 1979). Below the knee one percent more throughput costs less than one percent more
response time, above it more; at the knee power is greatest. It needs no scaling of the axes: unlike a distance from a chord
(Kneedle), it does not move when a load point far beyond saturation is added.

The load points measured are all there is: the knee is the one of them with the greatest power, not a point between. Where the
repeats of others reach as much power, it can't be told from theirs, and a range is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LEAST_POINTS = 3
"""With two, one of them is an end whatever they show."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A load point that was measured."""

    load: float
    """What was asked for: requests a second, or users."""
    throughput: float
    """Requests completed a second."""
    response_seconds: float
    """Mean time from a request's due instant to its last token."""
    repeats: tuple[tuple[float, float], ...] = ()
    """Throughput and response time of each repeat."""


@dataclass(frozen=True, slots=True)
class Knee:
    """Where it lies, or why that can't be said."""

    load: float | None
    """The load point of greatest power; None: no knee was bracketed."""
    low: float | None
    """Lowest load point that can't be told from it."""
    high: float | None
    """Highest one."""
    sentence: str


def power(throughput: float, response_seconds: float) -> float:
    """Requests a second per second of response."""
    return throughput / response_seconds


def knee(points: Sequence[CurvePoint], *, unit: str) -> Knee:
    """`unit` follows the loads in the sentence: "requests/s", "users"."""
    usable = sorted((p for p in points if p.throughput > 0 and p.response_seconds > 0), key=lambda p: p.load)
    if len(usable) < LEAST_POINTS:
        return _none(f"No knee is marked: that takes {LEAST_POINTS} load points with trustworthy numbers at least.")
    powers = [power(p.throughput, p.response_seconds) for p in usable]
    best = powers.index(max(powers))
    first, last = _as_good(usable, best)
    if first == 0:
        return _none(
            f"The knee is not bracketed: {usable[0].load:g} {unit}, the lowest load, has as much power as any; "
            "it lies there or below."
        )
    if last == len(usable) - 1:
        return _none(
            f"The knee was not reached: {usable[-1].load:g} {unit}, the highest load, has as much power as any; "
            "it lies there or above."
        )
    low, high = usable[first].load, usable[last].load
    among = "" if first == last else f", which can't be told from the others between {low:g} and {high:g} {unit}"
    return Knee(usable[best].load, low, high, f"The knee is at {usable[best].load:g} {unit}{among}.")


def _as_good(points: Sequence[CurvePoint], best: int) -> tuple[int, int]:
    """First and last of the neighbours of the best whose repeats reach the range of its own."""
    least = min(_powers(points[best]), default=None)
    first = last = best
    while first > 0 and _reaches(points[first - 1], least):
        first -= 1
    while last < len(points) - 1 and _reaches(points[last + 1], least):
        last += 1
    return first, last


def _reaches(point: CurvePoint, least: float | None) -> bool:
    powers = _powers(point)
    return least is not None and bool(powers) and max(powers) >= least


def _powers(point: CurvePoint) -> list[float]:
    """Of the repeats; one repeat alone has no range."""
    if len(point.repeats) < 2:
        return []
    return [power(throughput, response) for throughput, response in point.repeats if response > 0]


def _none(sentence: str) -> Knee:
    return Knee(None, None, None, sentence)
