"""Rules on the load: was it sent as the spec defines it, and did users send in bursts?

They look at the request rate, the requests in flight and the wait in the client's queue.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from benchrun.api import Severity
from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    NotChecked,
    Sentence,
    StageFacts,
    StageFinding,
    StageRule,
)
from benchrun.judge.rules.steady_state import BEYOND_CAPACITY
from benchrun.measure import (
    Distribution,
    Plateau,
    failed_requests,
    milliseconds,
    rounded,
)


def rate_not_achieved(stage: StageFacts) -> Found:
    """Find requests that were sent more slowly than the rate or the trace demands.

    The time from the first to the last send is compared with requests / rate, or with the length of
    the trace. The load generator schedules the last request at requests / rate, so a client that
    keeps up never takes longer, however long single gaps are. The rule QueueWaitHidden covers
    requests that a cap holds back.
    """
    thresholds = stage.thresholds
    starts = stage.requests.start_us
    if not stage.load.has_due_instants:
        return []
    if len(starts) < 2:
        return [
            NotChecked(
                Code.RATE_NOT_ACHIEVED,
                "a single request has no rate (raise requests)",
            )
        ]
    took = (max(starts) - min(starts)) / 1e6
    trace_seconds = (max(stage.due_us) - min(stage.due_us)) / 1e6
    rate = stage.load.rate or (
        len(starts) / trace_seconds if trace_seconds > 0 else None
    )
    if rate is None:
        return []  # a trace with all requests at one instant
    percent = 100 * len(starts) / rate / took if took > 0 else math.inf
    if percent >= thresholds.sent_rate_suspect_percent:
        return []
    severity: Severity = (
        "Invalid" if percent < thresholds.sent_rate_invalid_percent else "Suspect"
    )
    evidence = {
        "requests": len(starts),
        "askedRate": rate,
        "sentRate": rounded(len(starts) / took),
        "sentPercent": rounded(percent),
        "sendingSeconds": rounded(took),
        "suspectPercent": thresholds.sent_rate_suspect_percent,
        "invalidPercent": thresholds.sent_rate_invalid_percent,
    }
    return [
        StageFinding(
            Code.RATE_NOT_ACHIEVED,
            severity,
            stage.id,
            evidence,
            weight=100 - percent,
        )
    ]


def concurrency_not_reached(stage: StageFacts) -> Found:
    """Find a closed loop with too few requests in flight for its users.

    The mean is taken from when the requests in flight first reach the number of users until the
    last request is sent. A user who thinks has no request in flight, so think times lower the
    expected mean. By chance, think times also vary the mean. The relative error is at most
    1 / sqrt(number of requests), as with exponential think times.
    """
    users = stage.expected_in_flight
    thresholds = stage.thresholds
    failed = failed_requests(stage.record)
    requests = len(stage.requests.ok)
    if not stage.load.closed_loop or users is None or failed == requests:
        return []
    if 100 * failed / requests > thresholds.max_failed_percent:
        why = "so many requests failed that the mean in flight is unknown (see the errors)"
        return [NotChecked(Code.CONCURRENCY_NOT_REACHED, why)]
    most = stage.flight.maximum()
    last = max(stage.requests.start_us)
    thinking = 1 - users / (stage.load.cap or users)
    limit = thresholds.concurrency_suspect_percent
    limit *= max(0.0, 1 - thresholds.think_errors * thinking / requests**0.5)
    start = stage.flight.first_reaching(min(limit / 100 * users, most))
    mean = None if start is None else stage.flight.mean(start, last)
    # no time in between: one wave, sent at once
    reached = most if mean is None else mean
    percent = 100 * reached / users
    if percent >= limit:
        return []
    evidence = {
        "users": stage.load.cap,
        "meanInFlight": rounded(reached),
        "reachedPercent": rounded(percent),
        "requests": requests,
        "suspectPercent": rounded(limit),
    }
    return [
        StageFinding(
            Code.CONCURRENCY_NOT_REACHED,
            "Suspect",
            stage.id,
            evidence,
            weight=100 - percent,
        )
    ]


def queue_wait_hidden(stage: StageFacts) -> Found:
    """Find long waits in the client's queue, where a cap holds back requests at a rate."""
    thresholds = stage.thresholds
    latencies = Distribution.of(stage.e2el_us if stage.load.capped else ())
    latency = milliseconds(latencies.mean())
    if latency is None:
        return []
    waits = Distribution.of(stage.requests.queue_us)
    mean = milliseconds(waits.mean()) or 0.0
    p99 = milliseconds(waits.percentile(99)) or 0.0
    threshold = max(
        thresholds.queue_wait_note_ms,
        thresholds.queue_wait_note_percent / 100 * latency,
    )
    if max(mean, p99) <= threshold:
        return []
    evidence = {
        "meanQueueWaitMs": rounded(mean),
        "p99QueueWaitMs": rounded(p99),
        "meanE2elMs": rounded(latency),
        "meanE2elWithQueueMs": rounded(mean + latency),
        "maxConcurrency": stage.load.cap,
        "askedRate": stage.load.rate,
        "lineMs": rounded(threshold),
        "noteMs": thresholds.queue_wait_note_ms,
        "notePercent": thresholds.queue_wait_note_percent,
    }
    return [
        StageFinding(Code.QUEUE_WAIT_HIDDEN, "Note", stage.id, evidence, weight=p99)
    ]


