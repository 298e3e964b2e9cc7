"""How the requests of a stage are divided among shards, and when each is due. Pure.

Each request belongs to a user: a user of a closed loop, one of as many as a cap allows in flight,
or else a user of its own. Users are dealt to the shards in turn, so that requests, users and rates
are divided exactly, and every shard sends from the beginning to the end.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchrun_client.contract import Load


@dataclass(frozen=True, slots=True)
class Shard:
    """The number of this process among those that send the load."""

    number: int
    count: int

    @property
    def is_first(self) -> bool:
        """Return whether this is shard 0, which finds servers, has the gate and serves records."""
        return self.number == 0


@dataclass(frozen=True, slots=True)
class Share:
    """The requests of a stage that one shard sends."""

    requests: Sequence[int]
    """Positions of this shard's requests among all requests of the stage, ascending. Empty: there
    are fewer users than shards."""
    users: Sequence[int]
    """Numbers of this shard's users, in the order in which they begin."""
    load: Load
    """The load, with this shard's part of the concurrency cap, but with the whole rate, because
    each shard computes the arrivals of all shards."""


def share_of(load: Load, *, requests: int, shard: Shard) -> Share:
    """Return the part of a stage of `requests` requests that a shard sends."""
    users = min(load.cap or requests, requests)
    own = range(shard.number, users, shard.count)
    sent = tuple(
        i for i in range(requests) if i % users % shard.count == shard.number
    )
    return Share(requests=sent, users=own, load=load.with_cap(max(len(own), 1)))


class _SimulatedTime:
    """A replacement for `time` and `asyncio` in the module of vLLM's request generator.

    Sleeping only moves the simulated clock forward.
    """

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
    serve: Any,
    get_request: Callable[..., AsyncIterator[Any]],
    *args: Any,
    requests: int,
    **kwargs: Any,
) -> tuple[Sequence[float], Sequence[Any]]:
    """Return when each request is due, in seconds from the start, and the rate given with it.

    vLLM's generator yields a rate with each request. `serve` is the generator's module; `args` and
    `kwargs` are its arguments after the requests. The generator runs in simulated time, so that all
    instants are known before the shards begin, drawn from the same random state as with one
    process.
    """
    instants: list[float] = []
    rates: list[Any] = []
    modules = serve.time, serve.asyncio
    serve.time = serve.asyncio = clock = _SimulatedTime(serve.asyncio)
    try:
        async for _, rate in get_request(list(range(requests)), *args, **kwargs):
            instants.append(clock.now)
            rates.append(rate)
    finally:
        serve.time, serve.asyncio = modules
    return instants, rates
