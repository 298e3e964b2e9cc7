"""Parse the metrics of NVIDIA's DCGM exporter or of cAdvisor for one pod.

Also combine the samples of a stage into figures.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import fmean

from benchrun.api import CPU_SERIES, GPU_SERIES, Sample
from benchrun.measure.metrics_page import UnreadableMetrics, combined, series_of
from benchrun.measure.request_figures import known, ratio, risen, sum_of_all
from benchrun.measure.timeline import by_server
from benchrun.measure.windows import Window
from benchrun.names import ANSWERING_ROLES, SERVER_CONTAINER

_REASONS = (
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
)
"""Names of the series of reasons for lower clocks, as bits; the second one is from DCGM before
version 4."""
_SLOWED = 0x08 | 0x20 | 0x40 | 0x80
_POWER_CAPPED = 0x04
"""Bits of NVML's nvmlClocksEventReason. _SLOWED: hardware slowdown, thermal slowdown (by software
or hardware), power brake. _POWER_CAPPED: software power cap."""
_DERIVED = {
    name: (name,)
    for name in (
        "gpu_pods",
        "gpu_slowed",
        "gpu_power_capped",
        "gpu_memory_total_mib",
    )
}
_USED = GPU_SERIES["gpu_memory_mib"][0]
_FREE = "DCGM_FI_DEV_FB_FREE"
_LINES = tuple(
    f"{name}{{"
    for names in (*GPU_SERIES.values(), _REASONS, (_FREE,))
    for name in names
)
_OF_A_PART = (_USED, _FREE)
"""Series that are kept for a part of a GPU (MIG). A part has its own memory, but power and clocks
are measured for the whole GPU, which others use too."""
_POD = (
    ("exported_pod", "exported_namespace"),
    ("pod", "namespace"),
    ("pod_name", "pod_namespace"),
)
"""Labels that name a pod and its namespace: behind a Prometheus, as the exporter names them, and
with the exporter's option for old names."""
_PART_OF_A_GPU = "GPU_I_ID"


def gpu_values(text: str, *, namespace: str, pod: str) -> dict[str, float | None]:
    """Return the GPU figures of a `Sample` for one pod, by name.

    Raises UnreadableMetrics if the text can't be parsed or no GPU belongs to this pod.

        DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-..",modelName="..",container="server",
        namespace="lab",pod="chat-0"} 412.5

    The exporter names pods only if its Kubernetes mapping is on, as with NVIDIA's GPU operator and
    Helm chart.
    """
    listed, refused = series_of(text, _LINES)
    own = [
        series for series in listed if _holder(series.labels) == (pod, namespace)
    ]
    if not own:
        problem = (
            "the exporter's metrics list no GPU of this pod"
            if listed
            else "the exporter's metrics have no figures of GPUs"
        )
        if listed and all(_holder(series.labels) is None for series in listed):
            problem = (
                "the exporter does not say which pod uses which GPU (set "
                "DCGM_EXPORTER_KUBERNETES=true)"
            )
        raise UnreadableMetrics(problem)
    is_part = any(series.labels.get(_PART_OF_A_GPU) for series in own)
    # A figure that one of the GPUs lacks is unknown for all of them.
    lacking = {
        series.name
        for series in refused
        if _holder(series.labels) == (pod, namespace)
    }
    # One value a GPU, or a part of one: where several containers of a pod hold it, it is listed for
    # each.
    values: defaultdict[str, dict[_Gpu, float]] = defaultdict(dict)
    pods: dict[_Gpu, set[tuple[str, str] | None]] = defaultdict(set)
    for series in own:
        if series.name not in lacking and (
            series.name in _OF_A_PART or not is_part
        ):
            values[series.name][_gpu(series.labels)] = series.value
    for series in listed:
        pods[_gpu(series.labels)].add(_holder(series.labels))
    values["gpu_pods"] = {
        gpu: float(len(pods[gpu] - {None}))
        for gpu in map(_gpu, (series.labels for series in own))
    }
    free = values[_FREE]
    values["gpu_memory_total_mib"] = {
        gpu: used + free[gpu] for gpu, used in values[_USED].items() if gpu in free
    }
    reasons = values[_REASONS[0]] or values[_REASONS[1]]
    for name, bits in (
        ("gpu_slowed", _SLOWED),
        ("gpu_power_capped", _POWER_CAPPED),
    ):
        values[name] = {
            gpu: float(int(each) & bits != 0) for gpu, each in reasons.items()
        }
    return combined(
        {name: tuple(of_gpu.values()) for name, of_gpu in values.items()},
        {**GPU_SERIES, **_DERIVED},
    )


