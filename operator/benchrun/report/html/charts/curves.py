"""Figures against load, distributions of latencies, and the course of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchrun.report.html.blocks import ChartSpec
from benchrun.report.html.charts import theme
from benchrun.report.knee import Knee

MARKED_SHARES = (0.5, 0.99)
"""Thin lines at the median and the 99th percentile."""
_SIGNIFICANT_DIGITS = 5


@dataclass(frozen=True, slots=True)
class Line:
    """The distribution of one load point."""

    label: str
    points: Sequence[tuple[float, float]]
    """Milliseconds, and the share of all that is at most as long."""


def cdf_chart(lines: Sequence[Line], *, legend: str) -> ChartSpec:
    """Lowest load first; `legend` says what the labels are."""
    labels = [line.label for line in lines]
    axis = theme.latency_axis([ms for line in lines for ms, _ in line.points], from_zero=False)
    colour = {
        "field": "load",
        "type": "nominal",
        "scale": {"domain": labels, "range": theme.ramp(len(labels))},
        "legend": {"title": legend, "symbolType": "stroke", "symbolStrokeWidth": 3, "columns": 4},
    }
    share = {"format": ".0%", "values": [0, 0.25, 0.5, 0.75, 0.99], "title": "requests at most this long"}
    drawn = {
        "mark": {"type": "line", "strokeWidth": 1.8, "interpolate": "step-after"},
        "data": theme.values(_rows(lines)),
        "encoding": {
            "x": theme.quantitative("ms", **axis),
            "y": theme.quantitative("share", scale={"domain": [0, 1]}, axis=share),
            "color": colour,
            "order": {"field": "order"},
        },
    }
    marked = {
        "mark": {"type": "rule", "strokeDash": [3, 3], "stroke": theme.GREY, "strokeWidth": 1},
        "data": theme.values([{"share": share} for share in MARKED_SHARES]),
        "encoding": {"y": theme.quantitative("share")},
    }
    return theme.card({"layer": [marked, drawn]})


def _rows(lines: Sequence[Line]) -> list[dict[str, object]]:
    return [
        {"load": line.label, "ms": _short(max(ms, theme.LEAST_MS)), "share": _short(share), "order": order}
        for line in lines
        for order, (ms, share) in enumerate(line.points)
    ]


def _short(value: float) -> float:
    return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")


_LINES = (theme.BLUE, theme.AMBER)


@dataclass(frozen=True, slots=True)
class LoadValue:
    """One figure at one load."""

    load: float
    line: str
    """Which line it belongs to: "median", "p99"."""
    value: float
    verdict: str
    told: str
    """The point in words, shown where the pointer rests."""
    low: float | None = None
    """Ends of its interval."""
    high: float | None = None


def latency_chart(points: Sequence[LoadValue], *, axis_title: str, knee: Knee) -> ChartSpec:
    """Milliseconds against load."""
    ends = [end for p in points for end in (p.value, p.low, p.high) if end is not None]
    return _chart(points, y=theme.latency_axis(ends, from_zero=True), axis_title=axis_title, knee=knee)


def throughput_chart(points: Sequence[LoadValue], *, axis_title: str, knee: Knee) -> ChartSpec:
    """A rate against load, from 0."""
    axis = {"scale": {"zero": True, "nice": True}, "axis": {"title": None, "format": "~s", "tickCount": 5}}
    return _chart(points, y=axis, axis_title=axis_title, knee=knee)


def _chart(points: Sequence[LoadValue], *, y: dict[str, object], axis_title: str, knee: Knee) -> ChartSpec:
    rows = [_row(point) for point in points]
    names = list(dict.fromkeys(point.line for point in points))
    x = theme.quantitative("load", **theme.load_axis([point.load for point in points], axis_title))
    legend = {"title": None, "symbolType": "stroke", "symbolStrokeWidth": 3} if len(names) > 1 else None
    colours = [theme.GREEN] if len(names) == 1 else list(_LINES[: len(names)])
    colour = {"field": "line", "type": "nominal", "scale": {"domain": names, "range": colours}, "legend": legend}
    vertical = theme.quantitative("value", **y)
    layers = [
        *_knee_layers(knee, [point.load for point in points]),
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"x": x, "y": vertical, "color": colour}},
        {
            "mark": {"type": "rule", "strokeWidth": 4, "strokeOpacity": 0.35},
            "transform": [{"filter": "isValid(datum.low)"}],
            "encoding": {"x": x, "y": theme.quantitative("low"), "y2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 42, "opacity": 1, "aria": True},
            "encoding": {
                "x": x,
                "y": vertical,
                "color": {"condition": _doubtful(), "value": theme.INK, **colour},
                "description": {"field": "told"},
            },
        },
    ]
    return theme.card({"data": theme.values(rows), "layer": layers})


def _doubtful() -> list[dict[str, object]]:
    """Points whose numbers can't be relied on carry the colour of their verdict."""
    return [{"test": f"datum.verdict === '{word}'", "value": theme.OF_WORDS[word]} for word in ("Invalid", "Suspect")]


