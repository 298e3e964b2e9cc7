"""Decide whether a load point meets the latency objectives of the spec.

An objective is Met or Missed with 95 % certainty, otherwise it is Inconclusive. The test allows for
the fact that requests in a queue have similar latencies (`benchrun_client.contract.certainty`). A
failed request counts as above every limit.
"""

import math
from collections.abc import Mapping, Sequence

from benchrun_client.contract import (
    ERROR,
    MIN_REPEATS,
    LatencySample,
    Plateau,
    StageRecord,
    decided,
    interval,
    needed_to_decide,
)

from benchrun.api import (
    TRUSTED,
    Objective,
    ObjectiveResult,
    Verdict,
    Width,
    WidthResult,
)
from benchrun.judge.prices import Held, price
from benchrun.judge.stage_facts import ExpectedStage
from benchrun.measure import Samples, latency_samples, request_figures

_SINCE_DUE: Mapping[str, str] = {
    "ttft": request_figures.QUEUED_TTFT,
    "e2el": request_figures.QUEUED_E2EL,
    "ttfrt": request_figures.QUEUED_TTFRT,
    "ttfat": request_figures.QUEUED_TTFAT,
}


def expected_samples(
    records: Sequence[StageRecord],
    expected: ExpectedStage,
    *,
    parts: Sequence[Plateau | None] | None,
    failed: bool = True,
) -> Samples:
    """Return the latencies of the requests of these stages that count; see `latency_samples`."""
    return latency_samples(
        records,
        users=expected.load.users,
        at_once=expected.load.all_at_once,
        queued=expected.load.capped,
        failed=failed,
        parts=parts,
    )


def objective_results(
    objectives: Sequence[Objective],
    samples: Samples,
    verdict: Verdict,
    *,
    error: float = ERROR,
    one_stretch: bool = True,
    held: Held | None = None,
) -> list[ObjectiveResult]:
    """Return the outcome of each objective, over the requests of the load point that count.

    If some samples include the wait in the client's queue, these are used. An objective on a
    latency without samples is Inconclusive. If the verdict is not trusted, all are. `error` is the
    largest probability that Met or Missed is wrong. `one_stretch` says that all samples are from
    one stretch of time; then a limit close to the measured value needs repeats. A search passes
    False, because it measures its answer again at another time. `held` is what the load point took;
    without it no price is told.
    """
    found = [
        _result(
            objective,
            sample_of(objective, samples),
            error,
            one_stretch=one_stretch,
            held=held,
        )
        for objective in objectives
    ]
    return found if verdict in TRUSTED else inconclusive(found)


def _result(
    objective: Objective,
    sample: LatencySample | None,
    error: float,
    *,
    one_stretch: bool,
    held: Held | None,
) -> ObjectiveResult:
    limit_ms = objective.max_milliseconds
    percentile = objective.percentile
    result = ObjectiveResult(
        metric=objective.metric,
        percentile=percentile,
        max_milliseconds=limit_ms,
        outcome="Inconclusive",
    )
    if sample is None or not sample.count:
        return result
    limit_us = 1000.0 * limit_ms
    found = decided(
        sample, float(percentile), limit_us, error=error, one_stretch=one_stretch
    )
    is_finite = math.isfinite(found.value)
    needed = (
        needed_to_decide(
            sample,
            float(percentile),
            limit_us,
            error=error,
            one_stretch=one_stretch,
        )
        if found.outcome == "Inconclusive"
        else None
    )
    update = {
        "measured_milliseconds": request_figures.rounded(found.value / 1000)
        if is_finite
        else None,
        "price": price(needed, held),
        "outcome": found.outcome,
    }
    return result.model_copy(update=update)


def width_results(
    widths: Sequence[Width],
    samples: Samples,
    verdict: Verdict,
    *,
    error: float,
) -> list[WidthResult]:
    """Return how wide the intervals are whose width the spec asks for.

    None is reached where the verdict is not trusted, or where fewer repeats than `MIN_REPEATS` hide
    how the server changes.
    """
    return [
        _width(
            each,
            samples.get(_since_due(each.metric, samples)),
            verdict,
            error=error,
        )
        for each in widths
    ]


def _width(
    asked: Width, sample: LatencySample | None, verdict: Verdict, *, error: float
) -> WidthResult:
    result = WidthResult(
        metric=asked.metric, percentile=asked.percentile, percent=asked.percent
    )
    percent = float(asked.percentile)
    found = None if sample is None else interval(sample, percent, error=error)
    if found is None or sample is None:
        return result
    value = sample.percentile(percent)
    # An answer that comes in one chunk has a TPOT of 0: around 0 an interval has no width.
    widest = max(found.high - value, value - found.low)
    measured = 100 * widest / value if value else 0.0
    is_enough = verdict in TRUSTED and sample.repeats >= MIN_REPEATS
    update = {
        "measured_percent": request_figures.rounded(measured),
        "reached": is_enough and measured <= float(asked.percent),
    }
    return result.model_copy(update=update)


def inconclusive(objectives: Sequence[ObjectiveResult]) -> list[ObjectiveResult]:
    """Return the same results as Inconclusive, for a load point that is not trusted.

    They have no price: more of such numbers decide nothing.
    """
    return [
        objective.model_copy(update={"outcome": "Inconclusive", "price": None})
        for objective in objectives
    ]


def unreached(widths: Sequence[WidthResult]) -> list[WidthResult]:
    """Return the same results as not reached, for a load point that is not trusted."""
    return [width.model_copy(update={"reached": False}) for width in widths]


def request_limits(
    objectives: Sequence[Objective],
) -> request_figures.RequestLimits:
    """Return the limits that a single request must keep to meet every objective.

    If several objectives are on one latency, the strictest counts; a latency without objectives has
    no limit. Objectives on ITL limit gaps between tokens, not requests, and do not count.
    """

    def strictest(metric: str) -> float:
        return min(
            (float(o.max_milliseconds) for o in objectives if o.metric == metric),
            default=math.inf,
        )

    return request_figures.RequestLimits(
        ttft_ms=strictest("TTFT"),
        tpot_ms=strictest("TPOT"),
        e2el_ms=strictest("E2EL"),
        ttfrt_ms=strictest("TTFRT"),
        ttfat_ms=strictest("TTFAT"),
    )


def sample_of(objective: Objective, samples: Samples) -> LatencySample | None:
    """Return the values that an objective is about, or None if they were not measured."""
    return samples.get(_since_due(objective.metric, samples))


def _since_due(metric: str, samples: Samples) -> str:
    """Return the name of a metric's latency; the one with the client's queue if there is one."""
    latency = metric.lower()
    since_due = _SINCE_DUE.get(latency, latency)
    return since_due if since_due in samples else latency
