"""Changes against a baseline, and the front of throughput per GPU against TPOT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchrun.report.html import ChartSpec
from benchrun.report.html.charts import theme

ROW_HEIGHT = 24
MAX_LABEL_WIDTH, CHARACTER_WIDTH = 150, 7.2
"""Pixels; of the widest font that a browser may fall back to."""
PERCENT = "datum.value === 0 ? '0' : format(datum.value, '+~r')"
"""How a tick reads (a Vega expression)."""
LEAST_REACH = 2.0
"""Percent: less is not told apart on the axis."""
MARGINS = 58
_WORDS = ("Better", "Worse", "Equivalent", "NoDetectableDifference", "Unknown")


@dataclass(frozen=True, slots=True)
class Bar:
    """One change, in percent; `text` is shown under the pointer."""

    label: str
    change: float
    low: float | None
    high: float | None
    word: str
    text: str


def change_chart(bars: Sequence[Bar], *, limit_percent: float | None) -> ChartSpec:
    """In the order given; `limit_percent`: the change from which on a figure has regressed, with its sign."""
    order = [bar.label for bar in bars]
    room = min(MAX_LABEL_WIDTH, round(CHARACTER_WIDTH * max(map(len, order))))
    names = {"title": None, "labelLimit": MAX_LABEL_WIDTH, "minExtent": room, "ticks": False, "domain": False}
    y: dict[str, object] = {"field": "label", "type": "nominal", "sort": order, "axis": names}
    low, high = reach(bars, limit_percent)
    axis = {"title": "change against the baseline, %", "labelExpr": PERCENT, "tickCount": 5}
    across = {"domain": [low, high], "nice": False, "clamp": True}
    scale = {"domain": list(_WORDS), "range": [theme.OF_WORDS[word] for word in _WORDS]}
    colour = {"field": "word", "type": "nominal", "scale": scale, "legend": None}
    layers: list[dict[str, object]] = [
        {
            "mark": {"type": "bar", "height": 13, "opacity": 0.55, "aria": True},
            "encoding": {
                "x": theme.quantitative("change", axis=axis, scale=across, stack=None),
                "y": y,
                "color": colour,
                "description": {"field": "text"},
            },
        },
        {
            "mark": {"type": "rule", "stroke": theme.INK, "strokeWidth": 1.6},
            "transform": [{"filter": theme.HAS_INTERVAL}],
            "encoding": {"x": theme.quantitative("low"), "x2": {"field": "high"}, "y": y},
        },
        *(_end(end, y, low, high) for end in ("low", "high")),
        _line(0.0, stroke=theme.GREY),
        *([_line(limit_percent, stroke=theme.SOFT_INK, strokeDash=[4, 3])] if limit_percent is not None else []),
    ]
    return theme.card(
        {"data": theme.values([asdict(bar) for bar in bars]), "layer": layers}, height=MARGINS + ROW_HEIGHT * len(bars)
    )


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
        "mark": {"type": "tick", "thickness": 1.6, "size": 9, "color": theme.INK},
        "transform": [{"filter": f"{theme.HAS_INTERVAL} && datum.{field} >= {low} && datum.{field} <= {high}"}],
        "encoding": {"x": theme.quantitative(field), "y": y},
    }


def _line(at: float, **mark: object) -> dict[str, object]:
    return {
        "mark": {"type": "rule", "strokeWidth": 1.2, **mark},
        "data": theme.values([{"at": at}]),
        "encoding": {"x": theme.quantitative("at")},
    }


MAX_COLOURS = len(theme.RAMP)
"""Variants that can be told apart; of more only the front is coloured."""
SHAPES = (
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-right", "triangle-left"
)  # fmt: skip
"""So that variants can be told apart without colours."""
LEGEND_COLUMNS, LEGEND_ROW_HEIGHT, LABEL_WIDTH = 2, 18, 130
"""Pixels."""
MARGIN = 1.1
FROM_ZERO = "datum.value === 0 ? '0' : format(datum.value, '~s')"
"""How a tick of tokens reads (a Vega expression)."""


@dataclass(frozen=True, slots=True)
class Point:
    """A variant at a load point; `text` is shown under the pointer."""

    variant: str
    tpot_ms: float
    per_gpu: float  # Output tokens a second and GPU.
    on_front: bool
    text: str


def front_chart(points: Sequence[Point]) -> ChartSpec:
    """Better is up and to the left. The line goes through the front: at a TPOT on it, no more throughput was measured."""
    variants = list(dict.fromkeys(point.variant for point in points))
    tpots = theme.latency_axis([point.tpot_ms for point in points], from_zero=False, title="mean TPOT")
    most = max(point.per_gpu for point in points)
    x = theme.quantitative("tpot_ms", **tpots)
    y = theme.quantitative(
        "per_gpu",
        scale={"domain": [0, most * MARGIN], "nice": True},
        axis={"title": "output tokens/s per GPU", "labelExpr": FROM_ZERO, "tickCount": 5},
    )
    layers: list[dict[str, object]] = [
        {
            "mark": {**theme.DASHED, "type": "line", "interpolate": "step-after"},
            "data": theme.values([asdict(point) for point in points if point.on_front]),
            "encoding": {"x": x, "y": y},
        },
        *(_points(points, {"x": x, "y": y, **_look(variants)}, on_front=on_front) for on_front in (False, True)),
    ]
    rows = -(-len(variants) // LEGEND_COLUMNS) if len(variants) <= MAX_COLOURS else 0
    return theme.card({"layer": layers}, height=theme.CARD_HEIGHT + 20 + rows * LEGEND_ROW_HEIGHT)


def _points(points: Sequence[Point], encoding: dict[str, object], *, on_front: bool) -> dict[str, object]:
    """Those of the front are large and full, the others small."""
    size = {"size": 130, "opacity": 1} if on_front else {"size": 45, "opacity": 0.7}
    return {
        "mark": {"type": "point", "filled": True, "aria": True, **size},
        "data": theme.values([asdict(point) for point in points if point.on_front == on_front]),
        "encoding": {**encoding, "description": {"field": "text"}},
    }


def _look(variants: Sequence[str]) -> dict[str, object]:
    """A colour and a shape a variant; of too many, only the front has a colour."""
    if len(variants) > MAX_COLOURS:
        scale = {"domain": [True, False], "range": [theme.BLUE, theme.GREY]}
        return {"color": {"field": "on_front", "type": "nominal", "scale": scale, "legend": None}}
    legend = {"title": None, "columns": LEGEND_COLUMNS, "labelLimit": LABEL_WIDTH, "symbolOpacity": 1}
    ranges = {"color": theme.ramp(len(variants)), "shape": list(SHAPES[: len(variants)])}
    field = {"field": "variant", "type": "nominal", "legend": legend}
    return {name: {**field, "scale": {"domain": list(variants), "range": of}} for name, of in ranges.items()}
