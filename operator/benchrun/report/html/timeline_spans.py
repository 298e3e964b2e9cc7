"""The servers over time for charts: all roles together, with gaps if samples are missing."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchrun.api import Timeline, TimelineSpan
from benchrun.measure import Band


class Span(NamedTuple):
    """The figures of all servers together in an interval of time; None if there was no sample."""

    start: float  # Seconds since the origin.
    end: float
    running: Band | None
    waiting: Band | None
    kv_cache_percent: Band | None


def spans(timeline: Timeline, *, origin: float) -> list[Span]:
    """Return the intervals of the timeline in order of time, each with the figures of all servers.

    Requests that run or wait are summed over the servers; KV cache usage is their mean. An interval
    without a sample has no figures.
    """
    by_number: dict[int, list[TimelineSpan]] = {}
    for role in timeline.roles:
        for span in role.spans:
            by_number.setdefault(span.number, []).append(span)
    start = timeline.begin_unix_seconds - origin
    length = timeline.span_seconds
    return [
        _span(by_number.get(number, []), start + number * length, length)
        for number in range(max(by_number, default=-1) + 1)
    ]


def _span(roles: Sequence[TimelineSpan], start: float, length: float) -> Span:
    caches = [(r.servers, r.kv_cache_percent) for r in roles if r.kv_cache_percent]
    servers = sum(count for count, _ in caches)
    return Span(
        start,
        start + length,
        running=_total((1.0, each.running) for each in roles),
        waiting=_total((1.0, each.waiting) for each in roles),
        kv_cache_percent=_total((n / servers, band) for n, band in caches)
        if servers
        else None,
    )


def _total(
    weighted: Iterable[tuple[float, tuple[float, float, float] | None]],
) -> Band | None:
    known = [
        [weight * end for end in band]
        for weight, band in weighted
        if band is not None
    ]
    return Band(*map(math.fsum, zip(*known, strict=True))) if known else None
