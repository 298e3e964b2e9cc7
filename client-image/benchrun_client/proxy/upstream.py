"""The servers of one role, and one request to one of them: sending, relaying, errors."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from types import SimpleNamespace
from typing import Literal
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from benchrun_client.failures import error_text
from benchrun_client.http_session import NETWORK_ERRORS, read_bounded
from benchrun_client.server.readiness import pinned, resolve

RoleName = Literal["prefill", "decode"]


class Unreachable(Exception):
    """A server of a role does not answer as it should, or there is none."""

    def __init__(self, role: RoleName, problem: str) -> None:
        super().__init__(f"{role}: {problem}")
        self.role: RoleName = role


class UpstreamRole:
    def __init__(self, name: RoleName, url: str, *, replicas: int | None) -> None:
        self.name: RoleName = name
        self._url = url
        self._host = urlsplit(url).hostname
        self._replicas = replicas
        self._turns = count()
        self.servers: tuple[str, ...] = ()
        """Base URLs, each leading to one server; empty until the host name has been resolved."""

    async def look_up(self) -> None:
        """Find all addresses of the host name: a headless Service has one for each of its pods.

        Raises Unreachable if there is none, or fewer than the role must have.
        """
        addresses = await resolve(self._url)
        if not addresses or (
            self._replicas is not None and len(addresses) != self._replicas
        ):
            expected = f" of {self._replicas}" if self._replicas is not None else ""
            raise Unreachable(
                self.name, f"{self._host} has {len(addresses)}{expected} addresses"
            )
        self.servers = tuple(pinned(self._url, address) for address in addresses)

    def next_server(self) -> str:
        """Return the URL of the server whose turn it is; raise Unreachable if none is known."""
        if not self.servers:
            raise Unreachable(self.name, f"{self._host} has no address yet")
        return self.servers[next(self._turns) % len(self.servers)]


class InFlightLimit:
    """A bound on requests in flight; further requests wait in order of arrival."""

    def __init__(self, *, most: int, most_queued: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._most_queued = most_queued
        self.in_flight = self.queued = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait until fewer than `most` requests are in flight, then count as one of them.

        Raises asyncio.QueueFull at once if `most_queued` requests already wait.
        """
        if self._free.locked() and self.queued >= self._most_queued:
            raise asyncio.QueueFull
        self.queued += 1
        try:
            await self._free.acquire()
        finally:
            self.queued -= 1
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._free.release()


CONNECT_SECONDS = 5.0
IDLE_SECONDS = 3.0
"""Time after which an idle connection is closed. vLLM closes a connection that was idle for 5 s,
and a request that meets the closing fails; so this time is shorter."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Largest answer of a prefill server, which may repeat the prompt."""
# Headers that belong to one hop, or are set anew by the next sender.
_OF_ONE_CONNECTION = frozenset(
    {
        *(
            "connection",
            "keep-alive",
            "proxy-authenticate",
            "proxy-authorization",
            "te",
            "trailer",
        ),
        *("transfer-encoding", "upgrade", "expect", "host", "date", "server"),
    }
)


class Broken(Exception):
    """The server's answer broke off in the middle.

    The client's connection was closed too, without an end of the answer.
    """

    def __init__(self, response: web.StreamResponse) -> None:
        super().__init__("the answer broke off")
        self.response = response


@dataclass(slots=True)
class Sent:
    """The instant at which a request's last byte was handed to its socket (`time.perf_counter`)."""

    at: float = 0.0


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    sent_at: float


def forwarding_session() -> aiohttp.ClientSession:
    """Open the session for requests of clients.

    It adds no headers, unpacks no bodies, limits no connections and keeps no cookies.
    """

    async def stamp(_: object, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.at = time.perf_counter()

    stamping = aiohttp.TraceConfig()
    stamping.on_request_chunk_sent.append(stamp)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        skip_auto_headers=(
            "User-Agent",
            "Accept",
            "Accept-Encoding",
            "Content-Type",
        ),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trace_configs=[stamping],
    )


async def post(
    session: aiohttp.ClientSession,
    role: RoleName,
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
) -> WholeAnswer:
    """Send a POST request and read the answer to its end.

    Raises Unreachable if there is no answer, or it is incomplete.
    """
    async with open_answer(session, role, url, body=body, headers=headers) as (
        response,
        sent,
    ):
        try:
            answer = await read_bounded(response, MAX_ANSWER_BYTES)
        except NETWORK_ERRORS as error:
            raise _unreachable(role, url, error) from error
        return WholeAnswer(response.status, response.headers, answer, sent.at)


@asynccontextmanager
async def open_answer(
    session: aiohttp.ClientSession,
    role: RoleName,
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    method: str = "POST",
) -> AsyncIterator[tuple[aiohttp.ClientResponse, Sent]]:
    """Send a request, and yield once the status and headers of the answer have arrived.

    Leaving the block early closes the connection, so that the server stops its work. Raises
    Unreachable if no status arrived.
    """
    sent = Sent()
    try:
        response = await session.request(
            method, url, data=body or None, headers=headers, trace_request_ctx=sent
        )
    except NETWORK_ERRORS as error:
        raise _unreachable(role, url, error) from error
    async with response:
        yield response, sent


def _unreachable(role: RoleName, url: str, error: Exception) -> Unreachable:
    return Unreachable(role, f"{urlsplit(url).netloc}: {error_text(error)}")


def passed_on(
    headers: Mapping[str, str], *, with_length: bool = False
) -> CIMultiDict[str]:
    """Return the headers without those that belong to a single connection, such as `Connection`.

    Headers that the next sender sets anew, such as `Host`, are left out, too. Content-Length is
    kept only if `with_length`.
    """
    dropped = (
        _OF_ONE_CONNECTION
        if with_length
        else _OF_ONE_CONNECTION | {"content-length"}
    )
    return CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in dropped
    )


async def relay(
    request: web.Request,
    upstream: aiohttp.ClientResponse,
    *,
    on_first: Callable[[float], None] = lambda _: None,
) -> web.StreamResponse:
    """Pass an answer on, piece by piece, as fast as the client reads it.

    `on_first` is called with the seconds from the arrival of the first piece until it was written.
    Raises Broken if the answer breaks off.
    """
    headers = passed_on(upstream.headers, with_length=True)
    response = web.StreamResponse(
        status=upstream.status, reason=upstream.reason, headers=headers
    )
    await response.prepare(request)
    first = True
    while True:
        try:
            piece = await upstream.content.readany()
        except NETWORK_ERRORS as error:
            if request.transport is not None:
                # What has been written still arrives; the mark of the end does not.
                request.transport.close()
            raise Broken(response) from error
        if not piece:
            break
        arrived = time.perf_counter()
        await response.write(piece)
        if first:
            on_first(time.perf_counter() - arrived)
            first = False
    await response.write_eof()
    return response


def refusal(status: HTTPStatus, text: str) -> web.Response:
    """Return the proxy's own refusal, in the form of vLLM's error answers."""
    kind = status.phrase.replace(" ", "")
    error = {
        "message": f"proxy: {text}",
        "type": kind,
        "param": None,
        "code": int(status),
    }
    return web.json_response({"error": error}, status=status)
