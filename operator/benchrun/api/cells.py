"""A cell: a workload at a load point, its repeats pooled. The unit of every result, and the keys of its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from benchrun.api.comparison import ComparedMetric
from benchrun.names import ANSWERING_ROLES

Axis = Literal["rate", "concurrency", "speed", "batch"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of the results."""

    id: str  # `chat/rate=4`.
    workload: str
    axis: Axis
    value: str  # Canonical load value: "4", "0.5", "inf".
    stage_ids: tuple[str, ...]  # Its repeats, first to last.
    confirms: bool = False  # Measured to confirm the load that a search found.


KEYS: Mapping[ComparedMetric, str] = {
    "OutputThroughput": "output_throughput",
    "RequestThroughput": "request_throughput",
    "TotalTokenThroughput": "total_token_throughput",
    "MeanTTFT": "mean_ttft_ms",
    "MeanTPOT": "mean_tpot_ms",
    "MeanITL": "mean_itl_ms",
    "MeanE2EL": "mean_e2el_ms",
    "P95TTFT": "p95_ttft_ms",
    "P95TPOT": "p95_tpot_ms",
    "P95ITL": "p95_itl_ms",
    "P95E2EL": "p95_e2el_ms",
    "P99TTFT": "p99_ttft_ms",
    "P99TPOT": "p99_tpot_ms",
    "P99ITL": "p99_itl_ms",
    "P99E2EL": "p99_e2el_ms",
}
"""vLLM's own names, under which results hold them."""
THROUGHPUTS: tuple[str, ...] = ("request_throughput", "output_throughput", "total_token_throughput")
OUTPUT_COST, TOTAL_COST = "cost_per_million_output_tokens", "cost_per_million_total_tokens"
COSTS: tuple[str, ...] = (OUTPUT_COST, TOTAL_COST)
"""There only where the spec names a price; in its currency."""
TOKENS_PER_JOULE = "output_tokens_per_joule"
"""There only where the power of GPUs is known."""


class HasRole(Protocol):
    """A status, figures or an edge of one role."""

    @property
    def role(self) -> str:
        """Its role."""


R = TypeVar("R", bound=HasRole)


def answering(of: Iterable[R]) -> R | None:
    """That of the servers which write answers, else the first; None: there is none."""
    listed = list(of)
    return next((each for each in listed if each.role in ANSWERING_ROLES), listed[0] if listed else None)
