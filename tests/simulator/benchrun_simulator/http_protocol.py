"""HTTP/1.1 on a bare asyncio protocol: no framework between a due token and the socket.

`HttpConnection` parses requests, one at a time on each connection. A handler answers through the
`Exchange` it is given, whole (`respond`) or in pieces (`open_stream`, `send`, `close_stream`).
Sealed is stamped when the last byte of a request is read. Handling is left to `HandlerQueue`,
which serves one request a turn of the event loop, so that in a burst no arrival is stamped late
because of another request's work.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

HEAD_LIMIT_BYTES = 64 * 1024
BODY_LIMIT_BYTES = 64 * 1024 * 1024

Handler = Callable[["Exchange"], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request that has been read."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    arrived_at: float
    """When its last byte was read, before anything was made of it; on the event loop's clock,
    seconds."""


class HandlerQueue:
    """A queue that runs the handler for one exchange in each turn of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, handler: Handler) -> None:
        self._loop = loop
        self._handler = handler
        self._queue: deque[Exchange] = deque()

    def put(self, exchange: "Exchange") -> None:
        self._queue.append(exchange)
        if len(self._queue) == 1:
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        exchange = self._queue.popleft()
        if self._queue:
            self._loop.call_soon(self._serve)
        if not exchange.disconnected:
            self._handler(exchange)


class Exchange:
    """A request and the way to answer it; writing to a client that has gone is ignored."""

    def __init__(self, request: Request, connection: "HttpConnection") -> None:
        self.request = request
        self.disconnected = False
        self.on_disconnect: Callable[[], None] | None = None
        """Called once when the client goes before the answer is complete."""
        self._connection = connection

    def respond(
        self,
        status: int,
        body: bytes = b"",
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Answer at once and completely."""
        fields = {"content-length": str(len(body)), **(headers or {})}
        if body:
            fields["content-type"] = content_type
        self._write(_head(status, fields) + body)
        self._connection.exchange_done()

    def open_stream(self, content_type: str) -> None:
        """Send the head of an answer that comes in pieces."""
        self._write(
            _head(
                200, {"content-type": content_type, "transfer-encoding": "chunked"}
            )
        )

    def send(self, piece: bytes) -> None:
        """Send one piece now."""
        self._write(b"%x\r\n%b\r\n" % (len(piece), piece))

    def close_stream(self, last_piece: bytes = b"") -> None:
        """Send what is left and end the answer, in one write."""
        tail = (
            b"%x\r\n%b\r\n" % (len(last_piece), last_piece) if last_piece else b""
        )
        self._write(tail + b"0\r\n\r\n")
        self._connection.exchange_done()

    def reset(self) -> None:
        """Cut the connection in the middle of the answer."""
        self.on_disconnect = None
        self.disconnected = True
        self._connection.cut()

    def _write(self, data: bytes) -> None:
        if not self.disconnected:
            self._connection.write(data)


class HttpConnection(asyncio.Protocol):
    """One client connection, kept alive between requests."""

    def __init__(
        self,
        queue: HandlerQueue,
        clock: Callable[[], float],
        *,
        way_seconds: float = 0.0,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._way_seconds = way_seconds
        self._under_way: deque[Callable[[], None]] = deque()
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._arrived_at = 0.0
        self._current: Exchange | None = None
        self._keep_alive = True
        self._promised_to_read = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        exchange = self._current
        self._current = None
        self._transport = None
        if exchange is not None:
            exchange.disconnected = True
            if exchange.on_disconnect is not None:
                exchange.on_disconnect()

    def data_received(self, data: bytes) -> None:
        self._arrived_at = self._clock()
        self._unread += data
        if self._current is None:
            self._read_request()
        elif len(self._unread) > HEAD_LIMIT_BYTES + BODY_LIMIT_BYTES:
            self.cut()  # pipelining without end

    def write(self, data: bytes) -> None:
        if self._way_seconds:
            self._send_off(lambda: self._put(data))
        else:
            self._put(data)

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def exchange_done(self) -> None:
        """Close the connection, or continue with the next request, after an answer was written."""
        self._current = None
        if not self._keep_alive:
            self._send_off(self._close)
        elif self._unread:
            self._read_request()

    def _send_off(self, arrival: Callable[[], None]) -> None:
        """Call `arrival` at once, or later by the time that the way takes, and in order."""
        if not self._way_seconds:
            arrival()
            return
        self._under_way.append(arrival)
        asyncio.get_running_loop().call_later(
            self._way_seconds, lambda: self._under_way.popleft()()
        )

    def _put(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _read_request(self) -> None:
        end = self._unread.find(b"\r\n\r\n")
        if end < 0:
            if len(self._unread) > HEAD_LIMIT_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        try:
            method, target, headers = _parse_head(bytes(self._unread[:end]))
            length = int(headers.get("content-length", "0"))
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        if "transfer-encoding" in headers:
            self._refuse(HTTPStatus.LENGTH_REQUIRED)
        elif not 0 <= length <= BODY_LIMIT_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        elif len(self._unread) >= end + 4 + length:
            body = bytes(self._unread[end + 4 : end + 4 + length])
            del self._unread[: end + 4 + length]
            self._accept(method, target, headers, body)
        elif (
            headers.get("expect", "").lower() == "100-continue"
            and not self._promised_to_read
        ):
            self._promised_to_read = True
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _accept(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        self._promised_to_read = False
        self._keep_alive = headers.get("connection", "").lower() != "close"
        path = urlsplit(target).path
        request = Request(
            method=method,
            path=path,
            headers=headers,
            body=body,
            arrived_at=self._arrived_at,
        )
        self._current = Exchange(request, self)
        self._queue.put(self._current)

    def _refuse(self, status: HTTPStatus) -> None:
        self.write(_head(status, {"content-length": "0", "connection": "close"}))
        self._send_off(self._close)


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return method, target, headers


def _head(status: int, fields: Mapping[str, str]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "server: benchrun-simulator",
    ]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
