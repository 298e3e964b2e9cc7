"""Pods behind the API server's proxy: a real HTTP server stands for it."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from benchrun.effects import (
    MAX_ANSWER_BYTES,
    SMALL_ANSWER_BYTES,
    Connection,
    Fetcher,
    FetchError,
    Places,
    connection,
)
from benchrun_client.contract import TOKEN_HEADER
from kubernetes.aio.client.configuration import Configuration
from unit.effects.metrics_text import Pages
from unit.effects.raw_server import BROKEN, HEAD, sending

POD = "/api/v1/namespaces/lab/pods/client-1:8090/proxy"


class ApiServer:
    """Answers for one pod; tells what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str]] = []
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
        self.requests.append(
            (request.method, request.path_qs, await request.text())
        )
        self.tokens.add(request.headers.get("Authorization"))
        self.run_tokens.add(request.headers.get(TOKEN_HEADER))
        if request.path.endswith("/stranger"):
            return web.Response(status=401)
        if request.path.endswith("/slow"):
            await asyncio.Event().wait()
        if request.path.endswith("/forbidden"):
            body = {
                "kind": "Status",
                "message": "pods/proxy is forbidden",
                "reason": "Forbidden",
            }
            return web.json_response(body, status=403)
        if request.path.endswith("/away"):
            raise web.HTTPFound("/api/v1/secrets")
        return web.Response(text="x" * 100)


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    server = ApiServer()
    runner = await server.start()
    yield server
    await runner.cleanup()


@pytest.fixture
async def fetcher(api: ApiServer) -> AsyncIterator[Fetcher]:
    found = Configuration(host=api.url)
    found.api_key["BearerToken"] = "Bearer secret"
    connection = Connection(found)
    made = Fetcher(connection)
    yield made
    await connection.close()
    await made.close()


async def test_path_goes_to_the_api_server_with_its_credentials(
    api: ApiServer, fetcher: Fetcher
) -> None:
    page = await fetcher.fetch(
        f"{POD}/records?from=3&seen=-1&wait=20", limit_bytes=100, timeout_seconds=5
    )
    assert page == "x" * 100
    assert api.requests == [("GET", f"{POD}/records?from=3&seen=-1&wait=20", "")]
    assert api.tokens == {"Bearer secret"}


async def test_word_is_posted_as_it_is(api: ApiServer, fetcher: Fetcher) -> None:
    await fetcher.post(
        f"{POD}/ack",
        '{"through":2}',
        timeout_seconds=5,
        headers={TOKEN_HEADER: "t"},
    )
    ((method, path, body),) = api.requests
    assert (method, path) == ("POST", f"{POD}/ack")
    assert body.replace(" ", "") == '{"through":2}'
    assert api.run_tokens == {"t"}


@pytest.mark.parametrize("road", ["", "direct"])
async def test_the_runs_token_goes_with_a_question_beside_our_credentials(
    api: ApiServer, fetcher: Fetcher, road: str
) -> None:
    place = api.url if road else POD
    page = await fetcher.fetch_bytes(
        f"{place}/records",
        limit_bytes=100,
        timeout_seconds=5,
        headers={TOKEN_HEADER: "t"},
    )
    assert (page, api.run_tokens, api.tokens) == (
        b"x" * 100,
        {"t"},
        {None if road else "Bearer secret"},
    )
    with pytest.raises(FetchError) as refused:
        await fetcher.fetch_bytes(
            f"{place}/stranger", limit_bytes=100, timeout_seconds=5
        )
    assert refused.value.status == 401


async def test_url_is_reached_directly_and_without_the_credentials(
    api: ApiServer, fetcher: Fetcher
) -> None:
    await fetcher.fetch(f"{api.url}/metrics", limit_bytes=100, timeout_seconds=5)
    await fetcher.post(f"{api.url}/ack", "{}", timeout_seconds=5)
    assert [path for _, path, _ in api.requests] == ["/metrics", "/ack"]
    assert api.tokens == {None}


async def test_pod_cannot_send_the_operators_credentials_elsewhere(
    api: ApiServer, fetcher: Fetcher
) -> None:
    with pytest.raises(FetchError, match="redirected"):
        await fetcher.fetch(f"{POD}/away", limit_bytes=100, timeout_seconds=5)
    assert [path for _, path, _ in api.requests] == [f"{POD}/away"]


@pytest.mark.parametrize(
    ("what", "path", "limit_bytes"),
    [
        pytest.param("pods/proxy is forbidden", "/forbidden", 100, id="refused"),
        pytest.param("more than 99 bytes", "/metrics", 99, id="too long"),
        pytest.param("TimeoutError", "/slow", 100, id="too slow"),
    ],
)
async def test_anything_but_a_whole_answer_is_an_error(
    fetcher: Fetcher, what: str, path: str, limit_bytes: int
) -> None:
    with pytest.raises(FetchError, match=what):
        await fetcher.fetch(
            POD + path, limit_bytes=limit_bytes, timeout_seconds=0.5
        )


