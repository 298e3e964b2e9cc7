"""A run whose figures move in one direction from repeat to repeat, whatever the load point."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchrun.judge.finding import Code, Explanation, StageFinding
from benchrun.judge.rules import CellSummary, Found, RunContext
from benchrun.judge.thresholds import Thresholds
from benchrun.measure.cells import rounded
from benchrun.measure.ordering import common_order_p_value, surplus
from benchrun.measure.repeats import between_groups

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.DRIFT: Explanation(
        meaning="From repeat to repeat the figures moved in one direction over the whole run: what is measured later looks "
        "better or worse for being later.",
        remedy="Look for what changes with time: heat and clocks, memory that fills, other work on the node. Let the order "
        "of load points be shuffled, and warm up longer.",
    ),
}


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
