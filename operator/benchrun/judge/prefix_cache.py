"""Prompts that should be new to the server and were not.

The plan isolates every prompt: none shares its first KV block with another of the run. Each hit of the prefix cache is
therefore somebody else's, or an earlier run's, doing.
"""

from __future__ import annotations

from benchrun_client.contract import StageRecord

from benchrun.api.status import Severity
from benchrun.judge.finding import Code, StageFinding
from benchrun.judge.rules import StageContext
from benchrun.measure.cells import rounded
from benchrun.measure.edges import PREFIX_HITS, PREFIX_QUERIES, rise


def prefix_cache(record: StageRecord, context: StageContext) -> list[StageFinding]:
    """Hits among the tokens looked up, by the servers' own counters. No look-ups: the cache is off, or nothing arrived."""
    hits, queries = rise(record.servers, PREFIX_HITS).value, rise(record.servers, PREFIX_QUERIES).value
    if hits is None or queries is None:
        return [StageFinding(Code.PREFIX_CACHE_UNKNOWN, "Note", record.stage_id, {"servers": len(record.servers)})]
    percent = 100 * hits / queries if queries > 0 else 0.0
    lines = context.thresholds
    if percent <= lines.prefix_hits_suspect_percent:
        return []
    severity: Severity = "Invalid" if percent > lines.prefix_hits_invalid_percent else "Suspect"
    evidence = {
        "hitTokens": hits,
        "lookedUpTokens": queries,
        "hitPercent": rounded(percent),
        "suspectPercent": lines.prefix_hits_suspect_percent,
        "invalidPercent": lines.prefix_hits_invalid_percent,
    }
    return [StageFinding(Code.PREFIX_CACHE_CONTAMINATED, severity, record.stage_id, evidence, weight=percent)]
