"""Background tasks that are restarted whenever they end."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from itertools import repeat
from typing import Any

logger = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]
RESTART_SECONDS = 1.0
ENDS_REMEMBERED = 5
ENDS_WITHIN_SECONDS = 60.0
"""A task that ends ENDS_REMEMBERED times within these seconds is reported: restarts do not help."""


def doubling(first_seconds: float, longest_seconds: float) -> Iterator[float]:
    """Yield pauses in seconds for ever, each twice as long as the last, up to the longest."""
    pause = first_seconds
    while True:
        yield pause
        pause = min(2 * pause, longest_seconds)


def keep_doing(
    name: str, work: Work, *, pauses: Iterator[float], restarted: Callable[[], None]
) -> asyncio.Task[None]:
    """Do this work until the task is cancelled.

    Work that ends earlier is started anew after a pause, and `restarted` is called.
    """

    async def restarted_for_ever() -> None:
        while True:
            task = asyncio.create_task(work(), name=name)
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise
            pause = next(pauses)
            error = None if task.cancelled() else task.exception()
            logger.error(
                "%s has ended and is restarted in %.0f s",
                name,
                pause,
                exc_info=error,
            )
            restarted()
            await asyncio.sleep(pause)

    return asyncio.create_task(restarted_for_ever(), name=f"{name}, kept going")


class ProcessTasks:
    def __init__(self, restarted: Callable[[str], None]) -> None:
        """Call `restarted` with the name of every task that is restarted."""
        self._restarted = restarted
        self._tasks: list[asyncio.Task[None]] = []
        self._ends: dict[str, deque[float]] = {}

    def start(self, name: str, work: Work) -> None:
        """Keep this work running until `close`."""
        pauses = repeat(RESTART_SECONDS)
        self._tasks.append(
            keep_doing(
                name, work, pauses=pauses, restarted=lambda: self._note_end(name)
            )
        )

    def problems(self) -> list[str]:
        """Describe the tasks that end again soon after every restart."""
        earliest = asyncio.get_running_loop().time() - ENDS_WITHIN_SECONDS
        ends_often = [
            name
            for name, at in self._ends.items()
            if len(at) == ENDS_REMEMBERED and at[0] > earliest
        ]
        return [
            f"the background task {name} ends after every restart"
            for name in ends_often
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _note_end(self, name: str) -> None:
        self._restarted(name)
        now = asyncio.get_running_loop().time()
        self._ends.setdefault(name, deque(maxlen=ENDS_REMEMBERED)).append(now)
