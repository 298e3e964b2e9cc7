"""Completions sent when they are due, through the proxy or past it.

Past it, a client asks both servers itself.
"""

import asyncio
import json
import time
import uuid
from dataclasses import dataclass, field

import aiohttp
from benchrun_client.proxy import forwarding

from proxy_kit.processes import Split

PATH = "/v1/completions"
OUTPUT_TOKENS = 32
PROMPT_BYTES = 2000
HEADERS = {"Content-Type": "application/json"}
DIRECT_EVERY = 5
"""Number of requests through the proxy for each request that goes past it."""


class Failed(Exception):
    """A request got no answer of the kind that was measured."""


@dataclass(slots=True)
class Times:
    """Seconds to the first bytes of the answer, for each request."""

    through: list[float] = field(default_factory=list)
    past: list[float] = field(default_factory=list)


async def warm_up(http: aiohttp.ClientSession, split: Split) -> None:
    """Warm up connections and code on both ways."""
    for _ in range(3):
        ways = [_through(http, split, []) for _ in range(8)] + [
            _past(http, split, []) for _ in range(8)
        ]
        await asyncio.gather(*ways)


async def send(
    http: aiohttp.ClientSession, split: Split, *, rate: float, seconds: float
) -> Times:
    """Send `rate` requests a second through the proxy, and among them some that go past it.

    Raises Failed when a request gets no complete answer.
    """
    times = Times()
    loop = asyncio.get_running_loop()
    start = loop.time()
    tasks = []
    for number in range(int(rate * seconds)):
        due = start + number / rate
        await asyncio.sleep(max(due - loop.time(), 0))
        tasks.append(asyncio.create_task(_through(http, split, times.through)))
        if number % DIRECT_EVERY == 0:
            # Send it between two others, not at the instant of one.
            await asyncio.sleep(max(due + 0.5 / rate - loop.time(), 0))
            tasks.append(asyncio.create_task(_past(http, split, times.past)))
    await asyncio.gather(*tasks)
    return times


def _body() -> bytes:
    prompt = uuid.uuid4().hex * (PROMPT_BYTES // 32)
    return json.dumps(
        {
            "model": "tiny",
            "prompt": prompt,
            "max_tokens": OUTPUT_TOKENS,
            "stream": True,
        }
    ).encode()


async def _through(
    http: aiohttp.ClientSession, split: Split, times: list[float]
) -> None:
    body = _body()
    sent = time.perf_counter()
    times.append(await _first_bytes(http, split.proxy, body) - sent)


async def _past(
    http: aiohttp.ClientSession, split: Split, times: list[float]
) -> None:
    body = _body()
    sent = time.perf_counter()
    asked = forwarding.read_object(body)
    async with http.post(
        split.prefill + PATH, data=forwarding.prefill_body(asked), headers=HEADERS
    ) as response:
        answer = await response.read()
    times.append(
        await _first_bytes(
            http, split.decode, forwarding.decode_body(body, asked, answer)
        )
        - sent
    )


async def _first_bytes(http: aiohttp.ClientSession, url: str, body: bytes) -> float:
    async with http.post(url + PATH, data=body, headers=HEADERS) as response:
        first = await response.content.readany()
        at = time.perf_counter()
        rest = await response.content.read()
        if response.status != 200 or not (first + rest).endswith(
            b"data: [DONE]\n\n"
        ):
            raise Failed(f"{url} answered HTTP {response.status}: {first[:200]!r}")
        return at
