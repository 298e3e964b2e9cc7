"""Which requests of a stage are whose. Pure.

A request belongs to a user: in a closed loop to one of as many users as there are at a time; where requests arrive by
themselves under a cap, to a place under it; without a cap to a user of its own. Users take turns over the shards, so requests,
users and rates are divided exactly, and every shard works from the first request to the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun_client.contract import LoadPoint


@dataclass(frozen=True, slots=True)
class Place:
    """Which of how many a process is."""

    shard: int
    shards: int

    @property
    def is_first(self) -> bool:
        """The one that looks out for the target, hosts the gate and tells the records."""
        return self.shard == 0


@dataclass(frozen=True, slots=True)
class Share:
    """A shard's part of a stage."""

    requests: Sequence[int]
    """Positions among all requests of the stage, ascending. Empty: there are fewer users than shards."""
    users: Sequence[int]
    """Which of the users are this shard's, where their number is limited: the first of them begin in this order."""
    point: LoadPoint
    """The load, with this shard's part of the cap. The rate is the whole one, for the arrivals are those of all."""


def share_of(point: LoadPoint, *, requests: int, place: Place) -> Share:
    """What of a stage of so many requests a shard sends."""
    users = min(point.max_concurrency or requests, requests)
    own = range(place.shard, users, place.shards)
    sent = tuple(i for i in range(requests) if i % users % place.shards == place.shard)
    cap = None if point.max_concurrency is None else max(len(own), 1)
    return Share(requests=sent, users=own, point=point.model_copy(update={"max_concurrency": cap}))
