"""Reading pages: what is bounded is cut off, what is not an answer is an error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from benchrun.effects.scraper import FetchError, HttpFetcher

Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a real server around a handler; gives its URL."""
    servers: list[TestServer] = []

    async def start(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        server = TestServer(app)
        await server.start_server()
        servers.append(server)
        return str(server.make_url("/metrics"))

    yield start
    for server in servers:
        await server.close()


async def test_page_is_read_whole(fetcher: HttpFetcher, serve: Serve) -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="up 1\n" * 1000)

    assert await fetcher.fetch(await serve(page), limit_bytes=5000, timeout_seconds=5) == "up 1\n" * 1000


async def test_page_without_end_is_given_up_at_the_limit(fetcher: HttpFetcher, serve: Serve) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65_536)
            sent += 65_536

    with pytest.raises(FetchError, match="more than 100000 bytes"):
        await fetcher.fetch(await serve(endless), limit_bytes=100_000, timeout_seconds=5)
    assert sent < 50_000_000


async def test_slow_page_is_given_up_in_time(fetcher: HttpFetcher, serve: Serve) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"up")
        await asyncio.Event().wait()
        return response

    with pytest.raises(FetchError):
        await fetcher.fetch(await serve(drip), limit_bytes=100, timeout_seconds=0.05)


@pytest.mark.parametrize("status", [300, 301, 404, 500, 503])
async def test_only_success_is_a_page(fetcher: HttpFetcher, serve: Serve, status: int) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": "/elsewhere"}, text="no")

    with pytest.raises(FetchError, match=str(status)):
        await fetcher.fetch(await serve(answer), limit_bytes=100, timeout_seconds=5)


async def test_nobody_there_is_an_error(fetcher: HttpFetcher, unused_port: int) -> None:
    with pytest.raises(FetchError):
        await fetcher.fetch(f"http://127.0.0.1:{unused_port}/metrics", limit_bytes=100, timeout_seconds=5)


@pytest.mark.parametrize("url", ["http://[::1", "ftp://127.0.0.1/metrics", "http://"])
async def test_bad_url_is_an_error_like_any_other(fetcher: HttpFetcher, url: str) -> None:
    with pytest.raises(FetchError):
        await fetcher.fetch(url, limit_bytes=100, timeout_seconds=5)


async def test_proxy_of_the_environment_is_not_used_for_pods(
    fetcher: HttpFetcher, serve: Serve, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused_port}")
    direct = HttpFetcher()

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="up 1\n")

    try:
        assert await direct.fetch(await serve(page), limit_bytes=100, timeout_seconds=5) == "up 1\n"
    finally:
        await direct.close()


async def test_post_sends_json(fetcher: HttpFetcher, serve: Serve) -> None:
    received: list[tuple[str, str, str]] = []

    async def take(request: web.Request) -> web.Response:
        received.append((request.method, request.content_type, await request.text()))
        return web.Response(status=204)

    await fetcher.post(await serve(take), '{"through": 1}', timeout_seconds=5)
    assert received == [("POST", "application/json", '{"through": 1}')]
