"""How many completions are under way at once. The others wait in the order of their arrival, and not without end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class NoPlace(Exception):
    """As many wait as may."""


class Places:
    """Places for requests on their way, and the queue before them."""

    def __init__(self, *, most: int, most_queued: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._most_queued = most_queued
        self.in_flight = 0
        self.queued = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place; waits for one.

        Raises:
            NoPlace: at once, where the queue is full.
        """
        if self._free.locked() and self.queued >= self._most_queued:
            raise NoPlace
        self.queued += 1
        try:
            await self._free.acquire()
        finally:
            self.queued -= 1
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._free.release()
