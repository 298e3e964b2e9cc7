"""A completion goes to prefill for one token, to decode for all of them, and comes back as it is."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from unit.client.proxy.between import ASKED, COMPLETIONS, Server, between, prefilling, saying

HANDED_OVER = {"do_remote_prefill": True, "remote_block_ids": [1, 2], "remote_engine_id": "e", "remote_port": 5600}
TO_PREFILL = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
EVENTS = (b'data: {"text": "a"}\n\n', b'data: {"text": "\xc3\xa4"}\r\n\r\n', b": keep\n\n", b"data: [DONE]\n\n")


def streaming(*pieces: bytes, go: asyncio.Event | None = None) -> Server:
    """A decode server that streams, and after the first piece waits."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8", "X-Own": "1"})
        await response.prepare(request)
        for number, piece in enumerate(pieces):
            if number == 1 and go is not None:
                await go.wait()
            await response.write(piece)
        return response

    return Server(answer)


async def test_prefill_is_asked_for_one_token_and_decode_for_what_the_client_asked() -> None:
    body = ASKED | {"stream": True, "stream_options": {"include_usage": True}, "min_tokens": 5, "n": 2, "seed": 7}
    raw = json.dumps(body, indent=3).encode()
    async with between(prefilling(), streaming(*EVENTS)) as proxy:
        async with proxy.http.post(f"{proxy.url}{COMPLETIONS}?x=1", data=raw) as response:
            assert await response.read() == b"".join(EVENTS)
        (first,), (second,) = proxy.prefill.asked, proxy.decode.asked
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
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}], limit: 9}
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        assert (await proxy.ask(body, path="/v1/chat/completions"))[0] == 200
        (first,), (second,) = proxy.prefill.asked, proxy.decode.asked
    limits = {name: value for name, value in first.json.items() if name.startswith("max_")}
    assert limits == {limit: 1}
    assert second.json == body


async def test_what_prefill_says_about_its_blocks_goes_to_decode() -> None:
    told = json.dumps({"id": "p", "kv_transfer_params": HANDED_OVER})
    body = ASKED | {"prompt": "\ud800 \u00e4", "kv_transfer_params": {"own": 1}, "big": 2**80}
    async with between(prefilling(told), Server(saying("{}"))) as proxy:
        assert (await proxy.ask(body))[0] == 200
        (first,), (second,) = proxy.prefill.asked, proxy.decode.asked
    assert first.json["kv_transfer_params"] == TO_PREFILL
    assert second.json == body | {"kv_transfer_params": HANDED_OVER}


@pytest.mark.parametrize("told", ["", "[]", "{", '{"kv_transfer_params": []}', "{}", "[" * 100_000])
async def test_a_prefill_answer_that_says_nothing_leaves_the_request_as_it_is(told: str) -> None:
    async with between(prefilling(told), Server(saying("fine"))) as proxy:
        assert await proxy.ask() == (200, b"fine")
        assert proxy.decode.asked[0].json == ASKED


async def test_both_get_the_clients_headers_and_one_request_id() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        await proxy.ask(Authorization="Bearer key", **{"X-Request-Id": "mine", "X-data-parallel-rank": "1", "TE": "x"})
        await proxy.ask()
        first, second = (server.asked for server in (proxy.prefill, proxy.decode))
    for asked in (first, second):
        named = asked[0].headers
        assert named["Authorization"] == "Bearer key"
        assert (named["X-Request-Id"], named["X-data-parallel-rank"]) == ("mine", "1")
        assert "TE" not in named
        assert named["Accept-Encoding"] == asked[1].headers["Accept-Encoding"]
    made_up = {asked[1].headers["X-Request-Id"] for asked in (first, second)}
    assert len(made_up) == 1
    assert made_up != {"mine"}
    assert "Authorization" not in second[1].headers


async def test_nothing_is_said_for_a_client_that_says_nothing() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        await proxy.bare(json.dumps(ASKED).encode(), "Connection: close")
        for server in (proxy.prefill, proxy.decode):
            assert {name.lower() for name in server.asked[0].headers} == {"host", "content-length", "x-request-id"}


async def test_a_packed_request_is_passed_on_unpacked() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        packed = gzip.compress(json.dumps(ASKED).encode())
        await proxy.bare(packed, "Connection: close", "Content-Encoding: gzip")
        (first,), (second,) = proxy.prefill.asked, proxy.decode.asked
    assert first.json["max_tokens"] == 1
    assert second.json == ASKED


async def test_an_answer_comes_through_byte_by_byte_and_as_it_comes() -> None:
    go = asyncio.Event()
    async with (
        between(prefilling(), streaming(*EVENTS, go=go)) as proxy,
        proxy.http.post(proxy.url + COMPLETIONS, json=ASKED) as response,
    ):
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert response.headers["X-Own"] == "1"
        # The rest has not left its server: what comes now was not kept back.
        assert await response.content.readany() == EVENTS[0]
        go.set()
        assert await response.content.read() == b"".join(EVENTS[1:])
        assert await proxy.outcomes() == {"ok": 1}


async def test_a_packed_answer_stays_packed() -> None:
    async def packed(_: web.Request) -> web.Response:
        response = web.Response(body=b'{"text": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}' * 9)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with between(prefilling(), Server(packed)) as proxy, aiohttp.ClientSession(auto_decompress=False) as http:
        async with http.post(proxy.url + COMPLETIONS, json=ASKED) as through:
            got = through.headers["Content-Encoding"], await through.read()
        async with http.post(proxy.decode.url + COMPLETIONS, json=ASKED) as direct:
            assert got == (direct.headers["Content-Encoding"], await direct.read())


@pytest.mark.parametrize("status", [400, 429, 500, 503])
async def test_a_refusal_of_prefill_is_passed_on_and_decode_is_spared(status: int) -> None:
    error = '{"error": {"message": "too long", "code": 400}}'
    async with between(Server(saying(error, status=status)), Server(saying("{}"))) as proxy:
        assert await proxy.ask() == (status, error.encode())
        assert proxy.decode.asked == []
        assert await proxy.outcomes() == {"prefill_error": 1}


@pytest.mark.parametrize("status", [400, 503])
async def test_a_refusal_of_decode_is_passed_on(status: int) -> None:
    error = "no <b>room</b>"
    async with between(prefilling(), Server(saying(error, status=status, content_type="text/html"))) as proxy:
        async with proxy.http.post(proxy.url + COMPLETIONS, json=ASKED) as response:
            assert (response.status, response.content_type) == (status, "text/html")
            assert await response.text() == error
        assert await proxy.outcomes() == {"decode_error": 1}
        # A refusal is no first token.
        assert (await proxy.figures())["benchrun_proxy_added_seconds_count"] == 0


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000])
async def test_what_is_no_request_reaches_nobody(body: bytes) -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        async with proxy.http.post(proxy.url + COMPLETIONS, data=body) as response:
            assert response.status == 400
            assert (await response.json())["error"]["message"].startswith("proxy: the body is not")
        assert (proxy.prefill.asked, proxy.decode.asked) == ([], [])
        assert await proxy.outcomes() == {"refused": 1}


async def test_a_body_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchrun_client.proxy.port.MAX_BODY_BYTES", 1000)
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        assert (await proxy.ask(ASKED | {"prompt": "x" * 1000}))[0] == 413
        assert (await proxy.ask(ASKED | {"prompt": "x" * 100}))[0] == 200
        assert len(proxy.prefill.asked) == 1
        assert await proxy.outcomes() == {"refused": 1, "ok": 1}
