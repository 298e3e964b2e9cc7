"""A script that creates what the operator creates, as fast as the API server takes it."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from runs_kit.cluster import PATHS, Cluster
from runs_kit.operator_process import kept_waiting_seconds

from scale_kit import manifests

AT_ONCE = 16
T = TypeVar("T")


async def each(things: Iterable[T], deed: Callable[[T], Awaitable[object]]) -> None:
    """Await `deed` for every thing, a few at a time."""
    places = asyncio.Semaphore(AT_ONCE)

    async def do(thing: T) -> None:
        async with places:
            await deed(thing)

    await asyncio.gather(*(do(thing) for thing in things))


async def make(api: Cluster, namespace: str, numbers: Iterable[int]) -> float:
    """Create runs with these numbers and their first children, and return the seconds it took.

    Time in which this process waited for a core does not count.
    """

    async def one(number: int) -> None:
        for kind, body in manifests.alike(f"bare-{number:04d}", namespace):
            await api.ask("POST", PATHS[kind].format(namespace), body)

    began = time.monotonic()
    waited = kept_waiting_seconds(os.getpid())
    await each(numbers, one)
    return time.monotonic() - began - (kept_waiting_seconds(os.getpid()) - waited)
