"""Whether the load was the one that the spec asks for: its rate, its users, and whether the server completes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.api import Severity
from benchrun.judge.rules.rule import Code, Found, NotChecked, Rules, StageFinding, StageProfile
from benchrun.judge.rules.steady_state import BEYOND_CAPACITY
from benchrun.measure import cells, percentiles


def rate_not_achieved(stage: StageProfile) -> Found:
    """Time taken to send, against requests / rate, or against what the trace says. A cap that holds requests back is another
    rule's matter.

    The engine sets the first request after a gap of its own and the last at requests / rate, so a client that keeps up
    never takes longer, however the gaps fall.
    """
    thresholds, starts = stage.thresholds, stage.requests.start_us
    if not stage.expected.has_due_instants:
        return []
    if len(starts) < 2:
        return [NotChecked(Code.RATE_NOT_ACHIEVED, "a single request has no rate")]
    took = (max(starts) - min(starts)) / 1e6
    rate = stage.expected.rate or _recorded_rate(stage)
    if rate is None:
        return []
    percent = 100 * len(starts) / rate / took if took > 0 else math.inf
    if percent >= thresholds.sent_rate_suspect_percent:
        return []
    severity: Severity = "Invalid" if percent < thresholds.sent_rate_invalid_percent else "Suspect"
    evidence = {
        "requests": len(starts),
        "askedRate": rate,
        "sentRate": cells.rounded(len(starts) / took),
        "sentPercent": cells.rounded(percent),
        "sendingSeconds": cells.rounded(took),
        "suspectPercent": thresholds.sent_rate_suspect_percent,
        "invalidPercent": thresholds.sent_rate_invalid_percent,
    }
    return [StageFinding(Code.RATE_NOT_ACHIEVED, severity, stage.id, evidence, weight=100 - percent)]


def _recorded_rate(stage: StageProfile) -> float | None:
    """Of a trace, as it was due; None: all of it at one instant."""
    due = stage.due_us
    seconds = (max(due) - min(due)) / 1e6
    return len(due) / seconds if seconds > 0 else None


def concurrency_not_reached(stage: StageProfile) -> Found:
    """Mean requests under way, from where they first come up to the users until the last request is sent."""
    users, thresholds = stage.expected.concurrency, stage.thresholds
    failed, requests = cells.failed_requests(stage.record), len(stage.requests.ok)
    if not stage.expected.closed_loop or users is None or failed == requests:
        return []
    if 100 * failed / requests > thresholds.max_failed_percent:
        return [
            NotChecked(Code.CONCURRENCY_NOT_REACHED, "requests failed; for how long they were under way is unknown")
        ]
    reached = _standing_in_flight(stage, users, share=thresholds.concurrency_suspect_percent / 100)
    percent = 100 * reached / users
    if percent >= thresholds.concurrency_suspect_percent:
        return []
    evidence = {
        "users": users,
        "meanInFlight": cells.rounded(reached),
        "reachedPercent": cells.rounded(percent),
        "requests": requests,
        "suspectPercent": thresholds.concurrency_suspect_percent,
    }
    return [StageFinding(Code.CONCURRENCY_NOT_REACHED, "Suspect", stage.id, evidence, weight=100 - percent)]


def _standing_in_flight(stage: StageProfile, users: int, *, share: float) -> float:
    most, last = stage.flight.maximum(), max(stage.requests.start_us)
    start = stage.flight.first_reaching(min(share * users, most))
    mean = None if start is None else stage.flight.mean(start, last)
    # Without time between: one wave, sent at once.
    return most if mean is None else mean


def queue_wait_hidden(stage: StageProfile) -> Found:
    """Under a rate and a cap: waits for a free place that are more than bookkeeping."""
    if not stage.expected.capped:
        return []
    thresholds = stage.thresholds
    waits = percentiles.Distribution.of(stage.requests.queue_us)
    mean, p99 = cells.milliseconds(waits.mean()) or 0.0, cells.milliseconds(waits.percentile(99)) or 0.0
    latency = cells.milliseconds(percentiles.Distribution.of(stage.e2el_us).mean())
    if latency is None:
        return []
    threshold = max(thresholds.queue_wait_note_ms, thresholds.queue_wait_note_percent / 100 * latency)
    if max(mean, p99) <= threshold:
        return []
    evidence = {
        "meanQueueWaitMs": cells.rounded(mean),
        "p99QueueWaitMs": cells.rounded(p99),
        "meanE2elMs": cells.rounded(latency),
        "meanE2elWithQueueMs": cells.rounded(mean + latency),
        "maxConcurrency": stage.expected.concurrency,
        "askedRate": stage.expected.rate,
        "lineMs": cells.rounded(threshold),
        "noteMs": thresholds.queue_wait_note_ms,
        "notePercent": thresholds.queue_wait_note_percent,
    }
    return [StageFinding(Code.QUEUE_WAIT_HIDDEN, "Note", stage.id, evidence, weight=p99)]


def all_at_once(stage: StageProfile) -> Found:
    """A rate of "inf" without a cap."""
    if not stage.expected.all_at_once or stage.expected.offline:
        return []
    evidence = {
        "requests": len(stage.requests.ok),
        "meanTtftMs": cells.rounded(cells.milliseconds(percentiles.Distribution.of(stage.ttft_us).mean())),
    }
    return [StageFinding(Code.ALL_AT_ONCE, "Note", stage.id, evidence)]


@dataclass(frozen=True, slots=True)
class Overload:
    """One stage: what came and what was completed a second, and what that does to the requests under way."""

    arrival_rate: float
    completion_rate: float
    under_way_before: int
    """When half of the arrivals' time was over, those in the client's queue among them."""
    under_way_after: int
    """When the last request was due."""
    seconds: float
    """In between."""


def overload_of(stages: Sequence[StageProfile], found: Sequence[StageFinding]) -> Overload | None:
    """The stage where it is most marked; None where no stage was beyond capacity."""
    beyond = [f for f in found if f.code is Code.NOT_STEADY_STATE and f.evidence.get("cause") == BEYOND_CAPACITY]
    if not beyond:
        return None
    worst = max(beyond, key=lambda finding: finding.weight)
    stage = next((stage for stage in stages if stage.id == worst.stage_id), None)
    arrived, completed = (worst.evidence.get(rate) for rate in ("arrivalsPerSecond", "completionsPerSecond"))
    if stage is None or not isinstance(arrived, float) or not isinstance(completed, float):
        return None
    demand = stage.demand
    # Under a cap the last sending is late: demand has fallen by then.
    first, last = min(stage.due_us), max(stage.due_us)
    middle = (first + last) // 2
    return Overload(arrived, completed, demand.at(middle), demand.at(last), (last - middle) / 1e6)


RULES = Rules(
    of_stages={180: rate_not_achieved, 190: concurrency_not_reached, 200: queue_wait_hidden, 210: all_at_once},
    sentences={
        (160, Code.RATE_NOT_ACHIEVED): "{sentRate} of {askedRate} requests/s were sent ({sentPercent} %; threshold "
        "{suspectPercent} %, Invalid below {invalidPercent} %).",
        (170, Code.CONCURRENCY_NOT_REACHED): "{meanInFlight} requests were in flight on average, with {users} users "
        "({reachedPercent} %, threshold {suspectPercent} %).",
        (370, Code.QUEUE_WAIT_HIDDEN): "Requests waited {meanQueueWaitMs} ms in the client on average and "
        "{p99QueueWaitMs} ms at p99 (threshold {lineMs} ms).",
        (380, Code.ALL_AT_ONCE): "All {requests} requests were sent at once[; the mean TTFT is {meanTtftMs} ms].",
    },
)
