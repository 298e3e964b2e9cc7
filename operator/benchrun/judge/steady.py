"""A stage whose load should stand and doesn't: a queue that grows, or latencies that creep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from benchrun.measure.trend import trend

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
    asked = context.asked
    if asked.all_at_once or asked.follows_trace or asked.whole_batches or not shape.answered:
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
    moved = _moved("requestsInSystem", in_system, lines.steady_change_percent, lines)
    if moved is None:
        return []
    arrived = sum(1 for instant in due if where.start_us < instant <= where.end_us)
    completed, seconds = completed_in(shape.record.requests, where), where.length_us / 1e6
    rising = moved.percent > 0
    short = rising and 100 * completed < lines.steady_completed_percent * arrived
    cause = BEYOND_CAPACITY if short else "latencies rise" if rising else "latencies fall"
    rates = {
        "arrivalsPerSecond": rounded(arrived / seconds),
        "completionsPerSecond": rounded(completed / seconds),
        "completedPercent": rounded(100 * completed / arrived) if arrived else None,
        "capacityPercent": lines.steady_completed_percent,
    }
    return [_finding(shape, moved, cause, rates)]


def _closed_loop(shape: StageShape, where: Plateau, lines: Thresholds) -> Found:
    requests = shape.record.requests
    latencies = [requests.e2el_us[i] for i in where.started if requests.ok[i]]
    moved = _moved("e2el", latencies, lines.steady_change_percent, lines)
    if moved is None:
        return []
    return [_finding(shape, moved, "latencies rise" if moved.percent > 0 else "latencies fall", {})]


def _growing_queue(shape: StageShape, lines: Thresholds) -> Found:
    """Answers take about as long as the sending: either the stage is too short for them, or the queue grows."""
    requests, due = shape.record.requests, _due_us(shape)
    queued = requests.queue_us
    waits = [queued[i] + requests.ttft_us[i] for i in shape.answered]
    waits = waits[round(SKIPPED_SHARE * len(waits)) :]
    moved = _moved("queueWaitAndTtft", waits, lines.queue_growth_percent, lines)
    if moved is None or moved.percent < 0:
        return [NotChecked(Code.NOT_STEADY_STATE, "answers took about as long as the sending")]
    arriving, whole = (max(due) - min(due)) / 1e6, (shape.flight.instants_us[-1] - min(due)) / 1e6
    rates = {
        "arrivalsPerSecond": rounded(len(due) / arriving) if arriving > 0 else None,
        "completionsPerSecond": rounded(len(shape.answered) / whole) if whole > 0 else None,
    }
    return [_finding(shape, moved, BEYOND_CAPACITY, rates)]


@dataclass(frozen=True, slots=True)
class _Moved:
    """A figure whose trend is both large and no chance."""

    percent: float
    """From the first to the last of its values, by the trend; negative where it fell."""
    evidence: Evidence


def _moved(figure: str, values: Sequence[float], percent: float, lines: Thresholds) -> _Moved | None:
    """The trend of a series in order of time, if it is beyond `percent` and chance does not make it."""
    found = trend(values)
    if found is None or found.p_value >= lines.chance_of_alarm:
        return None
    change = 100 * found.relative_change
    if abs(change) <= percent:
        return None
    evidence: Evidence = {
        "figure": figure,
        "changePercent": rounded(change),
        "suspectPercent": percent,
        "chance": rounded(found.p_value),
        "suspectChance": lines.chance_of_alarm,
    }
    return _Moved(change, evidence)


def _finding(shape: StageShape, moved: _Moved, cause: str, rates: Evidence) -> StageFinding:
    evidence: Evidence = {"cause": cause, **moved.evidence, **rates}
    weight = abs(moved.percent)
    return StageFinding(Code.NOT_STEADY_STATE, "Suspect", shape.record.stage_id, evidence, weight=weight)
