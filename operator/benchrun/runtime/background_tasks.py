"""Background tasks that never end by themselves: one that does is restarted, until `end`."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import repeat
from typing import Any

logger = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]
RESTART_SECONDS = 1.0
ENDS_REMEMBERED = 5
ENDS_WITHIN_SECONDS = 60.0  # a task that ends so often within that time is not kept alive by a restart


def doubling(first_seconds: float, longest_seconds: float) -> Iterator[float]:
    """Pauses, each twice as long as the one before, until they are as long as they may be; without end."""
    pause = first_seconds
    while True:
        yield pause
        pause = min(2 * pause, longest_seconds)


@dataclass(eq=False)
class BackgroundTask:
    """One task, restarted whenever it ends, until `end`."""

    name: str
    work: Work
    _: KW_ONLY
    pauses: Iterator[float]
    restarted: Callable[[], None]  # called for each restart

    def __post_init__(self) -> None:
        self._is_over = False
        self._pausing: asyncio.TimerHandle | None = None
        self._start()

    def end(self) -> asyncio.Task[None]:
        """Never restart it. It has ended when the task has."""
        self._is_over = True
        if self._pausing is not None:
            self._pausing.cancel()
        self._task.cancel()
        return self._task

    def _start(self) -> None:
        self._task = asyncio.create_task(self.work(), name=self.name)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if self._is_over:
            return
        pause = next(self.pauses)
        logger.error("%s has ended and is restarted in %.0f s", self.name, pause, exc_info=error)
        self.restarted()
        self._pausing = asyncio.get_running_loop().call_later(pause, self._start)


class ProcessTasks:
    def __init__(self, restarted: Callable[[str], None]) -> None:
        """`restarted` is called with the name of every task that is restarted."""
        self._restarted = restarted
        self._tasks: list[BackgroundTask] = []
        self._ends: dict[str, deque[float]] = {}

    def start(self, name: str, work: Work) -> None:
        """Do this from now on, until `close`."""
        pauses = repeat(RESTART_SECONDS)
        self._tasks.append(BackgroundTask(name, work, pauses=pauses, restarted=lambda: self._note_end(name)))

    def problems(self) -> list[str]:
        """The tasks that end whenever they are started."""
        earliest = asyncio.get_running_loop().time() - ENDS_WITHIN_SECONDS
        ends_often = [name for name, at in self._ends.items() if len(at) == ENDS_REMEMBERED and at[0] > earliest]
        return [f"{name} keeps ending" for name in ends_often]

    async def close(self) -> None:
        await asyncio.gather(*[task.end() for task in self._tasks], return_exceptions=True)

    def _note_end(self, name: str) -> None:
        self._restarted(name)
        now = asyncio.get_running_loop().time()
        self._ends.setdefault(name, deque(maxlen=ENDS_REMEMBERED)).append(now)
