"""What the GPUs of a run were used for, and since when a run waits for them, by its status."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from benchrun.api import BenchmarkRunStatus, Phase, total_gpus
from benchrun.observe.untrusted_json import instant

GpuUse = Literal["starting", "measuring", "other"]
WAITING: frozenset[Phase] = frozenset({"Pending", "WaitingForNode"})
"""Phases of a run whose client is ready and whose server has no node, or that waits in a queue."""


def gpu_seconds(
    status: BenchmarkRunStatus, *, since: datetime, until: datetime
) -> Mapping[GpuUse, float]:
    """Return the GPU seconds that the run's servers took between two instants, by use.

    Empty while it is not known when the servers got their node. They are starting from then until
    the first healthy answer. They are measuring from the first measured request until their
    deletion is requested or, at the loss of a quota, until the loss is noted. The time in between,
    such as the warm-up, is other.

    An instant in a status never changes once it is known, so the results of successive periods add
    up to the whole.
    """
    scheduled = instant(status.scheduled_time)
    if scheduled is None:
        return {}
    evicted = None if status.queue is None else instant(status.queue.evicted_time)
    released = instant(status.server_released_time) or evicted or until
    measured = instant(status.start_time) or released
    ready = min(instant(status.server_ready_time) or measured, measured)
    parts: Mapping[GpuUse, tuple[datetime, datetime]] = {
        "starting": (scheduled, ready),
        "other": (ready, measured),
        "measuring": (measured, released),
    }
    gpus = total_gpus(status.servers)
    return {
        use: gpus * _seconds(max(start, since), min(end, until))
        for use, (start, end) in parts.items()
    }


def waits_since(status: BenchmarkRunStatus) -> datetime | None:
    """Return since when the run waits for what its server needs; None if it does not wait.

    A run without a quota is not accepted yet: it waits from when it joined its queue.
    """
    if status.phase not in WAITING:
        return None
    queued = None if status.queue is None else status.queue.since
    return instant(status.accepted_time or queued)


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())
