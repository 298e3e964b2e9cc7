"""A proxy that counts the operator's requests to the API server.

The operator's own metrics would not do: they count what the operator believes it sends. Nor would
the audit log: it needs an API server that was started for it, and a proxy works with any. The
operator's kubeconfig names this proxy, over plain HTTP on loopback; every connection gets one to
the API server, over TLS. Requests are read, counted and passed on; answers are passed on byte by
byte, unread, so that watches stream and no error of the proxy can change what the operator
receives.
"""

import asyncio
import contextlib
import json
import re
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

MUTATING = ("POST", "PUT", "PATCH", "DELETE")
CHUNK_BYTES = 64 * 1024
_PATH = re.compile(
    r"(?:/api/[^/]+|/apis/[^/]+/[^/]+)(?:/namespaces/[^/]+)?/([^/]+)(?:/([^/]+)(?:/([^/]+))?)?"
)


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the operator."""

    at: float
    """Instant at which the request was read (`time.monotonic()`)."""
    method: str
    resource: str
    """Plural name with the subresource, such as `benchmarkruns/status`."""
    of_collection: bool
    """Whether it is a list or watch, which concerns no particular run."""
    watches: bool
    """Whether it is a watch."""
    run: str | None
    """Name of the run in path or body; None: neither names one."""
    changes: tuple[str, ...]
    """Fields of the status that the request writes."""

    @property
    def live_only(self) -> bool:
        """Return whether the request writes `status.live` and nothing else."""
        return self.changes == ("live",)

    @property
    def writes(self) -> bool:
        """Return whether the request changes something."""
        return self.method in MUTATING


class CountingProxy:
    """A proxy that listens on loopback, passes everything on, and remembers the requests."""

    def __init__(
        self,
        upstream: str,
        *,
        tls: ssl.SSLContext | None,
        run_name: re.Pattern[str],
    ) -> None:
        address = urlsplit(upstream)
        self._host = address.hostname or "localhost"
        self._port = address.port or (443 if tls else 80)
        self._tls = tls
        self._run_name = run_name
        self._server: asyncio.Server | None = None
        self._own_port = 0  # any free port
        self._open: set[asyncio.StreamWriter] = set()
        self.requests: list[Request] = []
        """All requests so far, oldest first."""
        self.url = ""
        """URL at which the operator reaches the proxy."""

    async def start(self) -> None:
        """Listen on a free port; after a stop, on the same one again."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._own_port
        )
        self._own_port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self._own_port}"

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    def cut(self) -> None:
        """Abort all open connections."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def answered(self, request: Request) -> bytes | None:
        """Return the answer to a request that is not passed on, or None to pass it on."""
        return None

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
        back = asyncio.create_task(_pass_on(answers, writer))
        self._open.add(writer)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    body = await reader.readexactly(body_bytes(head))
                    self.requests.append(request := self._request(head, body))
                    if (answer := await self.answered(request)) is not None:
                        writer.write(answer)
                        await writer.drain()
                        continue
                    onward.write(head + body)
                    await onward.drain()
        finally:
            self._open.discard(writer)
            back.cancel()
            writer.close()
            # a proper close waits for an answer, and there may be no time left for it
            onward.transport.abort()

    def _request(self, head: bytes, body: bytes) -> Request:
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        path = urlsplit(target).path
        query = urlsplit(target).query
        found = _PATH.fullmatch(path)
        plural, name, subresource = found.groups() if found else (path, None, None)
        text = body.decode(errors="replace")
        named = self._run_name.search(path) or self._run_name.search(text)
        return Request(
            at=time.monotonic(),
            method=method,
            resource=f"{plural}/{subresource}" if subresource else plural,
            of_collection=method == "GET" and name is None,
            watches="watch=true" in query.lower(),
            run=named[0] if named else None,
            changes=tuple(_changes(text))
            if method == "PATCH" and subresource == "status"
            else (),
        )


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()


def body_bytes(head: bytes) -> int:
    """Return the length of the body that follows these request headers.

    Raises NotImplementedError for a body without a stated length.
    """
    headers = head.decode("latin-1").lower()
    if "\r\ntransfer-encoding:" in headers:
        raise NotImplementedError("a request whose body has no stated length")
    length = re.search(r"\r\ncontent-length: *(\d+)", headers)
    return int(length[1]) if length else 0


def _changes(body: str) -> dict[str, Any]:
    changes = json.loads(body).get("status")
    return changes if isinstance(changes, dict) else {}
