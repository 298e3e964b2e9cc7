"""What time it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of wall-clock time."""

    def now(self) -> datetime:
        """The present instant, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The present instant, in UTC."""
        return datetime.now(UTC)
