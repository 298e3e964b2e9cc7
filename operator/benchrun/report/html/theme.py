"""The look of all charts: colours, axes, and how many points they show."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchrun.report.html import ChartSpec

Rows = Sequence[Mapping[str, object]]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # Names the grammar; never fetched.
CARD_WIDTH = 340
CARD_HEIGHT = 225
WIDE_WIDTH = 1080
FONT_SIZE = 11.5
# In pixels, for the widest font that a browser may fall back to.
CHARACTER_WIDTH = 7.2
RAMP = tuple(f"var(--ramp-{step})" for step in range(8))
"""Colours in the order of loads, from the least to the greatest."""
INK = "var(--ink)"
SOFT_INK = "var(--soft)"
GRID = "var(--grid)"
CARD = "var(--card)"
BLUE = "var(--blue)"
AMBER = "var(--amber)"
GREEN = "var(--green)"
RED = "var(--red)"
GREY = "var(--grey)"
OF_WORDS: Mapping[str, str] = {
    "Valid": GREEN,
    "Suspect": AMBER,
    "Invalid": RED,
    "Unknown": GREY,
    "Better": GREEN,
    "Worse": RED,
    "Equivalent": GREY,
    "NoDetectableDifference": GREY,
    "NotComparable": GREY,
}

# Legend symbols for lines.
STROKES: ChartSpec = {
    "symbolType": "stroke",
    "symbolStrokeWidth": 3,
}
DASHED: ChartSpec = {
    "type": "rule",
    "stroke": SOFT_INK,
    "strokeDash": [5, 3],
    "strokeWidth": 1.5,
}
HAS_INTERVAL = "isValid(datum.low) && isValid(datum.high)"
"""Vega expression: whether the figure of a row has an interval with both ends."""
_FONT = "Arial, Helvetica, Liberation Sans, sans-serif"
"""Fonts of the same character widths, because a chart is drawn on one machine and read on another.
"""
_TEXT: ChartSpec = {
    "labelColor": SOFT_INK,
    "titleColor": SOFT_INK,
    "titleFontWeight": "normal",
    "labelFontSize": FONT_SIZE,
    "titleFontSize": FONT_SIZE,
}
_CONFIG: ChartSpec = {
    "background": "transparent",
    "font": _FONT,
    "view": {"stroke": None},
    "aria": False,
    "axis": {
        **_TEXT,
        **dict.fromkeys(("gridColor", "domainColor", "tickColor"), GRID),
        "labelOverlap": "greedy",
        "labelSeparation": 6,
        "titlePadding": 6,
    },
    "legend": {
        **_TEXT,
        "orient": "top",
        "offset": 4,
        "columnPadding": 24,
        "symbolSize": 80,
    },
    "text": {"fill": INK, "fontSize": FONT_SIZE},
}


def card(
    layers: Sequence[ChartSpec],
    rows: Rows | None = None,
    *,
    height: int = CARD_HEIGHT,
) -> ChartSpec:
    """Build a chart that, with all its margins, is as wide as a phone's screen.

    Layers without data of their own show `rows`.
    """
    fit = {"type": "fit", "contains": "padding"}
    return chart(
        {
            "width": CARD_WIDTH,
            "height": height,
            "autosize": fit,
            **_data(rows),
            "layer": layers,
        }
    )


def chart(spec: ChartSpec) -> ChartSpec:
    """Return a chart in the common look; its size is in the spec."""
    return {"$schema": SCHEMA, "padding": 6, "config": _CONFIG, **spec}


def ramp(count: int) -> list[str]:
    """Return the colours of `count` loads, from least to most load."""
    if count <= 1:
        return [RAMP[len(RAMP) // 2]]
    return [
        RAMP[round(step * (len(RAMP) - 1) / (count - 1))] for step in range(count)
    ]


def layer(
    mark: ChartSpec,
    encoding: ChartSpec,
    rows: Rows | None = None,
    *,
    where: str | None = None,
) -> ChartSpec:
    """Build marks of one kind.

    `rows` are the layer's own data. `where` is a Vega expression that selects the rows to mark.
    """
    kept = {"transform": [{"filter": where}]} if where is not None else {}
    return {"mark": mark, **_data(rows), **kept, "encoding": encoding}


def _data(rows: Rows | None) -> ChartSpec:
    return {} if rows is None else {"data": {"values": rows}}


def quantitative(name: str, **channel: object) -> ChartSpec:
    return {"field": name, "type": "quantitative", **channel}


def nominal(
    name: str, looks: Mapping[Any, str], legend: ChartSpec | None = None
) -> ChartSpec:
    """Build a channel that shows the values of a field as colours or shapes."""
    scale = {"domain": list(looks), "range": list(looks.values())}
    return {"field": name, "type": "nominal", "scale": scale, "legend": legend}


# Ratio of greatest to least value from which a logarithmic axis shows more than a linear one.
LOG_FROM_RATIO = 12.0
LEAST_MS = 0.001  # Milliseconds that stand in for 0 on a logarithmic axis: the step of the clock.
MILLISECONDS = (
    "datum.value >= 1000 ? format(datum.value / 1000, '~r') + ' s' : format(datum.value, '~r') + "
    "' ms'"
)
"""Vega expression: the label of a tick that is in milliseconds."""
MAX_TICKS = 6
MARGIN = 1.15  # Factor of room around the values on a logarithmic axis.


def latency_axis(
    values: Sequence[float],
    *,
    from_zero: bool,
    title: str | None = None,
    least_span: float = 0.0,
) -> ChartSpec:
    """Build scale and axis for milliseconds; the axis is logarithmic if values differ widely.

    With `from_zero` a linear axis begins at 0. `least_span` is the least width of the axis, as a
    share of the middle value.
    """
    low, high = _range(values)
    missing = least_span * (low + high) / 2 - (high - low)
    if missing > 0 and not from_zero:
        low = max(low - missing / 2, 0.0)
        high = high + missing / 2
        scale = {"domain": [low, high], "zero": False, "nice": True}
        axis = {"labelExpr": MILLISECONDS, "title": title, "tickCount": 5}
        return {"scale": scale, "axis": axis}
    axis = {"labelExpr": MILLISECONDS, "title": title}
    if high / low < LOG_FROM_RATIO:
        return {
            "scale": {"zero": from_zero, "nice": True},
            "axis": {**axis, "tickCount": 5},
        }
    low = low / MARGIN
    high = high * MARGIN
    scale = {"type": "log", "domain": [low, high], "clamp": True, "nice": False}
    return {"scale": scale, "axis": {**axis, "values": log_ticks(low, high)}}


def load_axis(loads: Sequence[float], title: str) -> ChartSpec:
    """Build scale and axis for loads; the axis is logarithmic if loads differ widely.

    A logarithmic axis has a tick at each load.
    """
    low, high = _range(loads)
    axis = {"title": title, "format": "~r", "grid": False}
    scale = {"padding": 14, "nice": False}
    if high / low < LOG_FROM_RATIO:
        return {"scale": {**scale, "zero": False}, "axis": {**axis, "tickCount": 6}}
    return {
        "scale": {**scale, "type": "log", "base": 2},
        "axis": {**axis, "values": sorted(set(loads))},
    }


def log_ticks(low: float, high: float) -> list[float]:
    """Return the ticks of a logarithmic axis: 1, 2 and 5 times each power of 10.

    If these are too many, return only the powers of 10.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
    inside = [tick for tick in fine if low <= tick <= high]
    whole = [10.0**decade for decade in decades if low <= 10.0**decade <= high]
    return inside if len(inside) <= MAX_TICKS or len(whole) < 2 else whole


def _range(values: Sequence[float]) -> tuple[float, float]:
    usable = [max(value, LEAST_MS) for value in values if math.isfinite(value)]
    return (min(usable), max(usable)) if usable else (1.0, 1.0)
