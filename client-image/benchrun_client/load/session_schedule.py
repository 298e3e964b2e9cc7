"""When the turns of sessions are due: each after the answers that it waits for, and its pause.

As many sessions are under way at once as the load asks for; the next one begins when one has ended.
The load engine asks for the next turn that is due, and tells when a turn has been answered. A turn
that fails ends its session: turns of it that were not sent yet are lost.
"""

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from benchrun_client.contract.sessions import TurnPlace


class Due(NamedTuple):
    """A turn that may be sent."""

    at: float  # Instant by the clock.
    position: int  # Among the requests of the stage.


class SessionSchedule:
    """The turns of a stage, of which the load engine takes one after the other."""

    def __init__(
        self,
        places: Sequence[TurnPlace],
        *,
        sessions_at_once: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Prepare the sessions in their order; none begins before the first turn is asked for."""
        self._places = places
        self._clock = clock
        self._at_once = sessions_at_once
        self._turns: dict[int, list[int]] = {}
        self._children: dict[int, list[int]] = {}
        self._missing: dict[int, int] = {}
        for position, place in enumerate(places):
            self._turns.setdefault(place.session, []).append(position)
            self._missing[position] = len(place.after)
            for parent in place.after:
                self._children.setdefault(parent, []).append(position)
        self._waiting = iter(self._turns)
        # Of each session under way: turns that are in flight or due, or wait for such.
        self._open: dict[int, int] = {}
        self._failed: set[int] = set()
        self._due: list[Due] = []
        self._changed = asyncio.Event()
        self.order: list[int] = []
        """Positions of the turns that were handed out, in this order."""

    async def turns(self) -> AsyncIterator[Due]:
        """Yield each turn when it is due, until none is left."""
        for _ in range(self._at_once):
            self._begin_next(self._clock())
        while self._due or self._open:
            self._changed.clear()
            if not self._due:
                await self._changed.wait()
                continue
            wait = self._due[0].at - self._clock()
            if wait > 0:
                # An answer may make an earlier turn due.
                try:
                    async with asyncio.timeout(wait):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                continue
            due = heapq.heappop(self._due)
            self.order.append(due.position)
            yield due

    def answered(self, number: int, *, ok: bool) -> None:
        """Note that the turn handed out as this number has ended."""
        now = self._clock()
        position = self.order[number]
        session = self._places[position].session
        if not ok:
            self._give_up(session)
        for child in self._children.get(position, ()):
            self._missing[child] -= 1
            if not self._missing[child] and session not in self._failed:
                self._schedule(child, now)
        self._close(position)

    def _give_up(self, session: int) -> None:
        """Forget the turns that a failed session would send yet: none waits for their pauses."""
        self._failed.add(session)
        if self._open[session] == 1:
            # Nothing but the turn that failed.
            return
        kept = [
            due
            for due in self._due
            if self._places[due.position].session != session
        ]
        self._open[session] -= len(self._due) - len(kept)
        heapq.heapify(kept)
        self._due = kept

    def _begin_next(self, now: float) -> None:
        session = next(self._waiting, None)
        if session is None:
            return
        self._open[session] = 0
        for position in self._turns[session]:
            if not self._missing[position]:
                self._schedule(position, now)

    def _schedule(self, position: int, now: float) -> None:
        place = self._places[position]
        self._open[place.session] += 1
        heapq.heappush(self._due, Due(now + place.delay_seconds, position))
        self._changed.set()

    def _close(self, position: int) -> None:
        """Note that a turn is done with; the session ends with its last one."""
        session = self._places[position].session
        self._open[session] -= 1
        if not self._open[session]:
            del self._open[session]
            self._begin_next(self._clock())
        self._changed.set()