_CONTAINER = (
    ("namespace", "pod", "container"),
    tuple(
        f"container_label_io_kubernetes_{part}"
        for part in ("pod_namespace", "pod_name", "container_name")
    ),
)
"""Labels that name a container: those of the kubelet's cAdvisor, and those of a separate cAdvisor
(`--store_container_labels`)."""


def cpu_values(text: str, *, namespace: str, pod: str) -> dict[str, float | None]:
    """Return the CPU figures of a `Sample`, by name; None if the container has no limit.

    Raises UnreadableMetrics.
    """
    wanted = (namespace, pod, SERVER_CONTAINER)
    own = defaultdict[str, list[float]](list)
    for name, labels, value in series_of(
        text, tuple(chain.from_iterable(CPU_SERIES.values()))
    )[0]:
        if any(tuple(map(labels.get, names)) == wanted for names in _CONTAINER):
            own[name].append(value)
    return combined(own, CPU_SERIES)


_Gpu = tuple[str | None, str | None]  # A GPU, or a part of one.


def _gpu(labels: Mapping[str, str]) -> _Gpu:
    return labels.get("UUID") or labels.get("gpu"), labels.get(_PART_OF_A_GPU)


def _holder(labels: Mapping[str, str]) -> tuple[str, str] | None:
    return next(
        (
            (labels[pod], labels.get(space, ""))
            for pod, space in _POD
            if labels.get(pod)
        ),
        None,
    )


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """The GPU figures of `RoleFigures` over several servers, and output tokens per joule.

    A figure is None if one of the servers lacks it.
    """

    gpu_power_mean_watts: float | None = None  # Sum over all GPUs.
    gpu_memory_max_mib: float | None = None  # Largest of all GPUs.
    sm_clock_mean_mhz: float | None = None
    # Set where an exporter was read and the power is still not known.
    no_power_reason: str | None = None
    output_tokens_per_joule: float | None = None


NOT_RENEWED = "the exporter renewed its figures fewer than twice within a stage"


def gpu_figures(stage_windows: Iterable[Window]) -> GpuFigures:
    """Return the GPU figures over windows of one or all roles, of one or more stages.

    Output tokens per joule are the tokens of the servers that write answers, divided by the energy
    of all servers. Both are measured from the first to the last renewal of the exporter's figures.
    All figures are None if a server has no sample.
    """
    by_pod: dict[tuple[str, str], list[Sequence[Sample]]] = defaultdict(list)
    windows = list(stage_windows)
    for window in windows:
        for (_, pod), own in by_server(window.samples).items():
            by_pod[window.role, pod].append(own)
    if any(
        window.servers > sum(role == window.role for role, _ in by_pod)
        for window in windows
    ):
        return GpuFigures()  # there is no sample of a server
    rates = {server: _rates(stages) for server, stages in by_pod.items()}
    servers = [list(chain.from_iterable(stages)) for stages in by_pod.values()]
    memories = [known(sample.gpu_memory_mib for sample in own) for own in servers]
    clocks = [known(sample.sm_clock_mhz for sample in own) for own in servers]
    read = [
        any(known((sample.gpu_watts, sample.gpu_joules)) for sample in own)
        for own in servers
    ]
    power = sum_of_all([watts for watts, _ in rates.values()])
    tokens = sum_of_all(
        [
            written
            for (role, _), (_, written) in rates.items()
            if role in ANSWERING_ROLES
        ]
    )
    return GpuFigures(
        gpu_power_mean_watts=power,
        gpu_memory_max_mib=max(map(max, memories))
        if memories and all(memories)
        else None,
        sm_clock_mean_mhz=fmean(map(fmean, clocks))
        if clocks and all(clocks)
        else None,
        no_power_reason=NOT_RENEWED
        if power is None and read and all(read)
        else None,
        output_tokens_per_joule=ratio(tokens, power),
    )


