"""A run over time: its stages, and under them what the servers ran, what waited, and how full their KV cache was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchrun.report.html.blocks import ChartSpec
from benchrun.report.html.charts import theme

AXIS_WIDTH = 46
"""Of the labels on the left: equal in all panels, so that they share one time axis."""
MARGINS = AXIS_WIDTH + 28
STAGE_HEIGHT, PANEL_HEIGHT = 22, 92
CHARACTER_WIDTH = 7.2
"""Pixels, of the widest font that a browser may fall back to: a stage too narrow for its label goes without."""
PIXELS_A_TICK = 90
_UNITS = (("s", 1.0, 300.0), ("min", 60.0, 10_800.0), ("h", 3600.0, float("inf")))
"""Name, seconds, and up to which span it is used."""


@dataclass(frozen=True, slots=True)
class StageBar:
    """One stage."""

    start: float
    """Seconds since the first request."""
    end: float
    label: str
    told: str
    verdict: str


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """In what the time axis counts."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class _Frame:
    """What all panels share."""

    unit: TimeUnit
    first: float
    last: float
    """Ends of the time axis, in the unit."""
    width: int

    def at(self, seconds: float) -> float:
        """In the unit."""
        return round(seconds / self.unit.seconds, 4)

    def pixels(self, seconds: float) -> float:
        """How wide a time is."""
        whole = (self.last - self.first) * self.unit.seconds
        return self.width * seconds / whole if whole > 0 else 0.0


@dataclass(frozen=True, slots=True)
class _Layer:
    """Marks of one kind."""

    mark: Mapping[str, object]
    x: str
    encoding: Mapping[str, object]
    """But for x."""
    rows: Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class _Panel:
    height: int
    layers: Sequence[_Layer]


def time_unit(seconds: float) -> TimeUnit:
    """So that the axis has small numbers."""
    return next(TimeUnit(name, length) for name, length, until in _UNITS if seconds <= until)


def timeline_chart(
    stages: Sequence[StageBar], spans: Sequence[theme.Span], *, since: str, width: int = theme.WIDE_WIDTH
) -> ChartSpec:
    """Panels of one time axis; `since` says from when it counts."""
    frame = _frame(stages, spans, width)
    panels = [_stage_panel(stages, frame)] if stages else []
    if spans:
        shade = _shade(stages, frame)
        panels.append(_panel(spans, ("running", "waiting"), "requests", (theme.BLUE, theme.AMBER), frame, shade))
        panels.append(_panel(spans, ("KV cache",), "KV cache, %", (theme.GREEN,), frame, shade))
    title = f"{frame.unit.name} since {since}"
    drawn = [_drawn(panel, frame, title if panel is panels[-1] else None) for panel in panels]
    return theme.stacked({"vconcat": drawn, "spacing": 8, "resolve": {"scale": {"color": "independent"}}})


def _frame(stages: Sequence[StageBar], spans: Sequence[theme.Span], width: int) -> _Frame:
    whole: list[StageBar | theme.Span] = [*stages, *spans]
    first, last = min(each.start for each in whole), max(each.end for each in whole)
    unit = time_unit(last - first)
    return _Frame(unit, first / unit.seconds, last / unit.seconds, width - MARGINS)


def _stage_panel(stages: Sequence[StageBar], frame: _Frame) -> _Panel:
    rows = [
        {
            "at": frame.at(stage.start),
            "to": frame.at(stage.end),
            "middle": frame.at((stage.start + stage.end) / 2),
            "label": stage.label
            if frame.pixels(stage.end - stage.start) >= CHARACTER_WIDTH * (len(stage.label) + 1)
            else "",
            "told": stage.told,
            "verdict": stage.verdict,
        }
        for stage in stages
    ]
    colour = {"field": "verdict", "type": "nominal", "legend": None, "scale": _verdict_scale()}
    bars = _Layer(
        {"type": "rect", "fillOpacity": 0.3, "stroke": theme.CARD, "strokeWidth": 1, "aria": True},
        "at",
        {"x2": {"field": "to"}, "color": colour, "description": {"field": "told"}},
        rows,
    )
    words = _Layer({"type": "text"}, "middle", {"text": {"field": "label"}}, rows)
    return _Panel(STAGE_HEIGHT, (bars, words))


def _panel(
    spans: Sequence[theme.Span],
    lines: Sequence[str],
    title: str,
    colours: Sequence[str],
    frame: _Frame,
    shade: _Layer,
) -> _Panel:
    rows = [_row(span, line, frame) for line in lines for span in spans]
    legend = (
        {"title": None, "symbolType": "stroke", "symbolStrokeWidth": 3, "symbolOpacity": 1, "offset": 0}
        if len(lines) > 1
        else None
    )
    colour = {"field": "line", "type": "nominal", "scale": {"domain": list(lines), "range": list(colours)}}
    shown = {**colour, "legend": legend}
    axis = {"title": title, "minExtent": AXIS_WIDTH, "maxExtent": AXIS_WIDTH, "tickCount": 4, "format": "~s"}
    y = {"scale": {"zero": True, "nice": True}, "axis": axis}
    band = _Layer(
        {"type": "area", "opacity": 0.22},
        "at",
        {"y": theme.quantitative("low", **y), "y2": {"field": "high"}, "color": shown},
        rows,
    )
    mean = _Layer(
        {"type": "line", "strokeWidth": 1.4},
        "at",
        {"y": theme.quantitative("mean", **y), "color": shown},
        rows,
    )
    return _Panel(PANEL_HEIGHT, (shade, band, mean))


def _shade(stages: Sequence[StageBar], frame: _Frame) -> _Layer:
    """Every stage, faintly, behind the curves: what lies between was not measured."""
    rows = [{"at": frame.at(stage.start), "to": frame.at(stage.end)} for stage in stages]
    return _Layer({"type": "rect", "fill": theme.SOFT_INK, "opacity": 0.07}, "at", {"x2": {"field": "to"}}, rows)


def _drawn(panel: _Panel, frame: _Frame, time_title: str | None) -> dict[str, object]:
    """The last panel carries the axis of all."""
    axis = (
        {"title": time_title, "titleAnchor": "start", "tickCount": frame.width // PIXELS_A_TICK, "grid": False}
        if time_title is not None
        else None
    )
    scale = {"domain": [frame.first, frame.last], "nice": False}
    layers = [
        {
            "mark": layer.mark,
            "data": theme.values(layer.rows),
            "encoding": {"x": theme.quantitative(layer.x, scale=scale, axis=axis), **layer.encoding},
        }
        for layer in panel.layers
    ]
    return {"width": frame.width, "height": panel.height, "layer": layers}


def _row(span: theme.Span, line: str, frame: _Frame) -> dict[str, object]:
    band = {"running": span.running, "waiting": span.waiting, "KV cache": span.kv_cache_percent}[line]
    ends = {name: float(f"{getattr(band, name):.4g}") if band else None for name in ("mean", "low", "high")}
    return {"at": frame.at((span.start + span.end) / 2), "line": line, **ends}


def _verdict_scale() -> dict[str, object]:
    words = ("Valid", "Suspect", "Invalid", "Unknown")
    return {"domain": list(words), "range": [theme.BLUE if word == "Valid" else theme.OF_WORDS[word] for word in words]}
