"""Figures against load, distributions of latencies, and the course of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from benchrun.report.html import ChartSpec
from benchrun.report.html.charts import theme
from benchrun.report.knee import Knee

MARKED_SHARES = (0.5, 0.99)
"""Thin lines at the median and the 99th percentile."""
_SIGNIFICANT_DIGITS = 5


@dataclass(frozen=True, slots=True)
class Line:
    """The distribution of one load point."""

    label: str
    points: Sequence[tuple[float, float]]  # Milliseconds, and the share of all that is at most as long.


def cdf_chart(lines: Sequence[Line], *, legend: str) -> ChartSpec:
    """Lowest load first; `legend` says what the labels are."""
    labels = [line.label for line in lines]
    axis = theme.latency_axis([ms for line in lines for ms, _ in line.points], from_zero=False)
    rows = [
        {"load": line.label, "ms": _short(max(ms, theme.LEAST_MS)), "share": _short(share), "order": order}
        for line in lines
        for order, (ms, share) in enumerate(line.points)
    ]
    colour = {
        "field": "load",
        "type": "nominal",
        "scale": {"domain": labels, "range": theme.ramp(len(labels))},
        "legend": {"title": legend, "symbolType": "stroke", "symbolStrokeWidth": 3, "columns": 4},
    }
    share = {"format": ".0%", "values": [0, 0.25, 0.5, 0.75, 0.99], "title": "requests at most this long"}
    drawn = {
        "mark": {"type": "line", "strokeWidth": 1.8, "interpolate": "step-after"},
        "data": theme.values(rows),
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


def _short(value: float) -> float:
    return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")


_LINES = (theme.BLUE, theme.AMBER)


@dataclass(frozen=True, slots=True)
class LoadValue:
    """One figure at one load; `text` is shown under the pointer."""

    load: float
    line: str  # Which line it belongs to: "median", "p99".
    value: float
    verdict: str
    text: str
    low: float | None = None  # Ends of its interval.
    high: float | None = None


def load_chart(points: Sequence[LoadValue], *, milliseconds: bool, axis_title: str, knee: Knee) -> ChartSpec:
    """Milliseconds, or a rate from 0, against load."""
    y: dict[str, object] = {"scale": {"zero": True, "nice": True}}
    y["axis"] = {"title": None, "format": "~s", "tickCount": 5}
    if milliseconds:
        ends = [end for p in points for end in (p.value, p.low, p.high) if end is not None]
        y = theme.latency_axis(ends, from_zero=True)
    names = list(dict.fromkeys(point.line for point in points))
    x = theme.quantitative("load", **theme.load_axis([point.load for point in points], axis_title))
    legend = {"title": None, "symbolType": "stroke", "symbolStrokeWidth": 3} if len(names) > 1 else None
    colours = [theme.GREEN] if len(names) == 1 else list(_LINES[: len(names)])
    colour = {"field": "line", "type": "nominal", "scale": {"domain": names, "range": colours}, "legend": legend}
    vertical = theme.quantitative("value", **y)
    # Points whose numbers can't be relied on have the colour of their verdict.
    colours_of = {word: theme.OF_WORDS[word] for word in ("Invalid", "Suspect")}
    doubtful = [{"test": f"datum.verdict === '{word}'", "value": value} for word, value in colours_of.items()]
    layers = [
        *_knee_layers(knee, [point.load for point in points]),
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"x": x, "y": vertical, "color": colour}},
        {
            "mark": {"type": "rule", "strokeWidth": 4, "strokeOpacity": 0.35},
            "transform": [{"filter": theme.HAS_INTERVAL}],
            "encoding": {"x": x, "y": theme.quantitative("low"), "y2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 42, "opacity": 1, "aria": True},
            "encoding": {
                "x": x,
                "y": vertical,
                "color": {"condition": doubtful, "value": theme.INK, **colour},
                "description": {"field": "text"},
            },
        },
    ]
    return theme.card({"data": theme.values([asdict(point) for point in points]), "layer": layers})


def _knee_layers(knee: Knee, loads: Sequence[float]) -> list[dict[str, object]]:
    if knee.load is None:
        return []
    # To the left of the line, where a latency is still low; unless that is the edge.
    side = {"align": "right", "dx": -4} if knee.load > sorted(loads)[len(loads) // 3] else {"align": "left", "dx": 4}
    word = {"type": "text", **side, "baseline": "top", "y": 2, "text": "knee", "fill": theme.SOFT_INK}
    load, x = theme.values([{"load": knee.load}]), theme.quantitative("load")
    marks: list[dict[str, object]] = [
        {"mark": mark, "data": load, "encoding": {"x": x}} for mark in (theme.DASHED, word)
    ]
    if knee.low == knee.high:
        return marks
    among: dict[str, object] = {
        "mark": {"type": "rect", "fill": theme.SOFT_INK, "opacity": 0.12},
        "data": theme.values([{"load": knee.low, "to": knee.high}]),
        "encoding": {"x": x, "x2": {"field": "to"}},
    }
    return [among, *marks]


OUTCOMES: Mapping[str, tuple[str, str]] = {
    "Met": (theme.GREEN, "circle"),
    "Inconclusive": (theme.AMBER, "diamond"),
    "Missed": (theme.RED, "triangle-down"),
}
"""Colour and shape: a search can be read without colours."""
MARGIN = 1.1


@dataclass(frozen=True, slots=True)
class Probe:
    """One load that was tried; `text` is shown under the pointer."""

    number: int  # From 1, as tried.
    load: float
    outcome: str
    text: str


def course_chart(probes: Sequence[Probe], *, axis_title: str, lower: float | None) -> ChartSpec:
    """Loads upwards, probes in order; a dashed line at the answer."""
    loads = [probe.load for probe in probes]
    low, high = min(loads) / MARGIN, max(loads) * MARGIN
    wide = high / low >= theme.LOG_FROM_RATIO
    ticks: Mapping[str, object] = {"values": theme.log_ticks(low, high)} if wide else {"tickCount": 5}
    scale = {"domain": [low, high], "nice": False, **({"type": "log"} if wide else {})}
    y = theme.quantitative("load", scale=scale, axis={"title": axis_title, "format": "~r", **ticks})
    last = max(probe.number for probe in probes)
    x = theme.quantitative(
        "number",
        scale={"domain": [0.5, last + 0.5], "nice": False},
        axis={"title": "loads in the order in which they were tried", "format": "d", "tickMinStep": 1, "grid": False},
    )
    outcome = {"field": "outcome", "type": "nominal", "legend": {"title": None, "symbolOpacity": 1}}
    colour, shape = (
        {**outcome, "scale": {"domain": list(OUTCOMES), "range": list(looks)}}
        for looks in zip(*OUTCOMES.values(), strict=True)
    )
    layers: list[dict[str, object]] = [
        {"mark": {"type": "line", "stroke": theme.GREY, "strokeWidth": 1.2}, "encoding": {"x": x, "y": y}},
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "aria": True},
            "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "description": {"field": "text"}},
        },
    ]
    if lower is not None:
        layers.insert(0, {"mark": theme.DASHED, "data": theme.values([{"load": lower}]), "encoding": {"y": y}})
    return theme.card({"data": theme.values([asdict(probe) for probe in probes]), "layer": layers})
