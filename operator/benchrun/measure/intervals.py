"""Confidence intervals of latency percentiles."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchrun_client.contract import (
    ERROR,
    Needed,
    interval,
    is_bounded,
    needed_to_bound,
)

from benchrun.measure.request_figures import Samples, percentile_word, rounded


class Intervals(NamedTuple):
    """Confidence intervals of percentiles, and percentiles that are not reliable.

    A percentile is named by its key in `metrics`. An unreliable one may have an interval, too.
    """

    intervals: dict[str, list[float]]
    """Lower and upper bound in milliseconds, with five significant digits."""
    uncertain: list[str]
    """Percentiles that were measured, but with too few requests or too briefly to be reliable."""
    needed: dict[str, Needed]
    """What would make an uncertain percentile reliable, where that is known."""


def percentile_intervals(
    samples: Samples,
    percentiles: Sequence[str],
    measured: Mapping[str, float | None],
    *,
    error: float = ERROR,
) -> Intervals:
    """Return the interval of every percentile of every latency that was `measured`.

    Each side of an interval is wrong with a probability of at most `error`.
    """
    found = Intervals({}, [], {})
    for latency, sample in samples.items():
        for percentile in percentiles:
            key = f"p{percentile_word(percentile)}_{latency}_ms"
            if measured.get(key) is None:
                continue
            if not is_bounded(sample, float(percentile)):
                found.uncertain.append(key)
                if needed := needed_to_bound(sample, float(percentile)):
                    found.needed[key] = needed
            if (bounds := interval(sample, float(percentile), error=error)) is None:
                continue
            ends = [rounded(end / 1000) for end in bounds]
            found.intervals[key] = [end for end in ends if end is not None]
    return found
