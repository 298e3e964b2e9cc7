"""What time it is at the gate, by the clock of whoever asks. Pure.

Nodes' clocks need not agree. A question takes its way there and back; somewhere between the two the answer was given. So the
quickest question of several bounds the error best: by half of what it took.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: when it left and when its answer came, by our clock, and what the gate's clock said between. Seconds."""

    left: float
    came: float
    said: float


@dataclass(frozen=True, slots=True)
class Offset:
    """Added to our clock it gives the gate's; off by at most `error`. Seconds."""

    seconds: float
    error: float


def offset_of(asked: Iterable[Asked]) -> Offset:
    """By the quickest of the questions."""
    best = min(asked, key=lambda each: each.came - each.left)
    return Offset(best.said - (best.left + best.came) / 2, (best.came - best.left) / 2)
