"""The operator's one clock: the API server's time, carried on by the monotonic clock.

Every time in a status and every deadline comes from this clock, so a wrong clock of a node does not
move a deadline. The API server sends its time with every answer, in whole seconds. If its time
differs from the clock, the clock follows only after `DOUBT_SECONDS` of such answers, since one of
several API servers may be wrong.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

TOLERANCE_SECONDS = 2.0
"""Seconds that a time may be off: a Date has whole seconds, and an answer takes time."""
# seconds that a different time must be sent before it is believed
DOUBT_SECONDS = 60.0


class Clock:
    """Shows this node's wall clock until the API server has sent its time."""

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()  # seconds added to the monotonic clock
        self._was_told = False
        self._doubted_since: float | None = None

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._monotonic() + self._offset, UTC)

    def told(self, date: str | None) -> None:
        """Adjust the clock to the `Date` header of an answer that just came.

        None or an unreadable date is ignored.
        """
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
