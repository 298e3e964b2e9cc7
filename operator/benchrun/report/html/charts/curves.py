"""Figures against load, distributions of latencies, and the course of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle

from benchrun.report.html import ChartSpec
from benchrun.report.html.charts import theme
from benchrun.report.knee import Knee

MARKED_SHARES = (0.5, 0.99)  # Thin lines at the median and the 99th percentile.
_STROKES = {"symbolType": "stroke", "symbolStrokeWidth": 3}


def cdf_chart(lines: Mapping[str, Sequence[tuple[float, float]]], *, legend: str) -> ChartSpec:
    """Points by load, lowest load first: milliseconds, and the share of all that is at most as long. `legend` says what the loads
    are."""
    axis = theme.latency_axis([ms for points in lines.values() for ms, _ in points], from_zero=False)
    rows = [
        {"load": load, "ms": _short(max(ms, theme.LEAST_MS)), "share": _short(share), "order": order}
        for load, points in lines.items()
        for order, (ms, share) in enumerate(points)
    ]
    looks = dict(zip(lines, theme.ramp(len(lines)), strict=True))
    share = {"format": ".0%", "values": [0, 0.25, 0.5, 0.75, 0.99], "title": "requests at most this long"}
    encoding = {
        "x": theme.quantitative("ms", **axis),
        "y": theme.quantitative("share", scale={"domain": [0, 1]}, axis=share),
        "color": theme.nominal("load", looks, {"title": legend, **_STROKES, "columns": 4}),
        "order": {"field": "order"},
    }
    drawn = theme.layer({"type": "line", "strokeWidth": 1.8, "interpolate": "step-after"}, encoding, rows)
    dotted = {"type": "rule", "strokeDash": [3, 3], "stroke": theme.GREY, "strokeWidth": 1}
    marked = theme.layer(dotted, {"y": theme.quantitative("share")}, [{"share": share} for share in MARKED_SHARES])
    return theme.card([marked, drawn])


def _short(value: float) -> float:
    return float(f"{value:.5g}")


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
    ends = [end for p in points for end in (p.value, p.low, p.high) if end is not None]
    rate_axis = {"title": None, "format": "~s", "tickCount": 5}
    rates: ChartSpec = {"scale": {"zero": True, "nice": True}, "axis": rate_axis}
    y = theme.quantitative("value", **(theme.latency_axis(ends, from_zero=True) if milliseconds else rates))
    names = list(dict.fromkeys(point.line for point in points))
    x = theme.quantitative("load", **theme.load_axis([point.load for point in points], axis_title))
    colours = (theme.GREEN,) if len(names) == 1 else (theme.BLUE, theme.AMBER)
    looks = dict(zip(names, cycle(colours), strict=False))
    colour = theme.nominal("line", looks, {"title": None, **_STROKES} if len(names) > 1 else None)
    # Points whose numbers can't be relied on have the colour of their verdict.
    colours_of = {word: theme.OF_WORDS[word] for word in ("Invalid", "Suspect")}
    doubtful = [{"test": f"datum.verdict === '{word}'", "value": value} for word, value in colours_of.items()]
    point_colour = {"condition": doubtful, "value": theme.INK, **colour}
    layers = [
        *_knee_layers(knee, [point.load for point in points]),
        theme.layer({"type": "line", "strokeWidth": 2}, {"x": x, "y": y, "color": colour}),
        theme.layer(
            {"type": "rule", "strokeWidth": 4, "strokeOpacity": 0.35},
            {"x": x, "y": theme.quantitative("low"), "y2": {"field": "high"}, "color": colour},
            where=theme.HAS_INTERVAL,
        ),
        theme.layer(
            {"type": "point", "filled": True, "size": 42, "opacity": 1, "aria": True},
            {"x": x, "y": y, "color": point_colour, "description": {"field": "text"}},
        ),
    ]
    return theme.card(layers, [asdict(point) for point in points])


def _knee_layers(knee: Knee, loads: Sequence[float]) -> list[ChartSpec]:
    if knee.load is None:
        return []
    # To the left of the line, where a latency is still low; unless that is the edge.
    side = {"align": "right", "dx": -4} if knee.load > sorted(loads)[len(loads) // 3] else {"align": "left", "dx": 4}
    word = {"type": "text", **side, "baseline": "top", "y": 2, "text": "knee", "fill": theme.SOFT_INK}
    x = theme.quantitative("load")
    marks = [theme.layer(mark, {"x": x}, [{"load": knee.load}]) for mark in (theme.DASHED, word)]
    if knee.low == knee.high:
        return marks
    shade = {"type": "rect", "fill": theme.SOFT_INK, "opacity": 0.12}
    return [theme.layer(shade, {"x": x, "x2": {"field": "to"}}, [{"load": knee.low, "to": knee.high}]), *marks]


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
    legend = {"title": None, "symbolOpacity": 1}
    looks = (dict(zip(OUTCOMES, look, strict=True)) for look in zip(*OUTCOMES.values(), strict=True))
    colour, shape = (theme.nominal("outcome", each, legend) for each in looks)
    layers = [
        *([theme.layer(theme.DASHED, {"y": y}, [{"load": lower}])] if lower is not None else []),
        theme.layer({"type": "line", "stroke": theme.GREY, "strokeWidth": 1.2}, {"x": x, "y": y}),
        theme.layer(
            {"type": "point", "filled": True, "size": 80, "opacity": 1, "aria": True},
            {"x": x, "y": y, "color": colour, "shape": shape, "description": {"field": "text"}},
        ),
    ]
    return theme.card(layers, [asdict(probe) for probe in probes])
