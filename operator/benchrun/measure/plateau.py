"""The plateau of a stage: how many requests were under way, and where the load stands at its
target."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, compress, pairwise
from operator import add, mul, sub

from benchrun_client.contract import RequestColumns


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step function: from `instants_us[i]` on, `counts[i]` requests are under way, from their
    sending until their last token; none before the first instant. A failed one is under way for as
    long as its record says."""

    instants_us: Sequence[int]  # Ascending, relative to the stage's first send.
    counts: Sequence[int]
    areas: Sequence[int]  # Request-microseconds from the first instant to each.

    def at(self, instant_us: int) -> int:
        """How many at an instant; what ends there has ended, what begins has begun."""
        index = bisect_right(self.instants_us, instant_us)
        return self.counts[index - 1] if index else 0

    def mean(self, start_us: int, end_us: int) -> float | None:
        """Weighted by time over an interval; None for one without length."""
        return (
            (self._area(end_us) - self._area(start_us)) / (end_us - start_us)
            if end_us > start_us
            else None
        )

    def means(self, start_us: int, end_us: int, *, parts: int) -> list[float]:
        """The means of equally long parts of an interval, for a trend; none for an interval shorter
        than its parts."""
        if end_us - start_us < parts:
            return []
        edges = [start_us + (end_us - start_us) * part // parts for part in range(parts + 1)]
        return [
            (self._area(end) - self._area(start)) / (end - start) for start, end in pairwise(edges)
        ]

    def maximum(self) -> int:
        return max(self.counts, default=0)

    def first_reaching(self, level: float) -> int | None:
        """The first instant with at least `level` requests; None if there never were as many."""
        reached = (
            instant
            for instant, count in zip(self.instants_us, self.counts, strict=True)
            if count >= level
        )
        return next(reached, None)

    def _area(self, instant_us: int) -> int:
        index = bisect_right(self.instants_us, instant_us) - 1
        return (
            self.areas[index] + self.counts[index] * (instant_us - self.instants_us[index])
            if index >= 0
            else 0
        )


def in_flight(requests: RequestColumns, *, with_client_queue: bool = False) -> InFlight:
    """The requests of a stage; `with_client_queue` counts those, too, that a cap held back."""
    begins = (
        map(sub, requests.start_us, requests.queue_us) if with_client_queue else requests.start_us
    )
    ends = map(add, requests.start_us, requests.e2el_us)
    # One sort for both: doubled instants, odd where a request begins.
    edges = sorted([2 * instant + 1 for instant in begins] + [2 * instant for instant in ends])
    counts = accumulate([1 if edge & 1 else -1 for edge in edges])
    # Of equal instants the last count holds: in between, nothing lasted.
    steps = dict(zip([edge >> 1 for edge in edges], counts, strict=True))
    instants, levels = list(steps), list(steps.values())
    lengths = map(sub, instants[1:], instants)
    return InFlight(
        instants, levels, list(accumulate(map(mul, levels, lengths), initial=0)) if levels else []
    )


# The plateau: from where the load stands at its target until the last request is sent.
#
# Before it the load still rises, after it the load drains, and both make figures of a short stage
# too good or too bad. When a load stands depends on what keeps it up:
#
#     a cap alone       the first instant with 95 % of the cap in flight, or with the most there ever were
#     a rate            once the first requests could have been answered, and the first tenth of the sending is over
#     neither           all at once, or as recorded: nothing ever stands, there is no plateau

MIN_REQUESTS = 20  # Fewer sent within it do not show a level.
REACHED_SHARE = (
    0.95  # Of the cap: by the time the last users send, the first may have their answers.
)
SKIPPED_SHARE = 0.1  # Of the sending time, at least, under a rate.


class NoPlateau(StrEnum):
    """Why a stage has none."""

    NO_REQUESTS = "no requests"
    ALL_AT_ONCE = "all requests were sent at once"
    FOLLOWS_TRACE = "a replayed trace has no steady load"
    WHOLE_BATCHES = "the engine was given one batch after the other"
    ANSWERS_OUTLAST_SENDING = "answers took longer than the sending lasted"
    TOO_FEW_REQUESTS = "too few requests were sent at steady load"


@dataclass(frozen=True, slots=True)
class Plateau:
    """An interval relative to the stage's first send, and the requests sent within it, both ends
    included."""

    start_us: int
    end_us: int
    started: Sequence[int]  # Positions in the record's columns, in order of sending.

    @property
    def length_us(self) -> int:
        """How long it is; above 0."""
        return self.end_us - self.start_us


def find_plateau(
    requests: RequestColumns,
    flight: InFlight,
    *,
    request_rate: float,
    max_concurrency: float | None,
) -> Plateau | NoPlateau:
    """Find it. `request_rate` is infinite where only the cap limits: of users that think,
    `max_concurrency` is how many are in flight on average. `flight` counts requests from their
    sending."""
    if not requests.start_us:
        return NoPlateau.NO_REQUESTS
    first, last = min(requests.start_us), max(requests.start_us)
    if math.isfinite(request_rate):
        answers = list(compress(requests.e2el_us, requests.ok))
        mean = sum(answers) / len(answers) if answers else 0.0
        start = first + math.ceil(max(mean, SKIPPED_SHARE * (last - first)))
        if start >= last:
            return NoPlateau.ANSWERS_OUTLAST_SENDING
    elif max_concurrency is not None:
        start = max(
            0, flight.first_reaching(min(REACHED_SHARE * max_concurrency, flight.maximum())) or 0
        )
    else:
        return NoPlateau.ALL_AT_ONCE
    # Columns are in order of sending but for requests of the same moment; the sort then costs
    # nothing.
    started = [i for i, sent in enumerate(requests.start_us) if start <= sent <= last]
    started.sort(key=requests.start_us.__getitem__)
    if len(started) < MIN_REQUESTS or start >= last:
        return NoPlateau.TOO_FEW_REQUESTS
    return Plateau(start, last, started)
