"""A stage played through: requests in a queue before a server that has a number of places, and works slower the more of them
are taken. So latencies bend where they would on a real one."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from itertools import accumulate

from benchrun_client.contract import GapCounts, RequestColumns

PLACES = 16
INPUT_TOKENS, OUTPUT_TOKENS = 512, 48


def played(axis: str, load: float, count: int, draw: random.Random, slowness: float) -> RequestColumns:
    """First come, first served: a request waits for a place, then takes longer the more places are taken."""
    arrivals = _arrivals(load, count, draw) if axis == "rate" else None
    users = [0.0] * (int(load) if arrivals is None else 0)
    free = [0.0] * PLACES
    rows: list[tuple[float, float, float]] = []
    for index in range(count):
        sent = arrivals[index] if arrivals is not None else heapq.heappop(users)
        begins = max(sent, heapq.heappop(free))
        taken = 1 + sum(until > begins for until in free)
        first = begins + slowness * draw.lognormvariate(-3.3, 0.18)
        end = first + slowness * (OUTPUT_TOKENS - 1) * (0.006 + 0.0007 * taken) * draw.gauss(1, 0.04)
        heapq.heappush(free, end)
        if arrivals is None:
            heapq.heappush(users, end)
        rows.append((sent, first - sent, end - sent))
    rows.sort()
    origin = rows[0][0]
    ones = (1,) * count
    return RequestColumns(
        start_us=tuple(int(1e6 * (sent - origin)) for sent, _, _ in rows),
        queue_us=(0,) * count,
        ttft_us=tuple(int(1e6 * ttft) for _, ttft, _ in rows),
        e2el_us=tuple(int(1e6 * e2el) for _, _, e2el in rows),
        input_tokens=(INPUT_TOKENS,) * count,
        output_tokens=(OUTPUT_TOKENS,) * count,
        asked_tokens=(OUTPUT_TOKENS,) * count,
        ended=ones,
        ok=ones,
    )


def _arrivals(rate: float, count: int, draw: random.Random) -> list[float]:
    """Poisson, stretched to the rate that was asked for, as the load engine does it."""
    if rate == float("inf"):
        return [0.0] * count
    instants = list(accumulate(draw.expovariate(1.0) for _ in range(count)))
    return [instant * count / rate / instants[-1] for instant in instants]


def gaps_of(columns: RequestColumns, draw: random.Random) -> GapCounts:
    """Those of each answer scatter around its mean."""
    counts: Counter[int] = Counter()
    for ttft, e2el, tokens in zip(columns.ttft_us, columns.e2el_us, columns.output_tokens, strict=True):
        mean = (e2el - ttft) / (tokens - 1)
        counts.update(max(1, 10 * round(mean * draw.gauss(1, 0.1) / 10)) for _ in range(tokens - 1))
    ordered = sorted(counts)
    return GapCounts(us=tuple(ordered), count=tuple(counts[us] for us in ordered))
