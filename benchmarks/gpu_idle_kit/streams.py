"""Packets -> TCP streams -> HTTP messages -> exchanges.

An exchange lasts from the first byte of the request to the last byte of the answer.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpu_idle_kit.wire import RST, SYN, Packet

GENERATING = ("/v1/completions", "/v1/chat/completions")
_HALF = 1 << 31
_WHOLE = 1 << 32
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:\s*chunked", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer."""

    method: str
    path: str
    status: int | None
    """Status of the answer; None: the connection ended before the answer did."""
    began: float
    """Instant of the first byte of the request (`time.time()`)."""
    ended: float
    """Instant of the last byte of the answer."""
    asked_by: tuple[str, int]

    @property
    def is_load(self) -> bool:
        """Return whether tokens are generated for it, which is what a GPU is for."""
        return self.method == "POST" and self.path in GENERATING


def exchanges(packets: Iterable[Packet]) -> list[Exchange]:
    """Return all exchanges with the server, sorted by their beginning."""
    connections: dict[tuple[str, int], _Connection] = {}
    found: list[Exchange] = []
    for packet in packets:
        if packet.to_server and packet.flags & SYN:
            found += (
                connections.pop(packet.peer).exchanges()
                if packet.peer in connections
                else ()
            )
            connections[packet.peer] = _Connection(packet.peer)
        if packet.peer in connections:
            connections[packet.peer].take(packet)
    for connection in connections.values():
        found += connection.exchanges()
    return sorted(found, key=lambda exchange: exchange.began)


def refused(packets: Iterable[Packet]) -> bool:
    """Return whether a connection was refused before the server listened.

    This proves that its first answer was not missed.
    """
    return any(packet.flags & RST and not packet.to_server for packet in packets)


@dataclass(frozen=True, slots=True)
class _Message:
    first_line: str
    began: float
    ended: float


class _Connection:
    def __init__(self, peer: tuple[str, int]) -> None:
        self._peer = peer
        self._requests = _Stream()
        self._answers = _Stream()
        self._last_at = 0.0

    def take(self, packet: Packet) -> None:
        (self._requests if packet.to_server else self._answers).take(packet)
        self._last_at = packet.at

    def exchanges(self) -> list[Exchange]:
        """Return the exchanges; HTTP/1.1 answers come in the order of the requests."""
        answers = iter(self._answers.messages)
        return [
            self._exchange(request, next(answers, None))
            for request in self._requests.messages
        ]

    def _exchange(self, request: _Message, answer: _Message | None) -> Exchange:
        method, target, _ = request.first_line.split(" ", 2)
        status = (
            int(answer.first_line.split(" ")[1]) if answer is not None else None
        )
        ended = answer.ended if answer is not None else self._last_at
        return Exchange(
            method,
            target.partition("?")[0],
            status,
            request.began,
            ended,
            self._peer,
        )


class _Stream:
    """One direction of a connection: its bytes, put in order and cut into messages."""

    def __init__(self) -> None:
        self.messages: list[_Message] = []
        self._next: int | None = None
        self._early: dict[int, Packet] = {}
        self._held = b""
        self._began = 0.0

    def take(self, packet: Packet) -> None:
        if packet.flags & SYN:
            self._next = (packet.sequence + 1) % _WHOLE
        elif packet.payload and self._next is not None:
            self._early[packet.sequence] = packet
            while (due := self._due()) is not None:
                self._next = (self._next + len(due)) % _WHOLE
                self._read(due, at=packet.at)

    def _due(self) -> bytes | None:
        """Return the bytes that follow those read so far, or None; skip what came twice."""
        assert self._next is not None
        for sequence, packet in tuple(self._early.items()):
            seen = (self._next - sequence) % _WHOLE
            if seen < _HALF:
                del self._early[sequence]
                if seen < len(packet.payload):
                    return packet.payload[seen:]
        return None

    def _read(self, data: bytes, *, at: float) -> None:
        if not self._held:
            self._began = at
        self._held += data
        while (length := message_length(self._held)) is not None:
            first_line = self._held.split(b"\r\n", 1)[0].decode("latin-1")
            self.messages.append(_Message(first_line, self._began, at))
            self._held = self._held[length:]
            self._began = at


def message_length(data: bytes) -> int | None:
    """Return the bytes of the HTTP message at the start of `data`, or None if it is incomplete."""
    head, end, _ = data.partition(b"\r\n\r\n")
    if not end:
        return None
    body = len(head) + len(end)
    if _CHUNKED.search(head):
        return _end_of_chunks(data, body)
    length = _CONTENT_LENGTH.search(head)
    total = body + (int(length[1]) if length else 0)
    return total if len(data) >= total else None


def _end_of_chunks(data: bytes, start: int) -> int | None:
    while (line_end := data.find(b"\r\n", start)) >= 0:
        size = int(data[start:line_end].split(b";")[0], 16)
        start = line_end + 2 + size + 2
        if len(data) < start:
            return None
        if size == 0:
            return start
    return None
