"""One cell judged, and what is kept of it once its records are let go.

A record takes hundreds of bytes a request while it is open, and all that is said of a cell a few thousand in all. So cells
are judged one after the other, and no more records are open at a time than those of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun_client.contract import StageRecord

from benchrun.api.cells import Cell
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import Result, ServerStatus
from benchrun.judge.asked import asked_of
from benchrun.judge.explaining import Limits, Seen, seen_at
from benchrun.judge.finding import StageFinding
from benchrun.judge.headline import p99_ttft
from benchrun.judge.judging import judge_cell
from benchrun.judge.overrides import overridden
from benchrun.judge.row import measured_row
from benchrun.judge.rules import CellContext, CellSummary, MeasuredStage, StageContext
from benchrun.judge.thresholds import Thresholds
from benchrun.measure.cells import pools_of
from benchrun.measure.samples import Sample
from benchrun.measure.windows import windows


@dataclass(frozen=True, slots=True)
class JudgedCell:
    """A cell without its records."""

    summary: CellSummary
    """What rules of the run, and searches, look at."""
    seen: Sequence[StageFinding]
    """As the rules have it."""
    row: Result
    """As its findings make it that the spec wants; what only the whole run tells is still to come."""
    p99_ttft: str
    """For the headline."""
    explained_by: Seen | None
    """What its explanation rests on; None: nothing was measured."""


def judged_cell(context: CellContext, *, spec: BenchmarkRunSpec, limits: Limits) -> JudgedCell:
    """Put the rules of stages and cells to it, and make its row."""
    seen = judge_cell(context)
    return JudgedCell(
        summary=context.summary(),
        seen=seen,
        row=measured_row(context, overridden(seen, spec.validity.severities), spec=spec),
        p99_ttft=p99_ttft(context),
        # Why requests waited does not depend on what the reader wants to hear of.
        explained_by=seen_at(context, seen, limits) if context.stages else None,
    )


def cell_context(
    cell: Cell,
    records: Sequence[StageRecord],
    samples: Sequence[Sample],
    thresholds: Thresholds,
    *,
    spec: BenchmarkRunSpec,
    compilations: tuple[float, ...] | None,
    servers: Sequence[ServerStatus] = (),
) -> CellContext:
    """What rules are given of a cell. `records`: its own, in order of repeats; the others are as `results` takes them."""
    asked = asked_of(spec, cell)

    def measured(record: StageRecord) -> MeasuredStage:
        seen = windows(record, samples, scrape_interval=asked.scrape_interval_seconds)
        return MeasuredStage(record, StageContext(thresholds, asked, seen, compilations, servers))

    return CellContext(
        cell=cell,
        thresholds=thresholds,
        asked=asked,
        percentiles=spec.measurement.percentiles,
        stages=tuple(map(measured, records)),
        pools=pools_of(records),
        objectives=spec.objectives,
    )
