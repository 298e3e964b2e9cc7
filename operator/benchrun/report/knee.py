"""Find the knee: the load point with the greatest power (throughput / mean response time).

Below the knee one percent more throughput costs less than one percent more response time, above it
more (L. Kleinrock, ICC 1979). If repeats of neighbouring load points reach the same power, they
can't be told apart from the knee, and the knee is a range.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

LEAST_POINTS = 3
"""Fewest points of a curve. With two points, each is an end of the curve and can't be the knee."""


class CurvePoint(NamedTuple):
    load: float  # Requests a second, or users.
    throughput: float  # Requests completed a second.
    response_seconds: (
        float  # Mean time from a request's due instant to its last token.
    )
    repeats: tuple[
        tuple[float, float], ...
    ] = ()  # Throughput and response time of each repeat.


class Knee(NamedTuple):
    """The knee of a curve, or why it is unknown."""

    sentence: str
    # The load point of greatest power; None if no knee was bracketed.
    load: float | None = None
    # Lowest load point that is not distinguishable from it.
    low: float | None = None
    # Highest load point that is not distinguishable from it.
    high: float | None = None


def knee(points: Sequence[CurvePoint], *, unit: str) -> Knee:
    """Return the knee of a curve, or why there is none.

    The sentence gives loads in `unit`, such as "requests/s" or "users".
    """
    usable = sorted(
        (p for p in points if p.throughput > 0 and p.response_seconds > 0),
        key=lambda p: p.load,
    )
    if len(usable) < LEAST_POINTS:
        return Knee(
            f"No knee is marked: it takes at least {LEAST_POINTS} load points with trustworthy "
            "numbers."
        )
    powers = [p.throughput / p.response_seconds for p in usable]
    best = powers.index(max(powers))
    first, last = _as_good(usable, best)
    low = usable[first].load
    high = usable[last].load
    if first == 0:
        return Knee(
            f"The knee is at or below {low:g} {unit}, the lowest load measured."
        )
    if last == len(usable) - 1:
        return Knee(
            f"The knee is at or above {high:g} {unit}, the highest load measured."
        )
    among = (
        f", not distinguishable from the others between {low:g} and {high:g} {unit}"
        if first != last
        else ""
    )
    return Knee(
        f"The knee is at {usable[best].load:g} {unit}{among}.",
        usable[best].load,
        low,
        high,
    )


def _as_good(points: Sequence[CurvePoint], best: int) -> tuple[int, int]:
    """Return the first and last neighbours of the best point that are as good as it.

    A neighbour is as good if its repeats reach the range of the best point's repeats.
    """
    least = min(_powers(points[best]), default=math.inf)
    is_good = [max(_powers(point), default=-math.inf) >= least for point in points]
    first = last = best
    while first > 0 and is_good[first - 1]:
        first -= 1
    while last < len(points) - 1 and is_good[last + 1]:
        last += 1
    return first, last


def _powers(point: CurvePoint) -> list[float]:
    """Return the power of each repeat; an empty list if there is only one, which has no range."""
    repeats = point.repeats if len(point.repeats) > 1 else ()
    return [
        throughput / response for throughput, response in repeats if response > 0
    ]
