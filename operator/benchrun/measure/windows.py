"""What the readings of a stage say of its servers, role by role."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchrun_client.contract import ServerEdge, StageRecord

from benchrun.api.names import ROLE_PROXY
from benchrun.measure.cells import duration_seconds
from benchrun.measure.edges import (
    EXTERNAL_HITS,
    EXTERNAL_QUERIES,
    FAILED_TRANSFERS,
    PREEMPTIONS,
    PREFIX_HITS,
    PREFIX_QUERIES,
    by_role,
    rise,
)
from benchrun.measure.pod_windows import pod_windows
from benchrun.measure.samples import Sample


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one role over one or more stages. Means and maxima are over readings of single servers."""

    role: str
    running_mean: float | None
    running_max: float | None
    waiting_mean: float | None
    waiting_max: float | None
    kv_cache_mean_percent: float | None
    kv_cache_max_percent: float | None
    preemptions: float | None
    prefix_hit_percent: float | None
    samples: int
    coverage_percent: float | None
    """Readings there are, of those the interval should have given; at most 100."""
    fetched_percent: float | None = None
    """Prompt tokens that came from outside of the server, of those that were looked up there."""
    fetched_tokens: float | None = None
    transfer_failures: float | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """Readings and edges of one role within one stage."""

    role: str
    samples: tuple[Sample, ...]
    edges: tuple[ServerEdge, ...]
    expected: float
    """Readings that the scrape interval should have given."""


def windows(record: StageRecord, samples: Sequence[Sample], *, scrape_interval: float) -> tuple[Window, ...]:
    """One window a role, in order of the role's first reading; of a role without any, the edges alone. A proxy is no vLLM."""
    pods = pod_windows(record, samples)
    readings = duration_seconds(record) / scrape_interval
    at_edges = by_role(edge for edge in record.servers if edge.role != ROLE_PROXY)
    found = []
    for role in dict.fromkeys((*(pod.role for pod in pods), *at_edges)):
        read, of_role = [pod for pod in pods if pod.role == role], at_edges.get(role, ())
        inside = tuple(sample for pod in read for sample in pod.samples)
        servers = max(1, sum(pod.present for pod in read)) if pods else len(of_role)
        found.append(Window(role, inside, of_role, expected=readings * servers))
    return tuple(found)


def figures(stage_windows: Iterable[Window]) -> Figures:
    """Figures over windows of one role: those of a stage, or of all stages of a cell."""
    parts = list(stage_windows)
    samples = [sample for part in parts for sample in part.samples]
    preemptions = [rise(part.edges, PREEMPTIONS) for part in parts]
    hits = [rise(part.edges, PREFIX_HITS) for part in parts]
    queries = [rise(part.edges, PREFIX_QUERIES) for part in parts]
    fetched = [rise(part.edges, EXTERNAL_HITS) for part in parts]
    looked_up = [rise(part.edges, EXTERNAL_QUERIES) for part in parts]
    expected = math.fsum(part.expected for part in parts)
    running = _known(s.running for s in samples)
    waiting = _known(s.waiting for s in samples)
    usage = [100 * u for u in _known(s.kv_cache for s in samples)]
    return Figures(
        role=parts[0].role,
        running_mean=_mean(running),
        running_max=max(running, default=None),
        waiting_mean=_mean(waiting),
        waiting_max=max(waiting, default=None),
        kv_cache_mean_percent=_mean(usage),
        kv_cache_max_percent=max(usage, default=None),
        preemptions=_sum(preemptions),
        prefix_hit_percent=_percent(_sum(hits), _sum(queries)),
        fetched_percent=_percent(_sum(fetched), _sum(looked_up)),
        fetched_tokens=_sum(fetched) if any(looked_up) else None,
        transfer_failures=_sum_of_known(rise(part.edges, name) for part in parts for name in FAILED_TRANSFERS),
        samples=len(samples),
        coverage_percent=min(100.0, 100 * len(samples) / expected) if expected > 0 else None,
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _sum(values: Sequence[float | None]) -> float | None:
    return None if not values or None in values else math.fsum(v for v in values if v is not None)


def _sum_of_known(values: Iterable[float | None]) -> float | None:
    """A connector has some of the counters, or none."""
    known = _known(values)
    return math.fsum(known) if known else None


def _percent(part: float | None, whole: float | None) -> float | None:
    return None if part is None or whole is None or whole <= 0 else 100 * part / whole
