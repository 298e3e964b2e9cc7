"""Stages played by rule at a server of known speed.

There are closed loops of users, and arrivals at a rate.
"""

import heapq
from collections.abc import Callable

from benchrun_client.contract import RequestColumns
from unit.measure.records import requests

Duration = Callable[[int], int]
"""Microseconds from sending to last token, of the nth request."""


def closed_loop(
    count: int,
    users: int,
    *,
    duration_us: Duration,
    tokens: int = 11,
    ramp_us: int = 100,
) -> RequestColumns:
    """Build a stage of users who send as soon as they are answered.

    They begin `ramp_us` after each other. TTFT is a tenth of the duration.
    """
    free = [ramp_us * user for user in range(users)]
    starts = []
    durations = []
    for i in range(count):
        starts.append(heapq.heappop(free))
        durations.append(duration_us(i))
        heapq.heappush(free, starts[-1] + durations[-1])
    return _sent(starts, durations, tokens)


def open_loop(
    count: int, *, gap_us: int, duration_us: Duration, tokens: int = 11
) -> RequestColumns:
    """Build a stage of one request every `gap_us`, whatever the server does."""
    return _sent(
        [gap_us * i for i in range(count)],
        [duration_us(i) for i in range(count)],
        tokens,
    )


def _sent(starts: list[int], durations: list[int], tokens: int) -> RequestColumns:
    return requests(
        start_us=starts,
        e2el_us=durations,
        ttft_us=[duration // 10 for duration in durations],
        output_tokens=[tokens] * len(starts),
    )