Serve = Callable[
    [Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[str]
]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a real server around a handler; gives its URL."""
    servers: list[TestServer] = []

    async def start(
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        server = TestServer(app)
        await server.start_server()
        servers.append(server)
        return str(server.make_url("/metrics"))

    yield start
    for server in servers:
        await server.close()


async def test_page_without_end_is_given_up_at_the_limit(
    fetcher: Fetcher, serve: Serve
) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65_536)
            sent += 65_536

    with pytest.raises(FetchError, match="more than 100000 bytes"):
        await fetcher.fetch(
            await serve(endless), limit_bytes=100_000, timeout_seconds=5
        )
    assert sent < 50_000_000


async def test_nobody_there_is_an_error(fetcher: Fetcher, unused_port: int) -> None:
    with pytest.raises(FetchError):
        await fetcher.fetch(
            f"http://127.0.0.1:{unused_port}/metrics",
            limit_bytes=100,
            timeout_seconds=5,
        )


@pytest.mark.parametrize(
    "url", ["http://[::1", "ftp://127.0.0.1/metrics", "http://"]
)
async def test_bad_url_is_an_error_like_any_other(
    fetcher: Fetcher, url: str
) -> None:
    with pytest.raises(FetchError):
        await fetcher.fetch(url, limit_bytes=100, timeout_seconds=5)


async def test_proxy_of_the_environment_is_not_used_for_pods(
    fetcher: Fetcher,
    serve: Serve,
    unused_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused_port}")
    direct = Fetcher()

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="up 1\n")

    try:
        assert (
            await direct.fetch(
                await serve(page), limit_bytes=100, timeout_seconds=5
            )
            == "up 1\n"
        )
    finally:
        await direct.close()


async def test_post_sends_json(fetcher: Fetcher, serve: Serve) -> None:
    received: list[tuple[str, str, str]] = []

    async def take(request: web.Request) -> web.Response:
        received.append(
            (request.method, request.content_type, await request.text())
        )
        return web.Response(status=204)

    await fetcher.post(await serve(take), '{"through": 1}', timeout_seconds=5)
    assert received == [("POST", "application/json", '{"through": 1}')]


async def fetched(
    fetcher: Fetcher,
    url: str,
    *,
    limit_bytes: int = 100,
    timeout_seconds: float = 5,
) -> str:
    return await fetcher.fetch(
        url, limit_bytes=limit_bytes, timeout_seconds=timeout_seconds
    )


@pytest.mark.parametrize(
    "parts", [pytest.param(parts, id=name) for name, parts in BROKEN.items()]
)
@pytest.mark.parametrize("reset", [False, True])
async def test_half_a_page_is_none(
    fetcher: Fetcher, parts: tuple[bytes, ...], reset: bool
) -> None:
    async with sending(*parts, reset=reset) as url:
        with pytest.raises(FetchError) as refused:
            await fetched(fetcher, f"{url}/metrics")
    assert str(refused.value), "the log says why"


async def test_after_a_page_that_broke_off_the_next_is_read(
    fetcher: Fetcher,
) -> None:
    whole = HEAD + b"Content-Length: 5\r\n\r\n"
    async with sending(whole, b"up") as url:
        with pytest.raises(FetchError):
            await fetched(fetcher, url)
        with pytest.raises(FetchError):
            await fetched(fetcher, url)
    async with sending(whole, b"up 1\n") as url:
        assert await fetched(fetcher, url) == "up 1\n"


@pytest.mark.parametrize(
    ("limit", "fits"), [(5, True), (6, True), (4, False), (0, False)]
)
async def test_a_page_may_be_as_long_as_its_bound(
    pages: Pages, fetcher: Fetcher, limit: int, fits: bool
) -> None:
    if fits:
        assert await fetched(fetcher, pages.url, limit_bytes=limit) == "up 1\n"
    else:
        with pytest.raises(FetchError, match=f"more than {limit} bytes"):
            await fetched(fetcher, pages.url, limit_bytes=limit)


async def test_a_page_that_trickles_for_ever_is_given_up_in_time(
    fetcher: Fetcher,
) -> None:
    """Every byte comes soon after the one before: only the whole can be too slow."""

    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0)

    app = web.Application()
    app.router.add_get("/", trickle)
    async with TestServer(app) as server:
        with pytest.raises(FetchError, match="TimeoutError"):
            await fetched(
                fetcher,
                str(server.make_url("/")),
                limit_bytes=2**40,
                timeout_seconds=0.05,
            )


async def test_invalid_utf_8_is_read_nevertheless(
    pages: Pages, fetcher: Fetcher
) -> None:
    pages.body = b"up 1\n\xff\n"
    assert await fetched(fetcher, pages.url) == "up 1\n\ufffd\n"


@pytest.mark.parametrize(
    "content_type",
    ["text/html", "application/json", "text/plain; charset=utf-16", "nonsense"],
)
async def test_the_bytes_count_and_not_what_they_are_called(
    pages: Pages, fetcher: Fetcher, content_type: str
) -> None:
    pages.headers = {"Content-Type": content_type}
    assert await fetched(fetcher, pages.url) == "up 1\n"


async def test_no_cookie_is_kept(pages: Pages, fetcher: Fetcher) -> None:
    pages.headers = {"Set-Cookie": "session=1; Path=/"}
    await fetched(fetcher, pages.url)
    await fetched(fetcher, pages.url)
    assert [request.headers.get("Cookie") for request in pages.requests] == [
        None,
        None,
    ]


async def test_a_page_is_requested_uncompressed(
    pages: Pages, fetcher: Fetcher
) -> None:
    """To compress it would cost the server that is measured time, once a second."""
    await fetched(fetcher, pages.url)
    (request,) = pages.requests
    assert request.headers["Accept-Encoding"] == "identity"
    assert request.headers["User-Agent"] == "benchrun-operator"


@pytest.mark.parametrize("encoding", ["gzip", "br", "made-up"])
async def test_a_page_that_is_compressed_all_the_same_is_not_unpacked(
    pages: Pages, fetcher: Fetcher, encoding: str
) -> None:
    """A thousand times what came over the wire would pass by the bound."""
    pages.body = gzip.compress(b"x" * 10_000_000)
    pages.headers = {"Content-Encoding": encoding}
    with pytest.raises(FetchError, match=f"compressed: {encoding}"):
        await fetched(fetcher, pages.url, limit_bytes=50_000)


async def test_an_address_that_was_not_requested_is_ignored(
    fetcher: Fetcher,
) -> None:
    """Once: who went on answering on a connection that was kept filled the operator's memory, 25
    MiB a second."""
    received = asyncio.Event()

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"Content-Length: 5\r\n\r\nup 1\n")
        assert await reader.read() == b"", "the connection is closed"
        writer.close()
        received.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        assert await fetched(fetcher, f"http://{host}:{port}/") == "up 1\n"
        await asyncio.wait_for(received.wait(), 5)


@pytest.mark.parametrize("status", [200, 201, 204])
async def test_any_success_will_do(
    pages: Pages, fetcher: Fetcher, status: int
) -> None:
    pages.status = status
    pages.body = b""
    await fetcher.post(pages.url, "{}", timeout_seconds=5)
    assert [
        (request.method, request.content_type) for request in pages.requests
    ] == [("POST", "application/json")]


@pytest.mark.parametrize(
    "status", [300, 301, 302, 303, 307, 400, 403, 404, 409, 413, 429, 500, 503]
)
async def test_only_success_counts(
    pages: Pages, fetcher: Fetcher, status: int
) -> None:
    pages.status = status
    pages.headers = {"Location": "/elsewhere", "Retry-After": "1"}
    with pytest.raises(FetchError, match=f"HTTP {status}"):
        await fetcher.post(pages.url, "{}", timeout_seconds=5)
    with pytest.raises(FetchError, match=f"HTTP {status}"):
        await fetched(fetcher, pages.url)
    assert len(pages.requests) == 2, "nothing is retried, no redirect followed"


async def test_the_answer_to_what_was_posted_is_bounded_too(
    pages: Pages, fetcher: Fetcher
) -> None:
    pages.body = b"x" * MAX_ANSWER_BYTES
    await fetcher.post(pages.url, "{}", timeout_seconds=5)
    pages.body += b"x"
    with pytest.raises(FetchError, match=f"more than {MAX_ANSWER_BYTES} bytes"):
        await fetcher.post(pages.url, "{}", timeout_seconds=5)


async def test_a_server_that_reports_nothing_to_it_is_given_up_in_time(
    fetcher: Fetcher,
) -> None:
    async with sending(stays=True) as url:
        with pytest.raises(FetchError, match="TimeoutError"):
            await fetcher.post(url, "{}", timeout_seconds=0.05)


def body_of(size: int) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % size + b"x" * size


async def test_of_large_answers_so_many_are_read_at_a_time_and_small_ones_go_past_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else servers that send much and then stall would hold all memory."""
    places = Places(1)
    monkeypatch.setattr(connection, "_large_answers", places)
    fetcher = Fetcher()
    async with (
        sending(body_of(4 * SMALL_ANSWER_BYTES)) as large,
        sending(body_of(100)) as small,
    ):
        async with places.taken("another"):
            with pytest.raises(FetchError):
                await fetcher.fetch(large, limit_bytes=2**20, timeout_seconds=0.1)
            assert (
                len(
                    await fetcher.fetch(small, limit_bytes=2**20, timeout_seconds=5)
                )
                == 100
            )
        assert (
            len(await fetcher.fetch(large, limit_bytes=2**20, timeout_seconds=5))
            == 4 * SMALL_ANSWER_BYTES
        )
    await fetcher.close()
    assert places.free == 1


async def test_a_large_answer_that_stalls_gives_its_place_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = Places(1)
    monkeypatch.setattr(connection, "_large_answers", places)
    monkeypatch.setattr(connection, "LARGE_ANSWER_SECONDS", 0.05)
    fetcher = Fetcher()
    async with sending(body_of(4 * SMALL_ANSWER_BYTES)[:-1], stays=True) as url:
        with pytest.raises(FetchError):
            await fetcher.fetch(url, limit_bytes=2**20, timeout_seconds=600)
    await fetcher.close()
    assert places.free == 1
