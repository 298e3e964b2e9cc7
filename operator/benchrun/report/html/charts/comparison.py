"""Changes against a baseline: a bar a load point, with the interval of the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.report.html.blocks import ChartSpec
from benchrun.report.html.charts.theme import GREY, INK, OF_WORDS, SOFT_INK, card, quantitative, values

ROW_HEIGHT = 24
MAX_LABEL_WIDTH, CHARACTER_WIDTH = 150, 7.2
"""Pixels; of the widest font that a browser may fall back to."""
PERCENT = "datum.value === 0 ? '0' : format(datum.value, '+~r')"
"""How a tick reads (a Vega expression)."""
LEAST_REACH = 2.0
"""Percent: less is not told apart on the axis."""
MARGINS = 58
_WORDS = ("Better", "Worse", "NoDetectableDifference", "Unknown")


@dataclass(frozen=True, slots=True)
class Bar:
    """One change, in percent."""

    label: str
    change: float
    low: float | None
    high: float | None
    word: str
    told: str


def change_chart(bars: Sequence[Bar], *, limit_percent: float | None) -> ChartSpec:
    """In the order given; `limit_percent`: the change from which on a figure has regressed, with its sign."""
    order = [bar.label for bar in bars]
    room = min(MAX_LABEL_WIDTH, round(CHARACTER_WIDTH * max(map(len, order))))
    names = {"title": None, "labelLimit": MAX_LABEL_WIDTH, "minExtent": room, "ticks": False, "domain": False}
    y: dict[str, object] = {"field": "label", "type": "nominal", "sort": order, "axis": names}
    low, high = reach(bars, limit_percent)
    axis = {"title": "change against the baseline, %", "labelExpr": PERCENT, "tickCount": 5}
    across = {"domain": [low, high], "nice": False, "clamp": True}
    scale = {"domain": list(_WORDS), "range": [OF_WORDS[word] for word in _WORDS]}
    colour = {"field": "word", "type": "nominal", "scale": scale, "legend": None}
    low_to_high = {"x": quantitative("low"), "x2": {"field": "high"}, "y": y}
    layers: list[dict[str, object]] = [
        {
            "mark": {"type": "bar", "height": 13, "opacity": 0.55, "aria": True},
            "encoding": {
                "x": quantitative("change", axis=axis, scale=across, stack=None),
                "y": y,
                "color": colour,
                "description": {"field": "told"},
            },
        },
        {
            "mark": {"type": "rule", "stroke": INK, "strokeWidth": 1.6},
            "transform": [{"filter": "isValid(datum.low)"}],
            "encoding": low_to_high,
        },
        *(_end(end, y, low, high) for end in ("low", "high")),
        _line(0.0, stroke=GREY),
        *([_line(limit_percent, stroke=SOFT_INK, strokeDash=[4, 3])] if limit_percent is not None else []),
    ]
    return card({"data": values([_row(bar) for bar in bars]), "layer": layers}, height=MARGINS + ROW_HEIGHT * len(bars))


def reach(bars: Sequence[Bar], limit_percent: float | None) -> tuple[float, float]:
    """Ends of the axis: all changes, and of their intervals so much that one wide one does not flatten all others."""
    farthest = max(
        LEAST_REACH, 1.5 * max(abs(bar.change) for bar in bars), *([2 * abs(limit_percent)] if limit_percent else [])
    )
    ends = [0.0, *(end for bar in bars for end in (bar.change, bar.low, bar.high) if end is not None)]
    marks = [*ends, limit_percent] if limit_percent is not None else ends
    return max(min(marks) - 1, -farthest), min(max(marks) + 1, farthest)


def _end(field: str, y: dict[str, object], low: float, high: float) -> dict[str, object]:
    """Where an interval ends within the chart."""
    return {
        "mark": {"type": "tick", "thickness": 1.6, "size": 9, "color": INK},
        "transform": [{"filter": f"isValid(datum.low) && datum.{field} >= {low} && datum.{field} <= {high}"}],
        "encoding": {"x": quantitative(field), "y": y},
    }


def _line(at: float, **mark: object) -> dict[str, object]:
    return {
        "mark": {"type": "rule", "strokeWidth": 1.2, **mark},
        "data": values([{"at": at}]),
        "encoding": {"x": quantitative("at")},
    }


def _row(bar: Bar) -> dict[str, object]:
    row: dict[str, object] = {"label": bar.label, "change": bar.change, "word": bar.word, "told": bar.told}
    return row | {"low": bar.low, "high": bar.high} if bar.low is not None and bar.high is not None else row
