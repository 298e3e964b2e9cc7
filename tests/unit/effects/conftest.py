"""Fixtures of the tests of effects."""

import socket
from collections.abc import AsyncIterator

import pytest
from benchrun.effects import Fetcher
from unit.effects.metrics_text import Pages


@pytest.fixture
def unused_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    """The real fetcher, closed at the end."""
    made = Fetcher()
    yield made
    await made.close()


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    """A server that says 200."""
    made = Pages()
    server = await made.start()
    yield made
    await server.close()
