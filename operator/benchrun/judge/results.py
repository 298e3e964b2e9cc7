"""The judged results of a run: one row a cell, in the order of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchrun_client.contract import StageRecord

from benchrun.api.cells import Cell
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import Finding, Headline, Result, SearchResult, ServerStatus, Truncated, Verdict
from benchrun.judge.aggregate import aggregate
from benchrun.judge.asked import Asked, asked_of
from benchrun.judge.comparison.fitting import SHARE_BYTES
from benchrun.judge.explaining import explanations
from benchrun.judge.fitting import MAX_BYTES, fitted
from benchrun.judge.headline import headline, p99_ttft
from benchrun.judge.judging import Findings, as_wanted, judge_run
from benchrun.judge.row import row
from benchrun.judge.rules import CellContext, MeasuredStage, RunContext, StageContext
from benchrun.judge.searching import SEARCH_BYTES, deciding, search_results
from benchrun.judge.thresholds import Thresholds, thresholds_of
from benchrun.judge.verdict import verdict_of_findings, worst
from benchrun.measure.cells import pools_of
from benchrun.measure.samples import Sample
from benchrun.measure.server_limits import ServerLimits, server_limits
from benchrun.measure.windows import windows


class Judged(NamedTuple):
    """What goes into the status."""

    results: tuple[Result, ...]
    findings: tuple[Finding, ...]
    verdict: Verdict
    headline: Headline | None
    truncated: tuple[Truncated, ...]
    searches: tuple[SearchResult, ...] = ()


def results(
    plan_cells: Sequence[Cell],
    records: Sequence[StageRecord],
    samples: Sequence[Sample],
    *,
    spec: BenchmarkRunSpec,
    compilations: tuple[float, ...] | None = None,
    servers: Sequence[ServerStatus] | None = None,
    thresholds: Thresholds | None = None,
) -> Judged:
    """Judge these cells by these records; a cell without all of them is Invalid. No record at all: Unknown, no rows.

    `compilations`: Unix seconds at which the server's log tells of compiling; None where it could not be read.
    `servers`: what the servers say of themselves; None where the spec is all that is known of them.
    `thresholds`: None for those of the spec.
    """
    by_stage = {record.stage_id: record for record in records}
    if not any(stage in by_stage for cell in plan_cells for stage in cell.stage_ids):
        return Judged((), (), "Unknown", None, ())
    lines = thresholds or thresholds_of(spec)
    run = run_context(plan_cells, by_stage, samples, lines, spec=spec, compilations=compilations)
    seen = judge_run(run)
    found = as_wanted(seen, spec.validity.severities)
    # Why requests waited does not depend on what the reader wants to hear of.
    explained = explanations(run.cells, seen, _limits(spec, servers or ()), trusted=_trusted(found))
    rows = [
        row(cell, found[cell_id], spec=spec, explanation=explained.get(cell_id)) for cell_id, cell in run.cells.items()
    ]
    findings = aggregate(finding for of_cell in found.values() for finding in of_cell)
    searches = search_results(spec, run.cells, rows)
    elsewhere = (SHARE_BYTES if spec.baseline else 0) + SEARCH_BYTES * len(searches)
    kept, truncated = fitted(rows, findings, max_bytes=MAX_BYTES - elsewhere)
    relied_on = deciding(rows, searches)
    return Judged(
        results=kept,
        findings=findings,
        verdict=worst(each.verdict for each in relied_on) or "Unknown",
        headline=headline(relied_on, lambda cell_id: p99_ttft(run.cells[cell_id])),
        truncated=truncated,
        searches=searches,
    )


def _trusted(found: Findings) -> frozenset[str]:
    return frozenset(cell_id for cell_id, of_cell in found.items() if verdict_of_findings(of_cell) != "Invalid")


def _limits(spec: BenchmarkRunSpec, servers: Sequence[ServerStatus]) -> ServerLimits:
    """Of one server: all of a role are alike."""
    said = next(iter(servers), None)
    args = spec.server.args if spec.server is not None else None
    if said is None:
        return server_limits(args)
    return server_limits(args, said.reported, kv_cache_tokens=said.kv_cache_tokens)


def run_context(
    plan_cells: Sequence[Cell],
    by_stage: Mapping[str, StageRecord],
    samples: Sequence[Sample],
    thresholds: Thresholds,
    *,
    spec: BenchmarkRunSpec,
    compilations: tuple[float, ...] | None,
) -> RunContext:
    def measured(record: StageRecord, asked: Asked) -> MeasuredStage:
        seen = windows(record, samples, scrape_interval=asked.scrape_interval_seconds)
        return MeasuredStage(record, StageContext(thresholds, asked, seen, compilations))

    def context(cell: Cell) -> CellContext:
        asked = asked_of(spec, cell)
        records = [by_stage[stage] for stage in cell.stage_ids if stage in by_stage]
        return CellContext(
            cell=cell,
            thresholds=thresholds,
            asked=asked,
            percentiles=spec.measurement.percentiles,
            stages=tuple(measured(record, asked) for record in records),
            pools=pools_of(records),
            objectives=spec.objectives,
        )

    return RunContext(thresholds, {cell.id: context(cell) for cell in plan_cells})
