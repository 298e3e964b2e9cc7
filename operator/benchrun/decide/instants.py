"""Instants as the status writes them."""

from __future__ import annotations

from datetime import UTC, datetime

from benchrun.observe import raw

_LAST_US = 253_402_300_799_000_000
"""The end of the year 9999: there is no instant after it."""


def instant(text: str | None) -> datetime | None:
    """An RFC 3339 instant, or None when there is none, or none that can be read."""
    return raw.instant(text)


def from_unix_us(micros: int | None) -> datetime | None:
    """Unix microseconds as an instant; None for what is none."""
    return datetime.fromtimestamp(micros / 1e6, tz=UTC) if micros is not None and 0 <= micros <= _LAST_US else None


def believed(claimed: datetime | None, *, first_seen: datetime, not_before: datetime | None) -> datetime | None:
    """What another clock says of something that happened after `not_before` and was heard of at `first_seen`, both by ours.

    Deadlines are counted from it: a clock that is ahead would move them away, one that is behind would end a run at once.
    """
    if claimed is None:
        return None
    latest = min(claimed, first_seen)
    return latest if not_before is None else max(latest, min(not_before, first_seen))