def all_at_once(stage: StageFacts) -> Found:
    """Find a load with the rate "inf" and no cap, which sends all requests at once."""
    if not stage.load.all_at_once or stage.expected.offline:
        return []
    mean_ms = rounded(milliseconds(Distribution.of(stage.ttft_us).mean()))
    evidence = {"requests": len(stage.requests.ok), "meanTtftMs": mean_ms}
    return [StageFinding(Code.ALL_AT_ONCE, "Note", stage.id, evidence)]


class Overload(NamedTuple):
    """The overload of one stage: arrivals and completions a second, and growth in flight."""

    arrival_rate: float
    completion_rate: float
    under_way_before: int
    """Requests in flight or queued at the client, half-way from the first to the last arrival."""
    under_way_after: int  # The same count when the last request was due.
    seconds: float  # Seconds between the two counts.


def overload_of(
    stages: Sequence[StageFacts], found: Sequence[StageFinding]
) -> Overload | None:
    """Return the overload of the most overloaded stage; None if no stage is overloaded."""
    beyond = [
        f
        for f in found
        if f.code is Code.NOT_STEADY_STATE
        and f.evidence.get("cause") == BEYOND_CAPACITY
    ]
    if not beyond:
        return None
    worst = max(beyond, key=lambda finding: finding.weight)
    stage = next((stage for stage in stages if stage.id == worst.stage_id), None)
    arrived, completed = (
        worst.evidence.get(rate)
        for rate in ("arrivalsPerSecond", "completionsPerSecond")
    )
    if (
        stage is None
        or not isinstance(arrived, float)
        or not isinstance(completed, float)
    ):
        return None
    demand = stage.demand
    # Under a cap the last sending is late: demand has fallen by then.
    first = min(stage.due_us)
    last = max(stage.due_us)
    middle = (first + last) // 2
    return Overload(
        arrived,
        completed,
        demand.at(middle),
        demand.at(last),
        (last - middle) / 1e6,
    )


# Fewest users of a closed loop. Fewer leave most tenths of a round empty in any case.
MIN_USERS = 8
MIN_ROUNDS = 3
PARTS_A_ROUND = 10


