"""The course of a search: which load was tried after which, and how each fared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchrun.report.html.blocks import ChartSpec
from benchrun.report.html.charts.scales import LOG_FROM_RATIO, log_ticks
from benchrun.report.html.charts.theme import AMBER, GREEN, GREY, RED, SOFT_INK, card, quantitative, values

OUTCOMES: Mapping[str, tuple[str, str]] = {
    "Met": (GREEN, "circle"),
    "Inconclusive": (AMBER, "diamond"),
    "Missed": (RED, "triangle-down"),
}
"""Colour and shape: a search is to be read without colours, too."""
MARGIN = 1.1


@dataclass(frozen=True, slots=True)
class Probe:
    """One load that was tried."""

    number: int
    """From 1, as tried."""
    load: float
    outcome: str
    told: str
    """In words, shown where the pointer rests."""


def course_chart(probes: Sequence[Probe], *, axis_title: str, lower: float | None) -> ChartSpec:
    """Loads upwards, probes in order; a dashed line at the answer."""
    rows = [{"n": probe.number, "load": probe.load, "outcome": probe.outcome, "told": probe.told} for probe in probes]
    loads = [probe.load for probe in probes]
    low, high = min(loads) / MARGIN, max(loads) * MARGIN
    if high / low < LOG_FROM_RATIO:
        y = quantitative("load", scale={"domain": [low, high], "nice": False}, axis=_axis(axis_title, tickCount=5))
    else:
        scale = {"type": "log", "domain": [low, high], "nice": False}
        y = quantitative("load", scale=scale, axis=_axis(axis_title, values=log_ticks(low, high)))
    last = max(probe.number for probe in probes)
    x = quantitative(
        "n",
        scale={"domain": [0.5, last + 0.5], "nice": False},
        axis={"title": "loads in the order in which they were tried", "format": "d", "tickMinStep": 1, "grid": False},
    )
    names = list(OUTCOMES)
    legend = {"title": None, "symbolOpacity": 1}
    colour = {"field": "outcome", "type": "nominal", "legend": legend} | {
        "scale": {"domain": names, "range": [OUTCOMES[name][0] for name in names]}
    }
    shape = {"field": "outcome", "type": "nominal", "legend": legend} | {
        "scale": {"domain": names, "range": [OUTCOMES[name][1] for name in names]}
    }
    layers: list[dict[str, object]] = [
        *_answer(lower, y),
        {"mark": {"type": "line", "stroke": GREY, "strokeWidth": 1.2}, "encoding": {"x": x, "y": y}},
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "aria": True},
            "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "description": {"field": "told"}},
        },
    ]
    return card({"data": values(rows), "layer": layers})


def _axis(title: str, **more: object) -> dict[str, object]:
    return {"title": title, "format": "~r", **more}


def _answer(lower: float | None, y: dict[str, object]) -> list[dict[str, object]]:
    if lower is None:
        return []
    mark = {"type": "rule", "stroke": SOFT_INK, "strokeDash": [5, 3], "strokeWidth": 1.5}
    return [{"mark": mark, "data": values([{"load": lower}]), "encoding": {"y": y}}]
