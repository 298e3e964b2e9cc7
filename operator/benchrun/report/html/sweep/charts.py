"""Every variant beside the baseline, and the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api import KEYS, Change, ComparedMetric
from benchrun.api.sweep.status import Row
from benchrun.judge.comparison.figures import HIGHER_IS_BETTER, SCOPES
from benchrun.judge.sweep.measured import TRUSTED
from benchrun.report.comparison_rows import signed
from benchrun.report.html.blocks import Block, Chart, Charts, Heading, Prose, Section, Table
from benchrun.report.html.charts.changes import MAX_COLOURS, Bar, Point, change_chart, front_chart
from benchrun.report.html.reported import MAX_OPEN_ROWS, ReportedSweep
from benchrun.report.rows import figure
from benchrun.report.sweep_rows import change_rows, front_rows

# ---- changes ----------------------------------------------------------------------------------------------------------
# Every variant beside the baseline: bars with their intervals, a chart a figure.

MAX_DRAWN_CELLS = 8
"""Load points with charts of their own; the table has all."""


def changes_section(sweep: ReportedSweep) -> Section | None:
    """Where something could be compared."""
    status = sweep.status
    rows = change_rows(status)
    if status.scope is None or not rows.rows:
        return None
    cells = list(dict.fromkeys(row.cell for row in status.results if row.changes))
    lead = (
        f"Baseline {status.baseline}, {SCOPES[status.scope]}. Bars are the change, the thin line its interval; green is better, red "
        "worse, grey within the noise or unknown. An interval without an end at the edge of a chart goes on; the table has all of it. "
        "All words of the sweep together err in at most 5 % of sweeps of equals."
    )
    some = f" {MAX_DRAWN_CELLS} of {len(cells)} load points are drawn." if len(cells) > MAX_DRAWN_CELLS else ""
    blocks: list[Block] = [Prose(lead + some)]
    for cell in cells[:MAX_DRAWN_CELLS]:
        charts = _charts([row for row in status.results if row.cell == cell], cell)
        blocks += [Heading(cell), Charts(tuple(charts))] if charts else []
    folded = len(rows.rows) > MAX_OPEN_ROWS
    blocks.append(Table("Changes against the baseline", rows, words=frozenset({"word"}), folded=folded))
    return Section("changes", "Against the baseline", tuple(blocks))


def _charts(rows: Sequence[Row], cell: str) -> list[Chart]:
    metrics = list(dict.fromkeys(change.metric for row in rows for change in row.changes))
    return [chart for metric in metrics if (chart := _chart(rows, cell, metric)) is not None]


def _chart(rows: Sequence[Row], cell: str, metric: ComparedMetric) -> Chart | None:
    bars = [bar for row in rows for change in row.changes if change.metric == metric for bar in _bar(row, change)]
    if not bars:
        return None
    better = "higher" if metric in HIGHER_IS_BETTER else "lower"
    described = (
        f"{cell}: change of {metric} in percent of the baseline, by variant, with intervals; {better} is better. The same figures "
        "are in the table below."
    )
    return Chart(f"{metric} ({better} is better)", change_chart(bars, limit_percent=None), described)


def _bar(row: Row, change: Change) -> list[Bar]:
    """None where the change is not known."""
    if change.change_percent is None:
        return []
    ends = (change.low_percent, change.high_percent)
    known = f", interval {signed(ends[0])} to {signed(ends[1])} %" if None not in ends else ""
    told = f"{row.variant}, {change.metric}: {signed(change.change_percent, unit=' %')}{known}; {change.word}"
    return [Bar(row.variant, change.change_percent, *ends, change.word, told)]


# ---- front ------------------------------------------------------------------------------------------------------------
# The Pareto front of throughput per GPU against TPOT.

LEAD = (
    "Large points are on the front: no other load point of the workload has both more throughput per GPU and a lower TPOT. Up and to "
    "the left is better; how much of the one is worth how much of the other, only you can say. The front goes by the means, noise "
    "left aside."
)


def front_section(sweep: ReportedSweep) -> Section | None:
    """Where a TPOT was measured."""
    rows = front_rows(sweep.status)
    if not rows.rows:
        return None
    workloads = list(dict.fromkeys(point.workload for point in sweep.status.front))
    charts = [chart for workload in workloads if (chart := _front_chart(sweep, workload)) is not None]
    many = len(sweep.status.variants) > MAX_COLOURS
    explained = " Blue is the front; the variants are in the table." if many else ""
    blocks: list[Block] = [Prose(LEAD + explained), Charts(tuple(charts))] if charts else []
    table = Table("The front, from the lowest TPOT on", rows, folded=len(rows.rows) > MAX_OPEN_ROWS)
    return Section("front", "Throughput against TPOT", (*blocks, table))


def _front_chart(sweep: ReportedSweep, workload: str) -> Chart | None:
    """None of a single point."""
    points = _points(sweep, workload)
    if len(points) < 2:
        return None
    described = (
        f"{workload}: output tokens a second and GPU against mean TPOT, {len(points)} load points. The front is in the table below, "
        "all of them are in the results."
    )
    return Chart(workload, front_chart(points), described)


def _points(sweep: ReportedSweep, workload: str) -> list[Point]:
    """Of rows that may be on the front. A row whose figures were cut stands where the front says it does."""
    front = {
        (p.variant, p.cell): (p.mean_tpot_ms, p.throughput_per_gpu)
        for p in sweep.status.front
        if p.workload == workload
    }
    places = {
        (row.variant, row.cell): (tpot, per_gpu)
        for row in sweep.status.results
        if row.cell.partition("/")[0] == workload and row.verdict in TRUSTED
        if (tpot := row.metrics.get(KEYS["MeanTPOT"])) is not None and (per_gpu := sweep.per_gpu(row)) is not None
    } | front
    return [
        Point(variant, tpot, per_gpu, (variant, cell) in front, _told(variant, cell, tpot, per_gpu))
        for (variant, cell), (tpot, per_gpu) in places.items()
    ]


def _told(variant: str, cell: str, tpot: float, per_gpu: float) -> str:
    return f"{variant} at {cell}: {figure(per_gpu)} tokens/s per GPU, TPOT {figure(tpot)} ms"
