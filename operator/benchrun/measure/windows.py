"""Which samples of the timeline belong to a stage, and what they say of its servers, role by role."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchrun_client.contract import START_TIME, ServerEdge, StageRecord

from benchrun.measure.cells import duration_seconds
from benchrun.measure.edges import (
    EXTERNAL_HITS,
    EXTERNAL_QUERIES,
    FAILED_TRANSFERS,
    GENERATION_TOKENS,
    PREEMPTIONS,
    PREFIX_HITS,
    PREFIX_QUERIES,
    PROMPT_TOKENS,
    QUEUE_TIME_COUNT,
    QUEUE_TIME_SUM,
    REQUESTS_FINISHED,
    TTFT_COUNT,
    TTFT_SUM,
    by_role,
    count,
    of_vllm,
    rise,
)
from benchrun.measure.exposition import Sample, start_instant
from benchrun.names import ROLE_PROXY

# ---- pod windows ------------------------------------------------------------------------------------------------------
# Which readings of the timeline belong to a stage, pod by pod.
#
# A stage's window is told by each server's own count of generated tokens, which both the client's edges and the operator's
# readings carry, so two nodes' clocks need not agree. With `before` and `after` the counts at the edges, a reading belongs
# to the stage when
#
#     before < tokens < after,  or  tokens == before and the server is busy.
#
# `before` while busy is a prefill: the stage has begun, its first token has not come. `before` while idle is the pause
# ahead of the stage. `after` belongs to nobody or, when busy, to the next stage, whose `before` it is: by then every answer
# of this stage is complete. So windows of one server never overlap. Where the counts can't tell (none at an edge, no token
# generated, server not recognised) the client's instants are taken.


@dataclass(frozen=True, slots=True)
class PodWindow:
    """Readings of one pod within one stage."""

    role: str
    pod: str
    edge: ServerEdge | None
    """Of the server that they come from; None where that can't be told."""
    samples: tuple[Sample, ...]
    present: bool
    """Whether it was being read around the stage at all: one that came later is not waited for."""


def pod_windows(record: StageRecord, samples: Sequence[Sample]) -> tuple[PodWindow, ...]:
    """One window a pod that was ever read, in order of the pods' first readings."""
    by_pod: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        by_pod[sample.role, sample.pod].append(sample)
    roles = [role for role, _ in by_pod]
    found = []
    for (role, pod), read in by_pod.items():
        of_role = [edge for edge in record.servers if edge.role == role]
        edge = _edge_of(of_role, read, alone=roles.count(role) == 1)
        found.append(PodWindow(role, pod, edge, tuple(_inside(record, edge, read)), _overlaps(record, read)))
    return tuple(found)


def _edge_of(edges: Sequence[ServerEdge], samples: Sequence[Sample], *, alone: bool) -> ServerEdge | None:
    """The edge of the server that these readings come from: the only one, or the one of the same start time."""
    if alone and len(edges) == 1:
        return edges[0]
    starts = {s.start_time for s in samples if s.start_time is not None}
    same = [edge for edge in edges if _began(edge) in starts]
    return same[0] if len(same) == 1 else None


def _began(edge: ServerEdge | None) -> float | None:
    """When the process began that served at the start of the stage; None where it does not say."""
    told = None if edge is None else count(edge.before, START_TIME)
    return None if told is None else start_instant(told)


def _inside(record: StageRecord, edge: ServerEdge | None, samples: Iterable[Sample]) -> list[Sample]:
    began = _began(edge)
    if began is not None:
        # A process that was gone before the stage counted on its own: its count may lie between these edges by chance.
        samples = [s for s in samples if s.start_time is None or s.start_time >= began]
    before, after = _counts(edge)
    if before is None or after is None or before >= after:
        return [s for s in samples if _in_wall_clock(record, s)]
    return [s for s in samples if _in_counts(s, before, after)]


def _counts(edge: ServerEdge | None) -> tuple[float | None, float | None]:
    if edge is None:
        return None, None
    return count(edge.before, GENERATION_TOKENS), count(edge.after, GENERATION_TOKENS)


def _in_counts(sample: Sample, before: float, after: float) -> bool:
    tokens = sample.generation_tokens
    if tokens is None:
        return False
    return before < tokens < after or (tokens == before and is_busy(sample))


def _in_wall_clock(record: StageRecord, sample: Sample) -> bool:
    return record.first_send_unix_us <= sample.at * 1e6 <= record.last_receive_unix_us


def _overlaps(record: StageRecord, samples: Sequence[Sample]) -> bool:
    first, last = min(s.at for s in samples), max(s.at for s in samples)
    return first * 1e6 <= record.last_receive_unix_us and last * 1e6 >= record.first_send_unix_us


def is_busy(sample: Sample) -> bool:
    """Whether the server had a request running or waiting."""
    return (sample.running or 0) + (sample.waiting or 0) > 0


# ---- windows ----------------------------------------------------------------------------------------------------------
# What the readings of a stage say of its servers, role by role.


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


# ---- replicas ---------------------------------------------------------------------------------------------------------
# What each server did in a stage: by its own counters at both edges, and by the readings of its pod.


@dataclass(frozen=True, slots=True)
class Replica:
    """One server within one stage. A count is None where the server did not say at both edges, or started anew between."""

    address: str
    pod: str | None
    """Where its readings come from; None where no pod's readings are known to be its own."""
    requests_finished: float | None
    prompt_tokens: float | None
    generation_tokens: float | None
    mean_ttft_ms: float | None
    """From the request's arrival at the server."""
    mean_queue_ms: float | None
    figures: Figures
    """Of this server alone: those of readings are None without its pod."""


def replicas(record: StageRecord, samples: Sequence[Sample]) -> tuple[Replica, ...]:
    """Every vLLM server whose pages the client was to read, as the record has them."""
    pods = pod_windows(record, samples)
    return tuple(_replica(edge, _pod_of(edge, pods)) for edge in of_vllm(record.servers))


def _pod_of(edge: ServerEdge, pods: Sequence[PodWindow]) -> PodWindow | None:
    """Two pods that began in the same millisecond can't be told apart: none of them is it."""
    same = [pod for pod in pods if pod.edge is edge]
    return same[0] if len(same) == 1 else None


def _replica(edge: ServerEdge, pod: PodWindow | None) -> Replica:
    read = pod.samples if pod is not None else ()
    return Replica(
        address=edge.address,
        pod=pod.pod if pod is not None else None,
        requests_finished=rise([edge], REQUESTS_FINISHED),
        prompt_tokens=rise([edge], PROMPT_TOKENS),
        generation_tokens=rise([edge], GENERATION_TOKENS),
        mean_ttft_ms=_mean_ms(edge, TTFT_SUM, TTFT_COUNT),
        mean_queue_ms=_mean_ms(edge, QUEUE_TIME_SUM, QUEUE_TIME_COUNT),
        figures=figures([Window(edge.role, read, (edge,), expected=0.0)]),
    )


def _mean_ms(edge: ServerEdge, total: str, count: str) -> float | None:
    seconds, requests = rise([edge], total), rise([edge], count)
    return 1000 * seconds / requests if seconds is not None and requests else None
