"""The work queue: which runs and sweeps to reconcile, and when.

    add(key)  -->  ready (each key once)  -->  worker  -->  handle(key)
                                                  |  returned seconds: handle it then, unless
                                                  something happens before
                                                  |  raised: handle it after a back-off that doubles
                                                  with each failure
                                                  |  added meanwhile: handle it at once, exactly
                                                  once

A key is never handled twice at the same time. A handler returns in how many seconds the key is due
next; this replaces the time that it returned earlier.

One worker begins in a turn of the event loop, so that a decision delays nothing else by more than
its own milliseconds, however many workers there are.

Keys wait in two lanes, urgent ones and others, and in each lane the namespaces take turns. Urgent
keys go first, but after `PICKS_IN_A_ROW` of them one other key is taken. One spare worker takes
only urgent keys, so that slow other keys never delay them.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import KW_ONLY, dataclass

from benchrun.effects import Lane
from benchrun.observe import Key
from benchrun.runtime.background_tasks import doubling

logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 120.0
LONGEST_URGENT_RETRY_SECONDS = 4.0
"""Most seconds until an urgent key is retried: its run holds a server while its handler fails."""
STOP_SECONDS = 3.0
PICKS_IN_A_ROW = 7  # urgent keys that are taken in succession while other keys wait


class Later(Exception):
    """Raised by a handler that failed, to be called again after at least `seconds`.

    `longest_seconds` is the longest back-off, however often the handler fails.
    """

    def __init__(
        self,
        reason: str,
        *,
        seconds: float,
        longest_seconds: float = LONGEST_RETRY_SECONDS,
    ) -> None:
        super().__init__(reason)
        self.seconds = seconds
        self.longest_seconds = longest_seconds


@dataclass(eq=False)
class WorkQueue:
    """Keys to handle: deduplicated, one at a time per key, retried with back-off.

    It is fair between namespaces.
    """

    handle: Callable[[Key], Awaitable[float | None]]
    _: KW_ONLY
    workers: int
    urgent: Callable[[Key], bool] = lambda _: False
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        self._urgent: Lane[Key] = Lane()
        self._others: Lane[Key] = Lane()
        self._in_a_row = 0
        self._added = asyncio.Event()
        self._begins = asyncio.Lock()
        self._stopping = False
        self._running: set[Key] = set()
        self._added_meanwhile: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._pauses: dict[
            Key, Iterator[float]
        ] = {}  # back-offs of keys whose last handling failed
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def depth(self) -> int:
        """Return how many keys wait for a worker now."""
        return len(self._urgent) + len(self._others)

    @property
    def has_lost_workers(self) -> bool:
        """Return whether a worker has ended although the queue was not stopped."""
        return not self._stopping and any(worker.done() for worker in self._tasks)

    def add(self, key: Key) -> None:
        """Handle the key as soon as a worker is free."""
        if key in self._running:
            self._added_meanwhile.add(key)
        elif key not in self._urgent:
            self._cancel_timer(key)
            is_urgent = self.urgent(key)
            if is_urgent and key in self._others:
                self._others.remove(key)
            (self._urgent if is_urgent else self._others).add(key)
            self._added.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Handle the key in `seconds`; of several such requests the earliest one counts."""
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        due = loop.time() + seconds
        if (
            key in self._urgent
            or key in self._others
            or (timer is not None and timer.when() <= due)
        ):
            return
        self._cancel_timer(key)
        self._timers[key] = loop.call_at(due, self._due, key)

    def start(self) -> None:
        """Start the workers, unless they were started already."""
        if self._tasks or self._stopping:
            return
        takes = [*[self._next_in_turn] * self.workers, self._next_urgent]
        self._tasks = [
            asyncio.create_task(self._work(t), name=f"queue worker {n}")
            for n, t in enumerate(takes)
        ]

    async def stop(self) -> None:
        """Let handlers finish for a few seconds, then cancel them. No waiting key is started."""
        self._stopping = True
        for key in tuple(self._timers):
            self._cancel_timer(key)
        self._urgent.clear()
        self._others.clear()
        self._added.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for worker in self._tasks:
            worker.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _next_in_turn(self) -> Key | None:
        """Return the next key, at most one in a turn of the loop; None if no key waits."""
        async with self._begins:
            # Answers, watch events and urgent keys come in between.
            await asyncio.sleep(0)
            return self._next()

    async def _next_urgent(self) -> Key | None:
        return self._urgent.take()

    def _next(self) -> Key | None:
        others_turn = self._in_a_row >= PICKS_IN_A_ROW and len(self._others) > 0
        key = None if others_turn else self._urgent.take()
        self._in_a_row = self._in_a_row + 1 if key is not None else 0
        return key if key is not None else self._others.take()

    async def _work(self, take: Callable[[], Awaitable[Key | None]]) -> None:
        while not self._stopping:
            key = await take()
            if self._stopping:
                return
            if key is None:
                self._added.clear()
                await self._added.wait()
                continue
            self._running.add(key)
            try:
                delay = await self._handled(key)
            finally:
                self._running.discard(key)
            # most handlers never wait, so give other tasks their turn
            await asyncio.sleep(0)
            if self._stopping:
                return
            if key in self._added_meanwhile:
                self._added_meanwhile.discard(key)
                # After a failure the back-off holds: keys added meanwhile are handled at its end.
                delay = delay if key in self._pauses else 0.0
            if delay is not None:
                self.add_after(key, delay)

    async def _handled(self, key: Key) -> float | None:
        """Handle the key and return the seconds until it is due again.

        None if only an event makes it due.
        """
        try:
            delay = await self.handle(key)
        except Later as later:
            logger.info(
                "%s: next reconcile in at least %.1f s: %s",
                key,
                later.seconds,
                later,
            )
            return max(
                later.seconds, min(self._back_off(key), later.longest_seconds)
            )
        except Exception:
            logger.exception("the reconcile of %s failed", key)
            return self._back_off(key)
        self._pauses.pop(key, None)
        return delay

    def _back_off(self, key: Key) -> float:
        pause = next(
            self._pauses.setdefault(
                key, doubling(FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS)
            )
        )
        longest = (
            min(pause, LONGEST_URGENT_RETRY_SECONDS) if self.urgent(key) else pause
        )
        return longest * (0.5 + self.jitter() / 2)

    def _due(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: Key) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
