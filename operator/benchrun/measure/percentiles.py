"""How many values it takes to bound a percentile, and means of batches. Percentiles themselves are the contract's."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from benchrun_client.contract import ERROR, Distribution as Distribution

# Requests that meet at the server share its queue, so their latencies are far from independent. Means of long batches nearly
# are; the correlation that is left between neighbours is measured, and makes every statement about them less certain.

BATCHES = 20
MAX_CORRELATION = 0.95
"""Beyond it, a series of some twenty values holds next to no information, and no correction helps."""


def batch_means(values: Sequence[float], *, batches: int = BATCHES) -> list[float]:
    """Means of `batches` consecutive parts, equal in length to within one value; fewer values stand for themselves."""
    parts = min(batches, len(values))
    edges = [len(values) * i // parts for i in range(parts + 1)] if parts else []
    return [fmean(values[a:b]) for a, b in pairwise(edges)]


def variance_inflation(series: Sequence[Sequence[float]], *, fitted: int) -> float:
    """How many times larger the variance of a mean is than for independent values; at least 1. From the correlation of
    neighbours in residuals of several series, which seem the less correlated the more parameters were `fitted` (1 for a mean,
    2 for a line); that is corrected for."""
    squares = math.fsum(r * r for residuals in series for r in residuals)
    length = sum(map(len, series)) / max(1, len(series))
    if squares <= 0 or length <= 2 * fitted + 1:
        return 1.0
    products = math.fsum(a * b for residuals in series for a, b in pairwise(residuals))
    correlation = (length * products / squares + fitted) / (length - 2 * fitted)
    kept = min(max(correlation, 0.0), MAX_CORRELATION)
    return (1 + kept) / (1 - kept)


# Of n independent values, the number below the true percentile p is binomial (n, p): ranks bound the percentile of any
# distribution. With few values even the largest does not bound a high percentile: p99 has a two-sided 95 % interval from 368
# values on. Requests that share a queue are alike, and need more: `benchrun_client.contract.certainty`.


def least_count(percent: float) -> int | None:
    """How many values a two-sided interval takes: 368 for p99. None for 0 and 100, which nothing bounds."""
    share = max(percent, 100 - percent) / 100
    return math.ceil(math.log(ERROR) / math.log(share)) if share < 1 else None
