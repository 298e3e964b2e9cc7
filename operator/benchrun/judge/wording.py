"""Numbers within sentences."""

from __future__ import annotations


def number(value: float | None) -> str:
    """Three significant digits, or all of the whole part; no trailing zeros: 25412, 276, 9.4, 0.05; "?" for nothing."""
    if value is None:
        return "?"
    return f"{value:.0f}" if abs(value) >= 100 else f"{float(f'{value:.3g}'):.12g}"


def percent(value: float | None) -> str:
    """With its sign: 9.4 %."""
    return "an unknown share" if value is None else f"{number(value)} %"
