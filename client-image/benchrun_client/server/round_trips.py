"""The round-trip time of a small request to idle servers, which is a part of every TTFT.

One request at a time is sent on an open connection, so that the time includes neither a queue nor
the opening of a connection. It does include the few hundred microseconds that a server takes for
its health check.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Sequence
from itertools import cycle, islice
from statistics import median

import aiohttp

from benchrun_client.contract import RoundTrips
from benchrun_client.engines import Engine
from benchrun_client.http_session import MODELS_PATH, NETWORK_ERRORS, answer_of
from benchrun_client.stage_record import micros

ROUND_TRIPS = 20
PAUSE_SECONDS = 0.05
"""Pause between requests, such that all together outlast a core that is slow or busy for a time."""
MAX_SECONDS = 3.0
MAX_SERVERS = 4
"""Most servers that are measured: they idle meanwhile, and a few suffice to show a slow path."""


async def measure_round_trips(
    session: aiohttp.ClientSession,
    urls: Sequence[str],
    engine: Engine,
    *,
    seconds: float = MAX_SECONDS,
) -> RoundTrips | None:
    """Measure the round trips to these servers; None if no server answered 200 in time.

    After a server's first 200 its answers count with any status.
    """
    servers = urls[:MAX_SERVERS]
    took: dict[str, list[float]] = {url: [] for url in servers}
    with contextlib.suppress(*NETWORK_ERRORS):
        async with asyncio.timeout(seconds):
            found = [
                (url, await _open_connection(session, url, engine))
                for url in servers
            ]
            paths = [(url, path) for url, path in found if path is not None]
            for url, path in islice(cycle(paths), ROUND_TRIPS if paths else 0):
                start = time.perf_counter()
                await _status(session, path)
                took[url].append(time.perf_counter() - start)
                await asyncio.sleep(PAUSE_SECONDS)
    every = sorted(seconds for of_server in took.values() for seconds in of_server)
    if not every:
        return None
    return RoundTrips(
        count=len(every),
        median_us=micros(
            max(median(of_server) for of_server in took.values() if of_server)
        ),
        p95_us=micros(every[math.ceil(0.95 * len(every)) - 1]),
    )


async def _open_connection(
    session: aiohttp.ClientSession, url: str, engine: Engine
) -> str | None:
    """Return the URL of the health check or, if it does not answer 200, of the model list.

    None if neither does. A gateway without a health check refuses the request itself, so its
    answer would not show the path to the server.
    """
    for path in (engine.health_path, MODELS_PATH):
        if await _status(session, url + path) == 200:
            return url + path
    return None


async def _status(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url, allow_redirects=False) as response:
        return (await answer_of(response)).status
