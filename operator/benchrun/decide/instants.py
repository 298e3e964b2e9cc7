"""Instants as the status writes them."""

from __future__ import annotations

from datetime import UTC, datetime

from benchrun.api.conditions import timestamp


def instant(text: str | None) -> datetime | None:
    """An RFC 3339 instant, or None when there is none."""
    return None if text is None else datetime.fromisoformat(text)


def from_unix_us(micros: int | None) -> str | None:
    """Unix microseconds as the status writes them."""
    return None if micros is None else timestamp(datetime.fromtimestamp(micros / 1e6, tz=UTC))
