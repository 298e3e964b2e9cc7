"""Windows: the timeline's samples within a stage, and the figures of its servers.

Figures are given by role, and for each server.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from benchrun_client.contract import START_TIME, ServerEdge, StageRecord

from benchrun.api import (
    ROLE_FIGURES,
    START_DECIMALS,
    SUMMED,
    Figure,
    RoleFigures,
    Sample,
)
from benchrun.measure import counters
from benchrun.measure.metrics_page import COMBINE
from benchrun.measure.request_figures import (
    duration_seconds,
    known,
    ratio,
    rounded,
    sum_of_all,
    sum_of_known,
)
from benchrun.measure.timeline import by_server

# A stage's window is found by each server's own count of generated tokens, which both the client's
# edges and the operator's samples carry, so two nodes' clocks need not agree. With `before` and
# `after` the counts at the edges, a sample belongs to the stage when
#
#     before < tokens < after,  or  tokens == before and the server is busy.
#
# A busy server at `before` is in a prefill: the stage has begun, its first token has not come. An
# idle one is in the pause ahead of the stage. A sample at `after` belongs to no stage or, when
# busy, to the next stage, whose `before` it is: by then every answer of this stage is complete. So
# windows of one server never overlap. Where the counts can't tell (none at an edge, no token
# generated, server not recognised) the client's instants are taken.


@dataclass(frozen=True, slots=True)
class PodWindow:
    """Samples of one pod within one stage."""

    role: str
    pod: str
    # Edge of the server that they come from; None if it is not known.
    edge: ServerEdge | None
    samples: tuple[Sample, ...]
    # Whether the pod was scraped around the stage: no samples are expected of one that came later.
    present: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Samples of one role within one stage, and its servers' counters before and after (edges)."""

    role: str
    samples: tuple[Sample, ...]
    edges: tuple[ServerEdge, ...]
    expected: float  # Samples that the scrape interval should have given.
    servers: int = 1  # How many servers should have given them.
    least: int = 1  # Fewest servers that were there at once; `most`: most of them.
    most: int = 1


@dataclass(frozen=True, slots=True)
class Replica:
    """One server within one stage.

    A count is None if it is missing before or after the stage, or the server was restarted.
    """

    address: str
    # Pod of its samples; None if it is not known which pod is this server.
    pod: str | None
    requests_finished: float | None
    prompt_tokens: float | None
    generation_tokens: float | None
    mean_ttft_ms: float | None
    """Mean TTFT in milliseconds, from the request's arrival at the server."""
    mean_queue_ms: float | None
    # Figures of this server alone; those from samples are None without its pod.
    figures: RoleFigures


def pod_windows(
    record: StageRecord, samples: Sequence[Sample]
) -> tuple[PodWindow, ...]:
    """Return one window per pod that was ever scraped, in order of the pods' first samples."""
    pods = by_server(samples)
    roles = [role for role, _ in pods]
    begin = record.first_send_unix_us
    end = record.last_receive_unix_us
    found = []
    for (role, pod), own in pods.items():
        of_role = [edge for edge in record.servers if edge.role == role]
        if len(of_role) > 1 or roles.count(role) > 1:
            starts = {s.start_time for s in own if s.start_time is not None}
            of_role = [edge for edge in of_role if _start(edge) in starts]
        edge = of_role[0] if len(of_role) == 1 else None
        instants = [sample.at * 1e6 for sample in own]
        present = min(instants) <= end and max(instants) >= begin
        found.append(
            PodWindow(role, pod, edge, tuple(_inside(record, edge, own)), present)
        )
    return tuple(found)


def _start(edge: ServerEdge) -> float | None:
    """Return the start time of the process that served when the stage began, in Unix seconds."""
    seconds = counters.count(edge.before, START_TIME)
    return None if seconds is None else round(seconds, START_DECIMALS)


