"""What the proxy of a disaggregated server adds to TTFT at 50 requests a second.

Both servers are simulated; the proxy is the real one. Its own metric is compared with what a client
measures that asks the two servers itself, in the same run. Where it is permitted to (root), the
benchmark runs at real-time priority, so that other work on the machine does not show. Progress goes
to standard error; the last line on standard output is one JSON object
(`proxy_kit.figures.Figures`). Exits 1 when a limit is not kept, 2 when something went wrong.
"""

import argparse
import asyncio
import os
import sys

import aiohttp
from _outcome import finish, say
from proxy_kit.figures import Figures, figures, read_page
from proxy_kit.load import Failed, send, warm_up
from proxy_kit.processes import NotStarted, Split, split_server

RATE = 50.0
SECONDS = 40.0
READY_SECONDS = 60.0
REAL_TIME_PRIORITY = 5


def main() -> int:
    """Measure, print the figures, compare them with the limits, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--rate",
        type=float,
        default=RATE,
        help="requests a second (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help="for so long (default: %(default)s)",
    )
    given = parser.parse_args()
    try:
        # Run before all processes of ordinary priority; child processes inherit it.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(REAL_TIME_PRIORITY))
    except PermissionError:
        say(
            "real-time priority is not permitted: the work of other processes will show in the "
            "figures"
        )
    try:
        found = asyncio.run(_measure(rate=given.rate, seconds=given.seconds))
    except (
        Failed,
        NotStarted,
        TimeoutError,
        OSError,
        aiohttp.ClientError,
    ) as error:
        say(f"{type(error).__name__}: {error}")
        return 2
    return finish(found)


async def _measure(*, rate: float, seconds: float) -> Figures:
    async with (
        split_server() as split,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
    ):
        await asyncio.wait_for(_ready(http, split), READY_SECONDS)
        await warm_up(http, split)
        say(
            f"{rate:g} requests a second for {seconds:g} s, load {os.getloadavg()[0]:.1f}"
        )
        before = await _page(http, split)
        times = await send(http, split, rate=rate, seconds=seconds)
        after = await _page(http, split)
    return figures(times, before, after, seconds=seconds)


async def _ready(http: aiohttp.ClientSession, split: Split) -> None:
    while True:
        async with http.get(f"{split.proxy}/health") as response:
            if response.status == 200:
                return
        await asyncio.sleep(0.1)


async def _page(http: aiohttp.ClientSession, split: Split) -> dict[str, float]:
    async with http.get(f"{split.proxy}/metrics") as response:
        return read_page(await response.text())


if __name__ == "__main__":
    sys.exit(main())
