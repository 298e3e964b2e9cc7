"""The steady part of a stage: requests in flight, and when the load is at its target. Pure."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, compress, pairwise
from operator import add, mul, sub

from benchrun_client.contract.loads import LoadKind, NoPlateau
from benchrun_client.contract.record import RequestColumns


@dataclass(frozen=True, slots=True)
class InFlight:
    """The number of requests in flight as a step function of time.

    From `instants_us[i]` on, `counts[i]` requests are in flight; none before the first instant. A
    request is in flight from its sending until its last token, a failed one for its recorded E2EL.
    """

    instants_us: Sequence[int]  # Ascending, relative to the stage's first send.
    counts: Sequence[int]
    # Request-microseconds from the first instant to each instant.
    areas: Sequence[int]

    def at(self, instant_us: int) -> int:
        """Return the number in flight at an instant.

        It includes requests that begin at that instant, and not those that end at it.
        """
        index = bisect_right(self.instants_us, instant_us)
        return self.counts[index - 1] if index else 0

    def mean(self, start_us: int, end_us: int) -> float | None:
        """Return the mean over an interval, weighted by time; None if the interval is empty."""
        return (
            (self._area(end_us) - self._area(start_us)) / (end_us - start_us)
            if end_us > start_us
            else None
        )

    def means(self, start_us: int, end_us: int, *, parts: int) -> list[float]:
        """Return the means of equally long parts of an interval, to show a trend.

        Empty if the interval has fewer microseconds than parts.
        """
        if end_us - start_us < parts:
            return []
        edges = [
            start_us + (end_us - start_us) * part // parts
            for part in range(parts + 1)
        ]
        return [
            (self._area(end) - self._area(start)) / (end - start)
            for start, end in pairwise(edges)
        ]

    def maximum(self) -> int:
        return max(self.counts, default=0)

    def first_reaching(self, level: float) -> int | None:
        """Return the first instant with at least `level` requests; None if there is none."""
        reached = (
            instant
            for instant, count in zip(self.instants_us, self.counts, strict=True)
            if count >= level
        )
        return next(reached, None)

    def _area(self, instant_us: int) -> int:
        index = bisect_right(self.instants_us, instant_us) - 1
        return (
            self.areas[index]
            + self.counts[index] * (instant_us - self.instants_us[index])
            if index >= 0
            else 0
        )


def in_flight(
    requests: RequestColumns, *, with_client_queue: bool = False
) -> InFlight:
    """Count a stage's requests in flight.

    `with_client_queue`: also count requests that wait in the client for a cap.
    """
    begins = (
        map(sub, requests.start_us, requests.queue_us)
        if with_client_queue
        else requests.start_us
    )
    ends = map(add, requests.start_us, requests.e2el_us)
    # One sort for both: doubled instants, odd where a request begins.
    edges = sorted(
        [2 * instant + 1 for instant in begins] + [2 * instant for instant in ends]
    )
    counts = accumulate([1 if edge & 1 else -1 for edge in edges])
    # Of equal instants the last count holds: in between, nothing lasted.
    steps = dict(zip([edge >> 1 for edge in edges], counts, strict=True))
    instants = list(steps)
    levels = list(steps.values())
    lengths = map(sub, instants[1:], instants)
    return InFlight(
        instants,
        levels,
        list(accumulate(map(mul, levels, lengths), initial=0)) if levels else [],
    )


# The steady part (plateau): what every figure of a load point is of. It leaves out
#
#     the begin    of a closed loop until nearly all users have sent, and one mean E2EL more, in
#                  which the first wave is answered; of an open loop until two mean E2ELs, or a
#                  tenth of the sending, are over
#     the end      the last two mean E2ELs before the last send: later requests run beside too few
#
# Requests count that are *sent* in between, however late their answer. At most half of the sending
# of users is left out, and three tenths of that under a rate: where more had to be, there is no
# steady part, and no other part stands for it; the throughput alone is of the time in which the
# load pressed fully. A load sent at once, a recorded one, and whole batches never stand: there the
# load is the whole stage.

# Fewest requests sent within the steady part: fewer show no level.
MIN_REQUESTS = 10
REACHED_SHARE = 0.95
"""Share of the concurrency cap that counts as reached: when the last users send, the first may
already have their answers."""
# Smallest share of the sending time that is skipped under a rate.
SKIPPED_SHARE = 0.1
FILL_ANSWER_TIMES = 2.0  # Mean E2ELs that an open loop takes to fill a server.
WAVE_ANSWER_TIMES = 1.0  # Mean E2ELs in which the first wave of users is answered.
DRAIN_ANSWER_TIMES = 2.0
"""Time before the last send that is left out, in mean E2ELs: requests that are sent in it end
beside too few others, the longest most of all."""
# Largest share of the sending time that is left out under users.
MAX_LEFT_OUT = 0.5
MAX_LEFT_OUT_OF_RATE = 0.3
"""Largest share of the sending time that is left out under a rate. It is smaller because the
queue's length wanders: if more were left out, stages would look steady that had only met a quiet
time."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """An interval relative to the stage's first send, and the requests sent within it.

    Both ends are included.
    """

    start_us: int
    end_us: int
    # Positions in the record's columns, in order of sending.
    started: Sequence[int]
    is_steady: bool = True
    """False: answers take too long for a steady part. The interval is then the time under full
    load; it shows the throughput, and its latencies mean nothing."""

    @property
    def length_us(self) -> int:
        """Return the length of the interval in microseconds, which is above 0."""
        return self.end_us - self.start_us


def find_plateau(
    requests: RequestColumns, flight: InFlight, load: LoadKind
) -> Plateau | NoPlateau:
    """Return the part of a stage in which the load is at its target, or why there is none.

    `flight` must count requests from their sending, without the client's queue.
    """
    if load.no_plateau is not None:
        return load.no_plateau
    if not requests.start_us:
        return NoPlateau.NO_REQUESTS
    first = min(requests.start_us)
    last = max(requests.start_us)
    answers = list(compress(requests.e2el_us, requests.ok))
    answer_us = sum(answers) / len(answers) if answers else 0.0
    held = load.mean_in_flight(answers)
    kept = 1 - (MAX_LEFT_OUT if load.rate is None else MAX_LEFT_OUT_OF_RATE)
    if load.rate is not None:
        fill_us = max(FILL_ANSWER_TIMES * answer_us, SKIPPED_SHARE * (last - first))
        start = first + math.ceil(fill_us)
    elif held is not None:
        level = min(REACHED_SHARE * held, flight.maximum())
        sent_by_all = max(0, flight.first_reaching(level) or 0)
        start = sent_by_all + math.ceil(WAVE_ANSWER_TIMES * answer_us)
    else:
        return NoPlateau.ALL_AT_ONCE
    end = last - math.ceil(DRAIN_ANSWER_TIMES * answer_us)
    is_steady = end - start >= kept * (last - first) and start < end
    if not is_steady:
        start = start - math.ceil(answer_us)
        end = last
    if start >= end:
        return NoPlateau.ANSWERS_OUTLAST_SENDING
    # Columns are in order of sending but for requests of the same moment; the sort then costs
    # nothing.
    started = [
        i for i, sent in enumerate(requests.start_us) if start <= sent <= end
    ]
    started.sort(key=requests.start_us.__getitem__)
    if len(started) < MIN_REQUESTS:
        return NoPlateau.TOO_FEW_REQUESTS
    return Plateau(start, end, started, is_steady)
