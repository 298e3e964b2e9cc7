"""Requests that the server, or something in front of it, turned away."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import Code, Explanation, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.cells import rounded
from benchrun.measure.edges import ADMISSION_REJECTIONS, of_vllm, rise

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.REQUESTS_REJECTED: Explanation(
        meaning="The server or a gateway turned requests away. Those that were let in met less load than the load point "
        "names, so their latencies are too good for it.",
        remedy="Lower the load, or raise the limit that rejects: the server's max-num-queued-reqs and "
        "max-num-queued-tokens, or a gateway's rate limit.",
    ),
}
TOO_MANY_REQUESTS = frozenset({"too many requests"})
SERVICE_UNAVAILABLE = frozenset({"service unavailable", "service temporarily unavailable"})
"""The load engine keeps of a status only its reason phrase; the second is what nginx says."""


def requests_rejected(record: StageRecord, context: StageContext) -> Found:
    """Answers 429 and 503 by their words, or the servers' own count. A server without that count has no such limit."""
    too_many, unavailable = _times(record, TOO_MANY_REQUESTS), _times(record, SERVICE_UNAVAILABLE)
    counted = rise(of_vllm(record.servers), ADMISSION_REJECTIONS)
    rejected = max(too_many + unavailable, counted or 0)
    if rejected == 0:
        return []
    requests = len(record.requests.ok)
    percent = 100 * rejected / requests
    evidence = {
        "requests": requests,
        "tooManyRequests": too_many,
        "serviceUnavailable": unavailable,
        "rejectedByServers": counted,
        "rejectedPercent": rounded(percent),
    }
    return [StageFinding(Code.REQUESTS_REJECTED, "Suspect", record.stage_id, evidence, weight=percent)]


def _times(record: StageRecord, phrases: frozenset[str]) -> int:
    return sum(count for text, count in record.errors.items() if text.strip().lower() in phrases)
