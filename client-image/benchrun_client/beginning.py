"""Users of a closed loop begin one by one, a moment apart.

vLLM hands out all requests at once. Then the first one of every user is sent at one instant by one event loop, which takes
the first step of each (and the clock starts), then the second of each. So every user's clock runs while all of them are
being sent: 10 to 30 ms for 24 to 48 users, and of some hundred requests that first wave is the p99 of TTFT.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

USER_GAP_SECONDS = 0.002
"""Several times what it takes to send a request over a new connection."""
ALL_USERS_SECONDS = 0.5
"""In which all of them have begun, however many they are."""
HANDING_OUT_SECONDS = 0.000_02
"""What vLLM takes to hand out a request, at most, where the first user can't wait to see it done: its instant is agreed."""


class Beginning:
    """Of one load of so many users. Without any, each request goes when it comes. `own`: which of the users are ours, where
    others send the rest; None: all."""

    def __init__(
        self, users: int, *, own: Sequence[int] | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._own, self._clock = range(users) if own is None else own, clock
        self._gap = min(USER_GAP_SECONDS, ALL_USERS_SECONDS / max(1, users))
        self._begun = 0
        self._first: float | None = None
        self._order = asyncio.Lock()

    def agree(self, start: float, *, requests: int) -> None:
        """The load of so many requests, in all shards, begins at an instant that all know."""
        self._first = start + requests * HANDING_OUT_SECONDS

    async def turn(self) -> float | None:
        """Wait for this request's turn, in the order of calls: that of the requests, by which vLLM tells results apart. When
        it was due, by the clock, if it is a user's first."""
        async with self._order:
            if self._begun == len(self._own):
                return None
            if self._first is None:
                await asyncio.sleep(0)  # by then every other request has been handed out
                self._first = self._clock()
            due = self._first + self._own[self._begun] * self._gap
            self._begun += 1
            if (wait := due - self._clock()) > 0:
                await asyncio.sleep(wait)
            return due
