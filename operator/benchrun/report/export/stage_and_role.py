"""What every table of servers begins with, and is joined with the others by: the run, the stage, and the role of its servers."""

from __future__ import annotations

from benchrun.report.export.exported import ExportedRun, ExportedStage
from benchrun.report.export.table import Column, Value

STAGE_AND_ROLE = tuple(Column(name, "text") for name in ("namespace", "run", "run_uid", "stage", "verdict", "role"))


def stage_and_role(run: ExportedRun, stage: ExportedStage, role: str) -> dict[str, Value]:
    """The values of these columns."""
    return {
        "namespace": run.namespace,
        "run": run.name,
        "run_uid": run.uid,
        "stage": stage.id,
        "verdict": stage.verdict,
        "role": role,
    }
