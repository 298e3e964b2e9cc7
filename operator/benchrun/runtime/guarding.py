"""One pass, counted and timed; what the API server said no to is told to the queue, which asks again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from benchrun.effects.errors import ClusterError, Conflict, Throttled
from benchrun.runtime.queue import Later
from benchrun.runtime.telemetry import Telemetry

LOOK_AGAIN_SECONDS = 0.5
"""After a conflict: by then the watch has usually told."""


async def guarded(
    make_pass: Callable[[], Awaitable[float | None]],
    *,
    telemetry: Telemetry,
    after_conflict: Callable[[], Awaitable[None]],
) -> float | None:
    """What the pass returned. Raises Later; after a conflict, when what is there now was read again."""
    with telemetry.a_pass() as outcome:
        try:
            return await make_pass()
        except Throttled as error:
            outcome.result = "throttled"
            raise Later(str(error), seconds=error.retry_after_seconds) from error
        except Conflict as error:
            outcome.result = "conflict"
            await after_conflict()
            raise Later(str(error), seconds=LOOK_AGAIN_SECONDS) from error
        except ClusterError as error:
            outcome.result = type(error).__name__.lower()
            raise Later(f"{type(error).__name__}: {error}", seconds=LOOK_AGAIN_SECONDS) from error
