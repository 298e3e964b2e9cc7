"""The table of a sweep, made of what its runs measured."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.api.status import BenchmarkRunStatus
from benchrun.api.sweep.spec import BenchmarkSweepSpec
from benchrun.api.sweep.table import SweepTable
from benchrun.judge.sweep.tabled import sweep_table
from benchrun.judge_process.job import Part, SweepJob


def table_job(job: SweepJob, parts: Iterable[Part]) -> SweepTable:
    """The table. Raises ValueError where the spec or a run's status is not one."""
    measured = {part.head.name: BenchmarkRunStatus.model_validate_json(part.data) for part in parts}
    spec = BenchmarkSweepSpec.model_validate(job.spec)
    return sweep_table(spec, job.runs, measured, baseline=job.baseline, missing=job.missing)
