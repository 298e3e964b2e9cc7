"""Figures that were cut from a large run's status, taken from its records again.

A status holds at most 100 kB, so a run of many load points loses intervals, medians and kept objectives there. The records
still tell. Only of load points whose records are all at hand: the figures are then the ones that were judged.
"""

from __future__ import annotations

from dataclasses import replace

from benchrun_client.contract import StageRecord

from benchrun.api.cells import Cell
from benchrun.api.codes import Code
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import Result
from benchrun.judge.asked import asked_of
from benchrun.judge.certainty import certainty
from benchrun.judge.objectives import objective_results
from benchrun.measure.cells import Pools, level_metrics, pooled_metrics, pools_of
from benchrun.measure.client_queue import queue_pools
from benchrun.report.html.reported import Reported

FIELDS = frozenset({"results[].metrics", "results[].intervals", "results[].objectives"})
"""What is restored, as `truncated` names it."""


def restored(run: Reported) -> Reported:
    """The run with these figures; as it was where nothing of them was cut."""
    if FIELDS.isdisjoint(cut.field for cut in run.status.truncated):
        return run
    rows = [_restored(run, row) for row in run.status.results]
    whole = all(len(run.records_of(row.cell)) == row.repeats for row in rows)
    truncated = [cut for cut in run.status.truncated if not (whole and cut.field in FIELDS)]
    return replace(run, status=run.status.model_copy(update={"results": rows, "truncated": truncated}))


def _restored(run: Reported, row: Result) -> Result:
    records = run.records_of(row.cell)
    if not records or len(records) != row.repeats:
        return row
    shown, queued = _pools(row, records), _queued(run.spec, row, records)
    percentiles = run.spec.measurement.percentiles
    metrics = pooled_metrics(records, shown, percentiles)
    for name, pool in queued.items():
        metrics |= level_metrics(pool, name, percentiles)
    sure = certainty({**shown, **queued}, percentiles)
    update = {
        "metrics": metrics | row.metrics,
        "intervals": sure.intervals | row.intervals,
        "uncertain": sure.uncertain,
        "objectives": objective_results(run.spec.objectives, {**shown, **queued}, row.verdict),
    }
    return row.model_copy(update=update)


def _pools(row: Result, records: list[StageRecord]) -> Pools:
    """Gaps between chunks that hold several tokens are not gaps between tokens."""
    hidden = "itl" if Code.CHUNKS_ARE_NOT_TOKENS in row.findings else None
    return {latency: pool for latency, pool in pools_of(records).items() if latency != hidden}


def _queued(spec: BenchmarkRunSpec, row: Result, records: list[StageRecord]) -> Pools:
    cell = Cell(row.cell, row.workload, row.axis, row.value, ())
    return queue_pools(records) if asked_of(spec, cell).capped else {}
