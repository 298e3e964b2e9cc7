"""What the records and samples show: how latencies are distributed, and the run over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from benchrun_client.contract import StageRecord

from benchrun.api import Code, Result
from benchrun.measure import LATENCIES, Distribution, Latency, failed_requests, latencies, milliseconds
from benchrun.report import html
from benchrun.report.html import AXIS_UNITS, Curve, Reported
from benchrun.report.html.charts.curves import cdf_chart
from benchrun.report.html.charts.theme import CDF_POINTS, FINE_SPANS, RAMP, SPANS, WIDE_WIDTH, cdf_points, spans
from benchrun.report.html.charts.timeline import LINES, StageBar, side_by_side_chart, timeline_chart
from benchrun.report.tables import Rows, figure

MAX_LINES = len(RAMP)  # More are not distinguishable.
T = TypeVar("T")
TITLES: dict[Latency, str] = {
    "ttft": "TTFT: to the first token",
    "tpot": "TPOT: a token after the first",
    "itl": "ITL: between tokens",
    "e2el": "E2EL: the whole request",
}
PERCENTILES = (5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9)


def distributions_section(run: Reported) -> html.Section | None:
    """How latencies are distributed, one chart a workload and latency; a load point whose records were not kept has no line."""
    if not run.status.results:
        return None
    drawn = [element for curve in html.curves(run.status) for element in _of_curve(run, curve)]
    lead = (
        "Each line is a load point, its repeats pooled: the share of answered requests that took at most so long. "
        f"A line has at most {CDF_POINTS} of the values, denser towards the largest. Dashed: the median and the "
        "99th percentile."
    )
    kept = {row.cell: (len(run.records_of(row.cell)), row.repeats) for row in run.status.results}
    lost = [f"{cell}: {count} of {repeats}" for cell, (count, repeats) in kept.items() if count < repeats]
    some = f"Not all records were kept; the lines show those that were. {'; '.join(lost)}." if lost else ""
    shown = (
        (html.Prose(lead), html.Prose(some), *drawn) if drawn else (html.Prose("No records of requests were kept."),)
    )
    return html.section("distributions", "Latency distributions", *shown)


def evenly(items: Sequence[T], at_most: int) -> list[T]:
    """The first, the last, and what lies evenly between."""
    if len(items) <= at_most:
        return list(items)
    return [items[round(step * (len(items) - 1) / (at_most - 1))] for step in range(at_most)]


def _of_curve(run: Reported, curve: Curve) -> list[html.Element]:
    pools = {latency: _pools(run, curve, latency) for latency in LATENCIES}
    charts = tuple(_chart(curve, latency, found) for latency, found in pools.items() if found)
    tables = tuple(_table(curve, latency, found) for latency, found in pools.items() if found)
    if not charts:
        return []
    count = len(curve.results)
    some = f"{MAX_LINES} of {count} load points are drawn; the tables have all of them." if count > MAX_LINES else ""
    folded = html.fold(f"Percentiles of {curve.workload}", *tables)
    return [html.Heading(curve.workload), html.Charts(charts), html.Prose(some), folded]


def _pools(run: Reported, curve: Curve, latency: Latency) -> dict[str, Distribution]:
    """By load, lowest first. Gaps between chunks that hold several tokens are not gaps between tokens."""
    found = {
        html.load_text(row.value): latencies(run.records_of(row.cell), latency)
        for row in curve.results
        if latency != "itl" or Code.CHUNKS_ARE_NOT_TOKENS not in row.findings
    }
    return {load: pool for load, pool in found.items() if pool.count}


def _chart(curve: Curve, latency: Latency, pools: Mapping[str, Distribution]) -> html.Chart:
    shown = evenly(list(pools.items()), MAX_LINES)
    lines = {load: [(us / 1000, share) for us, share in cdf_points(pool)] for load, pool in shown}
    title = TITLES[latency]
    loads = f"{', '.join(lines)} {AXIS_UNITS[curve.axis]}"
    description = f"{curve.workload}, {title}: cumulative distribution at {loads}. Percentiles are in the table below."
    return html.Chart(title, cdf_chart(lines, legend=AXIS_UNITS[curve.axis]), description)


def _table(curve: Curve, latency: Latency, pools: Mapping[str, Distribution]) -> html.Table:
    counted = "requests" if latency != "itl" else "gaps"
    headers = (AXIS_UNITS[curve.axis], counted, *(f"p{p:g}" for p in PERCENTILES), "max")
    rows = []
    for load, pool in pools.items():
        levels = (pool.percentile(percent) for percent in (*PERCENTILES, 100.0))
        rows.append((load, str(pool.count), *(figure(milliseconds(level), digits=4) for level in levels)))
    return html.Table(f"{TITLES[latency]}, milliseconds", Rows(headers, tuple(rows)))


MANY_STAGES = 40  # From here on a second drawing scrolls, with room for each stage.
PIXELS_A_STAGE, MAX_WIDTH = 26, 5200


def timeline_section(run: Reported) -> html.Section | None:
    """The run over time: stages by the client's clock, samples by the operator's; they may differ by some milliseconds."""
    if not run.records and not run.samples:
        return None
    origin = run.records[0].first_send_unix_us / 1e6 if run.records else run.samples[0].at
    known = {row.cell: row for row in run.status.results}
    named = len({row.workload for row in run.status.results}) > 1
    stages = [_bar(record, origin, known.get(run.cell_of(record)), named=named) for record in run.records]
    kept, measured = len(run.records), sum(row.repeats for row in run.status.results)
    some = f"Records of {kept} of {measured} stages were kept; the others have no mark." if kept < measured else ""
    width = max(WIDE_WIDTH, min(MAX_WIDTH, PIXELS_A_STAGE * len(stages)))
    fine = [_timeline(run, stages, origin, "Every stage", FINE_SPANS, width=width)] if len(stages) > MANY_STAGES else []
    return html.section(
        "timeline",
        "Timeline",
        html.Prose(_lead(run)),
        html.Prose(some),
        _timeline(run, stages, origin, "The run over time", SPANS),
        html.fold("The same, with room for every stage", *fine),
        html.fold("The stages", html.Table("Stages in order of measurement", _stage_rows(run, origin))),
    )


def side_by_side_section(sweep: html.ReportedSweep) -> html.Section | None:
    """Running, waiting and KV cache usage of the first run of each variant over time, in one figure."""
    series = {
        name: spans(samples, origin=samples[0].at, at_most=SPANS)
        for name, samples in list(sweep.series.items())[: len(LINES)]
        if samples
    }
    if not series:
        return None
    lead = (
        f"Samples of the servers of {', '.join(series)}, each from the first sample of the variant's first run: lines are means, and the "
        "shade reaches from the least to the greatest sample."
    )
    described = "Running and waiting requests and KV cache usage over time, a line a variant. Means are in the table of results."
    chart = html.Chart("Variants over time", side_by_side_chart(series), described, wide=True)
    return html.section("timeline", "Variants over time", html.Prose(lead), chart)


def _timeline(
    run: Reported, stages: Sequence[StageBar], origin: float, title: str, at_most: int, *, width: int = WIDE_WIDTH
) -> html.Chart:
    sampled = spans(run.samples, origin=origin, at_most=at_most)
    since = "the first request" if run.records else "the first sample"
    described = (
        f"{len(stages)} stages over time, and under them the requests that the servers had running and waiting and how full "
        "their KV cache was. The stages are in the table below."
    )
    return html.Chart(title, timeline_chart(stages, sampled, since=since, width=width), described, wide=True)


def _lead(run: Reported) -> str:
    if not run.samples:
        return "The stages in order of measurement. No samples of the servers were kept."
    servers = len({(sample.role, sample.pod) for sample in run.samples})
    of = "the server" if servers == 1 else f"{servers} servers (requests are summed; the KV cache is their mean)"
    return (
        f"Stages are marked with their load. Below them, samples of {of}: lines are means of up to {SPANS} equal spans of time, "
        "and the shade around them reaches from the least to the greatest sample. A gap is where there was no sample."
    )


def _bar(record: StageRecord, origin: float, row: Result | None, *, named: bool) -> StageBar:
    """Labelled by its load, and by its workload where there are several."""
    start, end = record.first_send_unix_us / 1e6 - origin, record.last_receive_unix_us / 1e6 - origin
    label = "" if row is None else f"{row.workload} {row.value}" if named else row.value
    verdict = row.verdict if row is not None else "Unknown"
    text = f"{record.stage_id}: {start:.1f} s to {end:.1f} s; {verdict}"
    return StageBar(start, max(end, start), label, text, verdict)


def _stage_rows(run: Reported, origin: float) -> Rows:
    rows = tuple(
        (
            record.stage_id,
            figure(record.first_send_unix_us / 1e6 - origin, digits=4),
            figure((record.last_receive_unix_us - record.first_send_unix_us) / 1e6, digits=4),
            str(len(record.requests.ok)),
            str(failed_requests(record)),
        )
        for record in run.records
    )
    return Rows(("stage", "begins (s)", "lasts (s)", "requests", "failed"), rows)
