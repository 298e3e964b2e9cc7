"""A simulated stage: requests in a queue before a server that has a number of places.

The server works slower the more places are taken, so latencies bend where they would on a real one.
"""

import heapq
import math
import random
from itertools import accumulate

from _records import columns, gap_counts
from benchrun_client.contract import GapCounts, Load, RequestColumns

PLACES = 16
INPUT_TOKENS = 512
OUTPUT_TOKENS = 48


def played(
    load: Load, count: int, draw: random.Random, slowness: float
) -> RequestColumns:
    """Build the request columns of a stage at a rate, or of users.

    First come, first served: a request waits for a place, then takes longer the more places are
    taken.
    """
    rate = math.inf if load.all_at_once else load.rate
    arrivals = None if rate is None else _arrivals(rate, count, draw)
    users = [0.0] * (load.users or 0)
    free = [0.0] * PLACES
    rows: list[tuple[float, float, float]] = []
    for index in range(count):
        sent = arrivals[index] if arrivals is not None else heapq.heappop(users)
        begins = max(sent, heapq.heappop(free))
        taken = 1 + sum(until > begins for until in free)
        first = begins + slowness * draw.lognormvariate(-3.3, 0.18)
        end = first + slowness * (OUTPUT_TOKENS - 1) * (
            0.006 + 0.0007 * taken
        ) * draw.gauss(1, 0.04)
        heapq.heappush(free, end)
        if arrivals is None:
            heapq.heappush(users, end)
        rows.append((sent, first - sent, end - sent))
    rows.sort()
    origin = rows[0][0]
    in_us = [
        (int(1e6 * (sent - origin)), int(1e6 * ttft), int(1e6 * e2el))
        for sent, ttft, e2el in rows
    ]
    return columns(*zip(*in_us, strict=True), tokens=(INPUT_TOKENS, OUTPUT_TOKENS))


def _arrivals(rate: float, count: int, draw: random.Random) -> list[float]:
    """Draw Poisson arrivals, in seconds, stretched to the exact rate as the load engine does it."""
    if rate == float("inf"):
        return [0.0] * count
    instants = list(accumulate(draw.expovariate(1.0) for _ in range(count)))
    return [instant * count / rate / instants[-1] for instant in instants]


def gaps_of(requests: RequestColumns, draw: random.Random) -> GapCounts:
    """Draw the gaps of each answer, scattered around the answer's mean."""
    means = [
        (e2el - ttft) / (OUTPUT_TOKENS - 1)
        for ttft, e2el in zip(requests.ttft_us, requests.e2el_us, strict=True)
    ]
    return gap_counts(
        max(1, 10 * round(mean * draw.gauss(1, 0.1) / 10))
        for mean in means
        for _ in range(OUTPUT_TOKENS - 1)
    )
