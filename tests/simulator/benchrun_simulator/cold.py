"""An engine that is slow at first, because of cold caches and lazy initialisation.

If configured so, it is slow again after it has been idle.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cold:
    """The requests that a cold engine delays, and for how long; the default delays none."""

    requests: int = 0
    seconds: float = 0.0
    after_requests: int = 0
    """The first so many are served as usual, so that a warm-up does not use the cold start up."""
    idle_seconds: float | None = None
    """Cold again, for as many requests, when none came for so long."""


class ColdStart:
    """A calculator of each request's delay by a cold engine."""

    def __init__(self, cold: Cold) -> None:
        self._cold = cold
        self._first_cold = cold.after_requests + 1
        self._last_arrival: float | None = None

    def held_up_seconds(self, number: int, *, now: float) -> float:
        """Note request `number`, counted from 1; return its delay in seconds.

        The delay is added to its prefill.
        """
        cold = self._cold
        last = self._last_arrival
        self._last_arrival = now
        slept = (
            cold.idle_seconds is not None
            and last is not None
            and now - last >= cold.idle_seconds
        )
        if slept and number > cold.after_requests:
            self._first_cold = number
        return (
            cold.seconds
            if self._first_cold <= number < self._first_cold + cold.requests
            else 0.0
        )
