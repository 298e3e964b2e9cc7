"""Pages of servers that misbehave: an error in few words, within bounds, and the next page is read all the same."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from benchrun.effects.scraper import FetchError, HttpFetcher
from unit.effects.pages import Pages
from unit.effects.raw_server import BROKEN, HEAD, sending


async def fetched(fetcher: HttpFetcher, url: str, *, limit_bytes: int = 100, timeout_seconds: float = 5) -> str:
    return await fetcher.fetch(url, limit_bytes=limit_bytes, timeout_seconds=timeout_seconds)


@pytest.mark.parametrize("parts", [pytest.param(parts, id=name) for name, parts in BROKEN.items()])
@pytest.mark.parametrize("reset", [False, True])
async def test_half_a_page_is_none(fetcher: HttpFetcher, parts: tuple[bytes, ...], reset: bool) -> None:
    async with sending(*parts, reset=reset) as url:
        with pytest.raises(FetchError) as refused:
            await fetched(fetcher, f"{url}/metrics")
    assert str(refused.value), "the log says why"


async def test_after_a_page_that_broke_off_the_next_is_read(fetcher: HttpFetcher) -> None:
    whole = HEAD + b"Content-Length: 5\r\n\r\n"
    async with sending(whole, b"up") as url:
        with pytest.raises(FetchError):
            await fetched(fetcher, url)
        with pytest.raises(FetchError):
            await fetched(fetcher, url)
    async with sending(whole, b"up 1\n") as url:
        assert await fetched(fetcher, url) == "up 1\n"


@pytest.mark.parametrize(("limit", "fits"), [(5, True), (6, True), (4, False), (0, False)])
async def test_a_page_may_be_as_long_as_its_bound(pages: Pages, fetcher: HttpFetcher, limit: int, fits: bool) -> None:
    if fits:
        assert await fetched(fetcher, pages.url, limit_bytes=limit) == "up 1\n"
    else:
        with pytest.raises(FetchError, match=f"more than {limit} bytes"):
            await fetched(fetcher, pages.url, limit_bytes=limit)


async def test_a_page_that_trickles_for_ever_is_given_up_in_time(fetcher: HttpFetcher) -> None:
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
            await fetched(fetcher, str(server.make_url("/")), limit_bytes=2**40, timeout_seconds=0.05)


async def test_what_is_no_utf_8_is_read_all_the_same(pages: Pages, fetcher: HttpFetcher) -> None:
    pages.body = b"up 1\n\xff\n"
    assert await fetched(fetcher, pages.url) == "up 1\n\ufffd\n"


@pytest.mark.parametrize("content_type", ["text/html", "application/json", "text/plain; charset=utf-16", "nonsense"])
async def test_the_bytes_count_and_not_what_they_are_called(
    pages: Pages, fetcher: HttpFetcher, content_type: str
) -> None:
    pages.headers = {"Content-Type": content_type}
    assert await fetched(fetcher, pages.url) == "up 1\n"


async def test_a_redirect_leads_nowhere(pages: Pages, fetcher: HttpFetcher) -> None:
    pages.status, pages.headers = 302, {"Location": "/elsewhere"}
    with pytest.raises(FetchError, match="HTTP 302"):
        await fetched(fetcher, pages.url)
    assert [request.path for request in pages.asked] == ["/metrics"]


async def test_no_cookie_is_kept(pages: Pages, fetcher: HttpFetcher) -> None:
    pages.headers = {"Set-Cookie": "session=1; Path=/"}
    await fetched(fetcher, pages.url)
    await fetched(fetcher, pages.url)
    assert [request.headers.get("Cookie") for request in pages.asked] == [None, None]


async def test_a_page_is_asked_for_as_it_is(pages: Pages, fetcher: HttpFetcher) -> None:
    """To compress it would cost the server that is measured time, once a second."""
    await fetched(fetcher, pages.url)
    (request,) = pages.asked
    assert request.headers["Accept-Encoding"] == "identity"
    assert request.headers["User-Agent"] == "benchrun-operator"


@pytest.mark.parametrize("encoding", ["gzip", "br", "made-up"])
async def test_a_page_that_is_compressed_all_the_same_is_not_unpacked(
    pages: Pages, fetcher: HttpFetcher, encoding: str
) -> None:
    """A thousand times what came over the wire would pass by the bound."""
    pages.body, pages.headers = gzip.compress(b"x" * 10_000_000), {"Content-Encoding": encoding}
    with pytest.raises(FetchError, match=f"compressed: {encoding}"):
        await fetched(fetcher, pages.url, limit_bytes=50_000)


async def test_nobody_is_listened_to_who_was_not_asked(fetcher: HttpFetcher) -> None:
    """Once: who went on answering on a connection that was kept filled the operator's memory, 25 MiB a second."""
    told = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"Content-Length: 5\r\n\r\nup 1\n")
        assert await reader.read() == b"", "the connection is closed"
        writer.close()
        told.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        assert await fetched(fetcher, f"http://{host}:{port}/") == "up 1\n"
        await asyncio.wait_for(told.wait(), 5)
