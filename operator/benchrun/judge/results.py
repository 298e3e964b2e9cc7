"""The judged results of a run: one row a cell, in the order of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchrun_client.contract import StageRecord

from benchrun.api.cells import Cell
from benchrun.api.names import ROLE_DECODE, ROLE_PREFILL, ROLE_SERVER
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import Finding, Headline, Result, SearchResult, ServerStatus, Truncated, Verdict
from benchrun.judge.aggregate import aggregate
from benchrun.judge.comparison.fitting import SHARE_BYTES
from benchrun.judge.cost import cost_status, priced
from benchrun.judge.explaining import Limits, Seen, explanations
from benchrun.judge.finding import StageFinding
from benchrun.judge.fitting import MAX_BYTES, fitted
from benchrun.judge.headline import headline
from benchrun.judge.judged_cell import JudgedCell, cell_context, judged_cell
from benchrun.judge.judging import judge_run
from benchrun.judge.overrides import overridden
from benchrun.judge.per_gpu import gpus_of, shared_out
from benchrun.judge.row import row
from benchrun.judge.rules import RunContext
from benchrun.judge.searching import SEARCH_BYTES, deciding, search_results
from benchrun.judge.thresholds import Thresholds, thresholds_of
from benchrun.judge.verdict import verdict_of_findings, worst
from benchrun.measure.samples import Sample
from benchrun.measure.server_limits import ServerLimits, server_limits


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

    `records`: those of a cell are taken when it is judged, and let go after it, so a sequence may open each as it is asked.
    `compilations`: Unix seconds at which the server's log tells of compiling; None where it could not be read.
    `servers`: what the servers say of themselves and where their pods were; None where the spec is all that is known of them.
    `thresholds`: None for those of the spec.
    """
    places = {record.stage_id: place for place, record in enumerate(records)}
    if not any(stage in places for cell in plan_cells for stage in cell.stage_ids):
        return Judged((), (), "Unknown", None, ())
    lines, limits = thresholds or thresholds_of(spec), _limits(spec, servers or ())

    def judged(cell: Cell) -> JudgedCell:
        of_cell = [records[places[stage]] for stage in cell.stage_ids if stage in places]
        context = cell_context(
            cell, of_cell, samples, lines, spec=spec, compilations=compilations, servers=servers or ()
        )
        return judged_cell(context, spec=spec, limits=limits)

    by_cell = {cell.id: judged(cell) for cell in plan_cells}
    summaries = {cell_id: each.summary for cell_id, each in by_cell.items()}
    found = _as_wanted(by_cell, judge_run(RunContext(lines, summaries)), spec)
    explained = explanations(_explained_by(by_cell), trusted=_trusted(found))
    cost, gpus = cost_status(spec.cost, servers or ()), gpus_of(servers or ())
    judged_rows = (row(each.row, found[cell_id], explained.get(cell_id)) for cell_id, each in by_cell.items())
    rows = [priced(shared_out(each, gpus), cost) for each in judged_rows]
    findings = aggregate(finding for of_cell in found.values() for finding in of_cell)
    searches = search_results(spec, summaries, rows)
    elsewhere = (SHARE_BYTES if spec.baseline else 0) + SEARCH_BYTES * len(searches)
    kept, truncated = fitted(rows, findings, max_bytes=MAX_BYTES - elsewhere)
    relied_on = deciding(rows, searches)
    return Judged(
        results=kept,
        findings=findings,
        verdict=worst(each.verdict for each in relied_on) or "Unknown",
        headline=headline(relied_on, lambda cell_id: by_cell[cell_id].p99_ttft),
        truncated=truncated,
        searches=searches,
    )


def _as_wanted(
    by_cell: Mapping[str, JudgedCell], of_run: Sequence[StageFinding], spec: BenchmarkRunSpec
) -> Mapping[str, Sequence[StageFinding]]:
    """All findings by cell, those of the run's rules among them, as the spec wants them."""
    seen = {cell_id: [*each.seen, *(f for f in of_run if f.stage_id == cell_id)] for cell_id, each in by_cell.items()}
    return {cell_id: tuple(overridden(of_cell, spec.validity.severities)) for cell_id, of_cell in seen.items()}


def _explained_by(by_cell: Mapping[str, JudgedCell]) -> Mapping[str, Seen]:
    return {cell_id: each.explained_by for cell_id, each in by_cell.items() if each.explained_by is not None}


def _trusted(found: Mapping[str, Sequence[StageFinding]]) -> frozenset[str]:
    return frozenset(cell_id for cell_id, of_cell in found.items() if verdict_of_findings(of_cell) != "Invalid")


def _limits(spec: BenchmarkRunSpec, servers: Sequence[ServerStatus]) -> Limits:
    """Of one server of each role: all of a role are alike."""
    said = {server.role: server for server in servers}
    split = spec.server is not None and spec.server.disaggregated is not None
    roles = (ROLE_PREFILL, ROLE_DECODE) if split else tuple(said) or (ROLE_SERVER,)
    return {role: _limits_of(spec, role, said.get(role)) for role in roles}


def _limits_of(spec: BenchmarkRunSpec, role: str, said: ServerStatus | None) -> ServerLimits:
    args = spec.started.args_of(role) if spec.started is not None else None
    if said is None:
        return server_limits(args)
    return server_limits(args, said.reported, kv_cache_tokens=said.kv_cache_tokens)
