"""Whether the load was the one that the spec asks for: its rate, its users, and whether the server completes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import sub

from benchrun_client.contract import StageRecord

from benchrun.api import Severity
from benchrun.judge.rules.finding import Code, Explanation, NotChecked, StageFinding
from benchrun.judge.rules.rule import Found, MeasuredStage, StageContext
from benchrun.judge.rules.steady_state import BEYOND_CAPACITY
from benchrun.judge.stage_profile import StageShape
from benchrun.measure.cells import failed_requests, milliseconds, rounded
from benchrun.measure.percentiles import Distribution

# ---- arrivals ---------------------------------------------------------------------------------------------------------
# Whether the load was the one asked for: its rate, its users, and what a cap or the lack of one makes of it.

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.RATE_NOT_ACHIEVED: Explanation(
        meaning="Requests were sent more slowly than asked: the server had less to do than the load point says, so its "
        "latencies are too low.",
        remedy="Give the client more CPU, or ask for less. A finding ClientSaturated or ClientThrottled beside this one "
        "names the cause.",
    ),
    Code.CONCURRENCY_NOT_REACHED: Explanation(
        meaning="Fewer requests were under way than users were asked for: the numbers belong to a smaller concurrency.",
        remedy="Send at least ten requests a user. If they are enough, the client is late with its next request: give it "
        "more CPU.",
    ),
    Code.QUEUE_WAIT_HIDDEN: Explanation(
        meaning="The cap held requests back that were due. TTFT and E2EL start at the sending and leave that wait out, "
        "though a user would have felt it.",
        remedy="Read the latencies named including_client_queue, or leave maxConcurrency out to let the server queue.",
    ),
    Code.ALL_AT_ONCE: Explanation(
        meaning="All requests were sent at the first instant. Throughput is that of a full server; TTFT is a place in the "
        "queue and grows with the number of requests.",
        remedy="Compare throughput only. For latencies ask for a finite rate, or for a number of users.",
    ),
}


def rate_not_achieved(record: StageRecord, context: StageContext) -> Found:
    """Time taken to send, against requests / rate, or against what the trace says. A cap that holds requests back is another
    rule's matter.

    The engine sets the first request after a gap of its own and the last at requests / rate, so a client that keeps up
    never takes longer, however the gaps fall.
    """
    lines, starts = context.thresholds, record.requests.start_us
    if not context.asked.has_due_instants:
        return []
    if len(starts) < 2:
        return [NotChecked(Code.RATE_NOT_ACHIEVED, "a single request has no rate")]
    took = (max(starts) - min(starts)) / 1e6
    rate = context.asked.rate or _recorded_rate(record)
    if rate is None:
        return []
    percent = 100 * len(starts) / rate / took if took > 0 else math.inf
    if percent >= lines.sent_rate_suspect_percent:
        return []
    severity: Severity = "Invalid" if percent < lines.sent_rate_invalid_percent else "Suspect"
    evidence = {
        "requests": len(starts),
        "askedRate": rate,
        "sentRate": rounded(len(starts) / took),
        "sentPercent": rounded(percent),
        "sendingSeconds": rounded(took),
        "suspectPercent": lines.sent_rate_suspect_percent,
        "invalidPercent": lines.sent_rate_invalid_percent,
    }
    return [StageFinding(Code.RATE_NOT_ACHIEVED, severity, record.stage_id, evidence, weight=100 - percent)]


def _recorded_rate(record: StageRecord) -> float | None:
    """Of a trace, as it was due; None: all of it at one instant."""
    due = list(map(sub, record.requests.start_us, record.requests.queue_us))
    seconds = (max(due) - min(due)) / 1e6
    return len(due) / seconds if seconds > 0 else None


def concurrency_not_reached(record: StageRecord, context: StageContext) -> Found:
    """Mean requests under way, from where they first come up to the users until the last request is sent."""
    users, lines = context.asked.concurrency, context.thresholds
    failed, requests = failed_requests(record), len(record.requests.ok)
    if not context.asked.closed_loop or users is None or failed == requests:
        return []
    if 100 * failed / requests > lines.max_failed_percent:
        return [
            NotChecked(Code.CONCURRENCY_NOT_REACHED, "requests failed; for how long they were under way is unknown")
        ]
    reached = _standing_in_flight(context.shape(record), users, share=lines.concurrency_suspect_percent / 100)
    percent = 100 * reached / users
    if percent >= lines.concurrency_suspect_percent:
        return []
    evidence = {
        "users": users,
        "meanInFlight": rounded(reached),
        "reachedPercent": rounded(percent),
        "requests": requests,
        "suspectPercent": lines.concurrency_suspect_percent,
    }
    return [StageFinding(Code.CONCURRENCY_NOT_REACHED, "Suspect", record.stage_id, evidence, weight=100 - percent)]


def _standing_in_flight(shape: StageShape, users: int, *, share: float) -> float:
    most, last = shape.flight.maximum(), max(shape.record.requests.start_us)
    start = shape.flight.first_reaching(min(share * users, most))
    mean = None if start is None else shape.flight.mean(start, last)
    # Without time between: one wave, sent at once.
    return most if mean is None else mean


def queue_wait_hidden(record: StageRecord, context: StageContext) -> Found:
    """Under a rate and a cap: waits for a free place that are more than bookkeeping."""
    if not context.asked.capped:
        return []
    shape, lines = context.shape(record), context.thresholds
    waits = Distribution.of(record.requests.queue_us)
    mean, p99 = milliseconds(waits.mean()) or 0.0, milliseconds(waits.percentile(99)) or 0.0
    latency = milliseconds(Distribution.of(shape.e2el_us).mean())
    if latency is None:
        return []
    line = max(lines.queue_wait_note_ms, lines.queue_wait_note_percent / 100 * latency)
    if max(mean, p99) <= line:
        return []
    evidence = {
        "meanQueueWaitMs": rounded(mean),
        "p99QueueWaitMs": rounded(p99),
        "meanE2elMs": rounded(latency),
        "meanE2elWithQueueMs": rounded(mean + latency),
        "maxConcurrency": context.asked.concurrency,
        "askedRate": context.asked.rate,
        "lineMs": rounded(line),
        "noteMs": lines.queue_wait_note_ms,
        "notePercent": lines.queue_wait_note_percent,
    }
    return [StageFinding(Code.QUEUE_WAIT_HIDDEN, "Note", record.stage_id, evidence, weight=p99)]


def all_at_once(record: StageRecord, context: StageContext) -> Found:
    """A rate of "inf" without a cap."""
    if not context.asked.all_at_once or context.asked.offline:
        return []
    evidence = {
        "requests": len(record.requests.ok),
        "meanTtftMs": rounded(milliseconds(Distribution.of(context.shape(record).ttft_us).mean())),
    }
    return [StageFinding(Code.ALL_AT_ONCE, "Note", record.stage_id, evidence)]


# ---- overload ---------------------------------------------------------------------------------------------------------
# Arrivals of an open loop that exceed what the server completes, as the steady-state rule found them.


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


def overload_of(stages: Sequence[MeasuredStage], found: Sequence[StageFinding]) -> Overload | None:
    """The stage where it is most marked; None where no stage was beyond capacity."""
    beyond = [f for f in found if f.code is Code.NOT_STEADY_STATE and f.evidence.get("cause") == BEYOND_CAPACITY]
    if not beyond:
        return None
    worst = max(beyond, key=lambda finding: finding.weight)
    stage = next((stage for stage in stages if stage.record.stage_id == worst.stage_id), None)
    arrived, completed = (worst.evidence.get(rate) for rate in ("arrivalsPerSecond", "completionsPerSecond"))
    if stage is None or not isinstance(arrived, float) or not isinstance(completed, float):
        return None
    columns, demand = stage.record.requests, stage.shape.demand
    # Under a cap the last sending is late: demand has fallen by then.
    due = [start - queue for start, queue in zip(columns.start_us, columns.queue_us, strict=True)]
    first, last = min(due), max(due)
    middle = (first + last) // 2
    return Overload(arrived, completed, demand.at(middle), demand.at(last), (last - middle) / 1e6)