def _inside(
    record: StageRecord, edge: ServerEdge | None, samples: Sequence[Sample]
) -> list[Sample]:
    before = after = None
    if edge is not None:
        before, after = (
            counters.count(snapshot, counters.GENERATION_TOKENS)
            for snapshot in (edge.before, edge.after)
        )
        # A process that was gone before the stage counted on its own: its count may lie between
        # these edges by chance.
        if (start := _start(edge)) is not None:
            samples = [
                s for s in samples if s.start_time is None or s.start_time >= start
            ]
    if before is None or after is None or before >= after:
        return [
            s
            for s in samples
            if record.first_send_unix_us
            <= s.at * 1e6
            <= record.last_receive_unix_us
        ]
    found = [
        s
        for s in samples
        if (tokens := s.generation_tokens) is not None
        and (before < tokens < after or (tokens == before and is_busy(s)))
    ]
    # A bucket of samples may reach into the next stage; it is used only where there is no other.
    ends = [
        [each.generation_tokens for each in (s.low or s, s.high or s)]
        for s in found
    ]
    whole = [
        s
        for s, (low, high) in zip(found, ends, strict=True)
        if before <= (low or 0) and (high or 0) <= after
    ]
    return whole or found


def is_busy(sample: Sample) -> bool:
    return (sample.running or 0) + (sample.waiting or 0) > 0


def stage_windows(
    record: StageRecord, samples: Sequence[Sample], *, scrape_interval: float
) -> tuple[Window, ...]:
    """Return one window per role, in order of the role's first sample; none for a proxy.

    A role without samples has a window with only its edges. `scrape_interval` is in seconds.
    """
    pods = pod_windows(record, samples)
    due = duration_seconds(record) / scrape_interval
    at_edges = counters.by_role(counters.of_engine(record.servers))
    found = []
    for role in dict.fromkeys((*(pod.role for pod in pods), *at_edges)):
        scraped = [pod for pod in pods if pod.role == role]
        of_role = at_edges.get(role, ())
        inside = tuple(sample for pod in scraped for sample in pod.samples)
        servers = (
            max(1, sum(pod.present for pod in scraped)) if pods else len(of_role)
        )
        least, most = _at_once(
            record,
            [own for (of, _), own in by_server(samples).items() if of == role],
            margin=_MISSED_SCRAPES * scrape_interval,
        )
        found.append(
            Window(
                role,
                inside,
                of_role,
                expected=due * servers,
                servers=servers,
                least=least,
                most=most,
            )
        )
    return tuple(found)


_MISSED_SCRAPES = 3
"""Scrapes that a server may miss before it counts as not there."""


def _at_once(
    record: StageRecord, servers: Sequence[Sequence[Sample]], *, margin: float
) -> tuple[int, int]:
    """Return the fewest and the most servers that were there at once during a stage.

    A server came later if others were read more than `margin` seconds before its first sample. It
    went earlier if others were read that long after its last one. A time in which no server could
    be read shows neither.
    """
    if len(servers) < 2:
        return 1, 1
    begin, end = record.first_send_unix_us / 1e6, record.last_receive_unix_us / 1e6
    ats = [sorted(sample.at for sample in own) for own in servers]
    first, last = min(own[0] for own in ats), max(own[-1] for own in ats)
    # Samples of long runs are merged: the first is then later than the server.
    step = max(
        [
            margin,
            *(after - before for own in ats for before, after in pairwise(own)),
        ]
    )
    spans = [
        (
            own[0] - step / 2 if own[0] > first + step else -math.inf,
            own[-1] + step / 2 if own[-1] < last - step else math.inf,
        )
        for own in ats
    ]
    turns = [at for span in spans for at in span if begin < at < end]
    # Between two of these instants nobody comes or goes.
    between = [
        (before + after) / 2
        for before, after in pairwise(sorted({begin, *turns, end}))
    ]
    counts = [
        sum(came <= at <= went for came, went in spans) for at in between or [begin]
    ]
    return min(counts), max(counts)


def together(window: Window) -> Sequence[Sample]:
    """Return the requests running and waiting in all servers of the role, at each sample's instant.

    For each server its latest sample counts; before that, its first one. A server that is more than
    a scrape interval away from its own samples counts as idle. Empty if a server has no sample,
    because the sum is then not known.
    """
    servers = by_server(
        sorted(window.samples, key=lambda sample: sample.at)
    ).values()
    if len(servers) < window.servers or len(servers) == 1:
        return window.samples if len(servers) == window.servers else ()
    columns = [([sample.at for sample in own], own) for own in servers]
    step = max(
        [1e-6, *((ats[-1] - ats[0]) / max(1, len(ats) - 1) for ats, _ in columns)]
    )
    found = []
    for at in sorted({sample.at for sample in window.samples}):
        near = [
            (ats, own)
            for ats, own in columns
            if ats[0] - step < at < ats[-1] + step
        ]
        latest = [own[max(0, bisect_right(ats, at) - 1)] for ats, own in near]
        sums: dict[str, Any] = {
            name: sum_of_all([getattr(each, name) for each in latest])
            for name in SUMMED
        }
        found.append(replace(latest[0], at=at, low=None, high=None, **sums))
    return found


