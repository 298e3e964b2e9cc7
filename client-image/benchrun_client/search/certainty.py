"""Whether a percentile keeps its limit, with 95 % certainty, from two numbers: the values, and those within the limit.

The same test that the operator puts to every load point: its interval for a percentile lies between two values of the sample,
and lies wholly below (above) the limit if and only if so many (few) values are within it that chance alone would hardly do that
were the percentile at the limit. How many are within it by chance is binomial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["Met", "Missed", "Inconclusive"]
ERROR = 0.025
"""On each side: how often, at most, either word is wrong."""
NEGLIGIBLE = 1e-12


@dataclass(frozen=True, slots=True)
class Tally:
    """What bears on one objective."""

    values: int = 0
    within: int = 0
    """How many of them keep the limit."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.values + other.values, self.within + other.within)


def outcome(tally: Tally, percent: float) -> Outcome:
    """Met or Missed where that is certain."""
    share = percent / 100
    if tally.values == 0:
        return "Inconclusive"
    if _is_rarely_reached(tally.within, tally.values, share):
        return "Met"
    if _is_rarely_reached(tally.values - tally.within, tally.values, 1 - share):
        return "Missed"
    return "Inconclusive"


def _is_rarely_reached(successes: int, trials: int, share: float) -> bool:
    """Whether so many successes, or more, come with a probability of at most `ERROR`."""
    if successes <= trials * share:
        return False
    tail = 0.0
    for count in range(successes, trials + 1):
        term = _binomial(trials, share, count)
        tail += term
        # Above the mean each term is smaller than the one before.
        if tail > ERROR or term < NEGLIGIBLE:
            break
    return tail <= ERROR


def _binomial(trials: int, share: float, successes: int) -> float:
    failures = trials - successes
    ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(failures + 1)
    return math.exp(ways + successes * math.log(share) + failures * math.log1p(-share))
