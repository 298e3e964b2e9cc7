"""Which percentiles of a row can be relied on, and how far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchrun.measure.cells import Pools, milliseconds, percentile_word, rounded
from benchrun.measure.intervals import percentile_interval


class Certainty(NamedTuple):
    """By the keys of `metrics`."""

    intervals: dict[str, list[float]]
    """Low and high end in milliseconds, five significant digits."""
    uncertain: list[str]
    """Measured, but by too few requests to be bounded on both sides."""


def certainty(pools: Pools, percentiles: Sequence[str]) -> Certainty:
    """Of every percentile of every latency. What was not measured is neither."""
    found = Certainty({}, [])
    for latency, pool in pools.items():
        for percentile in percentiles if pool.count else ():
            key = f"p{percentile_word(percentile)}_{latency}_ms"
            interval = percentile_interval(pool, float(percentile))
            if interval is None:
                found.uncertain.append(key)
            else:
                found.intervals[key] = [end for each in interval if (end := rounded(milliseconds(each))) is not None]
    return found
