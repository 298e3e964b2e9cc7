"""A completion goes to prefill for one token, to decode for all of them, and comes back as it is;
what else is answered."""

import asyncio
import gzip
import json
import socket
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.proxy.server import parse, running_proxy
from unit.client.proxy.between import (
    ASKED,
    COMPLETIONS,
    Server,
    between,
    prefilling,
    saying,
)

HANDED_OVER = {
    "do_remote_prefill": True,
    "remote_block_ids": [1, 2],
    "remote_engine_id": "e",
    "remote_port": 5600,
}
TO_PREFILL = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
EVENTS = (
    b'data: {"text": "a"}\n\n',
    b'data: {"text": "\xc3\xa4"}\r\n\r\n',
    b": keep\n\n",
    b"data: [DONE]\n\n",
)


def streaming(*pieces: bytes, go: asyncio.Event | None = None) -> Server:
    """A decode server that streams, and after the first piece waits."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "X-Own": "1",
            }
        )
        await response.prepare(request)
        for number, piece in enumerate(pieces):
            if number == 1 and go is not None:
                await go.wait()
            await response.write(piece)
        return response

    return Server(answer)


async def test_prefill_is_requested_one_token_and_decode_what_the_client_requested() -> (
    None
):
    body = ASKED | {
        "stream": True,
        "stream_options": {"include_usage": True},
        "min_tokens": 5,
        "n": 2,
        "seed": 7,
    }
    raw = json.dumps(body, indent=3).encode()
    async with between(prefilling(), streaming(*EVENTS)) as proxy:
        async with proxy.http.post(
            f"{proxy.url}{COMPLETIONS}?x=1", data=raw
        ) as response:
            assert await response.read() == b"".join(EVENTS)
        (first,) = proxy.prefill.requests
        (second,) = proxy.decode.requests
    assert first.json == {
        "model": "m",
        "prompt": "hello",
        "n": 2,
        "seed": 7,
        "max_tokens": 1,
        "stream": False,
        "kv_transfer_params": TO_PREFILL,
    }
    assert second.body == raw
    assert first.path == second.path == f"{COMPLETIONS}?x=1"


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_a_chat_is_limited_in_the_words_that_it_used(limit: str) -> None:
    body: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        limit: 9,
    }
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        assert (await proxy.ask(body, path="/v1/chat/completions"))[0] == 200
        (first,) = proxy.prefill.requests
        (second,) = proxy.decode.requests
    assert {
        name: value for name, value in first.json.items() if name.startswith("max_")
    } == {limit: 1}
    assert second.json == body


async def test_what_prefill_says_about_its_blocks_goes_to_decode() -> None:
    answer = json.dumps({"id": "p", "kv_transfer_params": HANDED_OVER})
    body = ASKED | {
        "prompt": "\ud800 \u00e4",
        "kv_transfer_params": {"own": 1},
        "big": 2**80,
    }
    async with between(prefilling(answer), Server(saying("{}"))) as proxy:
        assert (await proxy.ask(body))[0] == 200
        (first,) = proxy.prefill.requests
        (second,) = proxy.decode.requests
    assert first.json["kv_transfer_params"] == TO_PREFILL
    assert second.json == body | {"kv_transfer_params": HANDED_OVER}


@pytest.mark.parametrize(
    "answer", ["", "[]", "{", '{"kv_transfer_params": []}', "{}", "[" * 100_000]
)
async def test_a_prefill_answer_that_reports_nothing_leaves_the_request_as_it_is(
    answer: str,
) -> None:
    async with between(prefilling(answer), Server(saying("fine"))) as proxy:
        assert await proxy.ask() == (200, b"fine")
        assert proxy.decode.requests[0].json == ASKED


async def test_both_get_the_clients_headers_and_one_request_id() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        await proxy.ask(
            Authorization="Bearer key",
            **{"X-Request-Id": "mine", "X-data-parallel-rank": "1", "TE": "x"},
        )
        await proxy.ask()
        first, second = (
            server.requests for server in (proxy.prefill, proxy.decode)
        )
    for request in (first, second):
        named = request[0].headers
        assert named["Authorization"] == "Bearer key"
        assert (named["X-Request-Id"], named["X-data-parallel-rank"]) == (
            "mine",
            "1",
        )
        assert "TE" not in named
        assert named["Accept-Encoding"] == request[1].headers["Accept-Encoding"]
    made_up = {request[1].headers["X-Request-Id"] for request in (first, second)}
    assert len(made_up) == 1
    assert made_up != {"mine"}
    assert "Authorization" not in second[1].headers


async def test_nothing_is_said_for_a_client_that_reports_nothing() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        await proxy.bare(json.dumps(ASKED).encode(), "Connection: close")
        for server in (proxy.prefill, proxy.decode):
            assert {name.lower() for name in server.requests[0].headers} == {
                "host",
                "content-length",
                "x-request-id",
            }


async def test_a_packed_request_is_passed_on_unpacked() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        packed = gzip.compress(json.dumps(ASKED).encode())
        await proxy.bare(packed, "Connection: close", "Content-Encoding: gzip")
        (first,) = proxy.prefill.requests
        (second,) = proxy.decode.requests
    assert first.json["max_tokens"] == 1
    assert second.json == ASKED


async def test_an_answer_comes_through_byte_by_byte_and_as_it_comes() -> None:
    go = asyncio.Event()
    async with (
        between(prefilling(), streaming(*EVENTS, go=go)) as proxy,
        proxy.http.post(proxy.url + COMPLETIONS, json=ASKED) as response,
    ):
        assert (
            response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        )
        assert response.headers["X-Own"] == "1"
        # The rest has not left its server: what comes now was not kept back.
        assert await response.content.readany() == EVENTS[0]
        go.set()
        assert await response.content.read() == b"".join(EVENTS[1:])
        assert await proxy.outcomes() == {"ok": 1}


async def test_a_packed_answer_stays_packed() -> None:
    async def packed(_: web.Request) -> web.Response:
        response = web.Response(
            body=b'{"text": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}'
            * 9
        )
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with (
        between(prefilling(), Server(packed)) as proxy,
        aiohttp.ClientSession(auto_decompress=False) as http,
    ):
        async with http.post(proxy.url + COMPLETIONS, json=ASKED) as through:
            got = through.headers["Content-Encoding"], await through.read()
        async with http.post(proxy.decode.url + COMPLETIONS, json=ASKED) as direct:
            assert got == (direct.headers["Content-Encoding"], await direct.read())


@pytest.mark.parametrize("status", [400, 429, 500, 503])
async def test_a_refusal_of_prefill_is_passed_on_and_decode_is_spared(
    status: int,
) -> None:
    error = '{"error": {"message": "too long", "code": 400}}'
    async with between(
        Server(saying(error, status=status)), Server(saying("{}"))
    ) as proxy:
        assert await proxy.ask() == (status, error.encode())
        assert proxy.decode.requests == []
        assert await proxy.outcomes() == {"prefill_error": 1}


@pytest.mark.parametrize("status", [400, 503])
async def test_a_refusal_of_decode_is_passed_on(status: int) -> None:
    error = "no <b>room</b>"
    async with between(
        prefilling(), Server(saying(error, status=status, content_type="text/html"))
    ) as proxy:
        async with proxy.http.post(proxy.url + COMPLETIONS, json=ASKED) as response:
            assert (response.status, response.content_type) == (status, "text/html")
            assert await response.text() == error
        assert await proxy.outcomes() == {"decode_error": 1}
        # A refusal is no first token.
        assert (await proxy.metrics())["benchrun_proxy_added_seconds_count"] == 0


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000]
)
async def test_an_invalid_request_is_not_forwarded(body: bytes) -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        async with proxy.http.post(proxy.url + COMPLETIONS, data=body) as response:
            assert response.status == 400
            assert (await response.json())["error"]["message"].startswith(
                "proxy: the body is not"
            )
        assert (proxy.prefill.requests, proxy.decode.requests) == ([], [])
        assert await proxy.outcomes() == {"refused": 1}


async def test_a_body_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchrun_client.proxy.server.MAX_BODY_BYTES", 1000)
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        assert (await proxy.ask(ASKED | {"prompt": "x" * 1000}))[0] == 413
        assert (await proxy.ask(ASKED | {"prompt": "x" * 100}))[0] == 200
        assert len(proxy.prefill.requests) == 1
        assert await proxy.outcomes() == {"refused": 1, "ok": 1}


RESET = "/reset_prefix_cache"


async def test_decode_answers_for_both() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        async with proxy.http.get(f"{proxy.url}/v1/models") as response:
            assert (await response.json())["data"][0]["id"] == "m"
        async with proxy.http.get(f"{proxy.url}/version") as response:
            assert await response.json() == {"version": "0.32.0"}
        status, body = await proxy.ask(
            {"prompt": "four"}, path="/tokenize", Authorization="Bearer k"
        )
        assert (status, json.loads(body)) == (200, {"count": 4, "key": "Bearer k"})
        assert await proxy.outcomes() == {}


async def test_what_decode_does_not_know_is_its_answer_too() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        assert (await proxy.ask(path="/detokenize"))[0] == 404


@pytest.mark.parametrize(
    "path", ["/metrics/", "/v1/embeddings", "/sleep", "/collective_rpc"]
)
async def test_nothing_else_goes_anywhere(path: str) -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        assert (await proxy.ask(path=path))[0] == 404
        assert (proxy.prefill.requests, proxy.decode.requests) == ([], [])


async def test_a_reset_is_done_by_every_server() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        status, body = await proxy.ask(path=RESET)
        assert (status, json.loads(body)["success"]) == (200, True)
        assert (
            proxy.prefill.resets
            == proxy.decode.resets
            == [f"{RESET}?reset_external=true"]
        )


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_one_server_that_did_not_makes_it_no_success(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchrun_client.server.cache_reset.RESET_SECONDS", 0.1)
    servers = {"prefill": prefilling(), "decode": Server(saying("{}"))}
    servers[role].reset_answer = '{"success": false}'
    async with between(servers["prefill"], servers["decode"]) as proxy:
        status, body = await proxy.ask(path=RESET)
        answer = json.loads(body)
        assert (status, answer["success"]) == (200, False)
        assert answer["answer"].startswith(
            servers[role].url.removeprefix("http://")
        )


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
async def test_a_server_that_dies_ends_the_clients_connection_without_an_end(
    length: int | None,
) -> None:
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

    servers = {"prefill": prefilling(), "decode": Server(saying("{}"))} | {
        role: Server(die)
    }
    async with between(servers["prefill"], servers["decode"]) as proxy:
        status, body = await proxy.ask()
        assert status == 502
        error = json.loads(body)["error"]
        assert error["message"].startswith(
            f"proxy: {role}: {servers[role].url.removeprefix('http://')}: "
        )
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
        words = [
            "--engine=VLLM",
            f"--prefill={urls['prefill']}",
            f"--decode={urls['decode']}",
            "--address=127.0.0.1",
            "--port=0",
        ]
        async with running_proxy(parse(words)) as proxy:
            await proxy.readiness.look_up()
            async with http.post(
                f"http://127.0.0.1:{proxy.port}{COMPLETIONS}", json=ASKED
            ) as response:
                assert response.status == 502
                assert (
                    f"proxy: {role}: 127.0.0.1:"
                    in (await response.json())["error"]["message"]
                )


async def test_before_a_name_is_found_requests_are_refused() -> None:
    words = [
        "--engine=VLLM",
        "--prefill=http://no.such.host.invalid:1",
        "--decode=http://127.0.0.1:1",
        "--address=127.0.0.1",
        "--port=0",
    ]
    async with (
        running_proxy(parse(words)) as proxy,
        aiohttp.ClientSession() as http,
    ):
        for path in (COMPLETIONS, "/tokenize", "/reset_prefix_cache"):
            async with http.post(
                f"http://127.0.0.1:{proxy.port}{path}", json=ASKED
            ) as response:
                assert (
                    response.status,
                    (await response.json())["error"]["type"],
                ) == (
                    502,
                    "BadGateway",
                )


async def test_a_prefill_answer_that_breaks_off_is_none() -> None:
    decode = Server(saying("{}"))
    async with between(dying(length=1000), decode) as proxy:
        assert (await proxy.ask())[0] == 502
        assert decode.requests == []


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_a_client_that_goes_away_takes_its_request_with_it(role: str) -> None:
    servers = {"prefill": prefilling(), "decode": Server(saying("{}"))} | {
        role: Server(never)
    }
    async with between(servers["prefill"], servers["decode"]) as proxy:
        going = asyncio.create_task(proxy.ask())
        await asyncio.wait_for(servers[role].came.wait(), 10)
        going.cancel()
        await asyncio.wait_for(servers[role].given_up.wait(), 10)
        assert await proxy.outcomes() == {"client_gone": 1}
        assert (await proxy.metrics())["benchrun_proxy_in_flight"] == 0


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
    piece = b"x" * 65536
    pieces = 1024
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
