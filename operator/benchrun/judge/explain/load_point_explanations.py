"""Explain why requests waited and what the bottleneck is, for every load point of a run.

A load point is explained by its own figures, then by comparison with other load points of its
workload.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import NamedTuple

from benchrun import measure
from benchrun.api import Bottleneck, Waiting
from benchrun.judge.explain.bottleneck import Observed, bottleneck
from benchrun.judge.explain.waiting import waiting
from benchrun.judge.rules.load import overload_of
from benchrun.judge.rules.rule import Code, LoadPointContext, StageFinding
from benchrun.judge.throughput import kept_up, throughputs
from benchrun.names import (
    ANSWERING_ROLES,
    PREFILLING_ROLES,
    ROLE_PREFILL,
    ROLE_SERVER,
)

Limits = Mapping[str, measure.ServerLimits]
"""Limits of one server, by role; the servers of a role are all alike."""


class QueueExplanation(NamedTuple):
    """The explanation of a role at a load point, or of the load point as a whole.

    A load point as a whole is explained by the role with the longer queue.
    """

    waiting: Waiting
    bottleneck: Bottleneck
    by_role: Mapping[
        str, "QueueExplanation"
    ] = {}  # Empty unless prompts have servers of their own.


# What the explanation of a load point rests on, by role.
Seen = Mapping[str, Observed]


def explanations(
    seen: Mapping[str, Seen], *, trusted: Collection[str]
) -> Mapping[str, QueueExplanation]:
    """Return the explanation of every measured load point, by its id.

    Load points that are not in `trusted` are explained, too, but other load points are not compared
    with them.
    """
    by_workload: dict[str, dict[str, Seen]] = {}
    for load_point_id, roles in seen.items():
        by_workload.setdefault(load_point_id.partition("/")[0], {})[
            load_point_id
        ] = roles
    return {
        load_point_id: _explanation(
            roles,
            [
                of
                for other, of in load_points.items()
                if other != load_point_id and other in trusted
            ],
        )
        for load_points in by_workload.values()
        for load_point_id, roles in load_points.items()
    }


def _explanation(seen: Seen, others: Sequence[Seen]) -> QueueExplanation:
    by_role = {}
    for role, observed in seen.items():
        points = [
            point
            for other in others
            if role in other and (point := other[role].comparable) is not None
        ]
        by_role[role] = QueueExplanation(
            observed.waiting, bottleneck(observed, points)
        )
    # The role with the largest share of samples with a queue; of equal ones, the one that writes
    # answers.
    queued = {
        role: of.pressure.queued / of.pressure.samples if of.pressure else 0.0
        for role, of in seen.items()
    }
    limiting = max(seen, key=lambda role: (queued[role], role in ANSWERING_ROLES))
    own = by_role[limiting]
    if len(by_role) == 1:
        return own
    waiting = own.waiting.model_copy(
        update={"sentence": f"{limiting}: {own.waiting.sentence}"}
    )
    limit = own.bottleneck.model_copy(
        update={"sentence": f"{limiting}: {own.bottleneck.sentence}"}
    )
    return QueueExplanation(waiting, limit, by_role)


def seen_at(
    load_point: LoadPointContext, found: Sequence[StageFinding], limits: Limits
) -> Seen:
    """Return what is needed to explain a measured load point, by role.

    `found` holds the findings of the load point, with the severities that they had before the spec
    changed them.
    """
    windows = [window for stage in load_point.stages for window in stage.windows]
    roles = list(dict.fromkeys(window.role for window in windows)) or [ROLE_SERVER]
    return {
        role: _observed(
            load_point, role, found, limits.get(role, measure.ServerLimits())
        )
        for role in roles
    }


def _observed(
    load_point: LoadPointContext,
    role: str,
    found: Sequence[StageFinding],
    limits: measure.ServerLimits,
) -> Observed:
    of_role = [
        window
        for stage in load_point.stages
        for window in stage.windows
        if window.role == role
    ]
    lengths = _lengths(load_point, role)
    overload = overload_of(load_point.stages, found)
    under = measure.pressure(of_role, limits, lengths)
    by_counters = running_by_counters(load_point)
    gauge_holds = under is None or gauge_is_mean(under.running_mean, by_counters)
    waited = _queue_times(load_point, role)
    if under is not None and by_counters is not None and not gauge_holds:
        under = _by_times(under, by_counters, waited.mean_waiting)
    point = _point(load_point, under, role)
    if point is not None:
        point = replace(point, all_served=_all_served(load_point, found))
    return Observed(
        waiting=waiting(
            under,
            limits,
            lengths=lengths,
            overload=overload,
            queue_ms=waited.mean_ms,
            waiting_by_times=waited.mean_waiting,
        ),
        point=point,
        pressure=under,
        stretches=measure.stretches(of_role),
        lengths=lengths,
        requests=sum(len(stage.requests.ok) for stage in load_point.stages),
        most_in_flight=max(stage.flight.maximum() for stage in load_point.stages),
        gauge_holds=gauge_holds and not load_point.expected.load.whole_batches,
        always_busy=load_point.expected.load.always_busy,
        client=max(
            (f for f in found if f.code is Code.CLIENT_SATURATED),
            key=lambda f: f.weight,
            default=None,
        ),
    )


GAUGE_APART = 0.25
"""Largest difference between the mean of a gauge's samples and the mean that the servers' counters
give, as a share of the larger one. With a larger difference the samples do not give the mean,
because most were taken at the same phase of a batch or a step."""


def gauge_is_mean(gauge: float, by_counters: float | None) -> bool:
    """Return whether the mean of a gauge's samples may be used as its mean over time.

    `gauge` is the mean of the samples. If requests begin and end together, or if steps are long,
    some phases are sampled too often. So it is compared with `by_counters`, the mean that follows
    from the servers' times. Without that mean, return True.
    """
    return by_counters is None or abs(gauge - by_counters) <= GAUGE_APART * max(
        gauge, by_counters
    )


def running_by_counters(load_point: LoadPointContext) -> float | None:
    """Return the mean number of running requests over all stages, from the servers' times.

    Return None if the servers have several roles, or if the mean of a stage is unknown.
    """
    roles = {window.role for stage in load_point.stages for window in stage.windows}
    each = [
        (stage.running_by_counters, stage.seconds) for stage in load_point.stages
    ]
    parts = [(running, seconds) for running, seconds in each if running is not None]
    if len(roles) > 1 or not parts or len(parts) < len(each):
        return None
    return sum(running * seconds for running, seconds in parts) / sum(
        s for _, s in parts
    )


def _by_times(
    under: measure.Pressure, running: float, waiting: float | None
) -> measure.Pressure:
    """Return the pressure with means from the servers' times instead of the gauges.

    `running` and `waiting` are these means. Between two samples the KV cache may have been fuller,
    and as many requests may have run as the server allows. So the mean usage of the cache is left
    out, and the limit of tokens in a step is not given as the cause. A full cache, or as many
    running requests as the server allows, still count if a sample shows them.
    """
    hold = None if under.hold is measure.Hold.STEP else under.hold
    was_full = hold is measure.Hold.KV_CACHE
    return replace(
        under,
        running_mean=running,
        queued_running=None if under.queued_running is None else running,
        waiting_mean=under.waiting_mean if waiting is None else waiting,
        kv_mean_percent=None,
        kv_max_percent=under.kv_max_percent if was_full else None,
        hold=hold,
    )


def _all_served(
    load_point: LoadPointContext, found: Sequence[StageFinding]
) -> bool:
    """Return whether an open loop's requests were all served, so that their rate set throughput."""
    return load_point.expected.load.is_open and kept_up(load_point.stages, found)


