"""The plateau of a stage: from where its load stands as asked until the last request is sent.

Before it the load still rises, after it the load drains, and both make figures of a short stage too good or too bad. How a
load comes to stand depends on what keeps it up:

    a cap alone       the first instant with 95 % of the cap in flight, or with the most there ever were
    a rate            once the first requests could have been answered, and the first tenth of the sending is over
    neither           all at once, or as recorded: nothing ever stands, there is no plateau
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import compress

from benchrun_client.contract import RequestColumns

from benchrun.measure.inflight import InFlight

MIN_REQUESTS = 20
"""Fewer sent within it say nothing about a level."""
REACHED_SHARE = 0.95
"""Of the cap: by the time the last users send, the first may have their answers."""
SKIPPED_SHARE = 0.1
"""Of the sending time, at least, under a rate."""


class NoPlateau(StrEnum):
    """Why a stage has none."""

    NO_REQUESTS = "no requests"
    ALL_AT_ONCE = "all requests were sent at once"
    FOLLOWS_TRACE = "the load is a trace, which does not stand"
    WHOLE_BATCHES = "the engine was given one batch after the other"
    ANSWERS_OUTLAST_SENDING = "answers took longer than the sending lasted"
    TOO_FEW_REQUESTS = "too few requests were sent while the load stood"


@dataclass(frozen=True, slots=True)
class Plateau:
    """An interval relative to the stage's first send, and the requests sent within it, both ends included."""

    start_us: int
    end_us: int
    started: Sequence[int]
    """Positions in the record's columns, in order of sending."""

    @property
    def length_us(self) -> int:
        """How long it is; above 0."""
        return self.end_us - self.start_us


def plateau(
    requests: RequestColumns, flight: InFlight, *, request_rate: float, max_concurrency: int | None
) -> Plateau | NoPlateau:
    """Find it. `request_rate` is infinite where only the cap limits; `flight` counts requests from their sending."""
    if not requests.start_us:
        return NoPlateau.NO_REQUESTS
    last = max(requests.start_us)
    if math.isfinite(request_rate):
        start = _settled(requests, last)
        if start >= last:
            return NoPlateau.ANSWERS_OUTLAST_SENDING
    elif max_concurrency is not None:
        start = _reached(flight, max_concurrency)
    else:
        return NoPlateau.ALL_AT_ONCE
    started = _sent_within(requests.start_us, start, last)
    if len(started) < MIN_REQUESTS or start >= last:
        return NoPlateau.TOO_FEW_REQUESTS
    return Plateau(start, last, started)


def _reached(flight: InFlight, max_concurrency: int) -> int:
    level = min(REACHED_SHARE * max_concurrency, flight.maximum())
    return max(0, flight.first_reaching(level) or 0)


def _settled(requests: RequestColumns, last: int) -> int:
    answers = list(compress(requests.e2el_us, requests.ok))
    first, mean = min(requests.start_us), sum(answers) / len(answers) if answers else 0.0
    return first + math.ceil(max(mean, SKIPPED_SHARE * (last - first)))


def _sent_within(starts: Sequence[int], start_us: int, end_us: int) -> list[int]:
    """Columns are in order of sending but for requests of the same moment; the sort then costs nothing."""
    return sorted((i for i, sent in enumerate(starts) if start_us <= sent <= end_us), key=starts.__getitem__)
