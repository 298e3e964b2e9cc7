"""Ready: a request has gone through every server, and all of them are healthy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.proxy import readiness as module
from benchrun_client.proxy.server import parse, running_proxy
from unit.client.proxy.between import ASKED, COMPLETIONS, Server, prefilling, saying


class Watched:
    """A proxy whose readiness is looked after, as a probe sees it."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self.url = url

    async def health(self) -> tuple[int, str]:
        async with self.http.get(f"{self.url}/health") as response:
            return response.status, (await response.text()).strip()

    async def comes_to(self, status: int, *, words: str = "") -> str:
        """Ask until it says so; the words."""
        async with asyncio.timeout(20):
            while True:
                found, body = await self.health()
                if found == status and words in body:
                    return body
                await asyncio.sleep(0.01)


@asynccontextmanager
async def watched(prefill: str, decode: str, *flags: str) -> AsyncIterator[Watched]:
    words = [
        "--engine=VLLM",
        f"--prefill={prefill}",
        f"--decode={decode}",
        "--address=127.0.0.1",
        "--port=0",
        *flags,
    ]
    async with (
        running_proxy(parse(words)) as proxy,
        aiohttp.ClientSession() as http,
    ):
        watching = asyncio.create_task(proxy.readiness.watch())
        try:
            yield Watched(http, f"http://127.0.0.1:{proxy.port}")
        finally:
            watching.cancel()


@asynccontextmanager
async def watched_between(
    prefill: Server, decode: Server
) -> AsyncIterator[Watched]:
    async with (
        prefill.serving() as first,
        decode.serving() as second,
        watched(first, second) as proxy,
    ):
        yield proxy


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROVED_EVERY_SECONDS", 0.02)
    monkeypatch.setattr(module, "TRIED_EVERY_SECONDS", 0.02)


async def test_it_is_ready_once_a_request_has_gone_through_both() -> None:
    prefill = prefilling('{"kv_transfer_params": {"remote_engine_id": "e"}}')
    decode = Server(saying("{}"))
    async with watched_between(prefill, decode) as proxy:
        await proxy.comes_to(200)
        (before,) = prefill.requests
        (after,) = decode.requests
        assert before.json["max_tokens"] == 1
        assert after.json["kv_transfer_params"] == {"remote_engine_id": "e"}
        assert before.json["prompt"] == after.json["prompt"]
        assert before.json["model"] == after.json["model"] == "m"
        assert before.headers["X-Request-Id"] == after.headers["X-Request-Id"]
        async with proxy.http.get(f"{proxy.url}/metrics") as response:
            assert 'requests_total{outcome="ok"} 0' in await response.text()


async def test_each_proof_has_a_prompt_of_its_own() -> None:
    prefill = prefilling()
    decode = Server(saying("no", status=500))
    async with watched_between(prefill, decode) as proxy:
        await proxy.comes_to(503, words="decode: a first request got HTTP 500: no")
        async with asyncio.timeout(20):
            while len(prefill.requests) < 3:
                assert (await proxy.health())[0] == 503
    prompts = [request.json["prompt"].split() for request in prefill.requests]
    assert len({prompt[0] for prompt in prompts}) == len(prompts)
    assert {len(prompt) for prompt in prompts} == {module.PROOF_WORDS}


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_a_server_that_refuses_the_proof_is_named_with_its_words(
    role: str,
) -> None:
    servers = {"prefill": prefilling(), "decode": Server(saying("{}"))}
    servers[role].answer = saying('{"error":\n "no KV"}', status=400)
    async with watched_between(**servers) as proxy:
        assert await proxy.comes_to(
            503, words=f'{role}: a first request got HTTP 400: {{"error": "no KV"}}'
        )
        servers[role].answer = saying("{}")
        await proxy.comes_to(200)


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_a_server_that_falls_ill_takes_readiness_away_until_there_is_a_new_proof(
    role: str,
) -> None:
    servers = {"prefill": prefilling(), "decode": Server(saying("{}"))}
    servers[role].healthy = False
    async with watched_between(**servers) as proxy:
        where = servers[role].url.removeprefix("http://")
        await proxy.comes_to(503, words=f"{role}: {where}: /health answers 503")
        assert servers["prefill"].requests == []
        servers[role].healthy = True
        await proxy.comes_to(200)
        servers[role].healthy = False
        await proxy.comes_to(503, words="/health answers 503")
        servers[role].healthy = True
        await proxy.comes_to(200)
    assert len(servers["prefill"].requests) == len(servers["decode"].requests) == 2


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_a_server_that_dies_takes_readiness_away(role: str) -> None:
    servers = {"prefill": prefilling(), "decode": Server(saying("{}"))}
    async with AsyncExitStack() as stack:
        lives = {name: AsyncExitStack() for name in servers}
        for life in lives.values():
            await stack.enter_async_context(life)
        urls = {
            name: await lives[name].enter_async_context(server.serving())
            for name, server in servers.items()
        }
        proxy = await stack.enter_async_context(
            watched(urls["prefill"], urls["decode"])
        )
        await proxy.comes_to(200)
        await lives[role].aclose()
        await proxy.comes_to(
            503, words=f"{role}: {urls[role].removeprefix('http://')}: "
        )


