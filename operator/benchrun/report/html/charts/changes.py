"""Changes against a baseline, and the front of throughput per GPU against TPOT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchrun.report.html import ChartSpec
from benchrun.report.html.charts import theme

ROW_HEIGHT = 24
MAX_LABEL_WIDTH, CHARACTER_WIDTH = 150, 7.2
"""Pixels; of the widest font that a browser may fall back to."""
PERCENT = "datum.value === 0 ? '0' : format(datum.value, '+~r')"  # How a tick reads (a Vega expression).
LEAST_REACH = 2.0  # Percent: less is not told apart on the axis.
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
    y = {"field": "label", "type": "nominal", "sort": order, "axis": names}
    low, high = reach(bars, limit_percent)
    axis = {"title": "change against the baseline, %", "labelExpr": PERCENT, "tickCount": 5}
    across = {"domain": [low, high], "nice": False, "clamp": True}
    colour = theme.nominal("word", {word: theme.OF_WORDS[word] for word in _WORDS})
    x = theme.quantitative("change", axis=axis, scale=across, stack=None)
    layers = [
        theme.layer(
            {"type": "bar", "height": 13, "opacity": 0.55, "aria": True},
            {"x": x, "y": y, "color": colour, "description": {"field": "text"}},
        ),
        theme.layer(
            {"type": "rule", "stroke": theme.INK, "strokeWidth": 1.6},
            {"x": theme.quantitative("low"), "x2": {"field": "high"}, "y": y},
            where=theme.HAS_INTERVAL,
        ),
        # Where an interval ends within the chart.
        *(
            theme.layer(
                {"type": "tick", "thickness": 1.6, "size": 9, "color": theme.INK},
                {"x": theme.quantitative(end), "y": y},
                where=f"{theme.HAS_INTERVAL} && datum.{end} >= {low} && datum.{end} <= {high}",
            )
            for end in ("low", "high")
        ),
        _line(0.0, stroke=theme.GREY),
        *([_line(limit_percent, stroke=theme.SOFT_INK, strokeDash=[4, 3])] if limit_percent is not None else []),
    ]
    return theme.card(layers, [asdict(bar) for bar in bars], height=MARGINS + ROW_HEIGHT * len(bars))


def reach(bars: Sequence[Bar], limit_percent: float | None) -> tuple[float, float]:
    """Ends of the axis: all changes, and of their intervals so much that one wide one does not flatten all others."""
    farthest = max(
        LEAST_REACH, 1.5 * max(abs(bar.change) for bar in bars), *([2 * abs(limit_percent)] if limit_percent else [])
    )
    ends = [0.0, *(end for bar in bars for end in (bar.change, bar.low, bar.high) if end is not None)]
    marks = [*ends, limit_percent] if limit_percent is not None else ends
    return max(min(marks) - 1, -farthest), min(max(marks) + 1, farthest)


def _line(at: float, **mark: object) -> ChartSpec:
    return theme.layer({"type": "rule", "strokeWidth": 1.2, **mark}, {"x": theme.quantitative("at")}, [{"at": at}])


MAX_COLOURS = len(theme.RAMP)  # Variants that can be told apart; of more only the front is coloured.
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
    front, others = ([asdict(point) for point in points if point.on_front == on_front] for on_front in (True, False))
    encoding = {"x": x, "y": y, **_look(variants), "description": {"field": "text"}}
    mark = {"type": "point", "filled": True, "aria": True}
    layers = [
        theme.layer({**theme.DASHED, "type": "line", "interpolate": "step-after"}, {"x": x, "y": y}, front),
        theme.layer({**mark, "size": 45, "opacity": 0.7}, encoding, others),
        theme.layer({**mark, "size": 130, "opacity": 1}, encoding, front),
    ]
    rows = -(-len(variants) // LEGEND_COLUMNS) if len(variants) <= MAX_COLOURS else 0
    return theme.card(layers, height=theme.CARD_HEIGHT + 20 + rows * LEGEND_ROW_HEIGHT)


def _look(variants: Sequence[str]) -> ChartSpec:
    """A colour and a shape a variant; of too many, only the front has a colour."""
    if len(variants) > MAX_COLOURS:
        return {"color": theme.nominal("on_front", {True: theme.BLUE, False: theme.GREY})}
    legend = {"title": None, "columns": LEGEND_COLUMNS, "labelLimit": LABEL_WIDTH, "symbolOpacity": 1}
    looks = {"color": theme.ramp(len(variants)), "shape": SHAPES}
    return {name: theme.nominal("variant", dict(zip(variants, of, strict=False)), legend) for name, of in looks.items()}
