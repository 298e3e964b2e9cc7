"""One metrics page of NVIDIA's DCGM exporter made into what the GPUs of a pod are doing.

    DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-..",modelName="..",container="vllm",namespace="lab",pod="chat-0"} 412.5

The exporter names the pod that holds a GPU where it runs with its Kubernetes mapping, as NVIDIA's GPU operator and Helm
chart start it. Without it nothing tells whose a GPU is, and nothing is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchrun.measure.exposition import Series, UnreadablePage, believable_sum, series_of

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
