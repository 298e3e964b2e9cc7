"""A finished run re-evaluated by the records that are left of it. Its own verdict stays what it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from benchrun_client.contract import StageRecord

from benchrun.api import BenchmarkRunSpec, BenchmarkRunStatus, Cell, RuleSeverity
from benchrun.judge.results import results
from benchrun.judge.row import cost_status
from benchrun.judge.rules.warm_up import known_compilations
from benchrun.judge.thresholds import Thresholds, judge_of
from benchrun.measure.exposition import Sample
from benchrun.plan.searches import probed_cells
from benchrun.plan.stages import cells


@dataclass(frozen=True, slots=True)
class Rejudged:
    """What today's rules find."""

    status: BenchmarkRunStatus
    """As stored, with the new rows, findings and verdict. Only of cells that have a record left."""
    missing: Mapping[str, int]
    """Records that were judged once and are not there any more, by cell."""


def rejudge(
    spec: BenchmarkRunSpec,
    stored: BenchmarkRunStatus,
    records: Sequence[StageRecord],
    samples: Sequence[Sample],
    *,
    thresholds: Thresholds,
) -> Rejudged:
    """Judge what is there.

    A record that was not kept is not held against its cell; a stage that was never measured is, as it was the first time.
    """
    here = {record.stage_id for record in records}
    judged_once = {row.cell: row.repeats for row in stored.results}
    planned, missing = [], {}
    known = (*cells(spec), *probed_cells(spec, records))
    for cell in known:
        left = _without_lost(cell, here, measured=judged_once.get(cell.id, len(cell.stage_ids)))
        lost = len(cell.stage_ids) - len(left.stage_ids)
        if lost:
            missing[cell.id] = lost
        if not here.isdisjoint(left.stage_ids):
            planned.append(left)
    # Loads that a search chose are in no plan: where all their records are lost, their row alone tells of them.
    ids = {cell.id for cell in known}
    missing |= {row.cell: row.repeats for row in stored.results if row.cell not in ids}
    found = results(
        planned,
        records,
        samples,
        spec=spec,
        compilations=known_compilations(stored.servers),
        servers=stored.servers,
        thresholds=thresholds,
    )
    update = {
        "results": list(found.results),
        "searches": list(found.searches),
        "findings": list(found.findings),
        "verdict": found.verdict,
        "headline": found.headline,
        "judge": judge_of(spec, thresholds),
        "cost": stored.cost or cost_status(spec.cost, stored.servers),
        "truncated": list(found.truncated),
        "comparison": None,  # its figures were held against rows that may have another verdict now
    }
    return Rejudged(stored.model_copy(update=update), missing)


def with_severities(spec: BenchmarkRunSpec, wanted: Sequence[RuleSeverity]) -> BenchmarkRunSpec:
    """The spec with other severities; those it sets itself stay where nothing else is wanted."""
    rules = {rule.code: rule for rule in (*spec.validity.severities, *wanted)}
    validity = spec.validity.model_copy(update={"severities": list(rules.values())})
    return spec.model_copy(update={"validity": validity})


def _without_lost(cell: Cell, here: Collection[str], *, measured: int) -> Cell:
    """The cell without the stages whose record is lost: of those that have none, the earliest were measured."""
    absent = [stage for stage in cell.stage_ids if stage not in here]
    lost = set(absent[: max(0, measured - (len(cell.stage_ids) - len(absent)))])
    return replace(cell, stage_ids=tuple(stage for stage in cell.stage_ids if stage not in lost))
