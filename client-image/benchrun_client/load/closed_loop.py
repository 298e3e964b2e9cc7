"""Users of a closed loop: how they begin, how long they think, and how long a round of them takes.

vLLM's closed loop is a semaphore around its requests: each place of it is a user. So a user that
has not begun yet waits before its first request, and one that thinks keeps its place after an
answer. Neither is part of a latency, which counts from the sending of a request.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from statistics import fmean

from benchrun_client import contract
from benchrun_client.stage_record import Instants

USER_GAP_SECONDS = 0.002  # Several times the time it takes to send a request over a new connection.
# All users have begun within this time, however many there are.
ALL_USERS_SECONDS = 0.5
HANDING_OUT_SECONDS = 0.000_02
"""Longest time that vLLM takes to hand out a request. It is used where the first user cannot wait
until that is done, because the instant of its start is agreed."""
MAX_SPREAD_SECONDS = 60.0
"""Longest time over which users begin, apart from their think time: a far too long guess must not
take up the whole stage."""
SPREAD_SHARE = 0.2
"""Largest share of the expected stage that is spent on the spread; the rest has the whole load."""
_THINK_VERSION = "benchrun.think/1"


def smallest_gap_seconds(users: int) -> float:
    """Return the time between the first requests of users that begin together."""
    return min(USER_GAP_SECONDS, ALL_USERS_SECONDS / max(1, users))


class UserRamp:
    """The start of a closed loop: its users begin one by one, a gap apart.

    Without users each request is sent when it comes. `own` holds the numbers of the users that this
    process sends for, if other processes send for the rest; None means all.

    vLLM hands out all requests at once: one event loop takes the first step of each (and the clock
    starts), then the second. So every user's clock runs while all of them are being sent: 10 to 30
    ms for 24 to 48 users, often the p99 of TTFT. The gap prevents that. A longer one spreads the
    users over a round, so that their prompts do not wait for each other either.
    """

    def __init__(
        self,
        users: int,
        *,
        gap_seconds: float | None = None,
        own: Sequence[int] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Create a ramp; `gap_seconds` lies between two users, None means the shortest."""
        self._own = range(users) if own is None else own
        self._clock = clock
        self._gap = (
            smallest_gap_seconds(users) if gap_seconds is None else gap_seconds
        )
        self._begun = 0
        self._first: float | None = None

    def agree(
        self, start: float, *, requests: int, gap_seconds: float | None
    ) -> None:
        """Set the instant and the gap at which the load begins in all shards.

        `start` is followed by the time that it takes to hand out so many requests.
        """
        self._first = start + requests * HANDING_OUT_SECONDS
        self._gap = self._gap if gap_seconds is None else gap_seconds

    async def turn(self) -> float | None:
        """Wait for this request's turn, in the order of calls.

        Returns when it was due, by the clock, if it is a user's first request; None for any other
        request, which does not wait.
        """
        if self._begun == len(self._own):
            return None
        user = self._own[self._begun]
        self._begun += 1
        if self._first is None:
            # By then every other request has been handed out.
            await asyncio.sleep(0)
            self._first = self._clock() if self._first is None else self._first
        due = self._first + user * self._gap
        if (wait := due - self._clock()) > 0:
            await asyncio.sleep(wait)
        return due


class Thinking:
    """Think time: a user keeps its place for as long as it thinks after an answer."""

    def __init__(self, seconds: Sequence[float]) -> None:
        """Create it with the think time after each own request, in order; empty for no thinking."""
        self._seconds = seconds
        self._entered = 0
        self._all_entered = asyncio.Event()

    def enter(self) -> None:
        """Note that a user has taken one more request.

        After the last request no user thinks: there is no next request to wait for.
        """
        self._entered += 1
        if self._entered >= len(self._seconds):
            self._all_entered.set()

    async def after(self, number: int) -> None:
        """Wait as long as the user thinks after the answer to this request."""
        if self._all_entered.is_set():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds[number]):
                await self._all_entered.wait()


def think_seconds(
    think: contract.ThinkTime | None, *, seed: int, requests: int
) -> Sequence[float]:
    """Draw how long a user thinks after each request of a stage, in seconds.

    The same seed gives the same times. Empty if users do not think.
    """
    if think is None:
        return ()
    mean = float(think.mean_seconds)
    if think.distribution == "Constant":
        return [mean] * requests
    draw = Random(f"{_THINK_VERSION}:{seed}").random
    return [-mean * math.log(1 - draw()) for _ in range(requests)]


@dataclass(frozen=True, slots=True)
class AnswerTime:
    """The mean time from sending a request to the end of its answer, at a number of users."""

    users: int
    seconds: float


def answer_time(
    instants: Instants, *, users: int, warmup: bool = False
) -> AnswerTime | None:
    """Return the mean answer time of a load; None if nothing was answered.

    The first wave of a warm-up met a cold server: it is left out if at least half as many requests
    succeeded after it.
    """
    rows = list(zip(instants.sent, instants.answered, instants.ok, strict=True))
    later = [answered - sent for sent, answered, ok in rows[users:] if ok]
    all_of_them = [answered - sent for sent, answered, ok in rows if ok]
    took = later if warmup and len(later) >= users / 2 else all_of_them
    return AnswerTime(users, fmean(took)) if took else None


def nearest(known: Sequence[AnswerTime], *, users: int) -> float | None:
    """Return the known answer time at the nearest number of users, in seconds.

    Nearness is by ratio; the latest of equals counts. None if nothing is known.
    """
    found = min(
        reversed(known),
        key=lambda each: abs(math.log(each.users / users)),
        default=None,
    )
    return None if found is None else found.seconds


def user_start(
    load: contract.Load, *, requests: int, known: Sequence[AnswerTime]
) -> contract.UserStart | None:
    """Decide how the users of a load begin; None if the load has no users.

    They begin spread over a round (the answer time and what they think), within bounds, or together
    if no answer time is known.
    """
    if not load.closed_loop or load.cap is None:
        return None
    users = min(load.cap, requests)
    gap = smallest_gap_seconds(users)
    found = nearest(known, users=users)
    together = contract.UserStart(mode="Together", seconds=gap * (users - 1))
    if load.start_mode != "Spread" or found is None:
        return together
    think = load.mean_think_seconds
    whole = found + think
    over = min(
        whole, MAX_SPREAD_SECONDS + think, SPREAD_SHARE * requests / users * whole
    )
    return contract.UserStart(
        mode="Spread",
        seconds=max(gap, over / users) * (users - 1),
        round_seconds=whole,
    )


def gap_of(start: contract.UserStart | None, *, users: int) -> float | None:
    """Return the time from one user to the next in seconds; None means the shortest."""
    if start is None or start.mode == "Together" or users < 2:
        return None
    return start.seconds / (users - 1)