async def test_every_server_takes_part_and_requests_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = prefilling()
    second = prefilling()
    third = prefilling()
    decode = Server(saying("{}"))
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(first.serving())
        port = int(url.rpartition(":")[2])
        for address, server in (("127.0.0.2", second), ("127.0.0.3", third)):
            await stack.enter_async_context(
                server.serving(address=address, port=port)
            )
        decode_url = await stack.enter_async_context(decode.serving())
        found = ["127.0.0.1"]
        name_with(monkeypatch, "prefill.invalid", found)
        proxy = await stack.enter_async_context(
            watched(
                f"http://prefill.invalid:{port}", decode_url, "--prefill-replicas=3"
            )
        )
        await proxy.comes_to(
            503, words="prefill: prefill.invalid has 1 of 3 addresses"
        )
        found += ["127.0.0.2", "127.0.0.3"]
        await proxy.comes_to(200)
        assert [
            len(server.requests) for server in (first, second, third, decode)
        ] == [1, 1, 1, 3]
        for _ in range(6):
            async with proxy.http.post(
                proxy.url + COMPLETIONS, json=ASKED
            ) as response:
                assert response.status == 200
        assert [
            len(server.requests) for server in (first, second, third, decode)
        ] == [3, 3, 3, 9]
        # From the proof on names are not looked up.
        found.clear()
        third.healthy = False
        await proxy.comes_to(503, words="prefill: 127.0.0.3:")
        third.healthy = True
        await proxy.comes_to(503, words="prefill.invalid has 0 of 3 addresses")
        found += ["127.0.0.2", "127.0.0.3", "127.0.0.1"]
        await proxy.comes_to(200)


def name_with(
    monkeypatch: pytest.MonkeyPatch, name: str, addresses: list[str]
) -> None:
    """Have a name stand for these addresses, whichever they are when it is looked up."""
    look_up: Any = asyncio.BaseEventLoop.getaddrinfo

    async def found(
        loop: asyncio.BaseEventLoop, host: str, port: int, **more: int
    ) -> list[Any]:
        if host != name:
            request: list[Any] = await look_up(loop, host, port, **more)
            return request
        if not addresses:
            raise OSError("no such name")
        return [(2, 1, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", found)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        '{"data": []}',
        '{"data": [{"id": "m"}]}',
        "[]",
        "<html>",
        '{"data": [{"id": "m", "max_model_len": 1e999}]}',
        "[" * 100_000,
    ],
)
async def test_a_decode_server_without_a_model_is_not_ready(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def models(_: web.Request) -> web.Response:
        return web.Response(text=body)

    monkeypatch.setattr("unit.client.proxy.between.models", models)
    prefill = prefilling()
    decode = Server(saying("{}"))
    async with watched_between(prefill, decode) as proxy:
        await proxy.comes_to(
            503, words="decode: /v1/models names no model: HTTP 200"
        )
        assert prefill.requests == []


async def test_a_proof_fits_a_small_model(monkeypatch: pytest.MonkeyPatch) -> None:
    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m", "max_model_len": 120}]})

    monkeypatch.setattr("unit.client.proxy.between.models", models)
    prefill = prefilling()
    decode = Server(saying("{}"))
    async with watched_between(prefill, decode) as proxy:
        await proxy.comes_to(200)
    # Three words of 32 characters are 98 tokens where each character is one.
    assert (
        len(decode.requests[0].json["prompt"])
        + decode.requests[0].json["max_tokens"]
        <= 120
    )


async def test_the_proof_has_the_key_of_the_pod_and_no_request_of_a_client_gets_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hidden")
    prefill = prefilling()
    decode = Server(saying("{}"))
    async with watched_between(prefill, decode) as proxy:
        await proxy.comes_to(200)
        async with proxy.http.post(proxy.url + COMPLETIONS, json=ASKED) as response:
            assert response.status == 200
    for server in (prefill, decode):
        proof, client = server.requests
        assert proof.headers["Authorization"] == "Bearer hidden"
        assert "Authorization" not in client.headers
    assert "hidden" not in capsys.readouterr().out
