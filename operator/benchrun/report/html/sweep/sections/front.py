"""The Pareto front of throughput per GPU against TPOT."""

from __future__ import annotations

from benchrun.api.metric_keys import KEYS
from benchrun.judge.sweep.measured import TRUSTED
from benchrun.report.html.blocks import Block, Chart, Charts, Prose, Section, Table
from benchrun.report.html.charts.front import MAX_COLOURS, Point, front_chart
from benchrun.report.html.sweep.reported import MAX_OPEN_ROWS, ReportedSweep
from benchrun.report.rows import figure
from benchrun.report.sweep_rows import front_rows

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
    charts = [chart for workload in workloads if (chart := _chart(sweep, workload)) is not None]
    many = len(sweep.status.variants) > MAX_COLOURS
    explained = " Blue is the front; the variants are in the table." if many else ""
    blocks: list[Block] = [Prose(LEAD + explained), Charts(tuple(charts))] if charts else []
    table = Table("The front, from the lowest TPOT on", rows, folded=len(rows.rows) > MAX_OPEN_ROWS)
    return Section("front", "Throughput against TPOT", (*blocks, table))


def _chart(sweep: ReportedSweep, workload: str) -> Chart | None:
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
