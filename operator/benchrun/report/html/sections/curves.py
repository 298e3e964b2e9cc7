"""Latency and throughput against load, with the knee; and the course of each search."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchrun_client.contract import StageRecord, open_stage

from benchrun.api import Result, SearchResult
from benchrun.judge.search_results import outcome_of
from benchrun.measure.cells import QUEUED_E2EL, latencies, totals
from benchrun.measure.percentiles import Distribution
from benchrun.report.html.blocks import Block, Chart, Charts, Heading, Prose, Section, Table
from benchrun.report.html.charts.curves import LoadValue, Probe, course_chart, latency_chart, throughput_chart
from benchrun.report.html.reported import AXIS_TITLES, Curve, Reported, curves
from benchrun.report.knee import CurvePoint, Knee, knee
from benchrun.report.rows import ABSENT, Rows, figure

LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "E2EL"}
_QUEUED = "_including_client_queue"
FORMULA = (
    "The knee is the load point of greatest power, request throughput / mean E2EL (Kleinrock, 1979): up to it one percent more "
    "throughput costs less than one percent more latency, beyond it more. Only load points that were measured count, and "
    "Invalid ones do not."
)


def load_curves_section(run: Reported) -> Section | None:
    """One group of charts a workload that was measured at two finite loads at least."""
    groups = [block for curve in curves(run.status) for block in _of_curve(run, curve)]
    if not groups:
        return None
    lead = Prose(
        "Median and highest percentile asked for; the bar through a point is its 95 % interval. Points in red or amber belong to "
        f"load points whose numbers are Invalid or Suspect. {FORMULA}"
    )
    return Section("load", "Latency against load", (lead, *groups))


def _of_curve(run: Reported, curve: Curve) -> list[Block]:
    finite = [row for row in curve.results if math.isfinite(float(row.value))]
    if len(finite) < 2:
        return []
    found = knee([point for row in finite if (point := _point(run, row)) is not None], unit=curve.unit)
    charts = [chart for latency in LATENCIES if (chart := _latency(curve, finite, latency, found)) is not None]
    charts += [chart for chart in [_throughput(curve, finite, found)] if chart is not None]
    if not charts:
        return []
    blocks: list[Block] = [Heading(curve.workload), Prose(found.sentence), Charts(tuple(charts))]
    if len(finite) < len(curve.results):
        blocks.append(Prose("Requests sent all at once have no place on this axis; see the results."))
    return blocks


def _point(run: Reported, row: Result) -> CurvePoint | None:
    """Of a load point whose numbers are not Invalid. Under a rate with a cap, a response begins when the request was due."""
    queued = f"mean_{QUEUED_E2EL}_ms" in row.metrics
    mean_ms = row.metrics.get(f"mean_{QUEUED_E2EL}_ms" if queued else "mean_e2el_ms")
    throughput = row.metrics.get("request_throughput")
    if row.verdict == "Invalid" or mean_ms is None or throughput is None:
        return None
    repeats = [_of_stage(record, queued=queued) for record in run.records_of(row.cell)]
    return CurvePoint(float(row.value), throughput, mean_ms / 1000, tuple(r for r in repeats if r is not None))


def _of_stage(record: StageRecord, *, queued: bool) -> tuple[float, float] | None:
    pool = latencies([record], QUEUED_E2EL) if queued else Distribution.of(_answered(record))
    mean_us, throughput = pool.mean(), totals([record])["request_throughput"]
    return None if mean_us is None or throughput is None else (throughput, mean_us / 1e6)


def _answered(record: StageRecord) -> list[int]:
    columns = record.requests
    return [took for took, ok in zip(columns.e2el_us, columns.ok, strict=True) if ok]


def _latency(curve: Curve, rows: Sequence[Result], latency: str, found: Knee) -> Chart | None:
    points = [point for row in rows for point in _levels(row, latency)]
    if len({point.load for point in points}) < 2:
        return None
    lines = " and ".join(dict.fromkeys(point.line for point in points))
    name = LATENCIES[latency]
    description = f"{curve.workload}: {name}, {lines}, against {curve.axis_title}. {found.sentence} The figures are in the results table."
    return Chart(name, latency_chart(points, axis_title=curve.axis_title, knee=found), description)


def _levels(row: Result, latency: str) -> list[LoadValue]:
    """The median and the highest percentile; of a capped rate with the wait in the client's queue, as it counts."""
    name = latency if f"median_{latency}{_QUEUED}_ms" not in row.metrics else f"{latency}{_QUEUED}"
    suffix = f"_{name}_ms"
    words = [key[1 : -len(suffix)] for key in row.metrics if key.startswith("p") and key.endswith(suffix)]
    highest = max((word for word in words if word.replace(".", "", 1).isdigit()), key=float, default=None)
    keys = [("median", f"median{suffix}", f"p50{suffix}")]
    keys += [(f"p{highest}", f"p{highest}{suffix}", f"p{highest}{suffix}")] if highest not in (None, "50") else []
    return [
        _load_value(row, line, value, row.intervals.get(interval))
        for line, key, interval in keys
        if (value := row.metrics.get(key, row.metrics.get(interval))) is not None
    ]


