"""How all charts look. Colours are names of the page's variables, so that one drawing serves light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchrun.report.html.blocks import ChartSpec

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Names the grammar. Nothing is fetched."""
CARD_WIDTH, CARD_HEIGHT = 340, 225
WIDE_WIDTH = 1080
FONT_SIZE = 11.5
RAMP = tuple(f"var(--ramp-{step})" for step in range(8))
"""Least to most load."""
INK, SOFT_INK, GRID, CARD = "var(--ink)", "var(--soft)", "var(--grid)", "var(--card)"
BLUE, AMBER, GREEN, RED, GREY = "var(--blue)", "var(--amber)", "var(--green)", "var(--red)", "var(--grey)"
OF_WORDS: Mapping[str, str] = {
    "Valid": GREEN, "Suspect": AMBER, "Invalid": RED, "Unknown": GREY,
    "Better": GREEN, "Worse": RED, "NoDetectableDifference": GREY, "NotComparable": GREY,
}  # fmt: skip

_FONT = "Arial, Helvetica, Liberation Sans, sans-serif"
"""All of the same widths: text is measured where the chart is drawn and set where it is read."""
_CONFIG: Mapping[str, object] = {
    "background": "transparent",
    "font": _FONT,
    "view": {"stroke": None},
    "aria": False,
    "axis": {
        "labelColor": SOFT_INK,
        "titleColor": SOFT_INK,
        "titleFontWeight": "normal",
        "labelFontSize": FONT_SIZE,
        "titleFontSize": FONT_SIZE,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "labelOverlap": "greedy",
        "labelSeparation": 6,
        "titlePadding": 6,
    },
    "legend": {
        "labelColor": SOFT_INK,
        "titleColor": SOFT_INK,
        "titleFontWeight": "normal",
        "labelFontSize": FONT_SIZE,
        "titleFontSize": FONT_SIZE,
        "orient": "top",
        "offset": 4,
        "columnPadding": 10,
        "symbolSize": 80,
    },
    "header": {"labelColor": SOFT_INK, "titleColor": SOFT_INK},
    "text": {"fill": INK, "fontSize": FONT_SIZE},
}


def card(spec: Mapping[str, object], *, height: int = CARD_HEIGHT) -> ChartSpec:
    """A chart of the width of a phone, all its margins included."""
    fit = {"type": "fit", "contains": "padding"}
    return _whole({"width": CARD_WIDTH, "height": height, "autosize": fit, **spec})


def stacked(spec: Mapping[str, object]) -> ChartSpec:
    """A chart of several panels; each says its own size."""
    return _whole(spec)


def ramp(count: int) -> list[str]:
    """Colours for so many loads, at most as many as there are."""
    if count <= 1:
        return [RAMP[len(RAMP) // 2]]
    return [RAMP[round(step * (len(RAMP) - 1) / (count - 1))] for step in range(count)]


def quantitative(name: str, **channel: object) -> dict[str, object]:
    """A channel of numbers."""
    return {"field": name, "type": "quantitative", **channel}


def values(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Data within the chart; there is no other."""
    return {"values": list(rows)}


def _whole(spec: Mapping[str, object]) -> ChartSpec:
    return {"$schema": SCHEMA, "padding": 6, "config": _CONFIG, **spec}
