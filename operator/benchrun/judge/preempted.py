"""Requests that the scheduler put back into the queue because the KV cache was full."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun_client.contract import StageRecord

from benchrun.api.status import Severity
from benchrun.judge.finding import Code, Explanation, NotChecked, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.cells import rounded
from benchrun.measure.edges import PREEMPTIONS, of_vllm, rise

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.PREEMPTED: Explanation(
        meaning="The KV cache was full: running requests lost their blocks, waited and were computed anew. Some answers "
        "have long pauses, and part of the server's work was done twice.",
        remedy="Lower the concurrency or max-num-seqs, shorten the requests, or give the KV cache more memory "
        "(gpu-memory-utilization, kv-cache-memory-bytes). Leave it if that limit is what you measure.",
    ),
}


def preempted(record: StageRecord, context: StageContext) -> Found:
    """Any preemption is worth knowing; more than a few shape the tail."""
    preemptions, requests = rise(of_vllm(record.servers), PREEMPTIONS), len(record.requests.ok)
    if preemptions is None:
        return [NotChecked(Code.PREEMPTED, "a server's preemptions were not read at both ends")]
    if preemptions == 0:
        return []
    percent, line = 100 * preemptions / requests, context.thresholds.preempted_suspect_percent
    severity: Severity = "Suspect" if percent > line else "Note"
    evidence = {
        "preemptions": preemptions,
        "requests": requests,
        "percent": rounded(percent),
        "suspectPercent": line,
    }
    return [StageFinding(Code.PREEMPTED, severity, record.stage_id, evidence, weight=percent)]
