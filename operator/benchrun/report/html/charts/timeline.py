"""A run over time: its stages, and under them what the servers ran, what waited, and how full their KV cache was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchrun.report.html import ChartSpec
from benchrun.report.html.charts import theme

AXIS_WIDTH = 46  # Of the labels on the left: equal in all panels, so that they share one time axis.
MARGINS = AXIS_WIDTH + 28
STAGE_HEIGHT, PANEL_HEIGHT = 22, 92
CHARACTER_WIDTH = 7.2
"""Pixels, of the widest font that a browser may fall back to: a stage too narrow for its label has none."""
PIXELS_A_TICK = 90
LINES = (theme.BLUE, theme.AMBER, theme.GREEN, theme.RED, theme.GREY)  # As many runs as one figure can hold.
_UNITS = (("s", 1.0, 300.0), ("min", 60.0, 10_800.0), ("h", 3600.0, float("inf")))
"""Name, seconds, and up to which span it is used."""


@dataclass(frozen=True, slots=True)
class StageBar:
    """One stage; `text` is shown under the pointer."""

    start: float  # Seconds since the first request.
    end: float
    label: str
    text: str
    verdict: str


@dataclass(frozen=True, slots=True)
class _Frame:
    unit: str
    unit_seconds: float
    first: float
    last: float  # Ends of the time axis, in the unit.
    width: int

    def at(self, seconds: float) -> float:
        return round(seconds / self.unit_seconds, 4)


class _Layer(NamedTuple):
    mark: ChartSpec
    x: str
    encoding: ChartSpec  # But for x.
    rows: theme.Rows


def time_unit(seconds: float) -> tuple[str, float]:
    """Name and seconds, chosen for small numbers on the axis."""
    return next((name, length) for name, length, until in _UNITS if seconds <= until)


def timeline_chart(
    stages: Sequence[StageBar], spans: Sequence[theme.Span], *, since: str, width: int = theme.WIDE_WIDTH
) -> ChartSpec:
    """Panels of one time axis; `since` says from when it counts."""
    whole: list[StageBar | theme.Span] = [*stages, *spans]
    first, last = min(each.start for each in whole), max(each.end for each in whole)
    unit, seconds = time_unit(last - first)
    frame = _Frame(unit, seconds, first / seconds, last / seconds, width - MARGINS)
    panels: list[tuple[int, Sequence[_Layer]]] = [(STAGE_HEIGHT, _stage_layers(stages, frame))] if stages else []
    if spans:
        # Every stage, faintly, behind the curves: what lies between was not measured.
        shades = [{"at": frame.at(stage.start), "to": frame.at(stage.end)} for stage in stages]
        mark = {"type": "rect", "fill": theme.SOFT_INK, "opacity": 0.07}
        shade = _Layer(mark, "at", {"x2": {"field": "to"}}, shades)
        requests = {"running": theme.BLUE, "waiting": theme.AMBER}
        for title, colours in (("requests", requests), ("KV cache, %", {"KV cache": theme.GREEN})):
            rows = [_row(span, line, frame) for line in colours for span in spans]
            panels.append((PANEL_HEIGHT, [shade, *_sample_layers(rows, colours, title)]))
    return _panels(panels, frame, since)


def side_by_side_chart(series: Mapping[str, Sequence[theme.Span]]) -> ChartSpec:
    """Running, waiting and KV cache usage of several runs, each from its own start: a panel a figure, a line a run."""
    last = max(span.end for spans in series.values() for span in spans)
    unit, seconds = time_unit(last)
    frame = _Frame(unit, seconds, 0.0, last / seconds, theme.WIDE_WIDTH - MARGINS)
    colours = dict(zip(series, LINES, strict=False))
    panels = []
    for title, figure in (("running", "running"), ("waiting", "waiting"), ("KV cache, %", "KV cache")):
        rows = [{**_row(span, figure, frame), "line": name} for name, spans in series.items() for span in spans]
        panels.append((PANEL_HEIGHT, list(_sample_layers(rows, colours, title))))
    return _panels(panels, frame, "each run's first sample")


def _panels(panels: Sequence[tuple[int, Sequence[_Layer]]], frame: _Frame, since: str) -> ChartSpec:
    titles = [*[None] * (len(panels) - 1), f"{frame.unit} since {since}"]
    drawn = [_panel(*panel, frame, title) for panel, title in zip(panels, titles, strict=True)]
    return theme.chart({"vconcat": drawn, "spacing": 8, "resolve": {"scale": {"color": "independent"}}})


def _stage_layers(stages: Sequence[StageBar], frame: _Frame) -> list[_Layer]:
    whole = (frame.last - frame.first) * frame.unit_seconds
    rows = []
    for stage in stages:
        pixels = frame.width * (stage.end - stage.start) / whole if whole > 0 else 0.0
        start, end, middle = map(frame.at, (stage.start, stage.end, (stage.start + stage.end) / 2))
        label = stage.label if pixels >= CHARACTER_WIDTH * (len(stage.label) + 1) else ""
        row = {"at": start, "to": end, "middle": middle, "label": label}
        rows.append({**row, "text": stage.text, "verdict": stage.verdict})
    doubtful = {word: theme.OF_WORDS[word] for word in ("Suspect", "Invalid", "Unknown")}
    colour = theme.nominal("verdict", {"Valid": theme.BLUE, **doubtful})
    mark = {"type": "rect", "fillOpacity": 0.3, "stroke": theme.CARD, "strokeWidth": 1, "aria": True}
    bars = _Layer(mark, "at", {"x2": {"field": "to"}, "color": colour, "description": {"field": "text"}}, rows)
    return [bars, _Layer({"type": "text"}, "middle", {"text": {"field": "label"}}, rows)]


def _sample_layers(rows: theme.Rows, colours: Mapping[str, str], title: str) -> Iterable[_Layer]:
    """Means as lines, and a band from the least to the greatest sample."""
    legend = {"title": None, "symbolType": "stroke", "symbolStrokeWidth": 3, "symbolOpacity": 1, "offset": 0}
    shown = theme.nominal("line", colours, legend if len(colours) > 1 else None)
    axis = {"title": title, "minExtent": AXIS_WIDTH, "maxExtent": AXIS_WIDTH, "tickCount": 4, "format": "~s"}
    y = {"scale": {"zero": True, "nice": True}, "axis": axis}
    band = {"y": theme.quantitative("low", **y), "y2": {"field": "high"}, "color": shown}
    yield _Layer({"type": "area", "opacity": 0.22}, "at", band, rows)
    mean = {"y": theme.quantitative("mean", **y), "color": shown}
    yield _Layer({"type": "line", "strokeWidth": 1.4}, "at", mean, rows)


def _panel(height: int, layers: Iterable[_Layer], frame: _Frame, time_title: str | None) -> ChartSpec:
    """Only the last panel has a title: its axis is that of all."""
    ticks = frame.width // PIXELS_A_TICK
    axis = {"title": time_title, "titleAnchor": "start", "tickCount": ticks, "grid": False} if time_title else None
    scale = {"domain": [frame.first, frame.last], "nice": False}
    drawn = [
        theme.layer(mark, {"x": theme.quantitative(x, scale=scale, axis=axis), **encoding}, rows)
        for mark, x, encoding, rows in layers
    ]
    return {"width": frame.width, "height": height, "layer": drawn}


def _row(span: theme.Span, line: str, frame: _Frame) -> ChartSpec:
    band = {"running": span.running, "waiting": span.waiting, "KV cache": span.kv_cache_percent}[line]
    ends = {name: float(f"{getattr(band, name):.4g}") if band else None for name in ("mean", "low", "high")}
    return {"at": frame.at((span.start + span.end) / 2), "line": line, **ends}
