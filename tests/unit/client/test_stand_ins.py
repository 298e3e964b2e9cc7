"""What takes the place of parts of vLLM's benchmark keeps its manners: bounded pages, our certificates, nothing left open."""

from __future__ import annotations

import ssl
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.load.stand_ins import Sessions, SharedMetrics, reading_bounded
from unit.client.servers import Handler, answering, serving


async def vllms_reader(base_url: str, session: Any) -> str | None:
    """Reads a page as vLLM does, with no bound of its own."""
    async with session.get(f"{base_url}/metrics") as response:
        return await response.text() if response.status == 200 else None


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x" * 65536)


async def not_utf8(_: web.Request) -> web.Response:
    return web.Response(body=b"a\xff")


@pytest.mark.parametrize(
    ("expected", "handler"),
    [
        pytest.param("page", answering(200, text="page"), id="page"),
        pytest.param("a\ufffd", not_utf8, id="not-utf8"),
        pytest.param(None, answering(404), id="none"),
        pytest.param(None, endless, id="endless"),
    ],
)
async def test_vllm_reads_pages_within_our_bounds(expected: str | None, handler: Handler) -> None:
    async with serving(metrics=handler) as url, aiohttp.ClientSession() as session:
        assert await reading_bounded(vllms_reader)(url, session) == expected


async def test_vllms_readers_share_a_page_and_read_it_anew_the_next_time() -> None:
    pages = iter(("before", "after", "never asked for"))

    async def counting(request: web.Request) -> web.Response:
        return web.Response(text=next(pages))

    shared = SharedMetrics()
    first, second = reading_bounded(vllms_reader, shared.read), reading_bounded(vllms_reader, shared.last)
    async with serving(metrics=counting) as url, aiohttp.ClientSession() as session:
        read = [await reader(url, session) for reader in (first, second, first, second)]
    assert read == ["before", "before", "after", "after"]


@pytest.mark.parametrize("trust_env", [True, False])
async def test_sessions_look_up_proxies_only_where_told_to_whatever_vllm_asks(trust_env: bool) -> None:
    sessions = Sessions(aiohttp, tls=None, trust_env=trust_env)
    session = sessions.ClientSession(trust_env=True)
    assert session.trust_env is trust_env
    await sessions.close()


async def test_sessions_left_open_are_closed() -> None:
    sessions = Sessions(aiohttp, tls=None, trust_env=False)
    left, closed = sessions.ClientSession(), sessions.ClientSession()
    await closed.close()
    await sessions.close()
    assert left.closed


def test_everything_else_is_aiohttps_own() -> None:
    assert Sessions(aiohttp, tls=None, trust_env=False).ClientTimeout is aiohttp.ClientTimeout


@pytest.mark.parametrize("asked", [True, False])
def test_our_certificates_are_used_where_verification_is_asked_for(asked: bool) -> None:
    class Module:
        @staticmethod
        def TCPConnector(**arguments: Any) -> Any:  # noqa: N802 (the name it stands in for)
            return arguments["ssl"]

    context = ssl.create_default_context()
    used = Sessions(Module, tls=context, trust_env=False).TCPConnector(ssl=asked)
    assert used is (context if asked else False)
