"""The probability on which both sides decide whether a percentile keeps its limit."""

from __future__ import annotations

import math


def binomial(trials: int, share: float, successes: int) -> float:
    """The probability of exactly so many successes, each with the probability `share` (0 to 1, exclusive)."""
    failures = trials - successes
    ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(failures + 1)
    return math.exp(ways + successes * math.log(share) + failures * math.log1p(-share))
