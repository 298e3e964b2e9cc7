"""What was asked of a stage: the line that its measurement is held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchrun.api.cells import Cell
from benchrun.api.measurement import CachePolicy
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.plan.model_files import model_files, served_name
from benchrun.plan.roles import role_replicas


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
