"""Axes of latencies and loads: logarithmic where the values span much, with ticks that can be read."""

from __future__ import annotations

import math
from collections.abc import Sequence

LOG_FROM_RATIO = 12.0
"""Greatest to least value from which a logarithmic axis shows more than a linear one."""
LEAST_MS = 0.001
"""Stands in for 0 on a logarithmic axis: the clock's own step."""
MILLISECONDS = "datum.value >= 1000 ? format(datum.value / 1000, '~r') + ' s' : format(datum.value, '~r') + ' ms'"
"""How a tick of milliseconds reads (a Vega expression)."""
MAX_TICKS = 6
MARGIN = 1.15
"""Of a logarithmic axis, around the values."""


def latency_axis(values: Sequence[float], *, from_zero: bool) -> dict[str, object]:
    """Scale and axis for milliseconds; `from_zero` where the axis is linear."""
    low, high = _range(values)
    if high / low < LOG_FROM_RATIO:
        scale: dict[str, object] = {"zero": from_zero, "nice": True}
        return {"scale": scale, "axis": {"labelExpr": MILLISECONDS, "tickCount": 5, "title": None}}
    low, high = low / MARGIN, high * MARGIN
    scale = {"type": "log", "domain": [low, high], "clamp": True, "nice": False}
    return {"scale": scale, "axis": {"labelExpr": MILLISECONDS, "values": log_ticks(low, high), "title": None}}


def load_axis(loads: Sequence[float], title: str) -> dict[str, object]:
    """Scale and axis for loads, with a tick at each where they are few."""
    low, high = _range(loads)
    axis: dict[str, object] = {"title": title, "format": "~r", "grid": False}
    if high / low < LOG_FROM_RATIO:
        return {"scale": {"zero": False, "padding": 14, "nice": False}, "axis": {**axis, "tickCount": 6}}
    scale = {"type": "log", "base": 2, "padding": 14, "nice": False}
    return {"scale": scale, "axis": {**axis, "values": sorted(set(loads))}}


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every decade in between; only the decades where those were too many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
    inside = [tick for tick in fine if low <= tick <= high]
    whole = [10.0**decade for decade in decades if low <= 10.0**decade <= high]
    return inside if len(inside) <= MAX_TICKS or len(whole) < 2 else whole


def _range(values: Sequence[float]) -> tuple[float, float]:
    usable = [max(value, LEAST_MS) for value in values if math.isfinite(value)]
    return (min(usable), max(usable)) if usable else (1.0, 1.0)
