"""Series with known properties, from a fixed seed.

Tests of intervals, trends and repeats use them.
"""

import heapq
from random import Random


def correlated(
    random: Random, count: int, *, correlation: float, level: float = 10.0
) -> list[float]:
    """Draw AR(1) noise with skewed (lognormal) shocks around `level`.

    It began long before its first value.
    """
    value = 0.0
    series = []
    for step in range(count + 200):
        value = correlation * value + random.lognormvariate(0, 0.8) - 1.377
        if step >= 200:
            series.append(level + value)
    return series


def queueing(
    random: Random, count: int, *, utilisation: float, servers: int = 8
) -> list[float]:
    """Draw latencies, in order of arrival, of Poisson arrivals at servers that take about 1.

    A `utilisation` above 1 lets the queue grow.
    """
    free = [0.0] * servers
    now = 0.0
    latencies = []
    for _ in range(count):
        now += random.expovariate(utilisation * servers)
        start = max(now, heapq.heappop(free))
        heapq.heappush(free, end := start + random.gammavariate(4, 0.25))
        latencies.append(end - now)
    return latencies
