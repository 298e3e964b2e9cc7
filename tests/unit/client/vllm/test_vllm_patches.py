"""What takes the place of parts of vLLM's benchmark: bounded metrics, our certificates, nothing
left open, users one by one."""

import asyncio
import ssl
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.load.vllm_patches import (
    ALL_USERS_SECONDS,
    CONNECTS,
    HANDING_OUT_SECONDS,
    USER_GAP_SECONDS,
    Sessions,
    SharedMetrics,
    UserRamp,
)
from unit.client.servers import Handler, answering, serving
from unit.runtime.fast_time import now, passing, run_fast


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
        assert await SharedMetrics().bounded(vllms_reader, first=True)(url, session) == expected


async def test_vllms_readers_share_a_page_and_read_it_anew_the_next_time() -> None:
    pages = iter(("before", "after", "never asked for"))

    async def counting(request: web.Request) -> web.Response:
        return web.Response(text=next(pages))

    shared = SharedMetrics()
    first, second = (shared.bounded(vllms_reader, first=is_first) for is_first in (True, False))
    async with serving(metrics=counting) as url, aiohttp.ClientSession() as session:
        read = [await reader(url, session) for reader in (first, second, first, second)]
    assert read == ["before", "before", "after", "after"]


@pytest.mark.parametrize("trust_env", [True, False])
async def test_sessions_look_up_proxies_only_where_configured_whatever_vllm_requests(
    trust_env: bool,
) -> None:
    sessions = Sessions(aiohttp, tls=None, trust_env=trust_env)
    assert sessions.ClientSession(trust_env=True).trust_env is trust_env
    await sessions.close()


async def test_sessions_left_open_are_closed() -> None:
    sessions = Sessions(aiohttp, tls=None, trust_env=False)
    left, closed = sessions.ClientSession(), sessions.ClientSession()
    await closed.close()
    await sessions.close()
    assert left.closed


def test_everything_else_is_aiohttps_own() -> None:
    assert Sessions(aiohttp, tls=None, trust_env=False).ClientTimeout is aiohttp.ClientTimeout


@pytest.mark.parametrize("verified", [True, False])
def test_our_certificates_are_used_where_verification_is_requested(verified: bool) -> None:
    class Module:
        @staticmethod
        def TCPConnector(**arguments: Any) -> Any:  # noqa: N802 (the name it stands in for)
            return arguments["ssl"]

    context = ssl.create_default_context()
    used = Sessions(Module, tls=context, trust_env=False).TCPConnector(ssl=verified)
    assert used is (context if verified else False)


async def all_at_once(users: int, requests: int) -> list[tuple[float | None, float]]:
    """When each request was due and when it went, all of them asked for at one instant."""
    beginning = UserRamp(users, clock=now)

    async def goes() -> tuple[float | None, float]:
        return await beginning.turn(), now()

    return await asyncio.gather(*(goes() for _ in range(requests)))


def test_users_begin_one_after_the_other_and_nobody_waits_after_that() -> None:
    gap = USER_GAP_SECONDS
    went = run_fast(all_at_once(4, 6))
    assert [due for due, _ in went] == [0.0, gap, 2 * gap, 3 * gap, None, None]
    assert [at for _, at in went] == pytest.approx([0.0, gap, 2 * gap, 3 * gap, 3 * gap, 3 * gap])


@pytest.mark.parametrize("users", [1, 250, 251, 5000])
def test_however_many_they_are_all_begin_in_time(users: int) -> None:
    *_, (due, at) = run_fast(all_at_once(users, users))
    assert due is not None
    assert due <= at <= min(ALL_USERS_SECONDS, USER_GAP_SECONDS * users)


def test_requests_that_arrive_by_themselves_go_when_they_come() -> None:
    assert run_fast(all_at_once(0, 3)) == [(None, 0.0)] * 3


def test_a_user_who_is_answered_before_all_have_begun_does_not_overtake_them() -> None:
    """Results are told apart by the order of their requests."""
    went: list[str] = []

    async def user(beginning: UserRamp, name: str) -> None:
        for request in ("first", "next"):
            await beginning.turn()
            went.append(f"{name} {request}")
            await passing(USER_GAP_SECONDS / 2)

    async def three() -> None:
        beginning = UserRamp(3, clock=now)
        await asyncio.gather(*(user(beginning, name) for name in "abc"))

    run_fast(three())
    assert went[:3] == ["a first", "b first", "c first"]
    assert sorted(went[3:]) == ["a next", "b next", "c next"]


def test_the_first_user_begins_when_every_request_was_handed_out() -> None:
    """To hand out thousands takes tens of milliseconds, which would be the first users' TTFT."""
    course: list[str] = []

    async def goes(beginning: UserRamp) -> None:
        course.append("handed out")
        await beginning.turn()
        course.append("sent")

    async def many() -> None:
        beginning = UserRamp(2, clock=now)
        await asyncio.gather(*(goes(beginning) for _ in range(5)))

    run_fast(many())
    assert course == ["handed out"] * 5 + ["sent"] * 5


async def begin_agreed(users: int, own: range, requests: int) -> list[tuple[float | None, float]]:
    beginning = UserRamp(users, own=own, clock=now)
    beginning.agree(10.0, requests=requests)

    async def goes() -> tuple[float | None, float]:
        return await beginning.turn(), now()

    return await asyncio.gather(*(goes() for _ in range(len(own) + 1)))


def test_users_of_several_shards_begin_as_those_of_one() -> None:
    """They are counted over all shards, from an instant that all know."""
    gap, first = USER_GAP_SECONDS, 10.0 + 7 * HANDING_OUT_SECONDS
    even, odd = (run_fast(begin_agreed(5, range(shard, 5, 2), 7)) for shard in (0, 1))
    assert [due for due, _ in even] == [first, first + 2 * gap, first + 4 * gap, None]
    assert [due for due, _ in odd] == [first + gap, first + 3 * gap, None]
    assert [at for _, at in odd[:2]] == pytest.approx([first + gap, first + 3 * gap])


async def connects_of(requests: int, *, at_a_time: int) -> list[float]:
    """What requests of one session note of their connections; each in a task of its own, as in
    vLLM's benchmark."""
    found: list[float] = []
    sessions = Sessions(aiohttp, tls=None, trust_env=False)
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
            await asyncio.gather(*(asyncio.create_task(send()) for _ in range(at_a_time)))
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
