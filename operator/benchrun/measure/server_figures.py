"""The catalogue of server figures: the series each one is read from, and how samples and counters are summed up.

A new figure of a sample is a field of `Sample`; a new figure of a stage is a field of `Figures` (and, to be stored, of
`RoleFigures` in the API under the same name).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import fmean
from typing import Any, Literal

from benchrun_client.contract import ServerEdge

from benchrun.measure import counters
from benchrun.measure.cells import rounded
from benchrun.measure.optional_numbers import believable_sum, known, ratio, sum_of_all, sum_of_known

Source = Literal["vLLM", "DCGM"]
Combine = Callable[[Sequence[float]], float | None]


def start_instant(seconds: float) -> float:
    """The start time of a process to 1 ms, as it is kept: two precisions of one instant would look like two processes."""
    return round(seconds, 3)


def _start(values: Sequence[float]) -> float | None:
    seconds = believable_sum(values)
    return None if seconds is None else start_instant(seconds)


def _series(*names: str, combine: Combine = believable_sum, source: Source = "vLLM") -> Any:
    """A figure of a sample: its series, newest name first (an endpoint that has both counts once), and how the values of
    several engines or GPUs become one."""
    return field(default=None, metadata={"series": names, "combine": combine, "source": source})


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of one server at one instant; None where the metrics endpoint does not have them, never 0."""

    at: float
    """Unix seconds of the operator's clock, when the text arrived."""
    role: str
    pod: str
    running: float | None = _series("vllm:num_requests_running")
    waiting: float | None = _series("vllm:num_requests_waiting")
    kv_cache: float | None = _series("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", combine=fmean)
    """0 .. 1, mean over engines; all other figures of vLLM are sums."""
    generation_tokens: float | None = _series("vllm:generation_tokens_total", "vllm:generation_tokens")
    prompt_tokens: float | None = _series("vllm:prompt_tokens_total", "vllm:prompt_tokens")
    requests_finished: float | None = _series("vllm:request_success_total", "vllm:request_success")
    preemptions: float | None = _series("vllm:num_preemptions_total", "vllm:num_preemptions")
    prefix_queries: float | None = _series(
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_queries",
        "vllm:gpu_prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_queries",
    )
    prefix_hits: float | None = _series(
        "vllm:prefix_cache_hits_total",
        "vllm:prefix_cache_hits",
        "vllm:gpu_prefix_cache_hits_total",
        "vllm:gpu_prefix_cache_hits",
    )
    start_time: float | None = _series("process_start_time_seconds", combine=_start)
    gpu_watts: float | None = _series("DCGM_FI_DEV_POWER_USAGE", source="DCGM")
    """Of the server's GPUs together; as the following, only in samples for which an exporter was scraped."""
    gpu_memory_mib: float | None = _series("DCGM_FI_DEV_FB_USED", combine=max, source="DCGM")
    """On the GPU that holds most."""
    sm_clock_mhz: float | None = _series("DCGM_FI_DEV_SM_CLOCK", combine=fmean, source="DCGM")
    """Mean of the GPUs."""
    gpu_joules: float | None = _series(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", combine=lambda millijoules: math.fsum(millijoules) * 1e-3, source="DCGM"
    )
    """Counter, of the GPUs together."""
    refused: int = field(default=0, compare=False)
    """Values of the text that no server can have; they are not among the figures. Not kept in a timeline."""


SAMPLE_FIGURES = tuple(each.name for each in fields(Sample) if "series" in each.metadata)


def series_names(source: Source) -> tuple[str, ...]:
    """Every series that a sample reads from this source."""
    return tuple(name for each in _of_source(source) for name in each.metadata["series"])


def combined(values: Mapping[str, Sequence[float]], source: Source) -> dict[str, float | None]:
    """Figures of a sample from the values of each series."""
    return {
        each.name: next((each.metadata["combine"](values[s]) for s in each.metadata["series"] if values.get(s)), None)
        for each in _of_source(source)
    }


def _of_source(source: Source) -> list[Any]:
    return [each for each in fields(Sample) if each.metadata.get("source") == source]


# ---- figures of a stage -----------------------------------------------------------------------------------------------

Stages = Sequence[Sequence[ServerEdge]]
"""The edges of one role, stage by stage."""


def _gauge(name: str, combine: Combine, scale: float = 1.0) -> Any:
    def figure(samples: Sequence[Sample], _: Stages) -> float | None:
        values = [scale * value for value in known(getattr(sample, name) for sample in samples)]
        return combine(values) if values else None

    return _figure(figure)


def _rises(stages: Stages, counter: str) -> list[float | None]:
    return [counters.rise(stage, counter) for stage in stages]


def _percent(part: str, whole: str) -> Any:
    return _figure(
        lambda _, stages: ratio(sum_of_all(_rises(stages, part)), sum_of_all(_rises(stages, whole)), scale=100)
    )


def _figure(of: Callable[[Sequence[Sample], Stages], float | None], *, is_count: bool = False) -> Any:
    return field(default=None, metadata={"of": of, "is_count": is_count})


def _fetched_tokens(_: Sequence[Sample], stages: Stages) -> float | None:
    return (
        sum_of_all(_rises(stages, counters.EXTERNAL_HITS)) if any(_rises(stages, counters.EXTERNAL_QUERIES)) else None
    )


def _transfer_failures(_: Sequence[Sample], stages: Stages) -> float | None:
    """A connector has some of the counters, or none."""
    return sum_of_known(counters.rise(stage, name) for stage in stages for name in counters.FAILED_TRANSFERS)


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one role over one or more stages. Means and maxima are over samples of single servers; named as in
    RoleFigures."""

    role: str
    samples: int
    coverage_percent: float | None
    """Samples taken, of those that the interval should have given; at most 100."""
    running_mean: float | None = _gauge("running", fmean)
    running_max: float | None = _gauge("running", max)
    waiting_mean: float | None = _gauge("waiting", fmean)
    waiting_max: float | None = _gauge("waiting", max)
    kv_cache_mean_percent: float | None = _gauge("kv_cache", fmean, scale=100)
    kv_cache_max_percent: float | None = _gauge("kv_cache", max, scale=100)
    preemptions: float | None = _figure(
        lambda _, stages: sum_of_all(_rises(stages, counters.PREEMPTIONS)), is_count=True
    )
    prefix_hit_percent: float | None = _percent(counters.PREFIX_HITS, counters.PREFIX_QUERIES)
    fetched_percent: float | None = _percent(counters.EXTERNAL_HITS, counters.EXTERNAL_QUERIES)
    """Prompt tokens that came from outside of the server, of those that were looked up there."""
    fetched_tokens: float | None = _figure(_fetched_tokens, is_count=True)
    transfer_failures: float | None = _figure(_transfer_failures, is_count=True)

    @classmethod
    def of(cls, role: str, samples: Sequence[Sample], stages: Stages, *, expected: float) -> Figures:
        """From the samples of all stages together and the edges of each; `expected` is how many samples were due."""
        coverage = min(100.0, 100 * len(samples) / expected) if expected > 0 else None
        measured = {f.name: f.metadata["of"](samples, stages) for f in fields(cls) if f.metadata}
        return cls(role, len(samples), coverage, **measured)

    def for_status(self) -> dict[str, Any]:
        """By name, as RoleFigures takes them: counts exact, all others rounded."""
        exact = {"role", "samples", *(f.name for f in fields(self) if f.metadata.get("is_count"))}
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value if name in exact else rounded(value) for name, value in values.items()}
