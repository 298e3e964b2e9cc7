"""Batch means: a series of correlated values is cut into batches, each with its mean."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from benchrun_client.contract import variance_inflation as variance_inflation

# Requests that meet at the server share its queue, so their latencies are far from independent.
# Means of long batches nearly are; the correlation that is left between neighbours is measured, and
# makes every statement about them less certain.

BATCHES = 20


def batch_means(values: Sequence[float], *, batches: int = BATCHES) -> list[float]:
    """Return the means of `batches` consecutive parts, whose lengths differ by at most one value.

    Fewer values than `batches` are returned unchanged.
    """
    parts = min(batches, len(values))
    edges = [len(values) * i // parts for i in range(parts + 1)] if parts else []
    return [fmean(values[a:b]) for a, b in pairwise(edges)]
