"""Which readings of the timeline belong to a stage, pod by pod.

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

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchrun_client.contract import START_TIME, ServerEdge, StageRecord

from benchrun.measure.edges import GENERATION_TOKENS, count
from benchrun.measure.samples import Sample, start_instant


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
