"""Pods behind the API server's proxy: a real HTTP server stands for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from benchrun.effects.connection import Connection
from benchrun.effects.pod_proxy import ProxyFetcher
from benchrun.effects.scraper import FetchError, HttpFetcher
from benchrun_client.contract import TOKEN_HEADER
from kubernetes.aio.client.configuration import Configuration

POD = "/api/v1/namespaces/lab/pods/client-1:8090/proxy"


class ApiServer:
    """Answers for one pod; tells what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.tokens: set[str | None] = set()
        self.run_tokens: set[str | None] = set()
        self.url = ""

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.path_qs, await request.text()))
        self.tokens.add(request.headers.get("Authorization"))
        self.run_tokens.add(request.headers.get(TOKEN_HEADER))
        if request.path.endswith("/stranger"):
            return web.Response(status=401)
        if request.path.endswith("/slow"):
            await asyncio.Event().wait()
        if request.path.endswith("/forbidden"):
            body = {"kind": "Status", "message": "pods/proxy is forbidden", "reason": "Forbidden"}
            return web.json_response(body, status=403)
        if request.path.endswith("/away"):
            raise web.HTTPFound("/api/v1/secrets")
        return web.Response(text="x" * 100)


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    """A listening one."""
    server = ApiServer()
    runner = await server.start()
    yield server
    await runner.cleanup()


@pytest.fixture
async def fetcher(api: ApiServer) -> AsyncIterator[ProxyFetcher]:
    """With credentials for it."""
    found = Configuration(host=api.url)
    found.api_key["BearerToken"] = "Bearer secret"
    connection, direct = Connection(found), HttpFetcher()
    yield ProxyFetcher(connection, direct=direct)
    await connection.close()
    await direct.close()


async def test_path_goes_to_the_api_server_with_its_credentials(api: ApiServer, fetcher: ProxyFetcher) -> None:
    page = await fetcher.fetch(f"{POD}/records?from=3&seen=-1&wait=20", limit_bytes=100, timeout_seconds=5)
    assert page == "x" * 100
    assert api.asked == [("GET", f"{POD}/records?from=3&seen=-1&wait=20", "")]
    assert api.tokens == {"Bearer secret"}


async def test_word_is_posted_as_it_is(api: ApiServer, fetcher: ProxyFetcher) -> None:
    await fetcher.post(f"{POD}/ack", '{"through":2}', timeout_seconds=5, headers={TOKEN_HEADER: "t"})
    ((method, path, body),) = api.asked
    assert (method, path) == ("POST", f"{POD}/ack")
    assert body.replace(" ", "") == '{"through":2}'
    assert api.run_tokens == {"t"}


@pytest.mark.parametrize("road", ["", "direct"])
async def test_the_runs_token_goes_with_a_question_beside_our_credentials(
    api: ApiServer, fetcher: ProxyFetcher, road: str
) -> None:
    place = api.url if road else POD
    page = await fetcher.fetch_bytes(
        f"{place}/records", limit_bytes=100, timeout_seconds=5, headers={TOKEN_HEADER: "t"}
    )
    assert (page, api.run_tokens, api.tokens) == (b"x" * 100, {"t"}, {None if road else "Bearer secret"})
    with pytest.raises(FetchError) as refused:
        await fetcher.fetch_bytes(f"{place}/stranger", limit_bytes=100, timeout_seconds=5)
    assert refused.value.status == 401


async def test_url_is_reached_directly_and_without_the_credentials(api: ApiServer, fetcher: ProxyFetcher) -> None:
    await fetcher.fetch(f"{api.url}/metrics", limit_bytes=100, timeout_seconds=5)
    await fetcher.post(f"{api.url}/ack", "{}", timeout_seconds=5)
    assert [path for _, path, _ in api.asked] == ["/metrics", "/ack"]
    assert api.tokens == {None}


async def test_pod_can_not_send_the_operators_credentials_elsewhere(api: ApiServer, fetcher: ProxyFetcher) -> None:
    with pytest.raises(FetchError, match="redirected"):
        await fetcher.fetch(f"{POD}/away", limit_bytes=100, timeout_seconds=5)
    assert [path for _, path, _ in api.asked] == [f"{POD}/away"]


@pytest.mark.parametrize(
    ("what", "path", "limit_bytes"),
    [
        pytest.param("pods/proxy is forbidden", "/forbidden", 100, id="refused"),
        pytest.param("more than 99 bytes", "/metrics", 99, id="too long"),
        pytest.param("TimeoutError", "/slow", 100, id="too slow"),
    ],
)
async def test_anything_but_a_whole_answer_is_an_error(
    fetcher: ProxyFetcher, what: str, path: str, limit_bytes: int
) -> None:
    with pytest.raises(FetchError, match=what):
        await fetcher.fetch(POD + path, limit_bytes=limit_bytes, timeout_seconds=0.5)
