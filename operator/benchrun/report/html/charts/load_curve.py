"""A figure against load: a line a percentile with the interval of each point, and the knee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.report.html.blocks import ChartSpec
from benchrun.report.html.charts.scales import latency_axis, load_axis
from benchrun.report.html.charts.theme import AMBER, BLUE, GREEN, INK, OF_WORDS, SOFT_INK, card, quantitative, values
from benchrun.report.knee import Knee

_LINES = (BLUE, AMBER)


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
    return _chart(points, y=latency_axis(ends, from_zero=True), axis_title=axis_title, knee=knee)


def throughput_chart(points: Sequence[LoadValue], *, axis_title: str, knee: Knee) -> ChartSpec:
    """A rate against load, from 0."""
    axis = {"scale": {"zero": True, "nice": True}, "axis": {"title": None, "format": "~s", "tickCount": 5}}
    return _chart(points, y=axis, axis_title=axis_title, knee=knee)


def _chart(points: Sequence[LoadValue], *, y: dict[str, object], axis_title: str, knee: Knee) -> ChartSpec:
    rows = [_row(point) for point in points]
    names = list(dict.fromkeys(point.line for point in points))
    x = quantitative("load", **load_axis([point.load for point in points], axis_title))
    legend = {"title": None, "symbolType": "stroke", "symbolStrokeWidth": 3} if len(names) > 1 else None
    colours = [GREEN] if len(names) == 1 else list(_LINES[: len(names)])
    colour = {"field": "line", "type": "nominal", "scale": {"domain": names, "range": colours}, "legend": legend}
    vertical = quantitative("value", **y)
    layers = [
        *_knee_layers(knee, [point.load for point in points]),
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"x": x, "y": vertical, "color": colour}},
        {
            "mark": {"type": "rule", "strokeWidth": 4, "strokeOpacity": 0.35},
            "transform": [{"filter": "isValid(datum.low)"}],
            "encoding": {"x": x, "y": quantitative("low"), "y2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 42, "opacity": 1, "aria": True},
            "encoding": {
                "x": x,
                "y": vertical,
                "color": {"condition": _doubtful(), "value": INK, **colour},
                "description": {"field": "told"},
            },
        },
    ]
    return card({"data": values(rows), "layer": layers})


def _doubtful() -> list[dict[str, object]]:
    """Points whose numbers can't be relied on carry the colour of their verdict."""
    return [{"test": f"datum.verdict === '{word}'", "value": OF_WORDS[word]} for word in ("Invalid", "Suspect")]


def _knee_layers(knee: Knee, loads: Sequence[float]) -> list[dict[str, object]]:
    if knee.load is None:
        return []
    # To the left of the line, where a latency is still low; unless that is the edge.
    side = {"align": "right", "dx": -4} if knee.load > sorted(loads)[len(loads) // 3] else {"align": "left", "dx": 4}
    line: dict[str, object] = {
        "mark": {"type": "rule", "stroke": SOFT_INK, "strokeDash": [5, 3], "strokeWidth": 1.5},
        "data": values([{"load": knee.load}]),
        "encoding": {"x": quantitative("load")},
    }
    word: dict[str, object] = {
        "mark": {"type": "text", **side, "baseline": "top", "y": 2, "text": "knee", "fill": SOFT_INK},
        "data": values([{"load": knee.load}]),
        "encoding": {"x": quantitative("load")},
    }
    if knee.low == knee.high:
        return [line, word]
    among: dict[str, object] = {
        "mark": {"type": "rect", "fill": SOFT_INK, "opacity": 0.12},
        "data": values([{"load": knee.low, "to": knee.high}]),
        "encoding": {"x": quantitative("load"), "x2": {"field": "to"}},
    }
    return [among, line, word]


def _row(point: LoadValue) -> dict[str, object]:
    row: dict[str, object] = {"load": point.load, "line": point.line, "value": point.value}
    row |= {"verdict": point.verdict, "told": point.told}
    return row | {"low": point.low, "high": point.high} if point.low is not None and point.high is not None else row
