"""When the requests of a stage are due, by vLLM's own generator, before any of them is.

`get_request` draws the gaps, then sleeps and yields. Here it runs through under a clock that its sleeps move on, so that all
instants are known before the shards begin together, drawn from the same random state as those of one process. What draws and
scales them stays vLLM's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


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
