"""A proxy between an operator and the API server that passes on all but what a fault spoils.

Requests on a connection come one after the other, so a request is answered here by writing the
answer, and spoilt by closing the connection.
"""

import asyncio
import contextlib
import json
import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from runs_kit.proxy import CHUNK_BYTES, MUTATING, body_bytes

_REASONS = {
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_OF_NO_RUN = ("/leases", "/events", "/tokenreviews")


@dataclass(slots=True)
class Spoiling:
    """A rule for requests that are spoilt, for as long as it stands."""

    answer: str
    """A status code, `hang`, `drop` (the request is not carried out) or `lost` (it is carried out,
    and the answer is not sent)."""
    namespace: str | None = None
    """Namespace of the spoilt requests; None: all namespaces."""
    share: float = 1.0
    writes_only: bool = False
    left: float = float("inf")
    """Number of requests that are still to be spoilt."""
    draw: random.Random = field(default_factory=random.Random)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def takes(self, method: str, path: str) -> bool:
        """Return whether it spoils this request, and count it if so."""
        elsewhere = (
            self.namespace is not None
            and f"/namespaces/{self.namespace}/" not in f"{path}/"
        )
        if (
            elsewhere
            or self.left <= 0
            or (self.writes_only and not _is_write(method, path))
        ):
            return False
        if self.draw.random() >= self.share:
            return False
        self.left -= 1
        return True


@dataclass(slots=True)
class _Talk:
    """One connection of the operator's."""

    is_watch: bool = False
    swallows: Callable[[], None] | None = None
    """Called instead of passing on the next answer."""


class FaultyProxy:
    """One operator's connection to the API server."""

    def __init__(self, upstream: str, *, tls: ssl.SSLContext | None) -> None:
        address = urlsplit(upstream)
        self._host = address.hostname or "localhost"
        self._tls = tls
        self._port = address.port or (443 if tls else 80)
        self._server: asyncio.Server | None = None
        self._watches: set[asyncio.StreamWriter] = set()
        self.spoilings: list[Spoiling] = []
        self.audible = asyncio.Event()
        """Set while events of watches are passed on."""
        self.audible.set()
        self.watches_gone = False
        """Whether every watch, and every next page of a list, is answered with 410."""
        self.at_write: tuple[int, str, Callable[[], None]] | None = None
        """Number of writes left until the chosen one, `before` or `after` it is carried out, and
        the function to call then."""
        self.url = ""

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def closed(self) -> None:
        """Wait until no connection is left."""
        if self._server is not None:
            await self._server.wait_closed()

    def heal(self) -> None:
        """Stop spoiling anything."""
        for spoiling in self.spoilings:
            spoiling.over.set()
        self.spoilings.clear()
        self.audible.set()
        self.watches_gone = False
        self.at_write = None

    def close_watches(self) -> None:
        """Close the connection of every watch without an answer."""
        for writer in list(self._watches):
            writer.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            answers, onward = await asyncio.open_connection(
                self._host, self._port, ssl=self._tls
            )
        except OSError:
            writer.close()
            return
        talk = _Talk()
        back = asyncio.create_task(self._pass_on(talk, answers, writer))
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    body = await reader.readexactly(body_bytes(head))
                    if await self._is_passed_on(talk, head, writer):
                        onward.write(head + body)
                        await onward.drain()
        finally:
            self._watches.discard(writer)
            back.cancel()
            writer.close()
            onward.transport.abort()

    async def _is_passed_on(
        self, talk: _Talk, head: bytes, writer: asyncio.StreamWriter
    ) -> bool:
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        address = urlsplit(target)
        talk.is_watch = "watch=" in address.query
        if talk.is_watch:
            self._watches.add(writer)
        if self.watches_gone and (talk.is_watch or "continue=" in address.query):
            writer.write(_answer(410, method))
            return False
        spoiling = next(
            (s for s in self.spoilings if s.takes(method, address.path)), None
        )
        if spoiling is not None:
            return await _spoil(spoiling, method, talk, writer)
        if self.at_write is not None and _is_write(method, address.path):
            return self._counted(talk, writer)
        return True

    def _counted(self, talk: _Talk, writer: asyncio.StreamWriter) -> bool:
        """Count this write; at the chosen one, call what is due.

        Return whether the write is passed on.
        """
        assert self.at_write is not None
        left, when, deed = self.at_write
        if left > 1:
            self.at_write = (left - 1, when, deed)
            return True
        self.at_write = None
        if when == "after":
            talk.swallows = deed
            return True
        deed()
        writer.close()
        return False

    async def _pass_on(
        self,
        talk: _Talk,
        answers: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await answers.read(CHUNK_BYTES):
                if talk.swallows is not None:
                    talk.swallows()
                    break
                if talk.is_watch:
                    await self.audible.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


async def _spoil(
    spoiling: Spoiling, method: str, talk: _Talk, writer: asyncio.StreamWriter
) -> bool:
    """Spoil a request; return whether it is passed on nevertheless."""
    if spoiling.answer == "lost":
        talk.swallows = _nothing
        return True
    if spoiling.answer == "hang":
        await spoiling.over.wait()
    if spoiling.answer in ("hang", "drop"):
        writer.close()
        return False
    writer.write(_answer(int(spoiling.answer), method))
    return False


def _nothing() -> None:
    """Do nothing: the answer is swallowed."""


def _answer(code: int, method: str) -> bytes:
    """Build the API server's answer with this error code."""
    reason = "AlreadyExists" if code == 409 and method == "POST" else _REASONS[code]
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": f"chaos says {code}",
        "reason": reason,
        "code": code,
    }
    body = json.dumps(status).encode()
    head = [
        f"HTTP/1.1 {code} {HTTPStatus(code).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *(["Retry-After: 1"] if code == 429 else []),
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def _is_write(method: str, path: str) -> bool:
    return method in MUTATING and not any(part in path for part in _OF_NO_RUN)
