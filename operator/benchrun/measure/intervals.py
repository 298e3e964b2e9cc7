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
    """The intervals of percentiles by their keys in `metrics`, and percentiles that have none."""

    intervals: dict[str, list[float]]
    """Lower and upper bound in milliseconds, with five significant digits."""
    uncertain: list[str]
    """Percentiles that were measured, but not long enough to rely on them."""
    needed: dict[str, Needed]
    """What would make an uncertain percentile reliable, where it is known."""


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
