"""Many questions asked at once: each at a level that keeps all of them together to one false-alarm rate."""

from __future__ import annotations

from collections.abc import Sequence


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