def users_in_step(stage: StageFacts) -> Found:
    """Find users of a closed loop who send in bursts.

    The prompts of a burst wait for each other. Two things must hold on the plateau: requests begin
    within a small share of a round (mean E2EL plus think time), and TTFT differs among these
    requests by a factor, as it does between the first and the last prompt of a burst.
    """
    where = stage.plateau
    users = stage.load.cap or 0
    thresholds = stage.thresholds
    if (
        not stage.load.closed_loop
        or users < MIN_USERS
        or not isinstance(where, Plateau)
    ):
        return []
    columns = stage.requests
    started = [i for i in where.started if columns.ok[i]]
    share = share_of_round(stage, where, started)
    if share is None:
        return [
            NotChecked(
                Code.USERS_IN_STEP,
                f"the steady part has fewer than {MIN_ROUNDS} rounds of its users (raise requests)",
            )
        ]
    ttft_ms = sorted(columns.ttft_us[i] / 1000 for i in started)
    early = ttft_ms[len(ttft_ms) // 10]
    late = ttft_ms[-1 - len(ttft_ms) // 10]
    share_limit = thresholds.in_step_note_percent
    factor = thresholds.in_step_ttft_factor
    if 100 * share >= share_limit or late <= factor * early:
        return []
    evidence: Evidence = {
        "users": users,
        "shareOfRoundPercent": rounded(100 * share),
        "notePercent": share_limit,
        "p10TtftMs": rounded(early),
        "p90TtftMs": rounded(late),
        "noteFactor": factor,
    }
    return [
        StageFinding(
            Code.USERS_IN_STEP, "Note", stage.id, evidence, weight=1 - share
        )
    ]


def share_of_round(
    stage: StageFacts, where: Plateau, started: Sequence[int]
) -> float | None:
    """Return the share of a round in which requests begin; None if the plateau is too short.

    A round is the time from one request of a user to the next: mean E2EL plus mean think time. The
    share is 1 if requests begin independently or in turns, and 1 / `PARTS_A_ROUND` if all requests
    of a round begin together.

    The plateau is cut into `PARTS_A_ROUND` equal parts a round, and the requests that begin in each
    part are counted. If requests begin independently (Poisson), the squared coefficient of
    variation of these counts is 1 / mean. If requests begin only in a share of each round, it is
    larger by 1 / share - 1.
    """
    round_us = fmean(stage.requests.e2el_us[i] for i in started) if started else 0.0
    round_us += 1e6 * stage.load.mean_think_seconds
    rounds = where.length_us / round_us if round_us else 0.0
    if rounds < MIN_ROUNDS:
        return None
    parts = int(PARTS_A_ROUND * rounds)
    width = where.length_us / parts
    counts = Counter(
        min(parts - 1, int((stage.requests.start_us[i] - where.start_us) / width))
        for i in started
    )
    mean = len(started) / parts
    squares = sum(count * count for count in counts.values()) / parts
    return 1 / max(1.0, squares / mean**2 - 1 / mean)


STAGE_RULES: tuple[StageRule, ...] = (
    rate_not_achieved,
    concurrency_not_reached,
    queue_wait_hidden,
    all_at_once,
    users_in_step,
)
SENTENCES: Mapping[Code, Sentence] = {
    Code.RATE_NOT_ACHIEVED: (
        "{sentRate} of {askedRate} requests/s were sent ({sentPercent} %; "
        "Suspect below {suspectPercent} %, Invalid below {invalidPercent} %)."
    ),
    Code.CONCURRENCY_NOT_REACHED: (
        "{meanInFlight} requests were in flight on average, with {users} users: {reachedPercent} % "
        "of what such users should reach (Suspect below {suspectPercent} %)."
    ),
    Code.USERS_IN_STEP: (
        "The {users} users begin their requests within {shareOfRoundPercent} % of a "
        "round, which is mean E2EL plus think time (Note below {notePercent} %); "
        "TTFT is {p10TtftMs} ms (p10) to {p90TtftMs} ms (p90)."
    ),
    Code.QUEUE_WAIT_HIDDEN: (
        "Requests waited {meanQueueWaitMs} ms in the client on average and "
        "{p99QueueWaitMs} ms at p99 (threshold {lineMs} ms)."
    ),
    Code.ALL_AT_ONCE: (
        "All {requests} requests were sent at once[; the mean TTFT is "
        "{meanTtftMs} ms]."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.RATE_NOT_ACHIEVED: needs(Input.LOAD, Input.TIMES, Input.CLIENT_QUEUE),
    Code.CONCURRENCY_NOT_REACHED: needs(Input.OUTCOMES, Input.LOAD, Input.TIMES),
    Code.USERS_IN_STEP: needs(Input.OUTCOMES, Input.LOAD, Input.TIMES),
    Code.QUEUE_WAIT_HIDDEN: needs(Input.LOAD, Input.TIMES, Input.CLIENT_QUEUE),
    Code.ALL_AT_ONCE: needs(Input.LOAD, Input.OUTCOMES),
}
