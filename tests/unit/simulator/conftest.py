"""Real simulator processes on loopback and a real HTTP client."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from benchrun_simulator.launch import Running, running
from kit.polling import polling


@pytest.fixture
def serve() -> Iterator[Callable[..., Running]]:
    """Yield a function that starts servers: `serve("--sim-ttft-ms=5", variables={...})`.

    The servers end with the test.
    """
    with ExitStack() as servers:
        yield lambda *arguments, variables=None: servers.enter_context(
            running("tiny", *arguments, variables=variables)
        )


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a client without a limit on connections."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0)
    ) as session:
        yield session


@pytest.fixture
def truth() -> Callable[[Path, int], list[dict[str, Any]]]:
    """Return a function that reads a server's request log once it has so many requests.

    `truth(file, 3)` returns when three requests are in it.
    """

    def read(file: Path, requests: int) -> list[dict[str, Any]]:
        lines: list[str] = []
        for _ in polling(f"{requests} requests in the log", seconds=10):
            if len(lines := file.read_text().splitlines()) >= requests:
                break
        assert len(lines) == requests
        return [json.loads(line) for line in lines]

    return read
