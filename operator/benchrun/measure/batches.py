"""Means of batches of values that are alike, and how much less their own mean is certain for it."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

# Requests that meet at the server share its queue, so their latencies are far from independent.
# Means of long batches nearly are; the correlation that is left between neighbours is measured, and
# makes every statement about them less certain.

BATCHES = 20
MAX_CORRELATION = 0.95
"""Beyond it, a series of some twenty values holds next to no information, and no correction
helps."""


def batch_means(values: Sequence[float], *, batches: int = BATCHES) -> list[float]:
    """Means of `batches` consecutive parts, equal in length to within one value; fewer values stand
    for themselves."""
    parts = min(batches, len(values))
    edges = [len(values) * i // parts for i in range(parts + 1)] if parts else []
    return [fmean(values[a:b]) for a, b in pairwise(edges)]


def variance_inflation(series: Sequence[Sequence[float]], *, fitted: int) -> float:
    """How many times larger the variance of a mean is than for independent values; at least 1. From
    the correlation of neighbours in residuals of several series, which seem the less correlated the
    more parameters were `fitted` (1 for a mean, 2 for a line); that is corrected for."""
    squares = math.fsum(r * r for residuals in series for r in residuals)
    length = sum(map(len, series)) / max(1, len(series))
    if squares <= 0 or length <= 2 * fitted + 1:
        return 1.0
    products = math.fsum(a * b for residuals in series for a, b in pairwise(residuals))
    correlation = (length * products / squares + fitted) / (length - 2 * fitted)
    kept = min(max(correlation, 0.0), MAX_CORRELATION)
    return (1 + kept) / (1 - kept)
