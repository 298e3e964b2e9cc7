"""Which readings of the timeline belong to a stage, and what they say of its servers.

A stage's window is told by each server's own count of generated tokens, which both the client's edges and the operator's
readings carry, so two nodes' clocks need not agree. With `before` and `after` the counts at the edges, a reading belongs
to the stage when

    before < tokens < after,  or  tokens == before and the server is busy.

`before` while busy is a prefill: the stage has begun, its first token has not come. `before` while idle is the pause
ahead of the stage. `after` belongs to nobody or, when busy, to the next stage, whose `before` it is: by then every answer
of this stage is complete. So windows of one server never overlap. Where the counts can't tell (none at an edge, no token
generated, server not recognised) the client's instants are taken.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchrun_client.contract import START_TIME, ServerEdge, StageRecord

from benchrun.api.names import ROLE_PROXY
from benchrun.measure.cells import duration_seconds
from benchrun.measure.edges import (
    EXTERNAL_HITS,
    EXTERNAL_QUERIES,
    FAILED_TRANSFERS,
    GENERATION_TOKENS,
    PREEMPTIONS,
    PREFIX_HITS,
    PREFIX_QUERIES,
    by_role,
    rise,
)
from benchrun.measure.samples import Sample, start_instant


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
    reset: bool
    """A server started anew within a stage; counts that span it are None."""
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
    by_pod: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        by_pod[sample.role, sample.pod].append(sample)
    edges = {
        key: _edge_of(
            [edge for edge in record.servers if edge.role == key[0]],
            pods,
            alone=sum(role == key[0] for role, _ in by_pod) == 1,
        )
        for key, pods in by_pod.items()
    }
    readings = duration_seconds(record) / scrape_interval
    at_edges = by_role(edge for edge in record.servers if edge.role != ROLE_PROXY)
    found = []
    for role in dict.fromkeys((*(role for role, _ in by_pod), *at_edges)):
        pods = [key for key in by_pod if key[0] == role]
        inside = [s for key in pods for s in _inside(record, edges[key], by_pod[key])]
        present = [key for key in pods if _overlaps(record, by_pod[key])]
        of_role = at_edges.get(role, ())
        servers = max(1, len(present)) if by_pod else len(of_role)
        found.append(Window(role, tuple(inside), of_role, expected=readings * servers))
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
        preemptions=_sum([r.value for r in preemptions]),
        prefix_hit_percent=_percent(_sum([r.value for r in hits]), _sum([r.value for r in queries])),
        fetched_percent=_percent(_sum([r.value for r in fetched]), _sum([r.value for r in looked_up])),
        fetched_tokens=_sum([r.value for r in fetched]) if any(r.value for r in looked_up) else None,
        transfer_failures=_sum_of_known(rise(part.edges, name).value for part in parts for name in FAILED_TRANSFERS),
        samples=len(samples),
        coverage_percent=min(100.0, 100 * len(samples) / expected) if expected > 0 else None,
        reset=any(r.reset for r in preemptions),
    )


def _edge_of(edges: Sequence[ServerEdge], samples: Sequence[Sample], *, alone: bool) -> ServerEdge | None:
    """The edge of the server that these readings come from: the only one, or the one of the same start time."""
    if alone and len(edges) == 1:
        return edges[0]
    starts = {s.start_time for s in samples if s.start_time is not None}
    same = [edge for edge in edges if _began(edge) in starts]
    return same[0] if len(same) == 1 else None


def _began(edge: ServerEdge | None) -> float | None:
    """When the process began that served at the start of the stage; None where it does not say."""
    told = None if edge is None or edge.before is None else edge.before.get(START_TIME)
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
    before: Mapping[str, float] = edge.before or {} if edge is not None else {}
    after: Mapping[str, float] = edge.after or {} if edge is not None else {}
    return before.get(GENERATION_TOKENS), after.get(GENERATION_TOKENS)


def _in_counts(sample: Sample, before: float, after: float) -> bool:
    tokens = sample.generation_tokens
    if tokens is None:
        return False
    return before < tokens < after or (tokens == before and is_busy(sample))


def _in_wall_clock(record: StageRecord, sample: Sample) -> bool:
    return record.first_send_unix_us <= sample.at * 1e6 <= record.last_receive_unix_us


def _overlaps(record: StageRecord, samples: Sequence[Sample]) -> bool:
    """Whether a server was being read around the stage at all: one that came later is not waited for."""
    first, last = min(s.at for s in samples), max(s.at for s in samples)
    return first * 1e6 <= record.last_receive_unix_us and last * 1e6 >= record.first_send_unix_us


def is_busy(sample: Sample) -> bool:
    """Whether the server had a request running or waiting."""
    return (sample.running or 0) + (sample.waiting or 0) > 0


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
