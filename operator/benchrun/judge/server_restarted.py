"""A server that was replaced in the middle of a stage."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun_client.contract import START_TIME, StageRecord

from benchrun.judge.finding import Code, Evidence, Explanation, NotChecked, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.edges import fallen_counters, is_restarted

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.SERVER_RESTARTED: Explanation(
        meaning="A server's process started anew during the stage: the stage saw two servers, one of them loading.",
        remedy="See why it ended (kubectl describe pod, the previous container's log), then run again.",
    ),
    Code.COUNTERS_RESET: Explanation(
        meaning="A counter of a server fell during the stage, which happens only when its process was replaced.",
        remedy="See why it ended (kubectl describe pod, the previous container's log), then run again.",
    ),
}

_READ = ("generation_tokens", "prompt_tokens", "requests_finished", "prefix_queries")
"""Counters that the operator's readings hold."""


def server_restarted(record: StageRecord, context: StageContext) -> Found:
    """The process has another start time at the end or in a reading, or (where it tells none) its counters fell."""
    restarted = _restarted_at_edges(record) or _restarted_between_readings(context)
    if restarted:
        evidence: Evidence = {"servers": len(restarted), **restarted[0]}
        return [StageFinding(Code.SERVER_RESTARTED, "Invalid", record.stage_id, evidence, weight=len(restarted))]
    fallen = [(edge, counters[0]) for edge in record.servers if (counters := fallen_counters(edge))]
    if fallen:
        edge, counter = fallen[0]
        evidence = {
            "servers": len(fallen),
            "server": edge.address,
            "counter": counter,
            "before": (edge.before or {}).get(counter),
            "after": (edge.after or {}).get(counter),
        }
        return [StageFinding(Code.COUNTERS_RESET, "Invalid", record.stage_id, evidence, weight=len(fallen))]
    return _fallen_between_readings(record, context) or _not_seen(record, context)


def _not_seen(record: StageRecord, context: StageContext) -> list[NotChecked]:
    """Nobody read a server at two instants: it may have been replaced in between."""
    read = any(edge.before is not None and edge.after is not None for edge in record.servers)
    if read or sum(len(window.samples) for window in context.windows) > 1:
        return []
    return [NotChecked(Code.SERVER_RESTARTED, "no server was read at both ends, or meanwhile")]


def _fallen_between_readings(record: StageRecord, context: StageContext) -> list[StageFinding]:
    """A counter that began anew and rose past where it was looks whole at the edges, not to whoever read it meanwhile."""
    last: dict[tuple[str, str], float] = {}
    for sample in sorted((s for window in context.windows for s in window.samples), key=lambda s: s.at):
        for counter in _READ:
            now = getattr(sample, counter)
            if now is None:
                continue
            before = last.get((sample.pod, counter), now)
            if now < before:
                evidence: Evidence = {
                    "servers": 1,
                    "server": sample.pod,
                    "counter": counter,
                    "before": before,
                    "after": now,
                }
                return [StageFinding(Code.COUNTERS_RESET, "Invalid", record.stage_id, evidence, weight=1)]
            last[sample.pod, counter] = now
    return []


def _restarted_at_edges(record: StageRecord) -> list[Evidence]:
    return [
        _start_times(edge.address, (edge.before or {}).get(START_TIME), (edge.after or {}).get(START_TIME))
        for edge in record.servers
        if is_restarted(edge)
    ]


def _restarted_between_readings(context: StageContext) -> list[Evidence]:
    """Seen by the operator while the client could not read the closing edge."""
    starts: dict[str, set[float]] = {}
    for sample in (sample for window in context.windows for sample in window.samples):
        if sample.start_time is not None:
            starts.setdefault(sample.pod, set()).add(sample.start_time)
    return [_start_times(pod, min(seen), max(seen)) for pod, seen in starts.items() if len(seen) > 1]


def _start_times(server: str, before: float | None, after: float | None) -> Evidence:
    """Unix seconds at which its process began, as it said first and last."""
    return {"server": server, "startedBefore": before, "startedAfter": after}
