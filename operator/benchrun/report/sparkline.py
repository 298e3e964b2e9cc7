"""A row of numbers as a row of small bars."""

from __future__ import annotations

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
GAP = " "
"""Where nothing was read: not the lowest bar, which would be a number."""


def sparkline(values: Sequence[float | None], *, top: float | None = None, width: int = 30) -> str:
    """The last `width` values, each a bar from 0 to `top`; without a top, to the largest of them. Always `width` wide."""
    shown = list(values)[-width:] if width > 0 else []
    known = [value for value in shown if value is not None]
    highest = top if top is not None else max(known, default=0.0)
    return "".join(_bar(value, highest) for value in shown).ljust(width)


def _bar(value: float | None, highest: float) -> str:
    if value is None:
        return GAP
    share = min(max(value / highest, 0.0), 1.0) if highest > 0 else 0.0
    return BARS[min(int(share * len(BARS)), len(BARS) - 1)]
