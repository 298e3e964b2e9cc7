"""A server whose speed changes: over its life, within a window, or from one repeat to the next."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """How all times change; the defaults change nothing."""

    percent_per_1000_requests: float = 0.0
    """Slower with every request since the start, in a straight line."""
    percent_per_second: float = 0.0
    """Slower with every second since request `from_request` arrived, in a straight line."""
    from_request: int = 1
    alternate_requests: int = 0
    """So many requests at the usual speed, as many with `alternate_percent` more, and so on; 0 =
    never."""
    alternate_percent: float = 0.0


class Drift:
    """A calculator of the factor by which each request's durations change."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._slower_since: float | None = None

    def arrived(self, number: int, *, now: float) -> None:
        """Note the arrival of request `number`, counted from 1."""
        if self._slower_since is None and number >= self._changes.from_request:
            self._slower_since = now

    def factor(self, number: int, *, now: float) -> float:
        """Return how many times slower than usual request `number` is now; 1 means as usual."""
        changes = self._changes
        factor = 1 + changes.percent_per_1000_requests / 100 * number / 1000
        if self._slower_since is not None:
            factor *= 1 + changes.percent_per_second / 100 * max(
                now - self._slower_since, 0
            )
        if (
            changes.alternate_requests
            and max(number - 1, 0) // changes.alternate_requests % 2
        ):
            factor *= 1 + changes.alternate_percent / 100
        return factor
