"""Which numbers of others are taken. A sum, a mean or a difference of such numbers is finite, however many there are."""

from __future__ import annotations

GREATEST = 1e15
"""No gauge or counter of a server comes near it: a billion tokens a second for eleven days. Floats count by ones up to here."""


def is_believable(value: float) -> bool:
    """Whether a gauge or counter can say this: a number from 0 to 1e15. A NaN is none."""
    return 0 <= value <= GREATEST
