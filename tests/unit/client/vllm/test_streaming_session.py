"""Requests on connections that the server closes: sent once more if, and only if, nothing of an
answer came and the connection had answered before."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from benchrun_client.access import Access
from benchrun_client.load.event_stream import BrokenStreamError, StreamNotes
from benchrun_client.load.streaming_session import STREAM_NOTES
from benchrun_client.load.vllm_patches import PatchedAiohttp

ANSWER = b'data: {"choices":[{"text":" a"}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
Serve = Callable[[asyncio.StreamWriter, int], None]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that calls `serve` with each request's number on its connection, from 1; its URL,
    and the requests of each connection."""
    seen: list[int] = []

    async def handle(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        place = len(seen)
        seen.append(0)
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(
                    head.lower().split(b"content-length:")[1].split(b"\r\n")[0]
                )
                await reader.readexactly(length)
                seen[place] += 1
                serve(writer, seen[place])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
    finally:
        server.close()


def answer(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD % len(ANSWER) + ANSWER)


def hangs_up_on_the_second(writer: asyncio.StreamWriter, number: int) -> None:
    answer(writer) if number == 1 else writer.close()


def hangs_up_on_the_first(writer: asyncio.StreamWriter, _: int) -> None:
    writer.close()


def hangs_up_in_the_second(writer: asyncio.StreamWriter, number: int) -> None:
    if number == 1:
        answer(writer)
        return
    writer.write(HEAD % len(ANSWER) + ANSWER[:5])
    writer.close()


async def sent(url: str, requests: int) -> list[StreamNotes]:
    """What is noted of so many requests of one session, one after the other. Raises what aiohttp
    does."""
    sessions = PatchedAiohttp(aiohttp, access=Access(), trust_env=False)
    found = []
    session = sessions.ClientSession()
    try:
        for _ in range(requests):
            found.append(notes := StreamNotes())
            STREAM_NOTES.set(notes)
            async with session.post(url=url, json={}) as response:
                lines = [line async for line in response.content.iter_any()]
            assert lines[-1] == b"data: [DONE]"
    finally:
        await sessions.close()
    return found


async def test_a_request_on_a_connection_that_was_just_closed_is_sent_once_more() -> (
    None
):
    async with listening(hangs_up_on_the_second) as (url, seen):
        notes = await sent(url, 3)
    assert [each.reconnects for each in notes] == [0, 1, 0]
    assert seen == [2, 1, 1]


@pytest.mark.parametrize("serve", [hangs_up_on_the_first, hangs_up_in_the_second])
async def test_others_fail(serve: Serve) -> None:
    async with listening(serve) as (url, _):
        with pytest.raises(aiohttp.ClientError):
            await sent(url, 2)


async def test_an_answer_that_is_no_stream_is_noted() -> None:
    def says_hello(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(HEAD % 5 + b"hello")

    notes = StreamNotes()
    STREAM_NOTES.set(notes)
    sessions = PatchedAiohttp(aiohttp, access=Access(), trust_env=False)
    async with (
        listening(says_hello) as (url, _),
        sessions.ClientSession() as session,
        session.post(url=url, json={}) as response,
    ):
        with pytest.raises(BrokenStreamError, match="hello"):
            _ = [line async for line in response.content.iter_any()]
    await sessions.close()
    assert notes.problem is not None
    assert "hello" in notes.problem
