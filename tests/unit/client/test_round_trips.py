"""The serial probe of the path: one small request after the other, bounded in time, and never an
error."""

import asyncio
import time
from collections import Counter

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.engines import ENGINES
from benchrun_client.server.round_trips import ROUND_TRIPS, measure_round_trips
from unit.client.servers import Handler, answering, serving

VLLM = ENGINES["VLLM"]


def after(seconds: float, *, status: int = 200) -> Handler:
    """As over a way of that length."""

    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(seconds)
        return web.Response(status=status, text="ok")

    return answer


async def test_twenty_of_them_on_one_connection_one_at_a_time() -> None:
    open_now = 0
    most = 0
    connections = set()

    async def answer(request: web.Request) -> web.Response:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        connections.add(request.transport)
        await asyncio.sleep(0.002)
        open_now -= 1
        return web.Response()

    async with serving(health=answer) as url, aiohttp.ClientSession() as session:
        trips = await measure_round_trips(session, [url], VLLM)
    assert trips is not None
    assert trips.count == ROUND_TRIPS
    assert 2_000 <= trips.median_us <= trips.p95_us
    assert (most, len(connections)) == (1, 1)


async def test_the_connection_and_the_first_answer_are_not_counted() -> None:
    """What a server does once: compile a route, look up a name."""
    answers = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal answers
        answers += 1
        await asyncio.sleep(0.2 if answers == 1 else 0)
        return web.Response()

    async with serving(health=answer) as url, aiohttp.ClientSession() as session:
        trips = await measure_round_trips(session, [url], VLLM)
    assert trips is not None
    assert trips.p95_us < 150_000


async def test_a_machine_that_is_slow_for_a_while_is_not_the_path() -> None:
    began: float | None = None

    async def answer(_: web.Request) -> web.Response:
        nonlocal began
        began = began or time.perf_counter()
        await asyncio.sleep(0.02 if time.perf_counter() - began < 0.4 else 0)
        return web.Response()

    async with serving(health=answer) as url, aiohttp.ClientSession() as session:
        trips = await measure_round_trips(session, [url], VLLM)
    assert trips is not None
    assert trips.median_us < 20_000


async def test_the_server_furthest_in_its_startup_counts() -> None:
    async with (
        serving(health=after(0)) as near,
        serving(health=after(0.04)) as far,
        aiohttp.ClientSession() as session,
    ):
        trips = await measure_round_trips(session, [near, far], VLLM)
    assert trips is not None
    assert trips.median_us >= 40_000


@pytest.mark.parametrize("status", [404, 405, 503])
async def test_a_gateway_without_a_health_check_is_probed_by_its_models(
    status: int,
) -> None:
    """It would refuse by itself, without a server behind it."""
    requests: Counter[str] = Counter()

    async def models(request: web.Request) -> web.Response:
        requests[request.path] += 1
        return web.Response()

    async with (
        serving(health=answering(status), v1_models=models) as url,
        aiohttp.ClientSession() as session,
    ):
        trips = await measure_round_trips(session, [url], VLLM)
    assert trips is not None
    assert requests == {"/v1/models": ROUND_TRIPS + 1}


async def test_the_way_to_a_refusal_is_not_the_way_to_the_server() -> None:
    async with (
        serving(health=answering(404), v1_models=answering(403)) as url,
        aiohttp.ClientSession() as session,
    ):
        assert await measure_round_trips(session, [url], VLLM) is None


async def test_a_long_way_ends_it_early() -> None:
    async with (
        serving(health=after(0.1)) as url,
        aiohttp.ClientSession() as session,
    ):
        start = time.monotonic()
        trips = await measure_round_trips(session, [url], VLLM, seconds=0.5)
        took = time.monotonic() - start
    assert trips is not None
    assert 1 <= trips.count < 5
    assert trips.median_us >= 100_000
    assert took < 2


async def test_servers_that_do_not_answer_in_time_give_nothing() -> None:
    async with serving(health=after(5)) as url, aiohttp.ClientSession() as session:
        assert await measure_round_trips(session, [url], VLLM, seconds=0.2) is None


async def test_a_server_that_is_gone_gives_nothing() -> None:
    async with serving() as url:
        pass
    async with aiohttp.ClientSession() as session:
        assert await measure_round_trips(session, [url], VLLM) is None
        assert await measure_round_trips(session, [], VLLM) is None
