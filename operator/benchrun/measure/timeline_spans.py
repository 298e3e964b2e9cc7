"""The timeline of a result document: samples in equal spans of time."""

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
    """The mean of some samples, with the least and the greatest of them."""

    mean: float
    low: float
    high: float


class Grid(NamedTuple):
    """How the time of all samples is divided into equal intervals."""

    first: float  # Unix seconds of the first sample.
    seconds: float  # Length of a span.
    at_most: int

    def number(self, sample: Sample) -> int:
        """Return the number of the interval that a sample is in, from 0."""
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


def role_timelines(samples: Sequence[Sample], *, at_most: int) -> Timeline | None:
    """Return the samples as the timeline of a result document; None without samples.

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
    servers = [
        list(group)
        for _, group in groupby(
            sorted(samples, key=attrgetter("pod")), key=attrgetter("pod")
        )
    ]
    usage = _bands(servers, "kv_cache")
    kv_cache_percent = _total(usage, scale=100 / len(usage)) if usage else None
    return TimelineSpan(
        number=number,
        servers=len(servers),
        running=_rounded(_total(_bands(servers, "running"))),
        waiting=_rounded(_total(_bands(servers, "waiting"))),
        kv_cache_percent=_rounded(kv_cache_percent),
    )


def _rounded(band: Band | None) -> tuple[float, float, float] | None:
    if band is None:
        return None
    return (
        rounded(band.mean) or 0.0,
        rounded(band.low) or 0.0,
        rounded(band.high) or 0.0,
    )


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