class _QueueTimes(NamedTuple):
    """How long requests waited and how many, as the servers counted over all stages.

    Both are None if a server was not read at both ends of a stage.
    """

    mean_ms: float | None  # Mean wait of a request in milliseconds.
    mean_waiting: float | None  # Mean number of waiting requests, by Little's law.


def _queue_times(load_point: LoadPointContext, role: str) -> _QueueTimes:
    """Return how long requests to a role waited on average, and how many waited."""
    edges = [
        measure.counters.by_role(stage.edges).get(role, ())
        for stage in load_point.stages
    ]
    seconds, requests = (
        measure.sum_of_all(
            [measure.counters.rise(servers, counter) for servers in edges]
        )
        for counter in (
            measure.counters.QUEUE_TIME_SUM,
            measure.counters.QUEUE_TIME_COUNT,
        )
    )
    lasted = sum(stage.seconds for stage in load_point.stages)
    return _QueueTimes(
        measure.ratio(seconds, requests, 1000), measure.ratio(seconds, lasted)
    )


def _lengths(load_point: LoadPointContext, role: str) -> measure.MeanLengths | None:
    if not all(stage.counts_tokens for stage in load_point.stages):
        return None
    columns = [stage.requests for stage in load_point.stages]
    answered = sum(sum(c.ok) for c in columns)
    prompt = sum(sum(compress(c.input_tokens, c.ok)) for c in columns)
    output = sum(sum(compress(c.output_tokens, c.ok)) for c in columns)
    if not answered or not output:
        return None
    # A server that prefills writes a single token.
    return measure.MeanLengths(
        prompt / answered, 1.0 if role == ROLE_PREFILL else output / answered
    )


def _point(
    load_point: LoadPointContext, under: measure.Pressure | None, role: str
) -> measure.OperatingPoint | None:
    """Return the operating point of a role: tokens a second, running requests and KV cache usage.

    Only tokens that this role computes count. If every stage has a steady part, only tokens in the
    steady parts count. Return None without samples or tokens.
    """
    found = throughputs(load_point.stages)
    output = found["output_throughput"] or 0.0
    total = found["total_token_throughput"] or 0.0
    tokens = (total - output if role in PREFILLING_ROLES else 0.0) + (
        output if role in ANSWERING_ROLES else 0.0
    )
    return (
        measure.OperatingPoint(
            load_point.load_point.id,
            under.running_mean,
            tokens,
            under.kv_mean_percent,
        )
        if under and tokens
        else None
    )
