"""How latencies are distributed, by the records: one chart a workload and latency."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api import Code, Result
from benchrun.measure.cells import LATENCIES, Latency, latencies, milliseconds
from benchrun.measure.percentiles import Distribution
from benchrun.report.html.blocks import Block, Chart, Charts, Fold, Heading, Prose, Section, Table
from benchrun.report.html.charts.curves import Line, cdf_chart
from benchrun.report.html.charts.theme import CDF_POINTS, RAMP, cdf_points
from benchrun.report.html.reported import Curve, Reported, curves, load_text
from benchrun.report.rows import Rows, figure

MAX_LINES = len(RAMP)
"""More can't be told apart."""
TITLES: dict[Latency, str] = {
    "ttft": "TTFT: to the first token",
    "tpot": "TPOT: a token after the first",
    "itl": "ITL: between tokens",
    "e2el": "E2EL: the whole request",
}
PERCENTILES = (5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9)

_Distributions = dict[str, Distribution]
"""By cell."""


def distributions_section(run: Reported) -> Section | None:
    """Only what is in the records; a load point whose records were not kept has no line."""
    if not run.status.results:
        return None
    drawn = [block for curve in curves(run.status) for block in _of_curve(run, curve)]
    if not drawn:
        return Section("distributions", "Latency distributions", (Prose("No records of requests are at hand."),))
    return Section(
        "distributions",
        "Latency distributions",
        (
            Prose(
                "Each line is a load point, its repeats pooled: the share of answered requests that took at most so long. "
                f"A line has at most {CDF_POINTS} of the values, denser towards the largest. Dashed: the median and the "
                "99th percentile."
            ),
            *[Prose(sentence) for sentence in _lost(run)],
            *drawn,
        ),
    )


def _lost(run: Reported) -> list[str]:
    """What the lines lack."""
    kept = {row.cell: (len(run.records_of(row.cell)), row.repeats) for row in run.status.results}
    told = [f"{cell}: {here} of {repeats}" for cell, (here, repeats) in kept.items() if here < repeats]
    return [f"Not all records are at hand, and the lines are of those that are. {'; '.join(told)}."] if told else []


def evenly(rows: Sequence[Result], at_most: int) -> list[Result]:
    """The first, the last, and what lies evenly between."""
    if len(rows) <= at_most:
        return list(rows)
    return [rows[round(step * (len(rows) - 1) / (at_most - 1))] for step in range(at_most)]


def _of_curve(run: Reported, curve: Curve) -> list[Block]:
    charts, tables = [], []
    for latency in LATENCIES:
        pools = _pools(run, curve, latency)
        if not pools:
            continue
        charts.append(_chart(curve, latency, pools))
        tables.append(_table(curve, latency, pools))
    if not charts:
        return []
    blocks: list[Block] = [Heading(curve.workload), Charts(tuple(charts))]
    if len(curve.results) > MAX_LINES:
        blocks.append(Prose(f"{MAX_LINES} of {len(curve.results)} load points are drawn; the tables have all of them."))
    return [*blocks, Fold(f"Percentiles of {curve.workload}", tuple(tables))]


def _pools(run: Reported, curve: Curve, latency: Latency) -> _Distributions:
    found = {row.cell: latencies(run.records_of(row.cell), latency) for row in curve.results if _told(row, latency)}
    return {cell: pool for cell, pool in found.items() if pool.count}


def _told(row: Result, latency: Latency) -> bool:
    """Gaps between chunks that hold several tokens are not gaps between tokens."""
    return latency != "itl" or Code.CHUNKS_ARE_NOT_TOKENS not in row.findings


def _chart(curve: Curve, latency: Latency, pools: _Distributions) -> Chart:
    shown = evenly([row for row in curve.results if row.cell in pools], MAX_LINES)
    lines = [
        Line(load_text(row.value), [(us / 1000, share) for us, share in cdf_points(pools[row.cell])]) for row in shown
    ]
    title = TITLES[latency]
    loads = ", ".join(line.label for line in lines)
    description = f"{curve.workload}, {title}: cumulative distribution at {loads} {curve.unit}. Percentiles are in the table below."
    return Chart(title, cdf_chart(lines, legend=curve.unit), description)


def _table(curve: Curve, latency: Latency, pools: _Distributions) -> Table:
    headers = (curve.unit, "requests" if latency != "itl" else "gaps", *(f"p{p:g}" for p in PERCENTILES), "max")
    rows = tuple(
        (load_text(row.value), str(pools[row.cell].count), *map(_ms, _levels(pools[row.cell])))
        for row in curve.results
        if row.cell in pools
    )
    return Table(f"{TITLES[latency]}, milliseconds", Rows(headers, rows))


def _levels(pool: Distribution) -> list[float | None]:
    return [pool.percentile(percent) for percent in (*PERCENTILES, 100.0)]


def _ms(microseconds: float | None) -> str:
    return figure(milliseconds(microseconds), digits=4)
