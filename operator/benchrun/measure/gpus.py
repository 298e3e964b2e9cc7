"""What GPUs did: NVIDIA's DCGM exporter read, and its samples summed up over a stage."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from benchrun.measure.exposition import Sample, Series, UnreadablePage, believable_sum, series_of
from benchrun.measure.windows import Window

# ---- gpu page ---------------------------------------------------------------------------------------------------------
# One metrics page of NVIDIA's DCGM exporter made into what the GPUs of a pod are doing.
#
#     DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-..",modelName="..",container="vllm",namespace="lab",pod="chat-0"} 412.5
#
# The exporter names the pod that holds a GPU where it runs with its Kubernetes mapping, as NVIDIA's GPU operator and Helm
# chart start it. Without it nothing tells whose a GPU is, and nothing is taken.

WATTS, MEMORY, CLOCK, ENERGY = (
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
)
_LINES = tuple(name + "{" for name in (WATTS, MEMORY, CLOCK, ENERGY))
_POD = (("exported_pod", "exported_namespace"), ("pod", "namespace"), ("pod_name", "pod_namespace"))
"""Labels that name a pod: behind a Prometheus, as the exporter says it, and with its option for old names."""
_PART_OF_A_GPU = "GPU_I_ID"
_JOULES_A_MILLIJOULE = 1e-3


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The GPUs of one pod at one instant; None is "the page did not say", never 0."""

    watts: float | None = None
    """Of all of them together."""
    memory_mib: float | None = None
    """Held on the one that holds most."""
    sm_clock_mhz: float | None = None
    """Their mean."""
    joules: float | None = None
    """What all of them have spent since the driver was loaded."""
    refused: int = 0
    """Values on the page that no GPU can have."""


def gpu_reading(page: str, *, namespace: str, pod: str) -> GpuReading:
    """Of a page and a pod. Raises UnreadablePage, also where the page has no GPU of this pod."""
    read = series_of(page, _LINES)
    known = read.series
    own = [series for series in known if _holder(series.labels) == (pod, namespace)]
    if not own:
        raise UnreadablePage(_why_none(known))
    values = {name: _by_gpu(own, name) for name in (WATTS, MEMORY, CLOCK, ENERGY)}
    # A part of a GPU has memory of its own. Power and clocks are those of the whole, which others use too.
    shared = any(series.labels.get(_PART_OF_A_GPU) for series in own)
    watts, joules, clocks = (() if shared else values[name] for name in (WATTS, ENERGY, CLOCK))
    return GpuReading(
        watts=believable_sum(watts) if watts else None,
        memory_mib=max(values[MEMORY], default=None),
        sm_clock_mhz=fmean(clocks) if clocks else None,
        joules=math.fsum(joules) * _JOULES_A_MILLIJOULE if joules else None,
        refused=read.refused,
    )


def _by_gpu(own: Sequence[Series], name: str) -> tuple[float, ...]:
    """One value a GPU, or a part of one: where several containers of a pod hold it, it is listed for each."""
    found = {
        (s.labels.get("UUID") or s.labels.get("gpu"), s.labels.get(_PART_OF_A_GPU)): s.value
        for s in own
        if s.name == name
    }
    return tuple(found.values())


def _holder(labels: Mapping[str, str]) -> tuple[str, str] | None:
    return next(((labels[pod], labels.get(space, "")) for pod, space in _POD if labels.get(pod)), None)


def _why_none(known: Sequence[Series]) -> str:
    if not known:
        return "the exporter's page has no figures of GPUs"
    if all(_holder(series.labels) is None for series in known):
        return "the exporter does not say which pods hold its GPUs (DCGM_EXPORTER_KUBERNETES)"
    return "the exporter's page has no GPU of this pod"


# ---- gpu figures ------------------------------------------------------------------------------------------------------
# What the GPUs of a role, or of all roles, did over one or more stages.
#
# Power is energy over time where the counter of energy tells it, for that misses nothing between two readings. An exporter
# renews its page at its own pace, every 30 seconds unless told otherwise; so time is taken from one renewal to another, by
# the readings that first show a new count.


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
