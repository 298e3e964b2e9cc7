"""Series in order of time made into a few batch means, and how much neighbouring ones still resemble each other.

Requests that meet at the server share its queue, so their latencies are far from independent. Means of long batches nearly
are; what is left between neighbours is measured and taken off the certainty of whatever is said about them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

BATCHES = 20
MAX_CORRELATION = 0.95
"""Beyond it, a series of some twenty values tells next to nothing, and no figure makes up for it."""


def batch_means(values: Sequence[float], *, batches: int = BATCHES) -> list[float]:
    """Means of `batches` consecutive parts, equal in length to within one value; fewer values stand for themselves."""
    parts = min(batches, len(values))
    edges = [len(values) * i // parts for i in range(parts + 1)] if parts else []
    return [math.fsum(values[a:b]) / (b - a) for a, b in pairwise(edges)]


def variance_inflation(series: Sequence[Sequence[float]], *, fitted: int) -> float:
    """How many times larger the variance of a mean is than for independent values; at least 1.

    From the correlation of neighbours in residuals, those of several series pooled. Residuals seem less correlated than
    they are, the more so the more parameters were `fitted` (1 for a mean, 2 for a line); that is corrected for.
    """
    squares = math.fsum(r * r for residuals in series for r in residuals)
    length = sum(map(len, series)) / max(1, len(series))
    if squares <= 0 or length <= 2 * fitted + 1:
        return 1.0
    products = math.fsum(a * b for residuals in series for a, b in pairwise(residuals))
    correlation = (length * products / squares + fitted) / (length - 2 * fitted)
    kept = min(max(correlation, 0.0), MAX_CORRELATION)
    return (1 + kept) / (1 - kept)
