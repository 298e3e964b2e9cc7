"""Requests that failed, or were answered with nothing. The load engine itself calls that a success."""

from __future__ import annotations

from itertools import compress

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import Code, Evidence, StageFinding
from benchrun.judge.rules import StageContext
from benchrun.measure.cells import failed_requests, rounded

MAX_ERROR_CHARS = 300


def requests_failed(record: StageRecord, context: StageContext) -> list[StageFinding]:
    """All failed, or more than the threshold."""
    requests, failed = len(record.requests.ok), failed_requests(record)
    if failed == requests:
        evidence = {"requests": requests, **_first_error(record)}
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


def no_output(record: StageRecord, context: StageContext) -> list[StageFinding]:
    """Answers there were, tokens there were none."""
    answered = sum(record.requests.ok)
    if answered == 0 or any(compress(record.requests.output_tokens, record.requests.ok)):
        return []
    return [StageFinding(Code.NO_OUTPUT, "Invalid", record.stage_id, {"answered": answered}, weight=answered)]


def _first_error(record: StageRecord) -> Evidence:
    """The server's own answer where the client asked for it, else the most frequent error."""
    if record.diagnostic:
        return {"error": record.diagnostic[:MAX_ERROR_CHARS]}
    if not record.errors:
        return {}
    return {"error": max(record.errors, key=lambda text: record.errors[text])[:MAX_ERROR_CHARS]}
