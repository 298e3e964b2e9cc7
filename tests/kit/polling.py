"""Waiting for what another process does without notice."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

INTERVAL_SECONDS = 0.05


def polling(what: str, *, seconds: float) -> Iterator[None]:
    """Yield the turns of a loop that breaks once its condition holds.

    Raises AssertionError with `what` when time is up.
    """
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        yield
        time.sleep(INTERVAL_SECONDS)
    raise AssertionError(f"not within {seconds:g} s: {what}")


async def turns(what: str, *, seconds: float) -> AsyncIterator[None]:
    """Yield as `polling` does, for loops beside which other tasks run."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        yield
        await asyncio.sleep(INTERVAL_SECONDS)
    raise AssertionError(f"not within {seconds:g} s: {what}")
