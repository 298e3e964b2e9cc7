"""Real simulator processes on loopback and a real HTTP client."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import aiohttp
import pytest
from benchrun_simulator.launch import Running, running


@pytest.fixture
def serve() -> Iterator[Callable[..., Running]]:
    """Start servers that end with the test: `serve("--sim-ttft-ms=5", variables={...})`."""
    with ExitStack() as servers:
        yield lambda *arguments, variables=None: servers.enter_context(
            running("tiny", *arguments, variables=variables),
        )


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A client without a limit on connections."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session
