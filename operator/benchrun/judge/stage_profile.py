"""What one stage should have been, and how it went by its own requests: facts that several rules read, worked out once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Literal

from benchrun_client.contract import StageRecord

from benchrun.api import BenchmarkRunSpec, CachePolicy, Cell
from benchrun.measure.cells import duration_seconds
from benchrun.measure.percentiles import batch_means
from benchrun.measure.plateau import InFlight, NoPlateau, Plateau, in_flight, plateau
from benchrun.plan.files import model_files, served_name
from benchrun.plan.roles import role_replicas

# ---- asked ------------------------------------------------------------------------------------------------------------
# What was asked of a stage: the line that its measurement is held against.


@dataclass(frozen=True, slots=True)
class Asked:
    """A load point of a workload, in numbers."""

    rate: float | None
    """Arrivals a second of an open loop; None: users, a trace, or all at once."""
    concurrency: int | None
    """Users of a closed loop, or the cap of an open one; None: no bound."""
    closed_loop: bool
    """Whether each answer brings the next request. A rate of "inf" under a cap is one; without a cap all come at once."""
    api: Literal["Completions", "Chat"]
    ignore_eos: bool
    cache_policy: CachePolicy
    scrape_interval_seconds: float
    follows_trace: bool = False
    """Whether requests arrive at recorded instants: an open loop without a rate."""
    through_service: bool = False
    """Whether requests go through a Service, whose pods were listed when the run began: others may join it."""

    offline: bool = False
    """Whether the engine has no API server in front: no gaps between tokens are known, and it gets a load as a whole."""
    whole_batches: bool = False
    """Whether the engine is given a batch at a time, and the next when all of it is answered."""

    servers: Mapping[str, int] = field(default_factory=dict)
    """How many servers of each role the run starts; empty at an endpoint."""
    served_name: str = ""
    """The name in the requests."""
    model: str | None = None
    """The hub id or path that the run's servers are told; None at an endpoint, whose owner chose where its model comes from."""

    @property
    def all_at_once(self) -> bool:
        """Every request is sent at the first instant: what is measured is the draining of a queue."""
        return self.rate is None and self.concurrency is None and not self.follows_trace

    @property
    def capped(self) -> bool:
        """An open loop whose arrivals may have to wait in the client."""
        return self.rate is not None and self.concurrency is not None

    @property
    def has_due_instants(self) -> bool:
        """Whether each request is to be sent at an instant of its own, and nothing holds it back but the client."""
        return (self.rate is not None and not self.capped) or self.follows_trace


def asked_of(spec: BenchmarkRunSpec, cell: Cell) -> Asked:
    """What the spec asks of a cell."""
    workload = next(w for w in spec.workloads if w.name == cell.workload)
    rate = float(cell.value) if cell.axis == "rate" and cell.value != "inf" else None
    users = int(cell.value) if cell.axis in ("concurrency", "batch") else workload.load.max_concurrency
    return Asked(
        rate=rate,
        concurrency=users,
        closed_loop=rate is None and users is not None and cell.axis != "batch",
        api=workload.api,
        ignore_eos=workload.ignore_eos,
        cache_policy=spec.measurement.cache_policy,
        scrape_interval_seconds=float(spec.measurement.scrape_interval_seconds),
        follows_trace=cell.axis == "speed",
        offline=spec.offline is not None,
        whole_batches=cell.axis == "batch",
        servers=role_replicas(spec),
        served_name=served_name(spec.model),
        model=model_files(spec.model).model if spec.endpoint is None else None,
        through_service=spec.endpoint is not None and spec.endpoint.service_ref is not None,
    )


# ---- shape ------------------------------------------------------------------------------------------------------------
# How a stage went, told by its own requests: what several rules want to know, each worked out once, when first asked for.

THROUGHPUT_PARTS = 20
MIN_THROUGHPUT_PARTS = 6
"""Four parts are left of six: fewer tell nothing of their noise."""
REQUESTS_A_PART = 5


@dataclass(frozen=True)
class StageShape:
    """A stage as its requests made it. Failed requests are in the flight and in nothing else."""

    record: StageRecord
    asked: Asked

    @cached_property
    def flight(self) -> InFlight:
        """Requests under way, from their sending on."""
        return in_flight(self.record.requests)

    @cached_property
    def demand(self) -> InFlight:
        """Requests under way or held back by the client's cap."""
        return in_flight(self.record.requests, with_client_queue=True) if self.asked.capped else self.flight

    @cached_property
    def plateau(self) -> Plateau | NoPlateau:
        """Where the load stands as asked."""
        if self.asked.follows_trace:
            return NoPlateau.FOLLOWS_TRACE
        if self.asked.whole_batches:
            return NoPlateau.WHOLE_BATCHES
        return plateau(
            self.record.requests,
            self.flight,
            request_rate=math.inf if self.asked.rate is None else self.asked.rate,
            max_concurrency=self.asked.concurrency,
        )

    @cached_property
    def mean_in_flight(self) -> float:
        """Over the whole stage, by Little's law; 0 where nothing was answered."""
        duration = duration_seconds(self.record)
        return sum(self.e2el_us) / 1e6 / duration if duration > 0 else 0.0

    @cached_property
    def answered(self) -> Sequence[int]:
        """Positions in the record's columns of the requests that were answered."""
        return list(compress(range(len(self.record.requests.ok)), self.record.requests.ok))

    @cached_property
    def ttft_us(self) -> Sequence[int]:
        """Of answered requests, in order of sending."""
        return list(map(self.record.requests.ttft_us.__getitem__, self.answered))

    @cached_property
    def e2el_us(self) -> Sequence[int]:
        """Of answered requests, in order of sending."""
        return list(map(self.record.requests.e2el_us.__getitem__, self.answered))

    @cached_property
    def tpot_us(self) -> Sequence[float]:
        """Of requests answered with more than one token, in order of sending."""
        rows = zip(self.e2el_us, self.ttft_us, self._tokens, strict=True)
        return [(e2el - ttft) / (tokens - 1) for e2el, ttft, tokens in rows if tokens > 1]

    @cached_property
    def batches(self) -> Mapping[str, Sequence[float]]:
        """The figures in which repeats are compared, each as means of batches in order of time; without values, none."""
        latencies = {"meanTtftMs": self.ttft_us, "meanTpotMs": self.tpot_us, "meanE2elMs": self.e2el_us}
        batches = {figure: [mean / 1000 for mean in batch_means(values)] for figure, values in latencies.items()}
        return {**batches, "outputTokensPerSecond": self._throughput_batches()}

    def _throughput_batches(self) -> list[float]:
        """Output tokens a second in equal parts of the stage, a request's tokens counted at its end.

        Without the first part, in which most answers are still to come, and the last, in which they run out.
        """
        parts = min(THROUGHPUT_PARTS, len(self.answered) // REQUESTS_A_PART)
        length = duration_seconds(self.record) / max(1, parts)
        if parts < MIN_THROUGHPUT_PARTS or length <= 0:
            return []
        tokens = [0] * (parts + 1)
        starts = map(self.record.requests.start_us.__getitem__, self.answered)
        for start, e2el, count in zip(starts, self.e2el_us, self._tokens, strict=True):
            tokens[min(parts, int((start + e2el) / 1e6 / length))] += count
        return [count / length for count in tokens[1 : parts - 1]]

    @cached_property
    def _tokens(self) -> Sequence[int]:
        return list(map(self.record.requests.output_tokens.__getitem__, self.answered))
