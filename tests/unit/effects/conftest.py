"""Fixtures of the tests of effects."""

import socket
from collections.abc import AsyncIterator

import pytest
from benchrun.effects import Fetcher
from unit.effects.metrics_text import Pages


@pytest.fixture
def unused_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    """Yield the real fetcher, and close it at the end."""
    made = Fetcher()
    yield made
    await made.close()


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    """Yield a server that answers with 200."""
    made = Pages()
    server = await made.start()
    yield made
    await server.close()
