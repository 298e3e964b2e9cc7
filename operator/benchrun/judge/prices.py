"""What it would take to bound a percentile of a load point, or to decide an objective."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchrun_client.contract import Needed, StageRecord

from benchrun.api import Price
from benchrun.measure import Samples, duration_seconds, rounded

MAX_TOLD_REQUESTS = 10_000_000
"""More requests are not told: nobody would send so many."""


class Held(NamedTuple):
    """What the stages of a load point took, together."""

    requests: int  # That were sent.
    counted: int  # Of these in the steady parts, or all if there are none.
    repeats: int
    seconds: float  # From each stage's first send to its last answer.
    gpus: int  # That the servers held meanwhile; 0: none, or not known.


def held(
    records: Sequence[StageRecord], samples: Samples, *, gpus: int
) -> Held | None:
    """Return what a load point took; None if nothing was measured."""
    sample = next(iter(samples.values()), None)
    if not records or sample is None:
        return None
    return Held(
        requests=sum(len(record.requests.ok) for record in records),
        counted=sum(len(stage.order) for stage in sample.stages),
        repeats=len(records),
        seconds=math.fsum(map(duration_seconds, records)),
        gpus=gpus,
    )


def price(needed: Needed | None, of: Held | None) -> Price | None:
    """Return the price of stages that are so much longer, and of so many; None if not known.

    A longer stage is longer in its steady part: what lies outside stays. A stage without one is
    longer as a whole.
    """
    if needed is None or of is None or not of.counted:
        return None
    more = needed.repeats / of.repeats
    longer = (needed.longer - 1) * of.counted
    requests = math.ceil((of.requests + longer) * more)
    if requests > MAX_TOLD_REQUESTS:
        return None
    seconds = of.seconds * requests / of.requests
    return Price(
        requests=requests,
        repeats=needed.repeats,
        minutes=rounded(seconds / 60),
        gpu_seconds=rounded(seconds * of.gpus) if of.gpus else None,
    )


def prices(needed: Mapping[str, Needed], of: Held | None) -> dict[str, Price]:
    """Return the price of each uncertain percentile, by its key, where it is known."""
    found = {key: price(each, of) for key, each in needed.items()}
    return {key: each for key, each in found.items() if each is not None}
