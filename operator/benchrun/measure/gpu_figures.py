"""What the GPUs of a role, or of all roles, did over one or more stages.

Power is energy over time where the counter of energy tells it, for that misses nothing between two readings. An exporter
renews its page at its own pace, every 30 seconds unless told otherwise; so time is taken from one renewal to another, by
the readings that first show a new count.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from benchrun.measure.samples import Sample
from benchrun.measure.windows import Window


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """Of all these servers; None where any of them did not tell."""

    power_mean_watts: float | None = None
    """All GPUs together."""
    memory_max_mib: float | None = None
    """Most that any GPU held."""
    sm_clock_mean_mhz: float | None = None


def gpu_figures(stage_windows: Iterable[Window]) -> GpuFigures:
    """Figures over windows of one role or of all: those of a stage, or of all stages of a cell."""
    by_pod: dict[str, list[Sequence[Sample]]] = defaultdict(list)
    for window in stage_windows:
        for pod in {sample.pod for sample in window.samples}:
            by_pod[pod].append([sample for sample in window.samples if sample.pod == pod])
    powers = [_power(stages) for stages in by_pod.values()]
    memories = [_known(s.gpu_memory_mib for stage in stages for s in stage) for stages in by_pod.values()]
    clocks = [_known(s.sm_clock_mhz for stage in stages for s in stage) for stages in by_pod.values()]
    return GpuFigures(
        power_mean_watts=math.fsum(p for p in powers if p is not None) if powers and None not in powers else None,
        memory_max_mib=max(map(max, memories)) if memories and all(memories) else None,
        sm_clock_mean_mhz=fmean(map(fmean, clocks)) if clocks and all(clocks) else None,
    )


def _power(stages: Sequence[Sequence[Sample]]) -> float | None:
    """Watts of one server: by its energy, or else the mean of what it drew."""
    spans = [span for stage in stages if (span := _spent(stage)) is not None]
    seconds = math.fsum(seconds for _, seconds in spans)
    if seconds > 0:
        return math.fsum(joules for joules, _ in spans) / seconds
    drawn = _known(sample.gpu_watts for stage in stages for sample in stage)
    return fmean(drawn) if drawn else None


def _spent(stage: Sequence[Sample]) -> tuple[float, float] | None:
    """Joules and seconds between the first renewal of the counter and the last. None: it was not renewed twice, or fell."""
    counted = [(sample.at, sample.gpu_joules) for sample in stage if sample.gpu_joules is not None]
    renewed = [after for before, after in pairwise(counted) if after[1] != before[1]]
    if len(renewed) < 2 or any(after[1] < before[1] for before, after in pairwise(counted)):
        return None
    return renewed[-1][1] - renewed[0][1], renewed[-1][0] - renewed[0][0]


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
