"""Fewer points that show the same: exactly which are kept.

A distribution keeps all of its values where they are at most `CDF_POINTS`. Of more it keeps those at 120 even shares, and at 80
shares that close in on the largest by a constant factor, so that a tail of one in 100,000 still has points. A timeline is cut
into equal spans of time; each keeps the mean, the least and the greatest reading, so that no spike is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter

from benchrun.measure.percentiles import Distribution
from benchrun.measure.samples import Sample

CDF_POINTS = 200
_EVEN, _TAIL = 120, 80
SPANS = 600
"""Of a timeline as wide as the page."""
FINE_SPANS = 2400
"""Of one that scrolls."""
MIN_READINGS_A_SPAN = 2
"""Spans are no shorter than so many readings are apart: an empty one is a hole, not a wavering clock."""


def cdf_points(distribution: Distribution) -> list[tuple[float, float]]:
    """Values, and the share of all that is at most as large (0 to 1). Ascending, from the least to the greatest."""
    count = distribution.count
    if count <= CDF_POINTS:
        ranks: Iterable[int] = distribution.through
    else:
        # The tail: what is left above shrinks from 1/120 of all to a single value.
        factor = (_EVEN / count) ** (1 / (_TAIL - 1))
        even = [round(count * step / _EVEN) for step in range(_EVEN)]
        tail = [round(count - count / _EVEN * factor**step) for step in range(_TAIL)]
        ranks = sorted({max(1, rank) for rank in (*even, *tail)} | {count})
    # Of equal values the last: it has the share of all of them.
    return list({distribution.at_rank(rank): rank / count for rank in ranks}.items())


@dataclass(frozen=True, slots=True)
class Span:
    """What all servers together did in a span of time. None: not read then."""

    start: float
    """Seconds since the origin."""
    end: float
    running: Band | None
    waiting: Band | None
    kv_cache_percent: Band | None


@dataclass(frozen=True, slots=True)
class Band:
    """Readings of one figure."""

    mean: float
    low: float
    high: float


def spans(samples: Sequence[Sample], *, origin: float, at_most: int) -> list[Span]:
    """Equal spans over all readings. Running and waiting are sums over servers, and KV usage is their mean; the least and the
    greatest are sums (means) of each server's own. Servers that were not read in a span are not made up for."""
    if not samples:
        return []
    first, last = samples[0].at, samples[-1].at
    length = max((last - first) / at_most, MIN_READINGS_A_SPAN * _interval(samples)) or 1.0
    place = {id(sample): min(int((sample.at - first) / length), at_most - 1) for sample in samples}
    inside = {index: list(group) for index, group in groupby(samples, key=lambda sample: place[id(sample)])}
    return [
        _span(inside.get(index, []), first - origin + index * length, length)
        for index in range(max(place.values()) + 1)
    ]


def _interval(samples: Sequence[Sample]) -> float:
    """Between readings of one server, typically; of a single reading each, all there is."""
    times = [sample.at for sample in samples if sample.pod == samples[0].pod]
    gaps = sorted(b - a for a, b in pairwise(times))
    return gaps[len(gaps) // 2] if gaps else samples[-1].at - samples[0].at


def _span(samples: Sequence[Sample], start: float, length: float) -> Span:
    servers = [list(group) for _, group in groupby(sorted(samples, key=attrgetter("pod")), key=attrgetter("pod"))]
    usage = _bands(servers, "kv_cache")
    return Span(
        start=start,
        end=start + length,
        running=_total(_bands(servers, "running")),
        waiting=_total(_bands(servers, "waiting")),
        kv_cache_percent=_total(usage, scale=100 / len(usage)) if usage else None,
    )


def _bands(servers: Sequence[Sequence[Sample]], figure: str) -> list[Band]:
    """One a server that was read."""
    known = [[value for s in server if (value := getattr(s, figure)) is not None] for server in servers]
    return [Band(math.fsum(values) / len(values), min(values), max(values)) for values in known if values]


def _total(bands: Sequence[Band], *, scale: float = 1.0) -> Band | None:
    if not bands:
        return None
    return Band(*(scale * math.fsum(getattr(band, end) for band in bands) for end in ("mean", "low", "high")))
