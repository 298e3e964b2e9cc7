"""The catalogue of server figures: what one sample holds, and what a status and its tables say of a load point.

A figure is declared here alone: a field of `RoleFigures` with what it is computed from, its column and the tables that export it,
and, where no sample has its source yet, a field of `Sample`. An engine's names of the series are in `benchrun_client.engines`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from pydantic import Field

from benchrun.api.base import StatusModel

WaitingReason = Literal["None", "SequenceLimit", "KVCacheFull", "TokenBudget", "BeyondCapacity", "Unknown"]
LimitKind = Literal["None", "Compute", "KVMemory", "SequenceLimit", "Client", "Unknown"]


FAILED_TRANSFERS = (
    "nixl_num_failed_transfers_total",
    "nixl_num_failed_notifications_total",
    "nixl_num_kv_expired_reqs_total",
)
"""Counters of the NIXL connector."""


@dataclass(frozen=True, slots=True)
class Combine:
    """How the values of several engine processes or GPUs become the figure of a sample."""

    by: Literal["sum", "mean", "max"]
    scale: float = 1.0
    decimals: int | None = None
    """None: all."""


def _sampled(by: Literal["sum", "mean", "max"] = "sum", *, scale: float = 1.0, decimals: int | None = None) -> Any:
    return field(default=None, metadata={"combine": Combine(by, scale, decimals)})


START_DECIMALS = 3
"""Of the start of a process, in seconds: two precisions of one instant would look like two processes."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of one server at one instant; None where the metrics endpoint does not have them, never 0."""

    at: float
    """Unix seconds of the operator's clock, when the text arrived."""
    role: str
    pod: str
    running: float | None = _sampled()
    waiting: float | None = _sampled()
    kv_cache: float | None = _sampled("mean")
    """0 .. 1."""
    generation_tokens: float | None = _sampled()
    prompt_tokens: float | None = _sampled()
    requests_finished: float | None = _sampled()
    preemptions: float | None = _sampled()
    prefix_queries: float | None = _sampled()
    prefix_hits: float | None = _sampled()
    start_time: float | None = _sampled(decimals=START_DECIMALS)
    gpu_watts: float | None = _sampled()
    """Of the server's GPUs together; as the following, only in samples for which an exporter was scraped."""
    gpu_memory_mib: float | None = _sampled("max")
    """On the GPU that holds most."""
    sm_clock_mhz: float | None = _sampled("mean")
    gpu_joules: float | None = _sampled(scale=1e-3)
    """Counter, of the GPUs together."""
    refused: int = field(default=0, compare=False)
    """Values of the text that no server can have; they are not among the figures. Not kept in a timeline."""


SAMPLE_FIGURES: Mapping[str, Combine] = {
    each.name: each.metadata["combine"] for each in fields(Sample) if "combine" in each.metadata
}
GPU_SERIES: Mapping[str, tuple[str, ...]] = {
    "gpu_watts": ("DCGM_FI_DEV_POWER_USAGE",),
    "gpu_memory_mib": ("DCGM_FI_DEV_FB_USED",),
    "sm_clock_mhz": ("DCGM_FI_DEV_SM_CLOCK",),
    "gpu_joules": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",),
}
"""By figure, the series of NVIDIA's DCGM exporter; those of a server are in `ENGINE.sample_series`."""


@dataclass(frozen=True, slots=True)
class OfSamples:
    """The mean or the greatest of a sample's figure, over samples of single servers."""

    figure: str
    by: Literal["mean", "max"]
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Rise:
    """How much counters of the records rose, summed over servers and stages: a count. None where the counter is missing anywhere; of
    several, which no server has to have, where all are."""

    counters: tuple[str, ...]
    where: str | None = None
    """None where this counter did not rise."""


@dataclass(frozen=True, slots=True)
class Percent:
    """The rise of one counter, of that of another, in percent."""

    part: str
    whole: str


Table = Literal["stages", "servers", "replicas"]


@dataclass(frozen=True, slots=True)
class Figure:
    """How a figure of a load point is computed from samples and records, and where it is shown."""

    source: OfSamples | Rise | Percent | None = None
    """None: the judge computes it."""
    column: str = ""
    """Its header in tables of load points; empty: not there."""
    unit: str = ""
    tables: tuple[Table, ...] = ()
    """Of exported runs, in which it is a column under its own name."""


_ALL: tuple[Table, ...] = ("stages", "servers", "replicas")
_BUT_REPLICAS, _SERVERS = _ALL[:2], _ALL[1:2]


