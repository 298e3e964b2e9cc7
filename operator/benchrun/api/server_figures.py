"""The catalogue of server figures: what a sample holds, and what is shown of a load point.

A figure is declared only here, as a field of `RoleFigures`: what it is computed from, its column,
and the tables that export it. If no sample has its source yet, it also needs a field of `Sample`.
The names of the series are in `benchrun_client.engines`, by engine.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from pydantic import Field

from benchrun.api.base import StatusModel
from benchrun.names import ANSWERING_ROLES

WaitingReason = Literal[
    "None",
    "SequenceLimit",
    "KVCacheFull",
    "TokenBudget",
    "BeyondCapacity",
    "Unknown",
]
LimitKind = Literal[
    "None", "Compute", "KVMemory", "SequenceLimit", "Client", "Unknown"
]
FAILED_TRANSFERS = (
    "nixl_num_failed_transfers_total",
    "nixl_num_failed_notifications_total",
    "mooncake_num_failed_transfers_total",
    "nixl_num_kv_expired_reqs_total",
)
"""Counters of the connectors NIXL and, from vLLM 0.33 on, Mooncake."""
START_DECIMALS = 3
"""Decimals of the start of a process, in seconds. Otherwise the same instant in two precisions
would look like two processes."""


By = Literal["sum", "mean", "max", "min"]


class Combine(NamedTuple):
    """How the values of several engine processes or GPUs are combined to the figure of a sample."""

    by: By
    scale: float = 1.0
    decimals: int | None = None


def _sampled(
    by: By = "sum", *, scale: float = 1.0, decimals: int | None = None
) -> Any:
    return field(default=None, metadata={"combine": Combine(by, scale, decimals)})


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of one server at one instant.

    A figure that the metrics endpoint does not have is None, never 0.
    """

    at: float  # Unix seconds of the operator's clock, when the text was received.
    role: str
    pod: str
    running: float | None = _sampled()
    waiting: float | None = _sampled()
    # 0 .. 1, of the fullest engine: requests wait for theirs.
    kv_cache: float | None = _sampled("max")
    generation_tokens: float | None = _sampled()
    prompt_tokens: float | None = _sampled()
    requests_finished: float | None = _sampled()
    preemptions: float | None = _sampled()
    prefix_queries: float | None = _sampled()
    prefix_hits: float | None = _sampled()
    start_time: float | None = _sampled(decimals=START_DECIMALS)
    gpu_watts: float | None = _sampled()
    """Power of the server's GPUs together. This and the following figures exist only in samples for
    which an exporter was scraped."""
    gpu_memory_mib: float | None = _sampled("max")  # On the GPU that holds most.
    # Memory of that GPU, used and free; other GPUs are not larger.
    gpu_memory_total_mib: float | None = _sampled("max")
    # Of the slowest GPU, for which the others wait.
    sm_clock_mhz: float | None = _sampled("min")
    # Counter, of the GPUs together.
    gpu_joules: float | None = _sampled(scale=1e-3)
    # Pods that the exporter names for one GPU.
    gpu_pods: float | None = _sampled("max")
    gpu_slowed: float | None = _sampled("mean")
    """Share of the GPUs (0 to 1) whose clock the driver lowers because of heat, or the hardware
    lowers; `gpu_power_capped`: because of power."""
    gpu_power_capped: float | None = _sampled("mean")
    # Last XID error, summed over the GPUs: another value is another error.
    gpu_xid: float | None = _sampled()
    # Counter of errors that ECC could not correct.
    gpu_memory_errors: float | None = _sampled()
    cpu_periods: float | None = _sampled("max")
    """Counter of periods in which the server's container ran under a CPU limit;
    `cpu_throttled_periods`: in which it was stopped."""
    cpu_throttled_periods: float | None = _sampled("max")
    # Counter of the time in which the container had to wait for a core.
    cpu_waiting_seconds: float | None = _sampled("max")
    low: "Sample | None" = None
    """If this is the mean of several samples: the least values of some figures; `high` has the
    greatest values."""
    high: "Sample | None" = None


