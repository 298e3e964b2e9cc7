"""How many requests were under way at each instant, as the client saw them.

A request is under way from its sending until its last token; asked for, its wait in the client's queue comes before that.
A failed one is so for as long as its record says, which is no time at all when nothing of an answer came.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import add, mul, sub

from benchrun_client.contract import RequestColumns


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step function: from `instants_us[i]` on, `counts[i]` requests are under way; none before the first instant."""

    instants_us: Sequence[int]
    """Ascending, relative to the stage's first send."""
    counts: Sequence[int]
    areas: Sequence[int]
    """Request-microseconds from the first instant to each."""

    def at(self, instant_us: int) -> int:
        """How many at an instant; what ends there has ended, what begins has begun."""
        index = bisect_right(self.instants_us, instant_us)
        return self.counts[index - 1] if index else 0

    def mean(self, start_us: int, end_us: int) -> float | None:
        """Weighted by time over an interval; None for one without length."""
        return (self._area(end_us) - self._area(start_us)) / (end_us - start_us) if end_us > start_us else None

    def means(self, start_us: int, end_us: int, *, parts: int) -> list[float]:
        """The means of equally long parts of an interval, for a trend; none for an interval shorter than its parts."""
        if end_us - start_us < parts:
            return []
        edges = [start_us + (end_us - start_us) * part // parts for part in range(parts + 1)]
        return [(self._area(end) - self._area(start)) / (end - start) for start, end in pairwise(edges)]

    def maximum(self) -> int:
        """The most at any instant."""
        return max(self.counts, default=0)

    def first_reaching(self, level: float) -> int | None:
        """The first instant with at least `level` requests; None if there never were as many."""
        reached = (instant for instant, count in zip(self.instants_us, self.counts, strict=True) if count >= level)
        return next(reached, None)

    def _area(self, instant_us: int) -> int:
        index = bisect_right(self.instants_us, instant_us) - 1
        if index < 0:
            return 0
        return self.areas[index] + self.counts[index] * (instant_us - self.instants_us[index])


def in_flight(requests: RequestColumns, *, with_client_queue: bool = False) -> InFlight:
    """The requests of a stage; `with_client_queue` counts those, too, that a cap held back."""
    begins: Sequence[int] = requests.start_us
    ends = map(add, requests.start_us, requests.e2el_us)
    if with_client_queue:
        begins = tuple(map(sub, requests.start_us, requests.queue_us))
    # One sort for both: doubled instants, odd where a request begins.
    edges = sorted([2 * instant + 1 for instant in begins] + [2 * instant for instant in ends])
    counts = accumulate([1 if edge & 1 else -1 for edge in edges])
    # Of equal instants the last count holds: in between, nothing lasted.
    steps = dict(zip([edge >> 1 for edge in edges], counts, strict=True))
    instants, levels = list(steps), list(steps.values())
    lengths = map(sub, instants[1:], instants)
    return InFlight(instants, levels, list(accumulate(map(mul, levels, lengths), initial=0)) if levels else [])
