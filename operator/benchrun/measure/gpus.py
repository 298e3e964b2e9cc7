"""Figures of GPUs: the text of NVIDIA's DCGM exporter read for one pod, and its samples summed up over a stage."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from benchrun.api import GPU_SERIES, Sample
from benchrun.measure.cells import known, sum_of_all
from benchrun.measure.exposition import UnreadableMetrics, series_of
from benchrun.measure.server_figures import combined
from benchrun.measure.windows import Window

_LINES = tuple(name + "{" for names in GPU_SERIES.values() for name in names)
_OF_A_PART = GPU_SERIES["gpu_memory_mib"][0]
"""A part of a GPU has memory of its own; power and clocks are those of the whole, which others use too."""
_POD = (("exported_pod", "exported_namespace"), ("pod", "namespace"), ("pod_name", "pod_namespace"))
"""Labels that name a pod: behind a Prometheus, as the exporter says it, and with its option for old names."""
_PART_OF_A_GPU = "GPU_I_ID"


def gpu_values(text: str, *, namespace: str, pod: str) -> dict[str, float | None]:
    """The GPU figures of a `Sample`, by name, for one pod. Raises UnreadableMetrics, also where no GPU is this pod's.

        DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-..",modelName="..",container="vllm",namespace="lab",pod="chat-0"} 412.5

    The exporter names the pod that holds a GPU where it runs with its Kubernetes mapping, as NVIDIA's GPU operator and Helm
    chart start it.
    """
    listed, _ = series_of(text, _LINES)
    own = [series for series in listed if _holder(series.labels) == (pod, namespace)]
    if not own:
        problem = "the exporter has no GPU of this pod" if listed else "the exporter has no figures of GPUs"
        if listed and all(_holder(series.labels) is None for series in listed):
            problem = "the exporter does not say which pods hold its GPUs (DCGM_EXPORTER_KUBERNETES)"
        raise UnreadableMetrics(problem)
    is_part = any(series.labels.get(_PART_OF_A_GPU) for series in own)
    # One value a GPU, or a part of one: where several containers of a pod hold it, it is listed for each.
    values: dict[str, dict[tuple[str | None, str | None], float]] = defaultdict(dict)
    for series in own:
        if series.name == _OF_A_PART or not is_part:
            gpu = series.labels.get("UUID") or series.labels.get("gpu"), series.labels.get(_PART_OF_A_GPU)
            values[series.name][gpu] = series.value
    return combined({name: tuple(of_gpu.values()) for name, of_gpu in values.items()}, GPU_SERIES)


def _holder(labels: Mapping[str, str]) -> tuple[str, str] | None:
    return next(((labels[pod], labels.get(space, "")) for pod, space in _POD if labels.get(pod)), None)


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """Those of `RoleFigures`, of all these servers; None where one of them has no such figure."""

    gpu_power_mean_watts: float | None = None  # All GPUs together.
    gpu_memory_max_mib: float | None = None  # Most that any GPU held.
    sm_clock_mean_mhz: float | None = None


def gpu_figures(stage_windows: Iterable[Window]) -> GpuFigures:
    """Figures over windows of one role or of all: those of a stage, or of all stages of a cell."""
    by_pod: dict[str, list[Sequence[Sample]]] = defaultdict(list)
    for window in stage_windows:
        for pod in {sample.pod for sample in window.samples}:
            by_pod[pod].append([sample for sample in window.samples if sample.pod == pod])
    powers = [_power(stages) for stages in by_pod.values()]
    memories = [known(s.gpu_memory_mib for stage in stages for s in stage) for stages in by_pod.values()]
    clocks = [known(s.sm_clock_mhz for stage in stages for s in stage) for stages in by_pod.values()]
    return GpuFigures(
        gpu_power_mean_watts=sum_of_all(powers),
        gpu_memory_max_mib=max(map(max, memories)) if memories and all(memories) else None,
        sm_clock_mean_mhz=fmean(map(fmean, clocks)) if clocks and all(clocks) else None,
    )


def _power(stages: Sequence[Sequence[Sample]]) -> float | None:
    """Watts of one server: from its energy counter, which misses nothing between two samples, else its mean power."""
    spans = [span for stage in stages if (span := _energy(stage)) is not None]
    seconds = math.fsum(seconds for _, seconds in spans)
    if seconds > 0:
        return math.fsum(joules for joules, _ in spans) / seconds
    drawn = known(sample.gpu_watts for stage in stages for sample in stage)
    return fmean(drawn) if drawn else None


def _energy(stage: Sequence[Sample]) -> tuple[float, float] | None:
    """Joules and seconds between the first and the last renewal of the counter; None: it was not renewed twice, or fell.

    An exporter renews its figures at its own pace, by default every 30 seconds, so time runs from renewal to renewal.
    """
    counted = [(sample.at, sample.gpu_joules) for sample in stage if sample.gpu_joules is not None]
    renewed = [after for before, after in pairwise(counted) if after[1] != before[1]]
    if len(renewed) < 2 or any(after[1] < before[1] for before, after in pairwise(counted)):
        return None
    return renewed[-1][1] - renewed[0][1], renewed[-1][0] - renewed[0][0]
