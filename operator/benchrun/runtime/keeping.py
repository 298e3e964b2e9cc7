"""Background tasks of the process itself: none of them ever ends, and one that does is started again."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

logger = logging.getLogger(__name__)

RESTART_SECONDS = 1.0
ENDS_REMEMBERED = 5
ENDS_WITHIN_SECONDS = 60.0
"""A task that ends so often within that time is not kept alive by starting it again."""


class Keeper:
    """Keeps tasks going."""

    def __init__(self, restarted: Callable[[str], None]) -> None:
        """`restarted` is told the name of every task that is started again."""
        self._restarted = restarted
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, deque[float]] = {}
        self._is_closed = False

    def keep(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do this from now on, until `close`."""
        task = self._tasks[name] = asyncio.create_task(work(), name=name)
        task.add_done_callback(lambda ended: self._ended(ended, name, work))

    def problems(self) -> list[str]:
        """The tasks that end whenever they are started."""
        earliest = asyncio.get_running_loop().time() - ENDS_WITHIN_SECONDS
        often = (name for name, ends in self._ends.items() if len(ends) == ENDS_REMEMBERED and ends[0] > earliest)
        return [f"{name} keeps ending" for name in often]

    async def close(self) -> None:
        """End everything."""
        self._is_closed = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _ended(self, task: asyncio.Task[None], name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        error = None if task.cancelled() else task.exception()
        if self._is_closed:
            return
        logger.error("%s has ended and is started again", name, exc_info=error)
        self._restarted(name)
        loop = asyncio.get_running_loop()
        self._ends.setdefault(name, deque(maxlen=ENDS_REMEMBERED)).append(loop.time())
        loop.call_later(RESTART_SECONDS, self._again, name, work)

    def _again(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._is_closed:
            self.keep(name, work)
