"""The work queue: which runs to look at, and when.

    add(key)  -->  ready (each key once)  -->  worker  -->  handle(key)
                                                  |  returned seconds: look again then, unless something happens before
                                                  |  raised: look again after a back-off that doubles with each failure
                                                  |  added meanwhile: look again at once, exactly once

A key is never handled twice at the same time. A pass says when to look again; it replaces what an earlier pass said.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 120.0
STOP_SECONDS = 3.0


class Later(Exception):
    """Raised by a handler that failed for a reason that tells how long to wait at least."""

    def __init__(self, reason: str, *, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class WorkQueue(Generic[K]):
    """Keys to handle: deduplicated, one at a time per key, retried with back-off."""

    def __init__(
        self,
        handle: Callable[[K], Awaitable[float | None]],
        *,
        workers: int,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._handle = handle
        self._worker_count = workers
        self._jitter = jitter
        self._ready: asyncio.Queue[K | None] = asyncio.Queue()
        self._queued: set[K] = set()
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._workers: list[asyncio.Task[None]] = []

    @property
    def depth(self) -> int:
        """Keys waiting for a worker now."""
        return len(self._queued)

    @property
    def alive(self) -> bool:
        """Whether every worker is at work or ready for it."""
        return bool(self._workers) and not any(worker.done() for worker in self._workers)

    def add(self, key: K) -> None:
        """Look at the key as soon as a worker is free."""
        if key in self._running:
            self._again.add(key)
        elif key not in self._queued:
            self._cancel_timer(key)
            self._queued.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Look at the key in so many seconds; of several such wishes the earliest wins."""
        if seconds <= 0:
            self.add(key)
            return
        if key in self._queued:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        waiting = self._timers.get(key)
        if waiting is not None and waiting.when() <= due:
            return
        self._cancel_timer(key)
        self._timers[key] = loop.call_at(due, self._due, key)

    def start(self) -> None:
        """Begin to handle what was added and what will be."""
        self._workers = [
            asyncio.create_task(self._work(), name=f"queue worker {number}") for number in range(self._worker_count)
        ]

    async def stop(self) -> None:
        """Let passes under way end, for a little while; then end them. Nothing that waits is started."""
        for key in tuple(self._timers):
            self._cancel_timer(key)
        while not self._ready.empty():
            self._ready.get_nowait()
        self._queued.clear()
        for _ in self._workers:
            self._ready.put_nowait(None)
        if self._workers:
            await asyncio.wait(self._workers, timeout=STOP_SECONDS)
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        self._workers = []

    async def _work(self) -> None:
        while (key := await self._ready.get()) is not None:
            self._queued.discard(key)
            self._running.add(key)
            try:
                delay = await self._handled(key)
            finally:
                self._running.discard(key)
            if key in self._again:
                self._again.discard(key)
                # After a failure the back-off holds: what was added meanwhile is seen then.
                delay = delay if key in self._failures else 0.0
            if delay is not None:
                self.add_after(key, delay)

    async def _handled(self, key: K) -> float | None:
        """Seconds until the key is to be handled again."""
        try:
            delay = await self._handle(key)
        except Later as later:
            logger.info("%s: again in at least %.1f s: %s", key, later.seconds, later)
            return max(later.seconds, self._back_off(key))
        except Exception:
            logger.exception("pass over %s failed", key)
            return self._back_off(key)
        self._failures.pop(key, None)
        return delay

    def _back_off(self, key: K) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        longest = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(failures - 1, 20))
        return longest * (0.5 + self._jitter() / 2)

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _cancel_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
