"""Which requests of a stage are whose, and when each is due. Pure.

A request belongs to a user: in a closed loop to one of as many users as there are at a time; where requests arrive by
themselves under a cap, to a place under it; without a cap to a user of its own. Users take turns over the shards, so requests,
users and rates are divided exactly, and every shard works from the first request to the last.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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


# ---- arrivals ---------------------------------------------------------------------------------------------------------
# When the requests of a stage are due, by vLLM's own generator, before any of them is.
#
# `get_request` draws the gaps, then sleeps and yields. Here it runs through under a clock that its sleeps move on, so that all
# instants are known before the shards begin together, drawn from the same random state as those of one process. What draws and
# scales them stays vLLM's.


class _PlayedTime:
    """Stands in for the modules `time` and `asyncio` in the generator's own module."""

    def __init__(self, asyncio: Any) -> None:
        self._asyncio = asyncio
        self.now = 0.0

    def time(self) -> float:
        return self.now

    perf_counter = monotonic = time

    async def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._asyncio, name)


async def arrivals_of(
    serve: Any, get_request: Callable[..., AsyncIterator[Any]], *args: Any, requests: int, **kwargs: Any
) -> tuple[Sequence[float], Sequence[Any]]:
    """When each request is due, in seconds from the start, and what the generator says beside it (its rate). `args` and `kwargs`
    are those after the requests; `serve`: the generator's module."""
    instants: list[float] = []
    beside: list[Any] = []
    with _played(serve) as clock:
        async for _, rate in get_request(list(range(requests)), *args, **kwargs):
            instants.append(clock.now)
            beside.append(rate)
    return instants, beside


@contextmanager
def _played(serve: Any) -> Iterator[_PlayedTime]:
    modules = serve.time, serve.asyncio
    serve.time = serve.asyncio = clock = _PlayedTime(modules[1])
    try:
        yield clock
    finally:
        serve.time, serve.asyncio = modules
