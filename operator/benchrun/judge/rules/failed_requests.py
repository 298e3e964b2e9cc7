"""Requests that failed, were answered with nothing, or were turned away."""

from __future__ import annotations

from itertools import compress

from benchrun.judge.rules.rule import Code, Evidence, Explanation, Found, Rules, StageFinding, StageProfile
from benchrun.measure.cells import failed_requests, rounded
from benchrun.measure.edges import ADMISSION_REJECTIONS, of_vllm, rise

MAX_ERROR_CHARS = 300


def requests_failed(stage: StageProfile) -> Found:
    """All failed, or more than the threshold."""
    requests, failed = len(stage.requests.ok), failed_requests(stage.record)
    if failed == requests:
        evidence = {"requests": requests, "failed": failed, **_first_error(stage)}
        return [StageFinding(Code.ALL_REQUESTS_FAILED, "Invalid", stage.id, evidence, weight=requests)]
    percent, limit = 100 * failed / requests, stage.thresholds.max_failed_percent
    if percent <= limit:
        return []
    evidence = {
        "requests": requests,
        "failed": failed,
        "failedPercent": rounded(percent),
        "maxFailedPercent": limit,
        **_first_error(stage),
    }
    return [StageFinding(Code.REQUESTS_FAILED, "Invalid", stage.id, evidence, weight=percent)]


def no_output(stage: StageProfile) -> Found:
    """Answers there were, tokens there were none."""
    answered = sum(stage.requests.ok)
    if answered == 0 or any(compress(stage.requests.output_tokens, stage.requests.ok)):
        return []
    evidence = {"answered": answered, "outputTokens": 0}
    return [StageFinding(Code.NO_OUTPUT, "Invalid", stage.id, evidence, weight=answered)]


def _first_error(stage: StageProfile) -> Evidence:
    """The server's own answer where the client asked for it, else the most frequent error."""
    if stage.record.diagnostic:
        return {"error": stage.record.diagnostic[:MAX_ERROR_CHARS]}
    if not stage.record.errors:
        return {}
    return {"error": max(stage.record.errors, key=lambda text: stage.record.errors[text])[:MAX_ERROR_CHARS]}


TOO_MANY_REQUESTS = frozenset({"too many requests"})
SERVICE_UNAVAILABLE = frozenset({"service unavailable", "service temporarily unavailable"})
"""The load engine keeps of a status only its reason phrase; the second is what nginx says."""


def requests_rejected(stage: StageProfile) -> Found:
    """Answers 429 and 503 by their words, or the servers' own count. A server without that count has no such limit."""
    too_many, unavailable = _times(stage, TOO_MANY_REQUESTS), _times(stage, SERVICE_UNAVAILABLE)
    counted = rise(of_vllm(stage.edges), ADMISSION_REJECTIONS)
    rejected = max(too_many + unavailable, counted or 0)
    if rejected == 0:
        return []
    requests = len(stage.requests.ok)
    percent = 100 * rejected / requests
    evidence = {
        "requests": requests,
        "tooManyRequests": too_many,
        "serviceUnavailable": unavailable,
        "rejectedByServers": counted,
        "rejectedPercent": rounded(percent),
    }
    return [StageFinding(Code.REQUESTS_REJECTED, "Suspect", stage.id, evidence, weight=percent)]


def _times(stage: StageProfile, phrases: frozenset[str]) -> int:
    return sum(count for text, count in stage.record.errors.items() if text.strip().lower() in phrases)


RULES = Rules(
    of_stages={10: requests_failed, 20: no_output, 120: requests_rejected},
    explanations={
        Code.ALL_REQUESTS_FAILED: Explanation(
            meaning="No request of the stage was answered; it has no latencies.",
            remedy="Read the error in the evidence: a wrong model name, an endpoint without this API, or a prompt longer than "
            "the model takes are the usual causes.",
            sentence="All {requests} requests failed.[ Error: {error}]",
        ),
        Code.REQUESTS_FAILED: Explanation(
            meaning="More requests failed than validity.maxFailedPercent allows. Failed requests are missing from every latency, "
            "so the figures describe only those that got through.",
            remedy="Lower the load, or remove the cause that the evidence names. Raise validity.maxFailedPercent only if failures "
            "are what you measure.",
            sentence="{failed} of {requests} requests failed ({failedPercent} %, threshold {maxFailedPercent} %).[ "
            "Error: {error}]",
        ),
        Code.NO_OUTPUT: Explanation(
            meaning="Requests were answered, but without a single token: latencies and throughput say nothing.",
            remedy="Ask the server by hand: a model that ends at once needs ignoreEOS, a proxy may drop the stream.",
            sentence="{answered} requests were answered, with {outputTokens} output tokens in all.",
        ),
        Code.REQUESTS_REJECTED: Explanation(
            meaning="The server or a gateway turned requests away. Those that were let in met less load than the load point "
            "names, so their latencies are too good for it.",
            remedy="Lower the load, or raise the limit that rejects: the server's max-num-queued-reqs and "
            "max-num-queued-tokens, or a gateway's rate limit.",
            sentence="{rejectedPercent} % of {requests} requests were rejected: {tooManyRequests} with 429, "
            "{serviceUnavailable} with 503[; the servers counted {rejectedByServers}].",
        ),
    },
)
