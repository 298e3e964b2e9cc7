"""Sections with latency and throughput against load, the knee, and the steps of each search."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

from benchrun_client.contract import kind_of, open_stage

from benchrun.api import Result, SearchResult, StageResult
from benchrun.measure import QUEUED_E2EL
from benchrun.report import html
from benchrun.report.html import ChartSpec, Curve, Reported, theme
from benchrun.report.knee import CurvePoint, Knee, knee
from benchrun.report.tables import ABSENT, Column, Rows, figure, metric, table_of

LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "E2EL"}
_QUEUED = "_including_client_queue"
LEAST_PROBES = 2  # Fewest probes of a chart: a single probe shows no course.
FORMULA = (
    "The knee is the load point with the greatest power, which is request "
    "throughput / mean E2EL (Kleinrock, 1979). Below it, one percent more "
    "throughput costs less than one percent more latency; above it, more. Only load "
    "points that were measured count, and Invalid ones do not."
)


def load_curves_section(run: Reported) -> html.Section | None:
    """Build the charts of each workload that was measured at two finite loads or more.

    Return None if there is no such workload.
    """
    groups = [
        element
        for curve in html.curves(run.status)
        for element in _of_curve(run, curve)
    ]
    if not groups:
        return None
    lead = html.Prose(
        "Median and highest requested percentile; the bar through a point is its 95 % interval. "
        "Points in red or amber belong to "
        f"load points whose numbers are Invalid or Suspect. {FORMULA}"
    )
    return html.section("load", "Latency against load", lead, *groups)


def _of_curve(run: Reported, curve: Curve) -> list[html.Element]:
    finite = [row for row in curve.results if math.isfinite(float(row.value))]
    if len(finite) < 2:
        return []
    found = knee(
        [point for row in finite if (point := _point(run, row)) is not None],
        unit=curve.kind.unit,
    )
    made = (
        *(_latency(curve, finite, latency, found) for latency in LATENCIES),
        _throughput(curve, finite, found),
    )
    charts = tuple(chart for chart in made if chart is not None)
    absent = "Loads that send all requests at once are not on this axis; see the results."
    remark = html.Prose(absent if len(finite) < len(curve.results) else "")
    return (
        [
            html.Heading(curve.workload),
            html.Prose(found.sentence),
            html.Charts(charts),
            remark,
        ]
        if charts
        else []
    )


def _point(run: Reported, row: Result) -> CurvePoint | None:
    """Return the point of a load point on the curve; None if its numbers are Invalid or missing.

    For a rate with a cap, the response time begins when the request was due.
    """
    queued = f"mean_{QUEUED_E2EL}_ms"
    mean = queued if queued in row.metrics else "mean_e2el_ms"
    mean_ms = row.figure(mean)
    throughput = row.figure("request_throughput")
    if row.verdict == "Invalid" or mean_ms is None or throughput is None:
        return None
    repeats = [
        _of_stage(row, stage, mean) for stage in run.stages_of(row.load_point)
    ]
    return CurvePoint(
        float(row.value),
        throughput,
        mean_ms / 1000,
        tuple(r for r in repeats if r is not None),
    )


def _of_stage(
    row: Result, stage: StageResult, mean: str
) -> tuple[float, float] | None:
    """Return throughput and mean latency of a stage; `mean` is the key of the latency."""
    mean_ms = stage.metrics.get(mean)
    part = stage.steady if row.has_plateau and stage.steady else stage.metrics
    throughput = part.get("request_throughput")
    if mean_ms is None or throughput is None:
        return None
    return throughput, mean_ms / 1000


def _latency(
    curve: Curve, rows: Sequence[Result], latency: str, found: Knee
) -> html.Chart | None:
    points = [point for row in rows for point in _levels(row, latency)]
    if len({point.load for point in points}) < 2:
        return None
    lines = " and ".join(dict.fromkeys(point.line for point in points))
    name = LATENCIES[latency]
    axis = curve.kind.title
    what = f"{name}, {lines}, against {axis}. {found.sentence}"
    chart = load_chart(points, milliseconds=True, axis_title=axis, knee=found)
    return html.Chart(
        name,
        chart,
        f"{curve.workload}: {what} The figures are in the results table.",
    )


def _levels(row: Result, latency: str) -> "list[LoadValue]":
    """Return the median and the highest percentile of a latency.

    For a rate with a cap they include the wait in the client's queue.
    """
    name = (
        latency
        if f"median_{latency}{_QUEUED}_ms" not in row.metrics
        else f"{latency}{_QUEUED}"
    )
    suffix = f"_{name}_ms"
    words = [
        key[1 : -len(suffix)]
        for key in row.metrics
        if key.startswith("p") and key.endswith(suffix)
    ]
    highest = max(
        (word for word in words if word.replace(".", "", 1).isdigit()),
        key=float,
        default=None,
    )
    keys = [("median", f"median{suffix}", f"p50{suffix}")]
    keys += (
        [(f"p{highest}", f"p{highest}{suffix}", f"p{highest}{suffix}")]
        if highest not in (None, "50")
        else []
    )
    return [
        _load_value(row, line, value, row.intervals.get(interval))
        for line, key, interval in keys
        if (value := _level(row, key, interval)) is not None
    ]


def _level(row: Result, *keys: str) -> float | None:
    """Return the value of the first of these metrics that the row has."""
    found = (row.figure(key) for key in keys)
    return next((value for value in found if value is not None), None)


def _load_value(
    row: Result, line: str, value: float, interval: Sequence[float] | None
) -> "LoadValue":
    between = (
        f", 95 % interval {figure(interval[0])} to {figure(interval[1])}"
        if interval
        else ""
    )
    text = f"{row.load_point}: {line} {figure(value)} ms{between}; {row.verdict}"
    return LoadValue(
        float(row.value), line, value, row.verdict, text, *(interval or ())
    )


def _throughput(
    curve: Curve, rows: Sequence[Result], found: Knee
) -> html.Chart | None:
    points = []
    whole = all(row.has_whole_answers for row in rows)
    key, name = (
        ("total_token_throughput", "Prompt")
        if whole
        else ("output_throughput", "Output")
    )
    for row in rows:
        if (value := row.figure(key)) is not None:
            text = f"{row.load_point}: {figure(value)} tokens/s; {row.verdict}"
            points.append(
                LoadValue(float(row.value), "tokens/s", value, row.verdict, text)
            )
    if len(points) < 2:
        return None
    axis = curve.kind.title
    description = (
        f"{curve.workload}: {name.lower()} tokens a second against {axis}. The figures are in the "
        "results table."
    )
    chart = load_chart(points, milliseconds=False, axis_title=axis, knee=found)
    return html.Chart(f"{name} tokens/s", chart, description)


class LoadValue(NamedTuple):
    """One figure at one load; `text` is shown when the pointer is over it."""

    load: float
    line: str  # Which line it belongs to: "median", "p99".
    value: float
    verdict: str
    text: str
    low: float | None = None  # Ends of its interval.
    high: float | None = None


def load_chart(
    points: Sequence[LoadValue], *, milliseconds: bool, axis_title: str, knee: Knee
) -> ChartSpec:
    """Build the chart of figures against load.

    Figures are latencies in milliseconds, or a throughput whose axis begins at 0.
    """
    ends = [
        end for p in points for end in (p.value, p.low, p.high) if end is not None
    ]
    rates = {
        "scale": {"zero": True, "nice": True},
        "axis": {"title": None, "format": "~s", "tickCount": 5},
    }
    y = theme.quantitative(
        "value",
        **(theme.latency_axis(ends, from_zero=True) if milliseconds else rates),
    )
    names = list(dict.fromkeys(point.line for point in points))
    x = theme.quantitative(
        "load", **theme.load_axis([point.load for point in points], axis_title)
    )
    colours = (theme.GREEN,) if len(names) == 1 else (theme.BLUE, theme.AMBER)
    looks = dict(zip(names, cycle(colours), strict=False))
    colour = theme.nominal(
        "line", looks, {"title": None, **theme.STROKES} if len(names) > 1 else None
    )
    # Points with untrustworthy numbers have the colour of their verdict.
    colours_of = {word: theme.OF_WORDS[word] for word in ("Invalid", "Suspect")}
    doubtful = [
        {"test": f"datum.verdict === '{word}'", "value": value}
        for word, value in colours_of.items()
    ]
    point_colour = {"condition": doubtful, "value": theme.INK, **colour}
    layers = [
        *_knee_layers(knee, [point.load for point in points]),
        theme.layer(
            {"type": "line", "strokeWidth": 2}, {"x": x, "y": y, "color": colour}
        ),
        theme.layer(
            {"type": "rule", "strokeWidth": 4, "strokeOpacity": 0.35},
            {
                "x": x,
                "y": theme.quantitative("low"),
                "y2": {"field": "high"},
                "color": colour,
            },
            where=theme.HAS_INTERVAL,
        ),
        theme.layer(
            {
                "type": "point",
                "filled": True,
                "size": 42,
                "opacity": 1,
                "aria": True,
            },
            {
                "x": x,
                "y": y,
                "color": point_colour,
                "description": {"field": "text"},
            },
        ),
    ]
    return theme.card(layers, [point._asdict() for point in points])


def _knee_layers(knee: Knee, loads: Sequence[float]) -> list[ChartSpec]:
    if knee.load is None:
        return []
    # The word stands left of the line, where a latency is still low, unless that is the edge.
    side = (
        {"align": "right", "dx": -4}
        if knee.load > sorted(loads)[len(loads) // 3]
        else {"align": "left", "dx": 4}
    )
    word = {
        "type": "text",
        **side,
        "baseline": "top",
        "y": 2,
        "text": "knee",
        "fill": theme.SOFT_INK,
    }
    x = theme.quantitative("load")
    marks = [
        theme.layer(mark, {"x": x}, [{"load": knee.load}])
        for mark in (theme.DASHED, word)
    ]
    if knee.low == knee.high:
        return marks
    shade = {"type": "rect", "fill": theme.SOFT_INK, "opacity": 0.12}
    return [
        theme.layer(
            shade,
            {"x": x, "x2": {"field": "to"}},
            [{"load": knee.low, "to": knee.high}],
        ),
        *marks,
    ]


def searches_section(run: Reported) -> html.Section | None:
    """Build the steps of each search; None if no load was searched."""
    elements = [
        element
        for search in run.status.searches
        for element in _of_search(run, search)
    ]
    return (
        html.section("search", "The steps of the search", *elements)
        if elements
        else None
    )


def _of_search(run: Reported, search: SearchResult) -> list[html.Element]:
    numbers = _numbers(run, search.workload)
    rows = [row for row in run.status.results if row.workload == search.workload]
    ordered = sorted(
        rows,
        key=lambda row: (
            numbers.get(row.load_point, len(numbers) + 1),
            float(row.value),
        ),
    )
    if not ordered:
        return []
    answer = html.Prose(f"{search.outcome}: {search.sentence}.")
    elements: list[html.Element] = [html.Heading(search.workload), answer]
    probes = []
    for row in (row for row in ordered if row.load_point in numbers):
        outcome = row.objectives_outcome
        text = f"{row.load_point}: {outcome}; {row.verdict}"
        probes.append(
            ProbeMark(numbers[row.load_point], float(row.value), outcome, text)
        )
    if len(probes) >= LEAST_PROBES:
        lower = float(search.lower) if search.lower is not None else None
        title = kind_of(ordered[0].axis, ordered[0].value).title
        chart = course_chart(probes, axis_title=title, lower=lower)
        described = (
            "the loads that were tried, in order, each with its outcome. The "
            "table below has them."
        )
        drawn = html.Chart(
            "The loads that were tried, in order",
            chart,
            f"{search.workload}: {described}",
        )
        dashed = (
            " Dashed: the highest load that was confirmed to meet every objective."
            if lower is not None
            else ""
        )
        lead = f"Each load was chosen by the outcomes before it.{dashed}"
        elements += [html.Prose(lead), html.Charts((drawn,))]
    if len(probes) < len(ordered):
        elements.append(
            html.Prose(
                "The result document lacks some stages. Loads that have no number here were "
                "tried too; in which order is not known."
            )
        )
    words = frozenset({"outcome", "verdict"})
    return [
        *elements,
        html.Table("Loads that were tried", _rows(ordered, numbers), words=words),
    ]


def _numbers(run: Reported, workload: str) -> dict[str, int]:
    """Return when each load point was first tried, as a number from 1."""
    found: dict[str, int] = {}
    for stage in run.stages:
        place = open_stage(stage.id)
        if place is not None and place[0] == workload:
            found.setdefault(stage.load_point, place[1])
    return found


def _rows(rows: Sequence[Result], numbers: Mapping[str, int]) -> Rows:
    objectives = dict.fromkeys(
        f"{each.metric} p{each.percentile}"
        for row in rows
        for each in row.objectives
    )
    columns: list[Column[Result]] = [
        Column("tried", lambda row: str(numbers.get(row.load_point, ABSENT))),
        Column("load", lambda row: row.value),
        Column("stages", lambda row: str(row.repeats)),
        *map(_measured, objectives),
        Column("tok/s", metric("output_throughput")),
        Column("outcome", lambda row: row.objectives_outcome),
        Column("verdict", lambda row: row.verdict),
    ]
    return table_of(columns, rows)


def _measured(objective: str) -> Column[Result]:
    """Build the column of the measured latency of an objective, such as `TTFT p95`."""

    def load_point(row: Result) -> str:
        found = {
            f"{each.metric} p{each.percentile}": each.measured_milliseconds
            for each in row.objectives
        }
        return figure(found.get(objective), digits=4)

    return Column(f"{objective} (ms)", load_point)


OUTCOMES: Mapping[str, tuple[str, str]] = {
    "Met": (theme.GREEN, "circle"),
    "Inconclusive": (theme.AMBER, "diamond"),
    "Missed": (theme.RED, "triangle-down"),
}
"""Colour and shape of each outcome; the shape shows the outcome without colours."""
MARGIN = 1.1


class ProbeMark(NamedTuple):
    """One load that was tried; `text` is shown when the pointer is over it."""

    number: int  # Place in the order of trying, from 1.
    load: float
    outcome: str
    text: str


def course_chart(
    probes: Sequence[ProbeMark], *, axis_title: str, lower: float | None
) -> ChartSpec:
    """Build the chart of a search: loads in the order of tries, and a dashed line at the result."""
    loads = [probe.load for probe in probes]
    low = min(loads) / MARGIN
    high = max(loads) * MARGIN
    wide = high / low >= theme.LOG_FROM_RATIO
    ticks: Mapping[str, object] = (
        {"values": theme.log_ticks(low, high)} if wide else {"tickCount": 5}
    )
    scale = {
        "domain": [low, high],
        "nice": False,
        **({"type": "log"} if wide else {}),
    }
    y = theme.quantitative(
        "load", scale=scale, axis={"title": axis_title, "format": "~r", **ticks}
    )
    last = max(probe.number for probe in probes)
    x = theme.quantitative(
        "number",
        scale={"domain": [0.5, last + 0.5], "nice": False},
        axis={
            "title": "loads in the order in which they were tried",
            "format": "d",
            "tickMinStep": 1,
            "grid": False,
        },
    )
    legend = {"title": None, "symbolOpacity": 1}
    looks = (
        dict(zip(OUTCOMES, look, strict=True))
        for look in zip(*OUTCOMES.values(), strict=True)
    )
    colour, shape = (theme.nominal("outcome", each, legend) for each in looks)
    layers = [
        *(
            [theme.layer(theme.DASHED, {"y": y}, [{"load": lower}])]
            if lower is not None
            else []
        ),
        theme.layer(
            {"type": "line", "stroke": theme.GREY, "strokeWidth": 1.2},
            {"x": x, "y": y},
        ),
        theme.layer(
            {
                "type": "point",
                "filled": True,
                "size": 80,
                "opacity": 1,
                "aria": True,
            },
            {
                "x": x,
                "y": y,
                "color": colour,
                "shape": shape,
                "description": {"field": "text"},
            },
        ),
    ]
    return theme.card(layers, [probe._asdict() for probe in probes])
