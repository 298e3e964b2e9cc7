"""Whatever ends before its end, on either side, ends on the other side too, and does not look like a good end."""

from __future__ import annotations

import asyncio
import json
import socket

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.proxy.port import answering, parse
from unit.client.proxy.between import ASKED, COMPLETIONS, Server, between, prefilling, saying

END_OF_CHUNKS = b"0\r\n\r\n"
PIECE = b"data: 1\n\n"


async def cut(request: web.Request) -> None:
    """End the connection as a process does that dies."""
    assert request.transport is not None
    request.transport.abort()
    raise ConnectionResetError


async def never(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


def dying(*, length: int | None) -> Server:
    """A server that dies after the first piece."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = length
        await response.prepare(request)
        await response.write(PIECE)
        await cut(request)
        return response

    return Server(answer)


@pytest.mark.parametrize("length", [None, 1000])
async def test_a_server_that_dies_ends_the_clients_connection_without_an_end(length: int | None) -> None:
    async with between(prefilling(), dying(length=length)) as proxy:
        got = await proxy.bare(json.dumps(ASKED).encode())
        assert got.startswith(b"HTTP/1.1 200")
        assert PIECE in got
        assert not got.endswith(END_OF_CHUNKS)
        with pytest.raises(aiohttp.ClientPayloadError):
            await proxy.ask()
        assert await proxy.outcomes() == {"broken": 2}


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_a_server_that_dies_before_it_answers_is_named(role: str) -> None:
    async def die(request: web.Request) -> web.StreamResponse:
        await cut(request)
        return web.Response()

    servers = {"prefill": prefilling(), "decode": Server(saying("{}"))} | {role: Server(die)}
    async with between(servers["prefill"], servers["decode"]) as proxy:
        status, body = await proxy.ask()
        assert status == 502
        error = json.loads(body)["error"]
        assert error["message"].startswith(f"proxy: {role}: {servers[role].url.removeprefix('http://')}: ")
        assert error["code"] == 502
        assert await proxy.outcomes() == {f"{role}_unreachable": 1}


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_a_port_that_nobody_listens_on_is_named(role: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{probe.getsockname()[1]}"
    async with (
        prefilling().serving() as first,
        Server(saying("{}")).serving() as second,
        aiohttp.ClientSession() as http,
    ):
        urls = {"prefill": first, "decode": second} | {role: closed}
        words = [f"--prefill={urls['prefill']}", f"--decode={urls['decode']}", "--address=127.0.0.1", "--port=0"]
        async with answering(parse(words)) as proxy:
            await proxy.readiness.look_up()
            async with http.post(f"http://127.0.0.1:{proxy.port}{COMPLETIONS}", json=ASKED) as response:
                assert response.status == 502
                assert f"proxy: {role}: 127.0.0.1:" in (await response.json())["error"]["message"]


async def test_before_a_name_is_found_requests_are_told_so() -> None:
    words = [
        "--prefill=http://no.such.host.invalid:1",
        "--decode=http://127.0.0.1:1",
        "--address=127.0.0.1",
        "--port=0",
    ]
    async with answering(parse(words)) as proxy, aiohttp.ClientSession() as http:
        for path in (COMPLETIONS, "/tokenize", "/reset_prefix_cache"):
            async with http.post(f"http://127.0.0.1:{proxy.port}{path}", json=ASKED) as response:
                assert (response.status, (await response.json())["error"]["type"]) == (502, "BadGateway")


async def test_a_prefill_answer_that_breaks_off_is_none() -> None:
    decode = Server(saying("{}"))
    async with between(dying(length=1000), decode) as proxy:
        assert (await proxy.ask())[0] == 502
        assert decode.asked == []


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_a_client_that_goes_away_takes_its_request_with_it(role: str) -> None:
    servers = {"prefill": prefilling(), "decode": Server(saying("{}"))} | {role: Server(never)}
    async with between(servers["prefill"], servers["decode"]) as proxy:
        going = asyncio.create_task(proxy.ask())
        await asyncio.wait_for(servers[role].came.wait(), 10)
        going.cancel()
        await asyncio.wait_for(servers[role].given_up.wait(), 10)
        assert await proxy.outcomes() == {"client_gone": 1}
        assert (await proxy.figures())["benchrun_proxy_in_flight"] == 0


async def test_a_client_that_goes_away_in_the_middle_of_a_stream_ends_it() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(PIECE)
            await asyncio.sleep(0.001)

    decode = Server(endless)
    async with between(prefilling(), decode) as proxy:
        async with proxy.http.post(proxy.url + COMPLETIONS, json=ASKED) as response:
            assert (await response.content.readany()).startswith(PIECE)
            response.close()
        await asyncio.wait_for(decode.given_up.wait(), 10)
        assert await proxy.outcomes() == {"client_gone": 1}


async def test_a_slow_reader_slows_its_server_down_and_gets_everything() -> None:
    piece, pieces = b"x" * 65536, 1024
    written = 0
    stands = asyncio.Event()

    async def large(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(pieces):
            writing = asyncio.ensure_future(response.write(piece))
            if not (await asyncio.wait([writing], timeout=1))[0]:
                stands.set()
            await writing
            written += 1
        return response

    async with (
        between(prefilling(), Server(large)) as proxy,
        proxy.http.post(proxy.url + COMPLETIONS, json=ASKED) as response,
    ):
        await asyncio.wait_for(stands.wait(), 30)
        # What lies between is in the buffers of sockets and streams; 64 MiB would not fit.
        assert written * len(piece) < 24 * 1024 * 1024
        assert len(await response.content.read()) == pieces * len(piece)
