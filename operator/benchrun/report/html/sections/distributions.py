"""The distributions of latencies: cumulative, one line for each load point."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from benchrun.api import Code
from benchrun.measure import (
    LATENCIES,
    Distribution,
    Latency,
    latencies,
    milliseconds,
    rounded,
)
from benchrun.report import html
from benchrun.report.html import ChartSpec, Curve, Reported, theme
from benchrun.report.tables import Rows, figure

MAX_LINES = len(theme.RAMP)  # Most lines of a chart: more could not be told apart.
T = TypeVar("T")
TITLES: dict[Latency, str] = {
    "ttft": "TTFT: to the first token",
    "tpot": "TPOT: a token after the first",
    "itl": "ITL: between tokens",
    "e2el": "E2EL: the whole request",
}
# Shares marked with thin lines: the median and the 99th percentile.
MARKED_SHARES = (
    0.5,
    0.99,
)
PERCENTILES = (5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9)


def distributions_section(run: Reported) -> html.Section | None:
    """Build the charts of latency distributions, one for each workload and latency.

    A load point whose records were not kept has no line. Returns None where nothing was measured.
    """
    if not run.status.results:
        return None
    drawn = [
        element
        for curve in html.curves(run.status)
        for element in _of_curve(run, curve)
    ]
    lead = (
        "Each line is a load point, its repeats pooled: the share of answered requests that took "
        "at most so long, of whole stages and not of their steady part. "
        f"A line has at most {theme.CDF_POINTS} of the values, denser towards the largest. "
        "Dashed: the median and the "
        "99th percentile."
    )
    kept = {
        row.load_point: (len(run.records_of(row.load_point)), row.repeats)
        for row in run.status.results
    }
    lost = [
        f"{load_point}: {count} of {repeats}"
        for load_point, (count, repeats) in kept.items()
        if count < repeats
    ]
    some = (
        f"Not all records were kept; the lines show those that were. {'; '.join(lost)}."
        if lost
        else ""
    )
    shown = (html.Prose(lead), html.Prose(some), *drawn)
    none = html.Prose("No records of requests were kept.")
    return html.section(
        "distributions", "Latency distributions", *(shown if drawn else (none,))
    )


def evenly(items: Sequence[T], at_most: int) -> list[T]:
    """Return at most `at_most` items: the first, the last, and what lies evenly between."""
    if len(items) <= at_most:
        return list(items)
    return [
        items[round(step * (len(items) - 1) / (at_most - 1))]
        for step in range(at_most)
    ]


def _of_curve(run: Reported, curve: Curve) -> list[html.Element]:
    pools = {latency: _pools(run, curve, latency) for latency in LATENCIES}
    charts = tuple(
        _chart(curve, latency, found) for latency, found in pools.items() if found
    )
    tables = tuple(
        _table(curve, latency, found) for latency, found in pools.items() if found
    )
    if not charts:
        return []
    count = len(curve.results)
    some = (
        f"{MAX_LINES} of {count} load points are drawn; the tables have all of them."
        if count > MAX_LINES
        else ""
    )
    folded = html.fold(f"Percentiles of {curve.workload}", *tables)
    return [
        html.Heading(curve.workload),
        html.Charts(charts),
        html.Prose(some),
        folded,
    ]


def _pools(
    run: Reported, curve: Curve, latency: Latency
) -> dict[str, Distribution]:
    """Return the latencies by load, lowest first.

    ITL is left out where chunks hold several tokens: gaps between chunks are not gaps between
    tokens.
    """
    found = {
        row.value if row.value != "inf" else "all at once": latencies(
            run.records_of(row.load_point), latency
        )
        for row in curve.results
        if latency != "itl" or Code.CHUNKS_ARE_NOT_TOKENS not in row.findings
    }
    return {load: pool for load, pool in found.items() if pool.count}


def _chart(
    curve: Curve, latency: Latency, pools: Mapping[str, Distribution]
) -> html.Chart:
    shown = evenly(list(pools.items()), MAX_LINES)
    lines = {
        load: [(us / 1000, share) for us, share in theme.cdf_points(pool)]
        for load, pool in shown
    }
    title = TITLES[latency]
    loads = f"{', '.join(lines)} {curve.kind.unit}"
    description = (
        f"{curve.workload}, {title}: cumulative distribution at {loads}. Percentiles are in the "
        "table below."
    )
    return html.Chart(title, cdf_chart(lines, legend=curve.kind.unit), description)


def _table(
    curve: Curve, latency: Latency, pools: Mapping[str, Distribution]
) -> html.Table:
    counted = "requests" if latency != "itl" else "gaps"
    headers = (curve.kind.unit, counted, *(f"p{p:g}" for p in PERCENTILES), "max")
    rows = []
    for load, pool in pools.items():
        levels = (pool.percentile(percent) for percent in (*PERCENTILES, 100.0))
        rows.append(
            (
                load,
                str(pool.count),
                *(figure(milliseconds(level), digits=4) for level in levels),
            )
        )
    return html.Table(
        f"{TITLES[latency]}, milliseconds", Rows(headers, tuple(rows))
    )


def cdf_chart(
    lines: Mapping[str, Sequence[tuple[float, float]]], *, legend: str
) -> ChartSpec:
    """Build the chart of cumulative distributions.

    `lines` has the points of each load, lowest load first: milliseconds, and the share of all
    values that are at most as long. `legend` is the title of the loads.
    """
    axis = theme.latency_axis(
        [ms for points in lines.values() for ms, _ in points], from_zero=False
    )
    rows = [
        {
            "load": load,
            "ms": rounded(max(ms, theme.LEAST_MS)),
            "share": rounded(share),
            "order": order,
        }
        for load, points in lines.items()
        for order, (ms, share) in enumerate(points)
    ]
    looks = dict(zip(lines, theme.ramp(len(lines)), strict=True))
    share = {
        "format": ".0%",
        "values": [0, 0.25, 0.5, 0.75, 0.99],
        "title": "requests at most this long",
    }
    encoding = {
        "x": theme.quantitative("ms", **axis),
        "y": theme.quantitative("share", scale={"domain": [0, 1]}, axis=share),
        "color": theme.nominal(
            "load", looks, {"title": legend, **theme.STROKES, "columns": 4}
        ),
        "order": {"field": "order"},
    }
    drawn = theme.layer(
        {"type": "line", "strokeWidth": 1.8, "interpolate": "step-after"},
        encoding,
        rows,
    )
    dotted = {
        "type": "rule",
        "strokeDash": [3, 3],
        "stroke": theme.GREY,
        "strokeWidth": 1,
    }
    marked = theme.layer(
        dotted,
        {"y": theme.quantitative("share")},
        [{"share": share} for share in MARKED_SHARES],
    )
    return theme.card([marked, drawn])