SAMPLE_FIGURES: Mapping[str, Combine] = {
    each.name: each.metadata["combine"]
    for each in fields(Sample)
    if "combine" in each.metadata
}
GPU_SERIES: Mapping[str, tuple[str, ...]] = {
    "gpu_watts": ("DCGM_FI_DEV_POWER_USAGE",),
    "gpu_memory_mib": ("DCGM_FI_DEV_FB_USED",),
    "sm_clock_mhz": ("DCGM_FI_DEV_SM_CLOCK",),
    "gpu_joules": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",),
    "gpu_xid": ("DCGM_FI_DEV_XID_ERRORS",),
    "gpu_memory_errors": (
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    ),
}
"""By figure, the series of NVIDIA's DCGM exporter; those of a server are in
`sample_series` of an engine."""
CPU_SERIES: Mapping[str, tuple[str, ...]] = {
    "cpu_periods": ("container_cpu_cfs_periods_total",),
    "cpu_throttled_periods": ("container_cpu_cfs_throttled_periods_total",),
    "cpu_waiting_seconds": ("container_pressure_cpu_waiting_seconds_total",),
}
"""By figure, the series of cAdvisor, by docs/storage/prometheus.md of
github.com/google/cadvisor."""


SUMMED = ("running", "waiting")
"""Figures of a sample that are added up over the servers of a role, instant by instant."""
ComputedFrom = Literal["Exporters", "Scrapes"]
Table = Literal["stages", "servers", "replicas"]  # Of exported runs.


class Figure(NamedTuple):
    """How a figure of a load point is computed, and where it is shown.

    It is computed from a sample's figure or from counters.
    """

    sample: str = ""
    # Over samples of single servers; of SUMMED, of all together.
    by: Literal["mean", "max"] = "mean"
    scale: float = 1.0
    counters: tuple[str, ...] = ()
    """Counters whose rise is the figure, summed over servers and stages. The figure is None if a
    single counter is missing on any server; of several counters, if all are missing."""
    # The figure is a share of the rise of this counter; empty: it is a count.
    percent_of: str = ""
    where: str = ""  # None where this counter did not rise.
    computed_from: ComputedFrom | None = None
    """What else it is computed from, by a function of its own; None: a sample or counters."""
    column: str = ""  # Its header in tables of load points; empty: not there.
    unit: str = ""
    is_rare: bool = False
    """Whether its column is left out of a table if no row has the figure."""
    tables: tuple[Table, ...] = ("stages", "servers", "replicas")
    """Tables of exported runs in which the figure is a column under its own name."""


def _figure(
    description: str,
    sample: str = "",
    by: Literal["mean", "max"] = "mean",
    **how: Any,
) -> Any:
    """Declare a figure; raise TypeError unless it has exactly one source, else it stays unknown."""
    figure = Figure(sample, by, **how)
    sources = (figure.sample, figure.counters, figure.computed_from)
    if sum(map(bool, sources)) != 1:
        raise TypeError(
            f"a figure has exactly one of sample, counters and computed_from: {description}"
        )
    declared: Any = Field(default=None, description=description)
    declared.metadata.append(figure)
    return declared


_SERVERS: tuple[Table, ...] = ("servers",)
_BUT_REPLICAS: tuple[Table, ...] = ("stages", "servers")


