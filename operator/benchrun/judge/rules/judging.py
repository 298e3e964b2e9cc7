"""All rules put to a stage, a cell or a run, and what they found; rules don't stop each other."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.judge.rules.catalogue import CELL_RULES, RUN_RULES, STAGE_RULES
from benchrun.judge.rules.finding import NotChecked, StageFinding
from benchrun.judge.rules.rule import CellContext, Found, MeasuredStage, RunContext, not_checked
from benchrun.judge.rules.sample_size import missing_records


def judge_stage(stage: MeasuredStage) -> list[StageFinding]:
    """Everything that any rule finds at one stage."""
    found = (each for rule in STAGE_RULES for each in rule(stage.record, stage.context))
    return _split(found, where=stage.record.stage_id)


def judge_cell(cell: CellContext) -> list[StageFinding]:
    """Everything found at the cell's stages and at the cell as a whole."""
    of_stages = [finding for stage in cell.stages for finding in judge_stage(stage)]
    of_cell = _split((each for rule in CELL_RULES for each in rule(cell)), where=cell.cell.id)
    measured = {stage.record.stage_id for stage in cell.stages}
    return [*of_stages, *of_cell, *missing_records(cell.cell, measured)]


def judge_run(run: RunContext) -> list[StageFinding]:
    """What rules find that look over all cells; each finding names its cell."""
    return _split((each for rule in RUN_RULES for each in rule(run)), where="")


def _split(found: Iterable[StageFinding | NotChecked] | Found, *, where: str) -> list[StageFinding]:
    findings: list[StageFinding] = []
    missed: list[NotChecked] = []
    for each in found:
        if isinstance(each, NotChecked):
            missed.append(each)
        else:
            findings.append(each)
    return [*findings, *not_checked(where, missed)] if where else findings
