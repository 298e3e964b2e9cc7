"""What takes the place of parts of vLLM's benchmark: bounded metrics, our certificates, nothing
left open."""

import asyncio
import ssl
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.access import Access
from benchrun_client.load.vllm_patches import (
    CONNECTS,
    PatchedAiohttp,
    SharedMetrics,
)
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
    return web.Response(body=b"a\xff\n")


@pytest.mark.parametrize(
    ("expected", "handler"),
    [
        pytest.param("page\n", answering(200, text="page\n"), id="page"),
        pytest.param("a\ufffd\n", not_utf8, id="not-utf8"),
        pytest.param(None, answering(200, text="page"), id="cut"),
        pytest.param(None, answering(404), id="none"),
        pytest.param(None, endless, id="endless"),
    ],
)
async def test_vllm_reads_pages_within_our_bounds(
    expected: str | None, handler: Handler
) -> None:
    async with serving(metrics=handler) as url, aiohttp.ClientSession() as session:
        assert (
            await SharedMetrics().bounded(vllms_reader, first=True)(url, session)
            == expected
        )


async def test_vllms_readers_share_a_page_and_read_it_anew_the_next_time() -> None:
    pages = iter(("before\n", "after\n", "never asked for\n"))

    async def counting(request: web.Request) -> web.Response:
        return web.Response(text=next(pages))

    shared = SharedMetrics()
    first, second = (
        shared.bounded(vllms_reader, first=is_first) for is_first in (True, False)
    )
    async with serving(metrics=counting) as url, aiohttp.ClientSession() as session:
        read = [
            await reader(url, session) for reader in (first, second, first, second)
        ]
    assert read == ["before\n", "before\n", "after\n", "after\n"]


@pytest.mark.parametrize("trust_env", [True, False])
async def test_sessions_look_up_proxies_only_where_configured_whatever_vllm_requests(
    trust_env: bool,
) -> None:
    sessions = PatchedAiohttp(aiohttp, access=Access(), trust_env=trust_env)
    assert sessions.ClientSession(trust_env=True).trust_env is trust_env
    await sessions.close()


async def test_sessions_left_open_are_closed() -> None:
    sessions = PatchedAiohttp(aiohttp, access=Access(), trust_env=False)
    left = sessions.ClientSession()
    closed = sessions.ClientSession()
    await closed.close()
    await sessions.close()
    assert left.closed


def test_everything_else_is_aiohttps_own() -> None:
    assert (
        PatchedAiohttp(aiohttp, access=Access(), trust_env=False).ClientTimeout
        is aiohttp.ClientTimeout
    )


@pytest.mark.parametrize("verified", [True, False])
def test_our_certificates_are_used_where_verification_is_requested(
    verified: bool,
) -> None:
    class Module:
        @staticmethod
        def TCPConnector(**arguments: Any) -> Any:  # noqa: N802 (the name it stands in for)
            return arguments["ssl"]

    context = ssl.create_default_context()
    used = PatchedAiohttp(
        Module, access=Access(tls=context), trust_env=False
    ).TCPConnector(ssl=verified)
    assert used is (context if verified else False)


async def connects_of(requests: int, *, at_a_time: int) -> list[float]:
    """What requests of one session note of their connections; each in a task of its own, as in
    vLLM's benchmark."""
    found: list[float] = []
    sessions = PatchedAiohttp(aiohttp, access=Access(), trust_env=False)
    everybody_is_in = asyncio.Barrier(at_a_time)

    async def page(_: web.Request) -> web.Response:
        await everybody_is_in.wait()
        return web.Response()

    async with serving(page=page, metrics=answering(200)) as url:
        session = sessions.ClientSession()

        async def send() -> None:
            CONNECTS.set(found)
            async with session.get(f"{url}/page") as response:
                await response.read()

        for _ in range(requests // at_a_time):
            await asyncio.gather(
                *(asyncio.create_task(send()) for _ in range(at_a_time))
            )
        # Of a new connection that belongs to no request nothing is noted.
        async with session.get(f"{url}/metrics", headers={"Connection": "close"}):
            pass
        await sessions.close()
    return found


@pytest.mark.parametrize("at_a_time", [1, 3])
async def test_only_new_connections_of_requests_are_noted(at_a_time: int) -> None:
    found = await connects_of(6, at_a_time=at_a_time)
    assert len(found) == at_a_time
    assert all(0 < seconds < 1 for seconds in found)