class RoleFigures(StatusModel):
    """Server figures of one cell for one role."""

    role: str = Field(max_length=20, description="Role of the servers.")
    running_mean: Annotated[float | None, Figure(OfSamples("running", "mean"), "running", tables=_ALL)] = Field(
        default=None, description="Requests running, on average."
    )
    running_max: Annotated[float | None, Figure(OfSamples("running", "max"), tables=_ALL)] = Field(
        default=None, description="Most requests running."
    )
    waiting_mean: Annotated[float | None, Figure(OfSamples("waiting", "mean"), "waiting", tables=_ALL)] = Field(
        default=None, description="Requests waiting in the server, on average."
    )
    waiting_max: Annotated[float | None, Figure(OfSamples("waiting", "max"), tables=_ALL)] = Field(
        default=None, description="Most requests waiting in the server."
    )
    kv_cache_mean_percent: Annotated[
        float | None, Figure(OfSamples("kv_cache", "mean", scale=100), tables=_BUT_REPLICAS)
    ] = Field(default=None, description="KV cache in use, on average, in percent.")
    kv_cache_max_percent: Annotated[
        float | None, Figure(OfSamples("kv_cache", "max", scale=100), "KV max", "%", tables=_ALL)
    ] = Field(default=None, description="Most KV cache in use, in percent.")
    preemptions: Annotated[float | None, Figure(Rise(("num_preemptions_total",)), tables=_ALL)] = Field(
        default=None, description="Requests preempted for want of KV cache."
    )
    prefix_hit_percent: Annotated[
        float | None,
        Figure(Percent("prefix_cache_hits_total", "prefix_cache_queries_total"), "hits", "%", tables=_ALL),
    ] = Field(default=None, description="Prompt tokens found in the prefix cache, of those looked up, in percent.")
    fetched_percent: Annotated[
        float | None,
        Figure(Percent("external_prefix_cache_hits_total", "external_prefix_cache_queries_total"), tables=_SERVERS),
    ] = Field(
        default=None,
        description="Prompt tokens fetched from outside of the server (KV transfer), of those looked up there, in percent.",
    )
    fetched_tokens: Annotated[
        float | None,
        Figure(
            Rise(("external_prefix_cache_hits_total",), where="external_prefix_cache_queries_total"), tables=_SERVERS
        ),
    ] = Field(default=None, description="How many those are.")
    transfer_failures: Annotated[float | None, Figure(Rise(FAILED_TRANSFERS), tables=_SERVERS)] = Field(
        default=None, description="Transfers of KV cache that failed, where the connector counts them."
    )
    waiting: WaitingReason | None = Field(
        default=None, description="Why requests waited here, where there is more than one role."
    )
    limit: LimitKind | None = Field(default=None, description="What limits this role, where there is more than one.")
    added_mean_ms: float | None = Field(
        default=None, description="Of a proxy: what it adds to the time to first token by itself, on average."
    )
    cores: float | None = Field(default=None, description="Of a proxy: CPU that it used, in cores.")
    samples: int = Field(default=0, description="Scrapes of the metrics endpoint behind these figures.")
    gpu_power_mean_watts: Annotated[float | None, Figure(tables=_SERVERS)] = Field(
        default=None, description="Power of all GPUs of the role together, on average. Absent where no exporter tells."
    )
    gpu_memory_max_mib: Annotated[float | None, Figure(tables=_SERVERS)] = Field(
        default=None, description="Most memory held on any of its GPUs."
    )
    sm_clock_mean_mhz: Annotated[float | None, Figure(tables=_SERVERS)] = Field(
        default=None, description="Clock of its GPUs' SMs, on average."
    )
    coverage_percent: Annotated[float | None, Figure(tables=_BUT_REPLICAS)] = Field(
        default=None, description="Samples taken, of those expected, in percent."
    )


ROLE_FIGURES: Mapping[str, Figure] = {
    name: each for name, info in RoleFigures.model_fields.items() for each in info.metadata if isinstance(each, Figure)
}
SHOWN_FIGURES: Mapping[str, Figure] = {name: figure for name, figure in ROLE_FIGURES.items() if figure.column}
"""Those in the tables of load points."""


def exported_figures(table: Table) -> list[str]:
    """Names of the figures that are columns of an exported table."""
    return [name for name, figure in ROLE_FIGURES.items() if table in figure.tables]