def renewed(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Return, by pod, the samples that are the first to show renewed GPU figures.

    The exporter renews its figures every 30 seconds by default, and repeats the old ones until
    then. So the figures of the first sample may be older than the stage; they do not count.
    """
    shown = [
        s for s in samples if known((s.gpu_joules, s.gpu_watts, s.sm_clock_mhz))
    ]
    servers = by_server(sorted(shown, key=lambda each: each.at))
    return {
        pod: _renewed(own, "gpu_joules", "gpu_watts", "sm_clock_mhz")
        for (_, pod), own in servers.items()
    }


def _renewed(stage: Sequence[Sample], *names: str) -> list[Sample]:
    """Return the samples that were the first to show a new value of one of these figures."""
    values = [
        (sample, [getattr(sample, name) for name in names]) for sample in stage
    ]
    shown = [
        (sample, of_sample) for sample, of_sample in values if known(of_sample)
    ]
    return [sample for (_, old), (sample, new) in pairwise(shown) if old != new]


# A value that differs from the one before was renewed between the two samples: time runs between
# renewals, each of which is seen up to one scrape late.


def _rates(stages: Sequence[Sequence[Sample]]) -> tuple[float | None, float | None]:
    """Return the mean power of one server in watts, and the output tokens a second meanwhile.

    Both are None if the exporter renewed its figures fewer than twice in every stage.
    """
    spans = [span for stage in stages if (span := _span(stage)) is not None]
    seconds = math.fsum(last.at - first.at for _, first, last in spans)
    tokens = sum_of_all(
        [
            risen(first.generation_tokens, last.generation_tokens)
            for _, first, last in spans
        ]
    )
    return ratio(sum_of_all([joules for joules, _, _ in spans]), seconds), ratio(
        tokens, seconds
    )


def _span(stage: Sequence[Sample]) -> tuple[float, Sample, Sample] | None:
    """Return the joules between the first and the last renewal, and the samples of these two.

    The energy counter is used unless it fell. Otherwise each power value is taken to hold until the
    next one. None if neither of the two figures was renewed twice.
    """
    counted = _renewed(stage, "gpu_joules")
    shown = _renewed(stage, "gpu_watts")
    joules = known(sample.gpu_joules for sample in stage)
    if len(counted) > 1 and all(
        before <= after for before, after in pairwise(joules)
    ):
        return (
            (counted[-1].gpu_joules or 0.0) - (counted[0].gpu_joules or 0.0),
            counted[0],
            counted[-1],
        )
    if len(shown) > 1:
        drawn = math.fsum(
            (before.gpu_watts or 0.0) * (after.at - before.at)
            for before, after in pairwise(shown)
        )
        return drawn, shown[0], shown[-1]
    return None


def throttled_percent(samples: Iterable[Sample]) -> Mapping[str, float]:
    """Return, by pod, the percentage of its CPU periods that were throttled.

    `_percent` says which samples count.
    """
    return _percent(
        samples, "cpu_throttled_periods", "cpu_periods", renewing="cpu_periods"
    )


def waiting_for_cpu_percent(samples: Iterable[Sample]) -> Mapping[str, float]:
    """Return, by pod, the percentage of the time in which it waited for a CPU core.

    The time is that between the counted samples; `_percent` says which samples count.
    """
    return _percent(
        samples, "cpu_waiting_seconds", "at", renewing="cpu_waiting_seconds"
    )


def _percent(
    samples: Iterable[Sample], part: str, whole: str, *, renewing: str
) -> Mapping[str, float]:
    """Return, by pod, the rise of `part` in percent of the rise of `whole`.

    Both rises are from the first to the last renewal of the figure `renewing`; the value before the
    first renewal may be older than the stage. Servers with fewer than two renewals are left out.
    """
    found: dict[str, float | None] = {}
    for (_, pod), own in by_server(
        sorted(samples, key=lambda each: each.at)
    ).items():
        if len(shown := _renewed(own, renewing)) > 1:
            # A counter at rest is not renewed, but time passes.
            ends = own if whole == "at" else shown
            rise = risen(getattr(shown[0], part), getattr(shown[-1], part))
            found[pod] = ratio(
                rise,
                risen(getattr(ends[0], whole), getattr(ends[-1], whole)),
                scale=100,
            )
    return {pod: percent for pod, percent in found.items() if percent is not None}
