"""All rules put to all stages, cells and the run; what they found, by cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchrun.api.measurement import RuleSeverity
from benchrun.judge.catalogue import CELL_RULES, RUN_RULES, STAGE_RULES
from benchrun.judge.finding import NotChecked, StageFinding
from benchrun.judge.missing_records import missing_records
from benchrun.judge.not_checked import not_checked
from benchrun.judge.overrides import overridden
from benchrun.judge.rules import CellContext, Found, MeasuredStage, RunContext

Findings = Mapping[str, Sequence[StageFinding]]
"""Of every cell, by its id."""


def judge_run(run: RunContext) -> Findings:
    """Everything that any rule finds, as the rules have it; rules don't stop each other."""
    by_cell = {cell_id: _judge_cell(cell) for cell_id, cell in run.cells.items()}
    for finding in _split((found for rule in RUN_RULES for found in rule(run)), where=""):
        by_cell[finding.stage_id].append(finding)
    return by_cell


def as_wanted(found: Findings, rules: Sequence[RuleSeverity]) -> Findings:
    """The findings as the spec wants them: with other severities, or left out."""
    return {cell_id: tuple(overridden(of_cell, rules)) for cell_id, of_cell in found.items()}


def judge_stage(stage: MeasuredStage) -> list[StageFinding]:
    """Everything that any rule finds at one stage."""
    found = (each for rule in STAGE_RULES for each in rule(stage.record, stage.context))
    return _split(found, where=stage.record.stage_id)


def _judge_cell(cell: CellContext) -> list[StageFinding]:
    of_stages = [finding for stage in cell.stages for finding in judge_stage(stage)]
    of_cell = _split((each for rule in CELL_RULES for each in rule(cell)), where=cell.cell.id)
    measured = {stage.record.stage_id for stage in cell.stages}
    return [*of_stages, *of_cell, *missing_records(cell.cell, measured)]


def _split(found: Iterable[StageFinding | NotChecked] | Found, *, where: str) -> list[StageFinding]:
    findings: list[StageFinding] = []
    missed: list[NotChecked] = []
    for each in found:
        if isinstance(each, NotChecked):
            missed.append(each)
        else:
            findings.append(each)
    return [*findings, *not_checked(where, missed)] if where else findings
