"""Sections with the distributions of latencies: cumulative, one line for each load point."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from benchrun.api import LatencyDistribution
from benchrun.measure import rounded
from benchrun.report import html
from benchrun.report.html import ChartSpec, Curve, Reported, theme
from benchrun.report.tables import Rows, figure

MAX_LINES = len(theme.RAMP)  # Most lines of a chart: more could not be told apart.
T = TypeVar("T")
TITLES: dict[str, str] = {
    "ttft": "TTFT: time to the first token",
    "tpot": "TPOT: time for each token after the first",
    "itl": "ITL: time between tokens",
    "e2el": "E2EL: time for the whole request",
    "ttfrt": "TTFRT: time to the first token of reasoning",
    "ttfat": "TTFAT: time to the first token of the answer",
}
# Shares marked with thin lines: the median and the 99th percentile.
MARKED_SHARES = (
    0.5,
    0.99,
)
PERCENTILES = ("5", "25", "50", "75", "90", "95", "99", "99.9")


def distributions_section(run: Reported) -> html.Section | None:
    """Build the charts of latency distributions, one for each workload and latency.

    A load point without distributions has no line. Return None if nothing was measured.
    """
    if not run.status.results:
        return None
    drawn = [
        element
        for curve in html.curves(run.status)
        for element in _of_curve(run, curve)
    ]
    lead = (
        "Each line is a load point with its repeats pooled. At each latency the line shows the "
        "share of answered requests that took no longer. Whole stages are counted, not only their "
        "steady part. A line joins the least latency, percentiles that lie closer together towards "
        "the largest latencies, and the largest latency. Dashed lines mark the median and the 99th "
        "percentile."
    )
    none = html.Prose(
        "The distributions are unknown; the section Provenance says why."
    )
    return html.section(
        "distributions",
        "Latency distributions",
        *((html.Prose(lead), *drawn) if drawn else (none,)),
    )


def evenly(items: Sequence[T], at_most: int) -> list[T]:
    """Return at most `at_most` items: the first, the last, and others at equal distances."""
    if len(items) <= at_most:
        return list(items)
    return [
        items[round(step * (len(items) - 1) / (at_most - 1))]
        for step in range(at_most)
    ]


def _of_curve(run: Reported, curve: Curve) -> list[html.Element]:
    pools = {latency: _pools(run, curve, latency) for latency in TITLES}
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
    run: Reported, curve: Curve, latency: str
) -> dict[str, LatencyDistribution]:
    """Return the distributions of a latency by load, with the lowest load first."""
    return {
        row.value if row.value != "inf" else "all at once": pool
        for row in curve.results
        if (pool := run.latencies_of(row.load_point).get(latency)) is not None
    }


def _chart(
    curve: Curve, latency: str, pools: Mapping[str, LatencyDistribution]
) -> html.Chart:
    shown = evenly(list(pools.items()), MAX_LINES)
    lines = {load: cdf_points(pool) for load, pool in shown}
    title = TITLES[latency]
    loads = f"{', '.join(lines)} {curve.kind.unit}"
    description = (
        f"{curve.workload}, {title}: cumulative distribution at {loads}. Percentiles are in the "
        "table below."
    )
    return html.Chart(title, cdf_chart(lines, legend=curve.kind.unit), description)


def _table(
    curve: Curve, latency: str, pools: Mapping[str, LatencyDistribution]
) -> html.Table:
    counted = "requests" if latency != "itl" else "gaps"
    headers = (
        curve.kind.unit,
        counted,
        *(f"p{each}" for each in PERCENTILES),
        "max",
    )
    rows = []
    for load, pool in pools.items():
        levels = (*map(pool.percentiles.get, PERCENTILES), pool.greatest)
        rows.append(
            (load, str(pool.count), *(figure(ms, digits=4) for ms in levels))
        )
    return html.Table(
        f"{TITLES[latency]}, milliseconds", Rows(headers, tuple(rows))
    )


def cdf_points(pool: LatencyDistribution) -> list[tuple[float, float]]:
    """Return values in ascending order, each with the share of values up to it (0 to 1)."""
    least_share = 1 / max(pool.count, 1)
    levels = sorted((float(name), ms) for name, ms in pool.percentiles.items())
    between = [(ms, max(percent / 100, least_share)) for percent, ms in levels]
    # Of equal values, the last has the share of all of them.
    points = dict([(pool.least, least_share), *between, (pool.greatest, 1.0)])
    return sorted(points.items())


def cdf_chart(
    lines: Mapping[str, Sequence[tuple[float, float]]], *, legend: str
) -> ChartSpec:
    """Build the chart of cumulative distributions.

    `lines` has the points of each load, with the lowest load first: milliseconds, and the share of
    all values that are at most as large. `legend` is the title of the legend.
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
        "title": "share of requests at most this long",
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
        {"type": "line", "strokeWidth": 1.8},
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
