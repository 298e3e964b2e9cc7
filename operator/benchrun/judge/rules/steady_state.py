"""Rules on the steady state: do the figures of a stage describe a single load?

They find stages that are too short, growing queues, latencies with a trend, and figures that drift
from repeat to repeat.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from benchrun_client.contract import MIN_REQUESTS

from benchrun.judge.rules.inputs import Input, Needs, needs
from benchrun.judge.rules.rule import (
    Code,
    Evidence,
    Found,
    NotChecked,
    RunContext,
    RunRule,
    Sentence,
    StageFinding,
    StageRule,
    times,
)
from benchrun.judge.stage_facts import StageFacts
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import (
    Distribution,
    NoPlateau,
    Plateau,
    batches,
    completed_in,
    groups_p_value,
    request_figures,
    rounded,
    significance,
)

BEYOND_CAPACITY = "arrivals beyond capacity"
# Mean E2ELs that a plateau under a rate lasts before the requests in the system are looked at.
MIN_ANSWER_TIMES = 3
SKIPPED_SHARE = 0.1
"""Share of the requests that is skipped at the start of a short plateau, because they found an
empty server."""


def not_steady_state(stage: StageFacts) -> Found:
    """Find a large and significant trend within the stage, or a standstill.

    In an open loop it is a trend of the requests in the system, in a closed loop one of E2EL. In
    both, a trend of TPOT counts as well; a queue affects TPOT least.
    """
    if stage.load.never_steady or not stage.answered:
        return []
    where = stage.plateau
    if where is NoPlateau.ANSWERS_OUTLAST_SENDING:
        return _growing_queue(stage)
    if isinstance(where, NoPlateau):
        return [NotChecked(Code.NOT_STEADY_STATE, where.value)]
    if stage.load.closed_loop:
        return _latencies(stage, where)
    # A steady part leaves out an end because of its answers; requests arrive until the last one.
    arriving = replace(where, end_us=max(stage.due_us))
    # Whether the number of requests in the system could have come to rest, even where some answers
    # are long.
    is_long = arriving.length_us * len(stage.e2el_us) >= MIN_ANSWER_TIMES * sum(
        stage.e2el_us
    )
    found = (
        _open_loop(stage, arriving) or _latencies(stage, where)
        if is_long
        else _growing_queue(stage)
    )
    return _standstill(stage) if is_long and not found else found


def _open_loop(stage: StageFacts, where: Plateau) -> Found:
    thresholds = stage.thresholds
    in_system = stage.demand.means(
        where.start_us, where.end_us, parts=batches.BATCHES
    )
    moved = _moved(
        stage, "requestsInSystem", in_system, thresholds.steady_change_percent
    )
    if moved is None:
        return []
    arrived = sum(
        where.start_us < instant <= where.end_us for instant in stage.due_us
    )
    completed = completed_in(stage.requests, where)
    seconds = where.length_us / 1e6
    short = (
        moved.percent > 0
        and 100 * completed < thresholds.steady_completed_percent * arrived
    )
    rates = {
        "arrivalsPerSecond": rounded(arrived / seconds),
        "completionsPerSecond": rounded(completed / seconds),
        "completedPercent": rounded(100 * completed / arrived) if arrived else None,
        "capacityPercent": thresholds.steady_completed_percent,
    }
    return [_finding(stage, moved, rates, BEYOND_CAPACITY if short else None)]


def _latencies(stage: StageFacts, where: Plateau) -> Found:
    rows = stage.requests
    thresholds = stage.thresholds
    answered = [i for i in where.started if rows.ok[i]]
    longer = [i for i in answered if rows.output_tokens[i] > 1]
    e2el = [rows.e2el_us[i] for i in answered] if stage.load.closed_loop else []
    tpot = [
        (rows.e2el_us[i] - rows.ttft_us[i]) / (rows.output_tokens[i] - 1)
        for i in longer
    ]
    starts = (rows.start_us[i] for i in longer)
    load = [
        stage.flight.mean(at + rows.ttft_us[i], at + rows.e2el_us[i]) or 0.0
        for i, at in zip(longer, starts, strict=True)
    ]
    moved = _moved(stage, "e2el", e2el, thresholds.steady_change_percent)
    # Waves of the load are waves of TPOT, and would hide its trend.
    moved = moved or _moved(
        stage,
        "tpot",
        significance.at_equal_load(tpot, load),
        thresholds.steady_tpot_percent,
    )
    return [_finding(stage, moved, {})] if moved is not None else []


def _standstill(stage: StageFacts) -> Found:
    """Find a single pause in which most streams got no token.

    Requests that arrived during the pause waited for half of it on average.
    """
    counts = stage.record.gaps
    thresholds = stage.thresholds
    gaps = Distribution.of_counts(zip(counts.us, counts.count, strict=True))
    usual_us = gaps.percentile(50) or 0.0
    stood_us = float(max(counts.us, default=0))
    streams = sum(
        n
        for us, n in zip(counts.us, counts.count, strict=True)
        if us >= stood_us / 2
    )
    once = stage.mean_in_flight / 2 <= streams <= 3 * stage.mean_in_flight
    waited_seconds = stage.seconds * fmean(stage.ttft_us) / 1e6
    if (
        stood_us < thresholds.standstill_factor * usual_us
        or not once
        or not waited_seconds
    ):
        return []
    late_percent = 100 * (stood_us / 1e6) ** 2 / 2 / waited_seconds
    if late_percent <= thresholds.standstill_suspect_percent:
        return []
    evidence = {
        "cause": "standstill",
        "stoodStillMs": rounded(stood_us / 1000),
        "streams": streams,
        "usualMs": rounded(usual_us / 1000),
        "laterTtftPercent": rounded(late_percent),
        "suspectTtftPercent": thresholds.standstill_suspect_percent,
    }
    return [
        StageFinding(
            Code.NOT_STEADY_STATE,
            "Suspect",
            stage.id,
            evidence,
            weight=late_percent,
        )
    ]


def _growing_queue(stage: StageFacts) -> Found:
    """Find a growing queue in a stage whose answers take about as long as the sending.

    Without a clear trend return NotChecked, because the stage may just be too short for its
    answers.
    """
    requests = stage.requests
    due = stage.due_us
    waits = [requests.queue_us[i] + requests.ttft_us[i] for i in stage.answered]
    waits = waits[round(SKIPPED_SHARE * len(waits)) :]
    moved = _moved(
        stage, "queueWaitAndTtft", waits, stage.thresholds.queue_growth_percent
    )
    if moved is None or moved.percent < 0:
        return [
            NotChecked(
                Code.NOT_STEADY_STATE,
                "answers took as long as sending all requests (raise requests)",
            )
        ]
    arriving = (max(due) - min(due)) / 1e6
    whole = (stage.flight.instants_us[-1] - min(due)) / 1e6
    rates = {
        "arrivalsPerSecond": rounded(len(due) / arriving) if arriving > 0 else None,
        "completionsPerSecond": rounded(len(stage.answered) / whole)
        if whole > 0
        else None,
    }
    return [_finding(stage, moved, rates, BEYOND_CAPACITY)]


class _Moved(NamedTuple):
    """A figure that changed during the stage by much, and by more than chance explains."""

    percent: float
    """Change from the first to the last value of the trend in percent; negative if it fell."""
    evidence: Evidence


def _moved(
    stage: StageFacts, figure: str, values: Sequence[float], percent: float
) -> _Moved | None:
    """Return the trend of a series in order of time.

    Return None if the trend is not significant, or does not exceed `percent`.
    """
    if (found := significance.trend(values)) is None:
        return None
    change = 100 * found.relative_change
    if abs(change) <= percent or found.p_value >= stage.thresholds.chance_of_alarm:
        return None
    evidence: Evidence = {
        "figure": figure,
        "changePercent": rounded(change),
        "suspectPercent": percent,
        "chance": rounded(found.p_value),
        "suspectChance": stage.thresholds.chance_of_alarm,
    }
    return _Moved(change, evidence)


def _finding(
    stage: StageFacts, moved: _Moved, rates: Evidence, cause: str | None = None
) -> StageFinding:
    trend = "latencies rise" if moved.percent > 0 else "latencies fall"
    evidence: Evidence = {"cause": cause or trend, **moved.evidence, **rates}
    return StageFinding(
        Code.NOT_STEADY_STATE,
        "Suspect",
        stage.id,
        evidence,
        weight=abs(moved.percent),
    )


def first_part_differs(stage: StageFacts) -> Found:
    """Find a steady part whose first quarter differs from the rest in a mean latency.

    The difference exceeds a threshold and the noise: too little was left out at the beginning of
    the stage, or the server changed.
    """
    where = stage.steady_part
    if where is None:
        return []
    found = [
        finding
        for figure in request_figures.measured_latencies([stage.record])
        if figure in ("ttft", "tpot", "e2el")
        if (finding := _first_part(stage, where, figure)) is not None
    ]
    return [max(found, key=lambda finding: finding.weight)] if found else []


FIRST_PARTS = batches.BATCHES // 4


def _first_part(
    stage: StageFacts, where: Plateau, figure: str
) -> StageFinding | None:
    every = request_figures.request_values(stage.since_due, figure)
    values = request_figures.known(every[position] for position in where.started)
    means = batches.batch_means(values)
    if len(means) < batches.BATCHES:
        return None
    first = means[:FIRST_PARTS]
    rest = means[FIRST_PARTS:]
    before = fmean(rest)
    after = fmean(first)
    change = 100 * (after - before) / before if before else 0.0
    chance = _chance_of_difference(first, rest)
    thresholds = stage.thresholds
    if (
        abs(change) <= thresholds.first_part_percent
        or chance >= thresholds.chance_of_alarm
    ):
        return None
    evidence: Evidence = {
        "figure": figure,
        "firstMs": rounded(after / 1000),
        "restMs": rounded(before / 1000),
        "changePercent": rounded(change),
        "suspectPercent": thresholds.first_part_percent,
        "chance": rounded(chance),
        "suspectChance": thresholds.chance_of_alarm,
    }
    return StageFinding(
        Code.FIRST_PART_DIFFERS, "Suspect", stage.id, evidence, weight=abs(change)
    )


def _chance_of_difference(first: Sequence[float], rest: Sequence[float]) -> float:
    """Return the p-value of the difference between the means of the first part and the rest.

    It is the smaller p-value of two tests, so noise is taken for a difference at most twice as
    often. Student's test uses the variance of all batches. It finds a change that ends within the
    first part, where few batches have a large variance. Welch's test uses the variance of each
    part. It finds a difference if the rest keeps changing, for example with a growing queue.
    """
    residuals = [[mean - fmean(part) for mean in part] for part in (first, rest)]
    inflation = batches.variance_inflation(residuals, fitted=1)
    separate = significance.welch(
        significance.mean_of(rest), significance.mean_of(first)
    )
    freedom = len(first) + len(rest) - len(residuals)
    variance = (
        math.fsum(each * each for part in residuals for each in part) / freedom
    )
    pooled = significance.Contrast(
        separate.estimate, variance * (1 / len(first) + 1 / len(rest)), freedom
    )
    tests = (
        replace(test, squared_error=test.squared_error * inflation)
        for test in (separate, pooled)
    )
    return min(test.p_value for test in tests)


def window_too_short(stage: StageFacts) -> Found:
    """Find a stage with too few requests, too few seconds, or without a steady part.

    How many requests are needed depends on the requests in flight: the users of a closed loop, or
    the measured mean of an open loop. It also depends on the length of a round, which is the mean
    time of an answer: the longer a round, the fewer rounds are needed. Users who think have no
    request in flight, but each of them has to send a few. A load that is sent all at once has no
    rounds, so only its duration is checked.
    """
    expected = stage.expected
    thresholds = stage.thresholds
    requests = len(stage.requests.ok)
    seconds = stage.seconds
    if not any(stage.requests.ok):
        return []
    users = float(expected.load.cap or 0) if expected.load.closed_loop else 0.0
    concurrency = (
        (stage.expected_in_flight or 0.0) if users else stage.mean_in_flight
    )
    round_seconds = sum(stage.e2el_us) / len(stage.e2el_us) / 1e6
    fitting = (
        thresholds.rounds_seconds / round_seconds if round_seconds > 0 else math.inf
    )
    rounds = min(
        thresholds.requests_a_user, max(thresholds.fewest_requests_a_user, fitting)
    )
    needed = max(rounds * concurrency, thresholds.fewest_requests_a_user * users)
    needed = 0.0 if expected.load.all_at_once else needed
    share = min(
        requests / needed if needed else 1.0,
        times(seconds, thresholds.window_seconds),
    )
    # With fewer requests than a steady part needs, the marks of percentiles say so instead.
    is_long = requests >= MIN_REQUESTS and not expected.load.never_steady
    has_none = is_long and stage.steady_part is None
    if share >= 1 and not has_none:
        return []
    evidence: Evidence = {
        "requests": requests,
        "concurrency": rounded(concurrency),
        "neededRequests": rounded(needed),
        "seconds": rounded(seconds),
        "neededSeconds": thresholds.window_seconds,
        "meanE2elSeconds": rounded(round_seconds),
    }
    if has_none:
        evidence = {**evidence, "noSteadyPart": _why_none(stage)}
    return [
        StageFinding(
            Code.WINDOW_TOO_SHORT, "Suspect", stage.id, evidence, weight=1 - share
        )
    ]


def _why_none(stage: StageFacts) -> str:
    where = stage.plateau
    return (
        where.value
        if isinstance(where, NoPlateau)
        else "answers take long compared with the time of sending"
    )


def drift(run: RunContext) -> Found:
    """Find load points whose figures drift from repeat to repeat.

    The finding names the figure that changed most. Two independent tests must agree: the repeats of
    all load points are in an order that is unlikely by chance, and the repeats of one load point
    differ by more than its own noise explains.
    """
    found: dict[str, StageFinding] = {}
    for figure in ("meanTtftMs", "meanTpotMs", "meanE2elMs"):
        for finding in _drifting(figure, _repeats(run, figure), run.thresholds):
            if finding.weight > found.setdefault(finding.stage_id, finding).weight:
                found[finding.stage_id] = finding
    return list(found.values())


_Repeats = Sequence[Sequence[float]]
"""A figure of a load point: the means of its batches for each repeat, in order."""


def _repeats(run: RunContext, figure: str) -> dict[str, _Repeats]:
    found = {}
    for load_point_id, stages in run.load_points.items():
        ordered = sorted(stages, key=lambda stage: stage.sequence)
        found[load_point_id] = [
            batches for stage in ordered if (batches := stage.batches[figure])
        ]
    return {
        load_point_id: repeats
        for load_point_id, repeats in found.items()
        if len(repeats) > 1
    }


def _drifting(
    figure: str, by_load_point: Mapping[str, _Repeats], thresholds: Thresholds
) -> list[StageFinding]:
    means = {
        load_point: [math.fsum(batches) / len(batches) for batches in repeats]
        for load_point, repeats in by_load_point.items()
    }
    chance = significance.order_p_value(list(means.values()))
    if chance > thresholds.drift_order_chance:
        return []
    rising = sum(map(significance.surplus, means.values())) > 0
    findings = []
    for load_point_id, repeats in by_load_point.items():
        first = means[load_point_id][0]
        last = means[load_point_id][-1]
        change = 100 * (last / first - 1) if first > 0 else 0.0
        noise = groups_p_value(repeats)
        along = change > 0 if rising else change < 0
        if (
            not along
            or abs(change) <= thresholds.drift_percent
            or noise is None
            or noise >= thresholds.chance_of_alarm
        ):
            continue
        evidence = {
            "figure": figure,
            "first": rounded(first),
            "last": rounded(last),
            "changePercent": rounded(change),
            "suspectPercent": thresholds.drift_percent,
            "repeats": len(repeats),
            "loadPointsCompared": len(by_load_point),
            "chanceOfOrder": rounded(chance),
            "suspectChanceOfOrder": thresholds.drift_order_chance,
            "chanceOfSpread": rounded(noise),
            "suspectChanceOfSpread": thresholds.chance_of_alarm,
        }
        findings.append(
            StageFinding(
                Code.DRIFT, "Suspect", load_point_id, evidence, weight=abs(change)
            )
        )
    return findings


STAGE_RULES: tuple[StageRule, ...] = (
    window_too_short,
    first_part_differs,
    not_steady_state,
)
RUN_RULES: tuple[RunRule, ...] = (drift,)
SENTENCES: Mapping[Code, Sentence] = {
    Code.NOT_STEADY_STATE: (
        "[{figure} changed by {changePercent} % during the stage (threshold "
        "{suspectPercent} %)][; {arrivalsPerSecond} requests/s arrived and "
        "{completionsPerSecond} were completed][No token came for {stoodStillMs} "
        "ms in {streams} streams (usually every {usualMs} ms), which makes the "
        "mean TTFT {laterTtftPercent} % longer (threshold {suspectTtftPercent} "
        "%)]."
    ),
    Code.FIRST_PART_DIFFERS: (
        "Mean {figure} is {firstMs} ms in the first quarter of the steady part "
        "and {restMs} ms in the rest: {changePercent} % (threshold "
        "{suspectPercent} %)."
    ),
    Code.DRIFT: (
        "{figure} changed by {changePercent} % over {repeats} repeats, from "
        "{first} to {last} ms (threshold {suspectPercent} %)."
    ),
    Code.WINDOW_TOO_SHORT: (
        "The stage has {requests} requests in {seconds} s with {concurrency} in "
        "flight (needed: {neededRequests} requests and {neededSeconds} s)[; it has "
        "no steady part: {noSteadyPart}]."
    ),
}
NEEDS: Mapping[Code, Needs] = {
    Code.NOT_STEADY_STATE: needs(
        Input.OUTCOMES,
        Input.LOAD,
        Input.TIMES,
        Input.CLIENT_QUEUE,
        Input.OUTPUT_TOKENS,
        also=(Input.GAPS,),
    ),
    Code.FIRST_PART_DIFFERS: needs(
        Input.OUTCOMES, Input.LOAD, Input.TIMES, Input.OUTPUT_TOKENS
    ),
    Code.DRIFT: needs(
        Input.OUTCOMES, Input.TIMES, Input.OUTPUT_TOKENS, Input.REPEATS
    ),
    Code.WINDOW_TOO_SHORT: needs(Input.OUTCOMES, Input.LOAD, Input.TIMES),
}