def figures(stage_windows: Iterable[Window]) -> RoleFigures:
    """Return the figures over windows of one role, of one stage or of all stages of a load point.

    They are not rounded.
    """
    parts = list(stage_windows)
    stages = [part.edges for part in parts]
    samples = [sample for part in parts for sample in part.samples]
    summed = [sample for part in parts for sample in together(part)]
    values = {
        name: _value(figure, summed if figure.sample in SUMMED else samples, stages)
        for name, figure in ROLE_FIGURES.items()
        if figure.sample or figure.counters
    }
    expected = math.fsum(part.expected for part in parts)
    coverage = min(100.0, 100 * len(samples) / expected) if expected > 0 else None
    return RoleFigures(
        role=parts[0].role,
        samples=len(samples),
        coverage_percent=coverage,
        **_came_and_went(parts),
        **values,
    )


def _came_and_went(parts: Sequence[Window]) -> dict[str, int]:
    """Return the fewest and the most servers at once; empty if their number never changed."""
    least = min(part.least for part in parts)
    most = max(part.most for part in parts)
    return {"servers_min": least, "servers_max": most} if least < most else {}


def replicas(record: StageRecord, samples: Sequence[Sample]) -> tuple[Replica, ...]:
    """Return every server of the record except the proxy, in the record's order."""
    pods = pod_windows(record, samples)
    return tuple(
        _replica(edge, [pod for pod in pods if pod.edge is edge])
        for edge in counters.of_engine(record.servers)
    )


def _replica(edge: ServerEdge, pods: Sequence[PodWindow]) -> Replica:
    # Two pods that began in the same millisecond can't be told apart: neither is taken.
    pod = pods[0] if len(pods) == 1 else None
    samples = pod.samples if pod is not None else ()

    def mean_ms(total: str, count: str) -> float | None:
        return ratio(
            counters.rise([edge], total), counters.rise([edge], count), scale=1000
        )

    return Replica(
        address=edge.address,
        pod=pod.pod if pod is not None else None,
        requests_finished=counters.rise([edge], counters.REQUESTS_FINISHED),
        prompt_tokens=counters.rise([edge], counters.PROMPT_TOKENS),
        generation_tokens=counters.rise([edge], counters.GENERATION_TOKENS),
        mean_ttft_ms=mean_ms(counters.TTFT_SUM, counters.TTFT_COUNT),
        mean_queue_ms=mean_ms(counters.QUEUE_TIME_SUM, counters.QUEUE_TIME_COUNT),
        figures=figures([Window(edge.role, samples, (edge,), expected=0.0)]),
    )


def rounded_figures(figures: RoleFigures) -> RoleFigures:
    """Round figures as in a status: counts exact, all others with five significant digits."""
    names = (
        name
        for name, figure in ROLE_FIGURES.items()
        if not figure.counters or figure.percent_of
    )
    return figures.model_copy(
        update={name: rounded(getattr(figures, name)) for name in names}
    )


def _value(
    figure: Figure,
    samples: Sequence[Sample],
    stages: Sequence[Sequence[ServerEdge]],
) -> float | None:
    if figure.sample:
        ends = (
            sample.high or sample if figure.by == "max" else sample
            for sample in samples
        )
        values = known(getattr(sample, figure.sample) for sample in ends)
        return (
            COMBINE[figure.by]([figure.scale * value for value in values])
            if values
            else None
        )
    if figure.where and not any(_rises(stages, figure.where)):
        return None
    if len(figure.counters) > 1:
        return sum_of_known(
            rise for counter in figure.counters for rise in _rises(stages, counter)
        )
    risen = sum_of_all(_rises(stages, figure.counters[0]))
    return (
        ratio(risen, sum_of_all(_rises(stages, figure.percent_of)), scale=100)
        if figure.percent_of
        else risen
    )


def _rises(
    stages: Sequence[Sequence[ServerEdge]], counter: str
) -> list[float | None]:
    return [counters.rise(stage, counter) for stage in stages]
