"""Requests that failed, were answered with nothing, or were turned away."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress

from benchrun_client.contract import StageRecord

from benchrun.judge.rules.finding import Code, Evidence, Explanation, StageFinding
from benchrun.judge.rules.rule import Found, StageContext
from benchrun.measure.cells import failed_requests, rounded
from benchrun.measure.edges import ADMISSION_REJECTIONS, of_vllm, rise

# ---- requests failed --------------------------------------------------------------------------------------------------
# Requests that failed, or were answered with nothing. The load engine itself calls that a success.

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.ALL_REQUESTS_FAILED: Explanation(
        meaning="No request of the stage was answered; it has no latencies.",
        remedy="Read the error in the evidence: a wrong model name, an endpoint without this API, or a prompt longer than "
        "the model takes are the usual causes.",
    ),
    Code.REQUESTS_FAILED: Explanation(
        meaning="More requests failed than validity.maxFailedPercent allows. Failed requests are missing from every latency, "
        "so the figures describe only those that got through.",
        remedy="Lower the load, or remove the cause that the evidence names. Raise validity.maxFailedPercent only if failures "
        "are what you measure.",
    ),
    Code.NO_OUTPUT: Explanation(
        meaning="Requests were answered, but without a single token: latencies and throughput say nothing.",
        remedy="Ask the server by hand: a model that ends at once needs ignoreEOS, a proxy may drop the stream.",
    ),
    Code.REQUESTS_REJECTED: Explanation(
        meaning="The server or a gateway turned requests away. Those that were let in met less load than the load point "
        "names, so their latencies are too good for it.",
        remedy="Lower the load, or raise the limit that rejects: the server's max-num-queued-reqs and "
        "max-num-queued-tokens, or a gateway's rate limit.",
    ),
}


MAX_ERROR_CHARS = 300


def requests_failed(record: StageRecord, context: StageContext) -> Found:
    """All failed, or more than the threshold."""
    requests, failed = len(record.requests.ok), failed_requests(record)
    if failed == requests:
        evidence = {"requests": requests, "failed": failed, **_first_error(record)}
        return [StageFinding(Code.ALL_REQUESTS_FAILED, "Invalid", record.stage_id, evidence, weight=requests)]
    percent, limit = 100 * failed / requests, context.thresholds.max_failed_percent
    if percent <= limit:
        return []
    evidence = {
        "requests": requests,
        "failed": failed,
        "failedPercent": rounded(percent),
        "maxFailedPercent": limit,
        **_first_error(record),
    }
    return [StageFinding(Code.REQUESTS_FAILED, "Invalid", record.stage_id, evidence, weight=percent)]


def no_output(record: StageRecord, context: StageContext) -> Found:
    """Answers there were, tokens there were none."""
    answered = sum(record.requests.ok)
    if answered == 0 or any(compress(record.requests.output_tokens, record.requests.ok)):
        return []
    evidence = {"answered": answered, "outputTokens": 0}
    return [StageFinding(Code.NO_OUTPUT, "Invalid", record.stage_id, evidence, weight=answered)]


def _first_error(record: StageRecord) -> Evidence:
    """The server's own answer where the client asked for it, else the most frequent error."""
    if record.diagnostic:
        return {"error": record.diagnostic[:MAX_ERROR_CHARS]}
    if not record.errors:
        return {}
    return {"error": max(record.errors, key=lambda text: record.errors[text])[:MAX_ERROR_CHARS]}


# ---- rejected ---------------------------------------------------------------------------------------------------------
# Requests that the server, or something in front of it, turned away.

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
