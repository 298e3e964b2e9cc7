"""`spec.workloads`: what is sent, how fast, how often."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from benchrun.api.base import DIFFERENT_NUMBERS, NUMBER, DnsLabel, PositiveDecimal, Rate, SpecModel
from benchrun.api.datasets.union import Dataset
from benchrun.api.rules import Rule, Unique, exactly_one
from benchrun.api.search import Search

MAX_LOAD_POINTS = 32
MAX_WORKLOADS = 16
MAX_CELLS = 64
MAX_STAGES = 256
MAX_REQUESTS = 50_000
"""Requests of one stage."""

Concurrency = Annotated[int, Field(ge=1, le=100_000)]
Concurrencies = Annotated[list[Concurrency], Field(min_length=1, max_length=MAX_LOAD_POINTS), Unique()]
Rates = Annotated[list[Rate], Field(min_length=1, max_length=MAX_LOAD_POINTS), Unique(), DIFFERENT_NUMBERS]
BatchSizes = Annotated[
    list[Annotated[int, Field(ge=1, le=MAX_REQUESTS)]], Field(min_length=1, max_length=MAX_LOAD_POINTS), Unique()
]
Speeds = Annotated[list[PositiveDecimal], Field(min_length=1, max_length=MAX_LOAD_POINTS), Unique(), DIFFERENT_NUMBERS]


class Load(SpecModel):
    """Load points, exactly one of: request rates (open loop), concurrencies (closed loop), a search for the highest load, the
    speeds at which a trace is replayed, or batch sizes (with `offline`)."""

    rules = (
        exactly_one("request_rates", "concurrencies", "search", "trace_speeds", "batch_sizes"),
        Rule(
            cel="!has(self.maxConcurrency) || has(self.requestRates)",
            holds=lambda load: load.max_concurrency is None or load.request_rates is not None,
            message="maxConcurrency caps requestRates; remove it",
        ),
        Rule(
            cel="!has(self.burstiness) || has(self.requestRates)",
            holds=lambda load: load.burstiness is None or load.request_rates is not None,
            message="burstiness shapes requestRates; remove it",
        ),
    )
    request_rates: Rates | None = Field(
        default=None, description='Requests a second, each a load point: decimals above 0, or "inf" for all at once.'
    )
    max_concurrency: Concurrency | None = Field(
        default=None, description="Most requests in flight at once; further arrivals wait in the client."
    )
    burstiness: PositiveDecimal | None = Field(
        default=None,
        description="Shape of the gaps between arrivals: 1 is Poisson (the default), below 1 is burstier, above 1 more even.",
    )
    concurrencies: Concurrencies | None = Field(
        default=None, description="Users that each send the next request when the last was answered; each a load point."
    )
    search: Search | None = Field(
        default=None,
        description="The highest load that meets the objectives: each load depends on how the ones before fared.",
    )
    trace_speeds: Speeds | None = Field(
        default=None,
        description="Replays the instants of dataset.timedTrace, each speed a load point: 1 as recorded, 2 twice as fast.",
    )
    batch_sizes: BatchSizes | None = Field(
        default=None,
        description="With offline: requests that the engine is given in one call, the next when all are answered; "
        "each a load point.",
    )


class Workload(SpecModel):
    """One kind of traffic, measured at every load point."""

    rules = (
        exactly_one("requests", "duration_seconds"),
        Rule(
            cel="!has(self.load.traceSpeeds) || has(self.dataset.timedTrace)",
            holds=lambda workload: workload.load.trace_speeds is None or workload.dataset.timed_trace is not None,
            message="load.traceSpeeds replays instants, which only dataset.timedTrace has",
        ),
        Rule(
            cel="!has(self.durationSeconds) || (has(self.load.requestRates) && self.load.requestRates.all(r, r != 'inf')) || "
            "(has(self.load.search) && self.load.search.axis == 'RequestRate')",
            holds=lambda workload: (
                workload.duration_seconds is None or _rates_are_finite(workload.load) or _searches_rates(workload.load)
            ),
            message="durationSeconds needs finite requestRates; use requests instead",
        ),
        Rule(
            cel="!has(self.durationSeconds) || !has(self.load.requestRates) || self.load.requestRates.all("
            f"r, r == 'inf' || double(r) * double(self.durationSeconds) <= {MAX_REQUESTS}.0)",
            holds=lambda workload: (
                workload.duration_seconds is None
                or not _rates_are_finite(workload.load)
                or _highest_rate(workload.load) * workload.duration_seconds <= MAX_REQUESTS
            ),
            message=f"rate x durationSeconds must be at most {MAX_REQUESTS} requests a stage",
        ),
        Rule(
            cel=f"!has(self.durationSeconds) || !has(self.load.search) || !self.load.search.to.matches({NUMBER}) || "
            f"double(self.load.search.to) * double(self.durationSeconds) <= {MAX_REQUESTS}.0",
            holds=lambda workload: (
                workload.duration_seconds is None
                or workload.load.search is None
                or float(workload.load.search.to) * workload.duration_seconds <= MAX_REQUESTS
            ),
            message=f"load.search.to x durationSeconds must be at most {MAX_REQUESTS} requests a stage",
        ),
    )
    name: Annotated[DnsLabel, Field(max_length=40)] = Field(description="Name of the workload, part of every stage id.")
    dataset: Dataset = Field(description="What the requests say.")
    load: Load = Field(description="How the requests arrive.")
    requests: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] | None = Field(
        default=None, description="Requests of each stage."
    )
    duration_seconds: Annotated[int, Field(ge=1, le=86_400)] | None = Field(
        default=None, description="Instead of requests: how long each stage sends, at a finite rate."
    )
    api: Literal["Completions", "Chat"] = Field(
        default="Completions", description="Endpoint: /v1/completions or /v1/chat/completions."
    )
    ignore_eos: bool = Field(
        default=True, description="Whether answers run to the length asked for, or end where the model ends them."
    )


def _rates_are_finite(load: Load) -> bool:
    return load.request_rates is not None and "inf" not in load.request_rates


def _searches_rates(load: Load) -> bool:
    return load.search is not None and load.search.axis == "RequestRate"


def _highest_rate(load: Load) -> float:
    return max(float(rate) for rate in load.request_rates or ["0"])
