"""A stage whose load should stand and doesn't: a queue that grows, or latencies that creep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import sub

from benchrun_client.contract import StageRecord

from benchrun.judge.finding import Code, Evidence, Explanation, NotChecked, StageFinding
from benchrun.judge.rules import Found, StageContext
from benchrun.judge.shape import StageShape
from benchrun.judge.thresholds import Thresholds
from benchrun.measure.batches import BATCHES
from benchrun.measure.cells import rounded
from benchrun.measure.plateau_figures import completed_in
from benchrun.measure.steady import NoPlateau, Plateau
from benchrun.measure.trend import Trend, trend

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.NOT_STEADY_STATE: Explanation(
        meaning="Queue or latency moved in one direction through the whole plateau: a longer stage would give other numbers, "
        "so these belong to no load. Beyond capacity they grow without end.",
        remedy="Beyond capacity, ask for a lower rate or compare throughput only. Otherwise measure longer, and look at what "
        "changes in the server meanwhile (heat, memory, other work).",
    ),
}
BEYOND_CAPACITY = "arrivals beyond capacity"
MIN_ANSWER_TIMES = 3
"""Mean E2ELs that a plateau under a rate lasts before the requests in the system are looked at."""
SKIPPED_SHARE = 0.1
"""Of the first requests, where hardly any plateau is left: they met an empty server."""


def not_steady_state(record: StageRecord, context: StageContext) -> Found:
    """A trend both large and certain: of the requests in the system under a rate, of E2EL where users keep up the load."""
    shape, lines = context.shape(record), context.thresholds
    if context.asked.all_at_once or not shape.answered:
        return []
    where = shape.plateau
    if where is NoPlateau.ANSWERS_OUTLAST_SENDING:
        return _growing_queue(shape, lines)
    if isinstance(where, NoPlateau):
        return [NotChecked(Code.NOT_STEADY_STATE, where.value)]
    if context.asked.closed_loop:
        return _closed_loop(shape, where, lines)
    due = _due_us(shape)
    arriving = Plateau(where.start_us, min(where.end_us, max(due)), where.started)
    return _open_loop(shape, arriving, due, lines) if _is_long(arriving, shape) else _growing_queue(shape, lines)


def _due_us(shape: StageShape) -> Sequence[int]:
    """When requests arrived: a cap may have sent them later."""
    return list(map(sub, shape.record.requests.start_us, shape.record.requests.queue_us))


def _is_long(where: Plateau, shape: StageShape) -> bool:
    """Whether the number of requests in the system could have come to rest, even where some answers are long."""
    return where.length_us * len(shape.e2el_us) >= MIN_ANSWER_TIMES * sum(shape.e2el_us)


def _open_loop(shape: StageShape, where: Plateau, due: Sequence[int], lines: Thresholds) -> Found:
    in_system = shape.demand.means(where.start_us, where.end_us, parts=BATCHES)
    moved = _alarming(in_system, lines.steady_change_percent, lines)
    if moved is None:
        return []
    arrived = sum(1 for instant in due if where.start_us < instant <= where.end_us)
    completed, seconds = completed_in(shape.record.requests, where), where.length_us / 1e6
    rising = moved.relative_change > 0
    short = rising and 100 * completed < lines.steady_completed_percent * arrived
    cause = BEYOND_CAPACITY if short else "latencies rise" if rising else "latencies fall"
    rates = {"arrivalsPerSecond": rounded(arrived / seconds), "completionsPerSecond": rounded(completed / seconds)}
    return [_finding(shape, moved, "requestsInSystem", cause, rates)]


def _closed_loop(shape: StageShape, where: Plateau, lines: Thresholds) -> Found:
    requests = shape.record.requests
    latencies = [requests.e2el_us[i] for i in where.started if requests.ok[i]]
    moved = _alarming(latencies, lines.steady_change_percent, lines)
    if moved is None:
        return []
    cause = "latencies rise" if moved.relative_change > 0 else "latencies fall"
    return [_finding(shape, moved, "e2el", cause, {})]


def _growing_queue(shape: StageShape, lines: Thresholds) -> Found:
    """Answers take about as long as the sending: either the stage is too short for them, or the queue grows."""
    requests, due = shape.record.requests, _due_us(shape)
    waits = [requests.queue_us[i] + requests.ttft_us[i] for i in shape.answered]
    moved = _alarming(waits[round(SKIPPED_SHARE * len(waits)) :], lines.queue_growth_percent, lines)
    if moved is None or moved.relative_change < 0:
        return [NotChecked(Code.NOT_STEADY_STATE, "answers took about as long as the sending")]
    arriving, whole = (max(due) - min(due)) / 1e6, (shape.flight.instants_us[-1] - min(due)) / 1e6
    rates = {
        "arrivalsPerSecond": rounded(len(due) / arriving) if arriving > 0 else None,
        "completionsPerSecond": rounded(len(shape.answered) / whole) if whole > 0 else None,
    }
    return [_finding(shape, moved, "queueWaitAndTtft", BEYOND_CAPACITY, rates)]


def _alarming(values: Sequence[float], percent: float, lines: Thresholds) -> Trend | None:
    """The trend of a series in order of time, if it is large and no chance."""
    moved = trend(values)
    if moved is None or moved.p_value >= lines.chance_of_alarm:
        return None
    return moved if 100 * abs(moved.relative_change) > percent else None


def _finding(
    shape: StageShape, moved: Trend, figure: str, cause: str, rates: Mapping[str, float | None]
) -> StageFinding:
    change = 100 * moved.relative_change
    evidence: Evidence = {
        "cause": cause,
        "figure": figure,
        "changePercent": rounded(change),
        "chance": rounded(moved.p_value),
        **rates,
    }
    return StageFinding(Code.NOT_STEADY_STATE, "Suspect", shape.record.stage_id, evidence, weight=abs(change))
