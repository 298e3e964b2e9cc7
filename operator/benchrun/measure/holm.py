"""Many questions asked at once: p-values corrected so that all of them together keep to one false-alarm rate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction, in the order given: an adjusted value of at most 0.05 holds at 5 % over all together.

    The smallest is multiplied by their number, the next by one less, and so on; none falls below a smaller one's.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    scaled = (min(1.0, p_values[index] * (len(order) - place)) for place, index in enumerate(order))
    adjusted = dict(zip(order, accumulate(scaled, max), strict=True))
    return [adjusted[index] for index in range(len(order))]


def holm_levels(p_values: Sequence[float], *, error: float) -> list[float]:
    """The error rate at which Holm's procedure puts each question, in the order given, when all together may err by `error`.

    A question is answered "yes" exactly where its p-value is at most its level: the smallest is asked at `error` over their
    number, the next at `error` over one less, and so on up to the first "no"; all others are asked at that level too.
    """
    levels = [0.0] * len(p_values)
    left, level = len(p_values), 0.0
    for index in sorted(range(len(p_values)), key=p_values.__getitem__):
        level = error / left
        if p_values[index] <= level:
            left -= 1
        levels[index] = level
    return levels
