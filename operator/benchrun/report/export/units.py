"""Records hold microseconds; other tools want seconds."""

from __future__ import annotations

_DECIMALS = 9
"""A thousandth of the microsecond in which it was measured."""


def seconds(microseconds: float) -> float:
    """Without the noise that a division leaves in the last digits."""
    return round(microseconds / 1e6, _DECIMALS)
