"""Stages that were planned and never measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from benchrun.api.cells import Cell
from benchrun.judge.finding import Code, Explanation, StageFinding

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.RECORD_MISSING: Explanation(
        meaning="A planned stage was not measured to its end; the cell lacks that repeat.",
        remedy="See the run's message for why it ended early.",
    ),
}


def missing_records(cell: Cell, measured: Collection[str]) -> list[StageFinding]:
    """One finding for each repeat of the cell that has no record."""
    evidence = {"planned": len(cell.stage_ids), "measured": sum(stage in measured for stage in cell.stage_ids)}
    return [StageFinding(Code.RECORD_MISSING, "Invalid", s, evidence) for s in cell.stage_ids if s not in measured]
