"""What the servers of a variant did at a load point, by their own words: its runs together.

The same figures as a run's table has, and for the same reason: what ran and what waited is told by its mean, since a queue that
comes and goes is not its peak; of the KV cache the most counts, since it is full once it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from benchrun.api.answering import answering
from benchrun.judge.sweep.measured import Side
from benchrun.measure.cells import rounded

RUNNING, WAITING = "running_mean", "waiting_mean"
KV_CACHE, PREFIX_HITS = "kv_cache_max_percent", "prefix_hit_percent"
_TOGETHER: Mapping[str, Callable[[Sequence[float]], float]] = {
    RUNNING: fmean,
    WAITING: fmean,
    KV_CACHE: max,
    PREFIX_HITS: fmean,
}
"""Arithmetic means: what waits is often 0, and nothing here is compared."""
SERVER_FIGURES: tuple[str, ...] = tuple(_TOGETHER)
"""Names, as in `results[].roles` of a run."""


def server_figures(side: Side, cell: str) -> dict[str, float | None]:
    """Those that every run of the side has at this cell."""
    roles = [answering(row.roles) for _, row in side.at(cell)]
    values = {name: [None if role is None else getattr(role, name) for role in roles] for name in _TOGETHER}
    return {
        name: rounded(_TOGETHER[name](known))
        for name, found in values.items()
        if (known := [value for value in found if value is not None]) and len(known) == len(found)
    }
