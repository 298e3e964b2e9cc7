"""A stage that is no steady state: too short, a growing queue, creeping latencies, or figures that drift from repeat to repeat."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import sub

from benchrun_client.contract import StageRecord

from benchrun.judge.rules.finding import Code, Evidence, Explanation, NotChecked, StageFinding
from benchrun.judge.rules.rule import CellSummary, Found, RunContext, StageContext
from benchrun.judge.stage_profile import StageShape
from benchrun.judge.thresholds import Thresholds
from benchrun.measure.cells import completed_in, duration_seconds, rounded
from benchrun.measure.percentiles import BATCHES
from benchrun.measure.plateau import NoPlateau, Plateau
from benchrun.measure.repeats import between_groups
from benchrun.measure.significance import common_order_p_value, surplus, trend

# ---- steady -----------------------------------------------------------------------------------------------------------
# A stage whose load should stand and doesn't: a queue that grows, or latencies that creep.

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.NOT_STEADY_STATE: Explanation(
        meaning="Queue or latency moved in one direction through the whole plateau: a longer stage would give other numbers, "
        "so these belong to no load. Beyond capacity they grow without end.",
        remedy="Beyond capacity, ask for a lower rate or compare throughput only. Otherwise measure longer, and look at what "
        "changes in the server meanwhile (heat, memory, other work).",
    ),
    Code.WINDOW_TOO_SHORT: Explanation(
        meaning="The stage is mostly its own beginning and end, where fewer requests compete than the load point says: "
        "throughput is too low, latencies may be off either way.",
        remedy="Send more requests, ten or more for each that is under way at a time, and for ten seconds or longer.",
    ),
    Code.DRIFT: Explanation(
        meaning="From repeat to repeat the figures moved in one direction over the whole run: what is measured later looks "
        "better or worse for being later.",
        remedy="Look for what changes with time: heat and clocks, memory that fills, other work on the node. Let the order "
        "of load points be shuffled, and warm up longer.",
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


# ---- window -----------------------------------------------------------------------------------------------------------
# A stage too short to tell anything of a load that goes on.


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


# ---- drift ------------------------------------------------------------------------------------------------------------
# A run whose figures move in one direction from repeat to repeat, whatever the load point.


@dataclass(frozen=True, slots=True)
class _Course:
    """One figure of one cell over its repeats, in order of measurement."""

    cell: CellSummary
    repeats: Sequence[Sequence[float]]
    """Batch means of each."""

    @property
    def means(self) -> Sequence[float]:
        return [math.fsum(batches) / len(batches) for batches in self.repeats]

    @property
    def change_percent(self) -> float:
        first, last = self.means[0], self.means[-1]
        return 100 * (last / first - 1) if first > 0 else 0.0


def drift(run: RunContext) -> Found:
    """For each cell that drifts, the figure that moved most.

    Two questions, and chance answers them independently: whether the repeats of all cells come in an order that random
    orders seldom have; and whether a cell's repeats lie further apart than its own noise sets them.
    """
    courses = {figure: _courses(run, figure) for figure in ("meanTtftMs", "meanTpotMs", "meanE2elMs")}
    found: dict[str, StageFinding] = {}
    for figure, of_figure in courses.items():
        for finding in _drifting(figure, of_figure, run.thresholds):
            known = found.get(finding.stage_id)
            if known is None or finding.weight > known.weight:
                found[finding.stage_id] = finding
    return list(found.values())


def _courses(run: RunContext, figure: str) -> list[_Course]:
    courses = []
    for cell in run.cells.values():
        ordered = sorted(cell.stages, key=lambda stage: stage.sequence)
        repeats = [batches for stage in ordered if (batches := stage.batches[figure])]
        if len(repeats) > 1:
            courses.append(_Course(cell, repeats))
    return courses


def _drifting(figure: str, courses: Sequence[_Course], lines: Thresholds) -> list[StageFinding]:
    chance = common_order_p_value([course.means for course in courses])
    if chance > lines.drift_order_chance:
        return []
    rising = sum(surplus(course.means) for course in courses) > 0
    findings = []
    for course in courses:
        change, noise = course.change_percent, between_groups(course.repeats).p_value
        along = change > 0 if rising else change < 0
        if not along or abs(change) <= lines.drift_percent or noise is None or noise >= lines.chance_of_alarm:
            continue
        evidence = {
            "figure": figure,
            "first": rounded(course.means[0]),
            "last": rounded(course.means[-1]),
            "changePercent": rounded(change),
            "suspectPercent": lines.drift_percent,
            "repeats": len(course.repeats),
            "cellsCompared": len(courses),
            "chanceOfOrder": rounded(chance),
            "suspectChanceOfOrder": lines.drift_order_chance,
            "chanceOfSpread": rounded(noise),
            "suspectChanceOfSpread": lines.chance_of_alarm,
        }
        findings.append(StageFinding(Code.DRIFT, "Suspect", course.cell.cell.id, evidence, weight=abs(change)))
    return findings