def _knee_layers(knee: Knee, loads: Sequence[float]) -> list[dict[str, object]]:
    if knee.load is None:
        return []
    # To the left of the line, where a latency is still low; unless that is the edge.
    side = {"align": "right", "dx": -4} if knee.load > sorted(loads)[len(loads) // 3] else {"align": "left", "dx": 4}
    line: dict[str, object] = {
        "mark": {"type": "rule", "stroke": theme.SOFT_INK, "strokeDash": [5, 3], "strokeWidth": 1.5},
        "data": theme.values([{"load": knee.load}]),
        "encoding": {"x": theme.quantitative("load")},
    }
    word: dict[str, object] = {
        "mark": {"type": "text", **side, "baseline": "top", "y": 2, "text": "knee", "fill": theme.SOFT_INK},
        "data": theme.values([{"load": knee.load}]),
        "encoding": {"x": theme.quantitative("load")},
    }
    if knee.low == knee.high:
        return [line, word]
    among: dict[str, object] = {
        "mark": {"type": "rect", "fill": theme.SOFT_INK, "opacity": 0.12},
        "data": theme.values([{"load": knee.low, "to": knee.high}]),
        "encoding": {"x": theme.quantitative("load"), "x2": {"field": "to"}},
    }
    return [among, line, word]


def _row(point: LoadValue) -> dict[str, object]:
    row: dict[str, object] = {"load": point.load, "line": point.line, "value": point.value}
    row |= {"verdict": point.verdict, "told": point.told}
    return row | {"low": point.low, "high": point.high} if point.low is not None and point.high is not None else row


OUTCOMES: Mapping[str, tuple[str, str]] = {
    "Met": (theme.GREEN, "circle"),
    "Inconclusive": (theme.AMBER, "diamond"),
    "Missed": (theme.RED, "triangle-down"),
}
"""Colour and shape: a search is to be read without colours, too."""
MARGIN = 1.1


@dataclass(frozen=True, slots=True)
class Probe:
    """One load that was tried."""

    number: int
    """From 1, as tried."""
    load: float
    outcome: str
    told: str
    """In words, shown where the pointer rests."""


def course_chart(probes: Sequence[Probe], *, axis_title: str, lower: float | None) -> ChartSpec:
    """Loads upwards, probes in order; a dashed line at the answer."""
    rows = [{"n": probe.number, "load": probe.load, "outcome": probe.outcome, "told": probe.told} for probe in probes]
    loads = [probe.load for probe in probes]
    low, high = min(loads) / MARGIN, max(loads) * MARGIN
    if high / low < theme.LOG_FROM_RATIO:
        y = theme.quantitative(
            "load", scale={"domain": [low, high], "nice": False}, axis=_axis(axis_title, tickCount=5)
        )
    else:
        scale = {"type": "log", "domain": [low, high], "nice": False}
        y = theme.quantitative("load", scale=scale, axis=_axis(axis_title, values=theme.log_ticks(low, high)))
    last = max(probe.number for probe in probes)
    x = theme.quantitative(
        "n",
        scale={"domain": [0.5, last + 0.5], "nice": False},
        axis={"title": "loads in the order in which they were tried", "format": "d", "tickMinStep": 1, "grid": False},
    )
    names = list(OUTCOMES)
    legend = {"title": None, "symbolOpacity": 1}
    colour = {"field": "outcome", "type": "nominal", "legend": legend} | {
        "scale": {"domain": names, "range": [OUTCOMES[name][0] for name in names]}
    }
    shape = {"field": "outcome", "type": "nominal", "legend": legend} | {
        "scale": {"domain": names, "range": [OUTCOMES[name][1] for name in names]}
    }
    layers: list[dict[str, object]] = [
        *_answer(lower, y),
        {"mark": {"type": "line", "stroke": theme.GREY, "strokeWidth": 1.2}, "encoding": {"x": x, "y": y}},
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "aria": True},
            "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "description": {"field": "told"}},
        },
    ]
    return theme.card({"data": theme.values(rows), "layer": layers})


def _axis(title: str, **more: object) -> dict[str, object]:
    return {"title": title, "format": "~r", **more}


def _answer(lower: float | None, y: dict[str, object]) -> list[dict[str, object]]:
    if lower is None:
        return []
    mark = {"type": "rule", "stroke": theme.SOFT_INK, "strokeDash": [5, 3], "strokeWidth": 1.5}
    return [{"mark": mark, "data": theme.values([{"load": lower}]), "encoding": {"y": y}}]
