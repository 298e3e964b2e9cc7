"""An event loop in a thread of its own.

Importing vLLM holds the main thread for half a minute, and measuring must share its loop with nobody. What has to answer
meanwhile, the record server and the look-out for the target, lives here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines for other threads; it ends with the process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="background", daemon=True).start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin, and do not wait."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def watch(
        self, work: Coroutine[Any, Any, T], *, end_failed: Callable[[Exception], Coroutine[Any, Any, NoReturn]]
    ) -> Future[T]:
        """Begin work whose failure ends the run at once, whatever other threads are busy with."""

        async def watched() -> T:
            try:
                return await work
            except Exception as error:
                await end_failed(error)

        return self.start(watched())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Begin, and wait for the result. Never from the background thread itself: it would wait for ever."""
        return self.start(work).result()
