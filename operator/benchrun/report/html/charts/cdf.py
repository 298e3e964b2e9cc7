"""Distributions: which share of requests took at most so long, one line a load point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.report.html.blocks import ChartSpec
from benchrun.report.html.charts.scales import LEAST_MS, latency_axis
from benchrun.report.html.charts.theme import GREY, card, quantitative, ramp, values

MARKED_SHARES = (0.5, 0.99)
"""Thin lines at the median and the 99th percentile."""
_SIGNIFICANT_DIGITS = 5


@dataclass(frozen=True, slots=True)
class Line:
    """The distribution of one load point."""

    label: str
    points: Sequence[tuple[float, float]]
    """Milliseconds, and the share of all that is at most as long."""


def cdf_chart(lines: Sequence[Line], *, legend: str) -> ChartSpec:
    """Lowest load first; `legend` says what the labels are."""
    labels = [line.label for line in lines]
    axis = latency_axis([ms for line in lines for ms, _ in line.points], from_zero=False)
    colour = {
        "field": "load",
        "type": "nominal",
        "scale": {"domain": labels, "range": ramp(len(labels))},
        "legend": {"title": legend, "symbolType": "stroke", "symbolStrokeWidth": 3, "columns": 4},
    }
    share = {"format": ".0%", "values": [0, 0.25, 0.5, 0.75, 0.99], "title": "requests at most this long"}
    drawn = {
        "mark": {"type": "line", "strokeWidth": 1.8, "interpolate": "step-after"},
        "data": values(_rows(lines)),
        "encoding": {
            "x": quantitative("ms", **axis),
            "y": quantitative("share", scale={"domain": [0, 1]}, axis=share),
            "color": colour,
            "order": {"field": "order"},
        },
    }
    marked = {
        "mark": {"type": "rule", "strokeDash": [3, 3], "stroke": GREY, "strokeWidth": 1},
        "data": values([{"share": share} for share in MARKED_SHARES]),
        "encoding": {"y": quantitative("share")},
    }
    return card({"layer": [marked, drawn]})


def _rows(lines: Sequence[Line]) -> list[dict[str, object]]:
    return [
        {"load": line.label, "ms": _short(max(ms, LEAST_MS)), "share": _short(share), "order": order}
        for line in lines
        for order, (ms, share) in enumerate(line.points)
    ]


def _short(value: float) -> float:
    return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")
