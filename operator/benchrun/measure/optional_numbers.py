"""Arithmetic over values that may be missing (None) or that no server can have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

GREATEST = 1e15
"""No gauge or counter comes near it: a billion tokens a second for eleven days. Floats count by ones up to here."""


def is_believable(value: float) -> bool:
    """Whether a gauge or counter can have this value: a number from 0 to 1e15, not NaN."""
    return 0 <= value <= GREATEST


def believable_sum(values: Iterable[float]) -> float | None:
    """The sum; None where no server can have it."""
    total = math.fsum(values)
    return total if is_believable(total) else None


def known(values: Iterable[float | None]) -> list[float]:
    """Those that are not None."""
    return [value for value in values if value is not None]


def sum_of_all(values: Sequence[float | None]) -> float | None:
    """The sum; None where a value is missing, or there is none."""
    return sum_of_known(values) if None not in values else None


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """The sum of those that are known; None where none is."""
    found = known(values)
    return math.fsum(found) if found else None


def ratio(part: float | None, whole: float | None, scale: float = 1.0) -> float | None:
    """`scale` times part over whole; None where one of them is missing, or the whole is 0."""
    return None if part is None or whole is None or whole <= 0 else scale * part / whole
