"""Judging, beside the event loop: a large run takes seconds, in which others are to be scraped, followed and released.

One run at a time: the records of two at once would take twice the memory, and two threads are no faster than one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PATIENCE_SECONDS = 1.0
"""How long a pass waits for its turn. Then it makes room: a worker that waits releases nobody's server."""
AGAIN_SECONDS = 1.0
"""When a pass that gave way is made again."""


class Bench:
    """The judge's: a seat for one run."""

    def __init__(self) -> None:
        self._seat = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Whether it is this run's turn; False: others take longer than a pass should wait."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._seat.acquire()
        except TimeoutError:
            yield False
            return
        try:
            yield True
        finally:
            self._seat.release()
