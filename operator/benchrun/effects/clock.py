"""The operator's one clock: the API server's time, carried on by the monotonic clock.

Everything that is noted in a status or decided by time is told by it, so that no node's wall clock
moves a deadline, whatever it is set to. The API server tells its time with every answer, in whole
seconds. Where that contradicts what the clock shows, the clock follows only after it was told so
for a while and never otherwise: one server of several may be wrong."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

TOLERANCE_SECONDS = 2.0  # whole seconds, and what an answer takes on its way
DOUBT_SECONDS = 60.0  # how long another time must be told before it is believed


class Clock:
    """Shows this node's wall clock until the API server has told its time."""

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()  # what is added to the monotonic clock
        self._was_told = False
        self._doubted_since: float | None = None

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._monotonic() + self._offset, UTC)

    def told(self, date: str | None) -> None:
        """Take the `Date` of an answer that just came."""
        if (seconds := _seconds(date)) is None:
            return
        now = self._monotonic()
        offset = seconds + 0.5 - now
        if abs(offset - self._offset) <= TOLERANCE_SECONDS:
            self._was_told = True
            self._doubted_since = None
            return
        if self._doubted_since is None:
            self._doubted_since = now
        if not self._was_told or now - self._doubted_since >= DOUBT_SECONDS:
            self._offset = offset
            self._was_told = True
            self._doubted_since = None


def _seconds(date: str | None) -> float | None:
    try:
        return parsedate_to_datetime(date or "").timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
