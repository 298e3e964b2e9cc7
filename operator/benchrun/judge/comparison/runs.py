"""A measured run as one side of a comparison sees it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from benchrun.api.conditions import is_true
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import BenchmarkRunStatus, Result
from benchrun.api.workloads import Workload
from benchrun.observe.views import Run


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What was asked and what came out. One with a server of its own stands for one *fresh server*."""

    name: str
    uid: str
    spec: BenchmarkRunSpec
    status: BenchmarkRunStatus

    @property
    def ended_well(self) -> bool:
        """Whether it was measured to its end. Figures of a run that failed were taken on a server in trouble."""
        return self.status.completion_time is not None and not is_true(self.status.conditions, "Failed")

    def row(self, cell: str) -> Result | None:
        """The results of a cell, if it has that cell."""
        return next((row for row in self.status.results if row.cell == cell), None)

    def workload(self, name: str) -> Workload | None:
        """The workload of that name."""
        return next((workload for workload in self.spec.workloads if workload.name == name), None)


def measured_run(run: Run) -> MeasuredRun:
    """A run as the cluster holds it. Raises ValueError where its spec or status is not of this version."""
    return MeasuredRun(
        name=run.name,
        uid=run.uid,
        spec=BenchmarkRunSpec.model_validate(run.spec),
        status=BenchmarkRunStatus.model_validate(run.status),
    )


def results_digest(run: Run) -> str:
    """Of the results as they are written: later it can be told whether they are still those that were compared with."""
    text = json.dumps(run.status.get("results", []), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
