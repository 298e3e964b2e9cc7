"""Users of a closed loop: how they begin, how long they think, and how long a round of them takes.

vLLM's closed loop is a semaphore around its requests; each place in it is a user. A user that
begins later holds its place before its first request is sent, and a user that thinks holds it after
an answer. Neither adds to a latency, which counts from the sending of a request.
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
"""Longest time that vLLM takes to hand out a request. If shards have agreed when the first user
begins, that user can't wait until all requests are handed out, and waits for this estimate."""
MAX_SPREAD_SECONDS = 60.0
"""Longest time over which users begin, apart from their think time, so that a far too long estimate
of the answer time does not take up the whole stage."""
SPREAD_SHARE = 0.2
"""Largest share of a stage's expected length during which users begin; all users send in the rest
of the stage."""
_THINK_VERSION = "benchrun.think/1"


def smallest_gap_seconds(users: int) -> float:
    """Return the least time between the first requests of two users."""
    return min(USER_GAP_SECONDS, ALL_USERS_SECONDS / max(1, users))


class UserRamp:
    """The start of a closed loop: its users begin one by one, a gap apart.

    With 0 users no request waits. `own` holds the numbers of the users that this process sends for,
    if other processes send for the rest; None means all.

    vLLM hands out all requests at once: its event loop starts the clocks of all requests before it
    sends them. Each clock then includes the sending of the others: 10 to 30 ms for 24 to 48 users,
    often the p99 of TTFT. The gap prevents that. A longer gap spreads the users over a round, so
    that their prompts do not queue behind each other either.
    """

    def __init__(
        self,
        users: int,
        *,
        gap_seconds: float | None = None,
        own: Sequence[int] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Create a ramp.

        `gap_seconds` is the time between the starts of two users, by default
        `smallest_gap_seconds(users)`.
        """
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
        """Set the start and the gap that all shards have agreed on.

        The first user begins after `start`, by the time that vLLM takes to hand out `requests`.
        """
        self._first = start + requests * HANDING_OUT_SECONDS
        self._gap = self._gap if gap_seconds is None else gap_seconds

    async def turn(self) -> float | None:
        """Wait until the user of the next request may begin; each call is for one request.

        For the first request of a user, returns the instant at which it was due, by the clock.
        Returns None at once for any other request.
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
    """Think time: after an answer, a user waits before its place is free for the next request."""

    def __init__(self, seconds: Sequence[float]) -> None:
        """Set the think time after each of this process's requests, in order; empty: none."""
        self._seconds = seconds
        self._entered = 0
        self._all_entered = asyncio.Event()

    def enter(self) -> None:
        """Note that a user has taken one more request.

        Once the last one is taken, no user thinks: there is no further request to send.
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
    """The mean time from sending a request to the end of its answer, measured with `users`."""

    users: int
    seconds: float


def answer_time(
    instants: Instants, *, users: int, warmup: bool = False
) -> AnswerTime | None:
    """Return the mean answer time of a load; None if nothing was answered.

    In a warm-up the first request of each user met a cold server. These first requests are left out
    if at least half as many later requests succeeded.
    """
    rows = list(zip(instants.sent, instants.answered, instants.ok, strict=True))
    later = [answered - sent for sent, answered, ok in rows[users:] if ok]
    all_of_them = [answered - sent for sent, answered, ok in rows if ok]
    took = later if warmup and len(later) >= users / 2 else all_of_them
    return AnswerTime(users, fmean(took)) if took else None


def nearest(known: Sequence[AnswerTime], *, users: int) -> float | None:
    """Return the answer time in seconds that is known for the nearest number of users.

    The nearest has the smallest ratio to `users`; of equals the latest counts. None if none is
    known.
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

    They begin spread over a round (answer time plus think time), within bounds, or together if no
    answer time is known.
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
    """Return the seconds between the starts of two users; None: take `smallest_gap_seconds`."""
    if start is None or start.mode == "Together" or users < 2:
        return None
    return start.seconds / (users - 1)
