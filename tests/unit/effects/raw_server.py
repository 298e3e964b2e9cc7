"""A TCP server that sends bytes and ends, as no web framework would but a peer may."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# SO_LINGER: closing sends a reset and drops what was not sent
RESET = struct.pack("ii", 1, 0)


@asynccontextmanager
async def sending(
    *parts: bytes, reset: bool = False, stays: bool = False
) -> AsyncIterator[str]:
    """Yield the URL of a server that answers every request with the parts and then closes.

    With `reset` it closes with a reset; with `stays` it does not close.
    """
    over = asyncio.Event()

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
            await writer.drain()
        if stays:
            await over.wait()
        if reset:
            held: socket.socket = writer.get_extra_info("socket")
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        over.set()
        server.close()
        await server.wait_closed()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
BROKEN = {
    "nothing": (),
    "no-http": (b"SSH-2.0-OpenSSH_9.6\r\n",),
    "half-a-head": (b"HTTP/1.1 200 OK\r\nContent-Le",),
    "half-a-body": (HEAD + b"Content-Length: 100\r\n\r\n", b"up 1\n"),
    "half-a-chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"ff\r\nup 1\n"),
    "no-last-chunk": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        b"5\r\nup 1\n\r\n",
    ),
    "no-chunk-size": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        b"zz\r\nup 1\n\r\n0\r\n\r\n",
    ),
    "no-length": (HEAD + b"Content-Length: five\r\n\r\n", b"up 1\n"),
}
"""Answers that end before their end, or never were any."""
