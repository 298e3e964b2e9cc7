"""A stage too short to tell anything of a load that goes on."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import Code, Explanation, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.measure.cells import duration_seconds, rounded

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.WINDOW_TOO_SHORT: Explanation(
        meaning="The stage is mostly its own beginning and end, where fewer requests compete than the load point says: "
        "throughput is too low, latencies may be off either way.",
        remedy="Send more requests, ten or more for each that is under way at a time, and for ten seconds or longer.",
    ),
}


def window_too_short(record: StageRecord, context: StageContext) -> Found:
    """Too few requests for those under way at a time, or too few seconds.

    Under way are the users of a closed loop, and what an open one brought about: a cap that it never met says nothing. A
    load sent all at once has no rounds, only a duration.
    """
    asked, lines, requests = context.asked, context.thresholds, len(record.requests.ok)
    if not any(record.requests.ok):
        return []
    seconds = duration_seconds(record)
    concurrency = float(asked.concurrency or 0) if asked.closed_loop else context.shape(record).mean_in_flight
    needed = 0.0 if asked.all_at_once else lines.requests_a_user * concurrency
    share = min(requests / needed if needed else 1.0, seconds / lines.window_seconds)
    if share >= 1:
        return []
    evidence = {
        "requests": requests,
        "concurrency": rounded(concurrency),
        "neededRequests": rounded(needed),
        "seconds": rounded(seconds),
        "neededSeconds": lines.window_seconds,
    }
    return [StageFinding(Code.WINDOW_TOO_SHORT, "Suspect", record.stage_id, evidence, weight=1 - share)]
