"""Samples in equal spans of time, for charts and for the result document."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from benchrun.api import RoleTimeline, Sample, Timeline, TimelineSpan
from benchrun.measure.request_figures import rounded

MIN_SAMPLES_A_SPAN = 2
"""Spans are at least this many sampling intervals long: an empty one is then a gap, not jitter."""


class Band(NamedTuple):
    """The mean of some samples with the least and the greatest of them."""

    mean: float
    low: float
    high: float


class Span(NamedTuple):
    """What some servers together did in a span of time. None: no sample."""

    start: float  # Seconds since the origin.
    end: float
    running: Band | None
    waiting: Band | None
    kv_cache_percent: Band | None


class Grid(NamedTuple):
    """Equal spans over the time of all samples."""

    first: float  # Unix seconds of the first sample.
    seconds: float  # Length of a span.
    at_most: int

    def number(self, sample: Sample) -> int:
        """Return the number of the span that a sample is in, from 0."""
        return min(int((sample.at - self.first) / self.seconds), self.at_most - 1)


def grid_of(samples: Sequence[Sample], *, at_most: int) -> Grid:
    """Return the grid of these samples, which are in order of time and not empty."""
    first = samples[0].at
    last = samples[-1].at
    times = [sample.at for sample in samples if sample.pod == samples[0].pod]
    gaps = sorted(b - a for a, b in pairwise(times))
    interval = gaps[len(gaps) // 2] if gaps else last - first
    length = max((last - first) / at_most, MIN_SAMPLES_A_SPAN * interval) or 1.0
    return Grid(first, length, at_most)


def spans(samples: Sequence[Sample], *, origin: float, at_most: int) -> list[Span]:
    """Divide the time of all samples into equal spans.

    Running and waiting are sums over servers, KV cache usage is their mean. Least and greatest are
    sums (means) of each server's own. A server without samples in a span does not count there.
    """
    if not samples:
        return []
    grid = grid_of(samples, at_most=at_most)
    inside = _by_number(samples, grid)
    start = grid.first - origin
    return [
        _span(inside.get(number, []), start + number * grid.seconds, grid.seconds)
        for number in range(max(inside) + 1)
    ]


def role_timelines(samples: Sequence[Sample], *, at_most: int) -> Timeline | None:
    """Return the samples as the timeline of a result document; None: there are none.

    All roles share the grid. Figures have five significant digits.
    """
    if not samples:
        return None
    grid = grid_of(samples, at_most=at_most)
    roles = []
    for role in dict.fromkeys(sample.role for sample in samples):
        own = [sample for sample in samples if sample.role == role]
        roles.append(
            RoleTimeline(
                role=role,
                servers=len({sample.pod for sample in own}),
                spans=[
                    _stored(number, each)
                    for number, each in _by_number(own, grid).items()
                ],
            )
        )
    return Timeline(
        begin_unix_seconds=grid.first,
        span_seconds=grid.seconds,
        samples=len(samples),
        roles=roles,
    )


def _by_number(samples: Iterable[Sample], grid: Grid) -> Mapping[int, list[Sample]]:
    return {
        number: list(group) for number, group in groupby(samples, key=grid.number)
    }


def _stored(number: int, samples: Sequence[Sample]) -> TimelineSpan:
    found = _span(samples, 0.0, 0.0)
    return TimelineSpan(
        number=number,
        servers=len({sample.pod for sample in samples}),
        running=_rounded(found.running),
        waiting=_rounded(found.waiting),
        kv_cache_percent=_rounded(found.kv_cache_percent),
    )


def _rounded(band: Band | None) -> tuple[float, float, float] | None:
    if band is None:
        return None
    return (
        rounded(band.mean) or 0.0,
        rounded(band.low) or 0.0,
        rounded(band.high) or 0.0,
    )


def _span(samples: Sequence[Sample], start: float, length: float) -> Span:
    servers = [
        list(group)
        for _, group in groupby(
            sorted(samples, key=attrgetter("pod")), key=attrgetter("pod")
        )
    ]
    usage = _bands(servers, "kv_cache")
    running = _total(_bands(servers, "running"))
    waiting = _total(_bands(servers, "waiting"))
    kv_cache_percent = _total(usage, scale=100 / len(usage)) if usage else None
    return Span(start, start + length, running, waiting, kv_cache_percent)


def _bands(servers: Sequence[Sequence[Sample]], figure: str) -> list[Band]:
    known = [
        [value for s in server if (value := getattr(s, figure)) is not None]
        for server in servers
    ]
    return [
        Band(math.fsum(values) / len(values), min(values), max(values))
        for values in known
        if values
    ]


def _total(bands: Sequence[Band], *, scale: float = 1.0) -> Band | None:
    ends = (
        scale * math.fsum(getattr(band, end) for band in bands)
        for end in ("mean", "low", "high")
    )
    return Band(*ends) if bands else None