class RoleFigures(StatusModel):
    """Server figures of one load point for one role."""

    role: str = Field(max_length=20, description="Role of the servers.")
    running_mean: float | None = _figure(
        "Requests running, all servers, on average.", "running", column="running"
    )
    running_max: float | None = _figure(
        "Most requests running at once, all servers.", "running", "max"
    )
    waiting_mean: float | None = _figure(
        "Requests waiting, all servers, on average.", "waiting", column="waiting"
    )
    waiting_max: float | None = _figure(
        "Most requests waiting at once, all servers.", "waiting", "max"
    )
    kv_cache_mean_percent: float | None = _figure(
        "KV cache in use in the fullest engine of a server, on average, in percent.",
        "kv_cache",
        scale=100,
        tables=_BUT_REPLICAS,
    )
    kv_cache_max_percent: float | None = _figure(
        "Most KV cache in use in any engine, in percent.",
        "kv_cache",
        "max",
        scale=100,
        column="KV max",
        unit="%",
    )
    preemptions: float | None = _figure(
        "Requests preempted because the KV cache was full.",
        counters=("num_preemptions_total",),
    )
    prefix_hit_percent: float | None = _figure(
        "Prefix cache hits in percent of tokens looked up.",
        counters=("prefix_cache_hits_total",),
        percent_of="prefix_cache_queries_total",
        column="hits",
        unit="%",
    )
    fetched_percent: float | None = _figure(
        "Prompt tokens fetched from outside of the server (KV transfer), in percent of the tokens "
        "looked up there.",
        counters=("external_prefix_cache_hits_total",),
        percent_of="external_prefix_cache_queries_total",
        tables=_SERVERS,
    )
    fetched_tokens: float | None = _figure(
        "Number of prompt tokens fetched from outside of the server.",
        counters=("external_prefix_cache_hits_total",),
        where="external_prefix_cache_queries_total",
        tables=_SERVERS,
    )
    transfer_failures: float | None = _figure(
        "Failed KV transfers, if the connector counts them.",
        counters=FAILED_TRANSFERS,
        tables=_SERVERS,
    )
    draft_accepted_percent: float | None = _figure(
        "Draft tokens of speculation that were accepted, in percent. Absent without speculation.",
        counters=("spec_decode_num_accepted_tokens_total",),
        percent_of="spec_decode_num_draft_tokens_total",
        column="accepted",
        unit="%",
        is_rare=True,
    )
    waiting: WaitingReason | None = Field(
        None,
        description="Why requests waited at this role's servers, if there are several roles.",
    )
    limit: LimitKind | None = Field(
        default=None,
        description="Bottleneck of this role, if there are several roles.",
    )
    added_mean_ms: float | None = Field(
        None,
        description="What a proxy (or, as role `gateway`, all between client and servers) adds to "
        "the time to first token, on average.",
    )
    cores: float | None = Field(
        default=None, description="CPU that a proxy used, in cores."
    )
    servers_min: int | None = None
    """Fewest servers that were there at once, if their number changed."""
    servers_max: int | None = None
    """Most servers that were there at once, if their number changed."""
    samples: int = Field(
        default=0,
        description="Scrapes of the metrics endpoint behind these figures.",
    )
    gpu_power_mean_watts: float | None = _figure(
        "Power of all GPUs of the role together, on average. Absent without an exporter.",
        computed_from="Exporters",
        tables=_SERVERS,
    )
    no_power_reason: str | None = Field(default=None, max_length=100)
    """Why the power is not known although an exporter was read."""
    gpu_memory_max_mib: float | None = _figure(
        "Most memory held on any GPU of the role.",
        computed_from="Exporters",
        tables=_SERVERS,
    )
    sm_clock_mean_mhz: float | None = _figure(
        "Clock of the SMs of the role's GPUs, on average.",
        computed_from="Exporters",
        tables=_SERVERS,
    )
    coverage_percent: float | None = _figure(
        "Samples taken, in percent of the expected ones.",
        computed_from="Scrapes",
        tables=_BUT_REPLICAS,
    )


ROLE_FIGURES: Mapping[str, Figure] = {
    name: each
    for name, info in RoleFigures.model_fields.items()
    for each in info.metadata
    if isinstance(each, Figure)
}
SHOWN_FIGURES: Mapping[str, Figure] = {
    name: figure for name, figure in ROLE_FIGURES.items() if figure.column
}
"""Figures in the tables of load points."""


def exported_figures(table: Table) -> list[str]:
    """Return the names of the figures that are columns of an exported table."""
    return [name for name, figure in ROLE_FIGURES.items() if table in figure.tables]


class HasRole(Protocol):
    """A status, figures, or counters before or after a stage, of one role."""

    @property
    def role(self) -> str: ...


R = TypeVar("R", bound=HasRole)


def answering(of: Iterable[R]) -> R | None:
    """Return the first entry of a role that writes answers, else the first; None if empty."""
    listed = list(of)
    return next(
        (each for each in listed if each.role in ANSWERING_ROLES),
        listed[0] if listed else None,
    )
