"""Throughput per GPU against TPOT: every load point of every variant, and the front that none of them beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.report.html.blocks import ChartSpec
from benchrun.report.html.charts.scales import latency_axis
from benchrun.report.html.charts.theme import BLUE, CARD_HEIGHT, GREY, RAMP, SOFT_INK, card, quantitative, ramp, values

MAX_COLOURS = len(RAMP)
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
    """A variant at a load point."""

    variant: str
    tpot_ms: float
    per_gpu: float
    """Output tokens a second and GPU."""
    on_front: bool
    told: str
    """In words, shown where the pointer rests."""


def front_chart(points: Sequence[Point]) -> ChartSpec:
    """Better is up and to the left. The line goes through the front: at a TPOT on it, no more throughput can be had."""
    variants = list(dict.fromkeys(point.variant for point in points))
    x = quantitative("tpot", **_titled(latency_axis([point.tpot_ms for point in points], from_zero=False)))
    most = max(point.per_gpu for point in points)
    y = quantitative(
        "perGPU",
        scale={"domain": [0, most * MARGIN], "nice": True},
        axis={"title": "output tokens/s per GPU", "labelExpr": FROM_ZERO, "tickCount": 5},
    )
    few = len(variants) <= MAX_COLOURS
    look = _by_variant(variants) if few else _by_front()
    layers: list[dict[str, object]] = [
        {
            "mark": {
                "type": "line",
                "stroke": SOFT_INK,
                "strokeWidth": 1.5,
                "strokeDash": [5, 3],
                "interpolate": "step-after",
            },
            "data": values([_row(point) for point in points if point.on_front]),
            "encoding": {"x": x, "y": y},
        },
        *(_points(points, {"x": x, "y": y, **look}, on_front=on_front) for on_front in (False, True)),
    ]
    rows = -(-len(variants) // LEGEND_COLUMNS) if few else 0
    return card({"layer": layers}, height=CARD_HEIGHT + 20 + rows * LEGEND_ROW_HEIGHT)


def _points(points: Sequence[Point], encoding: dict[str, object], *, on_front: bool) -> dict[str, object]:
    """Those of the front are large and full, the others small."""
    size = {"size": 130, "opacity": 1} if on_front else {"size": 45, "opacity": 0.7}
    return {
        "mark": {"type": "point", "filled": True, "aria": True, **size},
        "data": values([_row(point) for point in points if point.on_front == on_front]),
        "encoding": {**encoding, "description": {"field": "told"}},
    }


def _by_variant(variants: Sequence[str]) -> dict[str, object]:
    """A colour and a shape each."""
    field = {"field": "variant", "type": "nominal"}
    legend = {"title": None, "columns": LEGEND_COLUMNS, "labelLimit": LABEL_WIDTH, "symbolOpacity": 1}
    colours = {"domain": list(variants), "range": ramp(len(variants))}
    shapes = {"domain": list(variants), "range": list(SHAPES[: len(variants)])}
    return {
        "color": {**field, "scale": colours, "legend": legend},
        "shape": {**field, "scale": shapes, "legend": legend},
    }


def _by_front() -> dict[str, object]:
    scale = {"domain": [True, False], "range": [BLUE, GREY]}
    return {"color": {"field": "onFront", "type": "nominal", "scale": scale, "legend": None}}


def _titled(axis: dict[str, object]) -> dict[str, object]:
    shown = axis["axis"]
    return {**axis, "axis": {**(shown if isinstance(shown, dict) else {}), "title": "mean TPOT"}}


def _row(point: Point) -> dict[str, object]:
    row = {"variant": point.variant, "tpot": point.tpot_ms, "perGPU": point.per_gpu}
    return {**row, "onFront": point.on_front, "told": point.told}