def _load_value(row: Result, line: str, value: float, interval: Sequence[float] | None) -> LoadValue:
    between = f", 95 % interval {figure(interval[0])} to {figure(interval[1])}" if interval else ""
    told = f"{row.cell}: {line} {figure(value)} ms{between}; {row.verdict}"
    low, high = (interval[0], interval[1]) if interval else (None, None)
    return LoadValue(float(row.value), line, value, row.verdict, told, low, high)


def _throughput(curve: Curve, rows: Sequence[Result], found: Knee) -> Chart | None:
    known = [(row, value) for row in rows if (value := row.metrics.get("output_throughput")) is not None]
    if len(known) < 2:
        return None
    points = [
        LoadValue(
            float(row.value), "tokens/s", value, row.verdict, f"{row.cell}: {figure(value)} tokens/s; {row.verdict}"
        )
        for row, value in known
    ]
    description = (
        f"{curve.workload}: output tokens a second against {curve.axis_title}. The figures are in the results table."
    )
    return Chart("Output tokens/s", throughput_chart(points, axis_title=curve.axis_title, knee=found), description)


LEAST_PROBES = 2
"""With one there is no course."""


def searches_section(run: Reported) -> Section | None:
    """Where a load was searched."""
    blocks = [block for search in run.status.searches for block in _of_search(run, search)]
    return Section("search", "The course of the search", tuple(blocks)) if blocks else None


def _of_search(run: Reported, search: SearchResult) -> list[Block]:
    numbers = _numbers(run, search.workload)
    rows = [row for row in run.status.results if row.workload == search.workload]
    ordered = sorted(rows, key=lambda row: (numbers.get(row.cell, len(numbers) + 1), float(row.value)))
    if not ordered:
        return []
    blocks: list[Block] = [Heading(search.workload), Prose(f"{search.outcome}: {search.sentence}.")]
    probes = [_probe(row, numbers[row.cell]) for row in ordered if row.cell in numbers]
    if len(probes) >= LEAST_PROBES:
        lower = float(search.lower) if search.lower is not None else None
        chart = course_chart(probes, axis_title=AXIS_TITLES[ordered[0].axis], lower=lower)
        described = (
            f"{search.workload}: the loads that were tried, in order, each with its outcome. The table below has them."
        )
        dashed = " Dashed: the highest load that met every objective." if lower is not None else ""
        blocks += [
            Prose(f"Each load follows from the outcomes before it.{dashed}"),
            Charts((Chart("Load after load", chart, described),)),
        ]
    if len(probes) < len(ordered):
        blocks.append(
            Prose("Not all records are at hand: when the loads without a number were tried, nobody can tell.")
        )
    return [*blocks, Table("Loads that were tried", _rows(ordered, numbers), words=frozenset({"outcome", "verdict"}))]


def _numbers(run: Reported, workload: str) -> dict[str, int]:
    """When each cell was first tried, from 1."""
    found: dict[str, int] = {}
    for record in run.records:
        place = open_stage(record.stage_id)
        if record.probe is not None and place is not None and place[0] == workload:
            found.setdefault(run.cell_of(record), place[1])
    return found


def _probe(row: Result, number: int) -> Probe:
    outcome = outcome_of(row)
    return Probe(number, float(row.value), outcome, f"{row.cell}: {outcome}; {row.verdict}")


def _rows(rows: Sequence[Result], numbers: dict[str, int]) -> Rows:
    objectives = list(dict.fromkeys(f"{o.metric} p{o.percentile}" for row in rows for o in row.objectives))
    headers = ("tried", "load", "stages", *(f"{name} (ms)" for name in objectives), "tok/s", "outcome", "verdict")
    return Rows(headers, tuple(_row(row, numbers.get(row.cell), objectives) for row in rows))


def _row(row: Result, number: int | None, objectives: Sequence[str]) -> tuple[str, ...]:
    measured = {f"{o.metric} p{o.percentile}": o.measured_milliseconds for o in row.objectives}
    return (
        ABSENT if number is None else str(number),
        row.value,
        str(row.repeats),
        *(figure(measured.get(name), digits=4) for name in objectives),
        figure(row.metrics.get("output_throughput")),
        outcome_of(row),
        row.verdict,
    )
