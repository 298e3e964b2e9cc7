"""How many processes send the load, and how many pods they need."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from benchrun.api.parallelism import MAX_PROCESSES
from benchrun.api.pods import Resources
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.workloads import Workload
from benchrun.plan.stages import load_points, requests_of

STREAMS_A_PROCESS = 150
RATE_A_PROCESS = 100
"""Answers under way, and requests a second, up to which vLLM's client was measured (vLLM 0.32, 64 tokens an answer, a server of
known timing, cores of a shared virtual machine) to tell a median TTFT within a third of the true one; beyond it the error grows
quickly."""


@dataclass(frozen=True, slots=True)
class Division:
    """Shards, over pods of so many processes each; the last pod may have fewer."""

    shards: int
    processes: int

    @property
    def pods(self) -> int:
        """How many pods there are."""
        return ceil(self.shards / self.processes)


def division_of(spec: BenchmarkRunSpec) -> Division:
    """What a spec wants. A process takes a core; a pod holds as many as its container has whole cores."""
    asked = spec.client.parallelism
    shards = asked if isinstance(asked, int) else _enough(spec)
    return Division(shards=shards, processes=min(shards, max(_whole_cores(spec.client.resources), 1)))


def _enough(spec: BenchmarkRunSpec) -> int:
    """Processes for the highest load asked for; one where only one can do it."""
    if spec.offline is not None or any(workload.load.search is not None for workload in spec.workloads):
        return 1
    most = max(_needed(workload, value) for workload in spec.workloads for value in load_points(workload.load)[1])
    return min(max(ceil(most), 1), MAX_PROCESSES)


def _needed(workload: Workload, value: str) -> float:
    """Processes for one load point, with fractions. How fast a trace goes its file knows: one, until it is asked for more."""
    load = workload.load
    if load.trace_speeds is not None:
        return 1.0
    if load.concurrencies is not None:
        return int(value) / STREAMS_A_PROCESS
    if value == "inf":
        requests = requests_of(workload, value)
        return min(requests, load.max_concurrency or requests) / STREAMS_A_PROCESS
    return float(value) / RATE_A_PROCESS


def _whole_cores(resources: Resources) -> int:
    """Of the request, or of the limit, which stands for it where there is none."""
    quantity = str(resources.requests.get("cpu") or resources.limits.get("cpu") or "0")
    if quantity.endswith("m"):
        return int(Decimal(quantity[:-1]) / 1000)
    return int(Decimal(quantity)) if quantity[-1].isdigit() else 1
