"""The judged results of a run: one row a cell, in the order of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchrun_client.contract import StageRecord

from benchrun.api.cells import Cell
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import Finding, Headline, Result, RoleFigures, Truncated, Verdict
from benchrun.judge.aggregate import aggregate
from benchrun.judge.finding import StageFinding
from benchrun.judge.fitting import fitted
from benchrun.judge.headline import headline
from benchrun.judge.missing_records import missing_records
from benchrun.judge.objectives import objective_results
from benchrun.judge.rules import StageContext
from benchrun.judge.stages import judge_stage
from benchrun.judge.thresholds import Thresholds, thresholds_of
from benchrun.judge.verdict import verdict_of_findings, worst
from benchrun.measure.cells import Pools, milliseconds, pooled_metrics, pools_of, rounded
from benchrun.measure.samples import Sample
from benchrun.measure.windows import Window, figures, windows


class Judged(NamedTuple):
    """What goes into the status."""

    results: tuple[Result, ...]
    findings: tuple[Finding, ...]
    verdict: Verdict
    headline: Headline | None
    truncated: tuple[Truncated, ...]


@dataclass(frozen=True, slots=True)
class _JudgedCell:
    """A row with what was behind it."""

    row: Result
    findings: tuple[StageFinding, ...]
    pools: Pools


def results(
    plan_cells: Sequence[Cell],
    records: Sequence[StageRecord],
    samples: Sequence[Sample],
    *,
    spec: BenchmarkRunSpec,
    scrape_interval: float,
) -> Judged:
    """Judge these cells by these records; a cell without all of them is Invalid. No record at all: Unknown, no rows."""
    by_stage = {record.stage_id: record for record in records}
    if not any(stage in by_stage for cell in plan_cells for stage in cell.stage_ids):
        return Judged((), (), "Unknown", None, ())
    by_window = {r.stage_id: windows(r, samples, scrape_interval=scrape_interval) for r in by_stage.values()}
    thresholds = thresholds_of(spec)
    judged = {cell.id: _judged_cell(cell, by_stage, by_window, spec, thresholds) for cell in plan_cells}
    rows, truncated = fitted([cell.row for cell in judged.values()])
    return Judged(
        results=rows,
        findings=aggregate(finding for cell in judged.values() for finding in cell.findings),
        verdict=worst(cell.row.verdict for cell in judged.values()) or "Unknown",
        headline=headline(
            (cell.row for cell in judged.values()),
            lambda cell_id: milliseconds(judged[cell_id].pools["ttft"].percentile(99)),
        ),
        truncated=truncated,
    )


def _judged_cell(
    cell: Cell,
    by_stage: Mapping[str, StageRecord],
    by_window: Mapping[str, tuple[Window, ...]],
    spec: BenchmarkRunSpec,
    thresholds: Thresholds,
) -> _JudgedCell:
    measured = [by_stage[stage] for stage in cell.stage_ids if stage in by_stage]
    stage_windows = [window for record in measured for window in by_window[record.stage_id]]
    found = [
        finding
        for record in measured
        for finding in judge_stage(record, StageContext(thresholds, by_window[record.stage_id]))
    ]
    found += missing_records(cell, by_stage)
    verdict = verdict_of_findings(found)
    pools = pools_of(measured)
    row = Result(
        cell=cell.id,
        workload=cell.workload,
        axis=cell.axis,
        value=cell.value,
        repeats=len(measured),
        repeats_planned=len(cell.stage_ids),
        metrics=pooled_metrics(measured, pools, spec.measurement.percentiles),
        roles=role_figures(stage_windows),
        objectives=objective_results(spec.objectives, pools, verdict),
        verdict=verdict,
        findings=list(dict.fromkeys(finding.code for finding in found)),
    )
    return _JudgedCell(row, tuple(found), pools)


def role_figures(stage_windows: Sequence[Window]) -> list[RoleFigures]:
    """Server figures by role, over all these stages."""
    roles = dict.fromkeys(window.role for window in stage_windows)
    return [_rounded_figures([w for w in stage_windows if w.role == role]) for role in roles]


def _rounded_figures(stage_windows: Sequence[Window]) -> RoleFigures:
    found = figures(stage_windows)
    return RoleFigures(
        role=found.role,
        running_mean=rounded(found.running_mean),
        running_max=rounded(found.running_max),
        waiting_mean=rounded(found.waiting_mean),
        waiting_max=rounded(found.waiting_max),
        kv_cache_mean_percent=rounded(found.kv_cache_mean_percent),
        kv_cache_max_percent=rounded(found.kv_cache_max_percent),
        preemptions=found.preemptions,
        prefix_hit_percent=rounded(found.prefix_hit_percent),
        samples=found.samples,
        coverage_percent=rounded(found.coverage_percent),
    )
