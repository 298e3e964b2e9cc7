"""One request to one server of a role: how it is sent, when it left, and what goes wrong on the way."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from urllib.parse import urlsplit

import aiohttp

from benchrun_client.failures import first_line
from benchrun_client.http_session import read_bounded
from benchrun_client.proxy.roles import RoleName, Unreachable

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 3.0
"""vLLM closes a connection that was idle for 5 s. A request that meets the closing fails, so ours are closed before."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Of a prefill server, which may repeat the prompt."""


@dataclass(slots=True)
class Sent:
    """When the last byte of a request was handed to its socket; `time.perf_counter`."""

    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Whole:
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    sent_at: float


def forwarding_session() -> aiohttp.ClientSession:
    """For requests of clients: nothing is added, unpacked, limited or remembered."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trace_configs=[_stamping()],
    )


class Steps:
    """Sends requests to servers."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def ask(self, role: RoleName, url: str, *, body: bytes, headers: Mapping[str, str]) -> Whole:
        """Post, and read the answer to its end.

        Raises:
            Unreachable: there was no answer, or none to its end.
        """
        async with self.open(role, url, body=body, headers=headers) as (response, sent):
            try:
                answer = await read_bounded(response, MAX_ANSWER_BYTES)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _unreachable(role, url, error) from error
            return Whole(response.status, response.headers, answer, sent.at)

    @asynccontextmanager
    async def open(
        self, role: RoleName, url: str, *, body: bytes, headers: Mapping[str, str], method: str = "POST"
    ) -> AsyncIterator[tuple[aiohttp.ClientResponse, Sent]]:
        """Send a request; the answer's head has come. Leaving before its end closes the connection, which ends the server's work.

        Raises:
            Unreachable: no head came.
        """
        sent = Sent()
        try:
            response = await self._session.request(
                method, url, data=body or None, headers=headers, trace_request_ctx=sent
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(role, url, error) from error
        async with response:
            yield response, sent


def _unreachable(role: RoleName, url: str, error: Exception) -> Unreachable:
    words = first_line(error) or type(error).__name__
    return Unreachable(role, f"{urlsplit(url).netloc}: {words}")


def _stamping() -> aiohttp.TraceConfig:
    async def stamp(
        _: aiohttp.ClientSession, context: SimpleNamespace, __: aiohttp.TraceRequestChunkSentParams
    ) -> None:
        context.trace_request_ctx.at = time.perf_counter()

    config = aiohttp.TraceConfig()
    config.on_request_chunk_sent.append(stamp)
    return config
