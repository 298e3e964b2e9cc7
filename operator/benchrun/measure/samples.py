"""One reading of one server's metrics page."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures of one server at one instant; None is "the page did not say", never 0. Summed over engines but kv_cache (mean)."""

    at: float
    """Unix seconds of the operator's clock, when the page arrived."""
    role: str
    pod: str
    running: float | None = None
    waiting: float | None = None
    kv_cache: float | None = None
    """0 .. 1, mean over engines."""
    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    requests_finished: float | None = None
    preemptions: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    start_time: float | None = None
    """process_start_time_seconds."""
    gpu_watts: float | None = None
    """Of the server's GPUs together; as the following, only in readings that an exporter's page was read for."""
    gpu_memory_mib: float | None = None
    """On the GPU that holds most."""
    sm_clock_mhz: float | None = None
    """Mean of the GPUs."""
    gpu_joules: float | None = None
    """Counter, of the GPUs together."""
    refused: int = field(default=0, compare=False)
    """Values of the page that no server can have; they are not among the figures. Counted where it is read, not kept."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself, read once it is healthy."""

    version: str | None = None
    kv_cache_tokens: int | None = None
    reported: dict[str, str] = field(default_factory=dict)
    """Labels of vLLM's cache_config_info, and max_model_len."""


def start_instant(told: float) -> float:
    """The start time of a process, as precise as it is kept (1 ms): two precisions of one instant would look like two
    processes."""
    return round(told, 3)
