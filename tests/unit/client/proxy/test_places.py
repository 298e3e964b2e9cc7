"""At most so many at once; the others wait in the order of their arrival, and not all of them."""

import asyncio
import json

import pytest
from aiohttp import web
from benchrun_client.proxy import forwarding, upstream
from benchrun_client.proxy.upstream import InFlightLimit
from unit.client.proxy.between import ASKED, Server, between, prefilling, saying


class Holder:
    """Someone who wants a place, and keeps it until told otherwise."""

    def __init__(
        self, places: InFlightLimit, order: list[int], number: int
    ) -> None:
        self._places = places
        self._order = order
        self._number = number
        self.leave = asyncio.Event()
        self.task = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        async with self._places.place():
            self._order.append(self._number)
            await self.leave.wait()


async def settle() -> None:
    """Let everything that can go on go on."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_waiting_requests_start_in_order_of_arrival() -> None:
    places = InFlightLimit(most=2, most_queued=10)
    order = list[int]()
    holders = [Holder(places, order, number) for number in range(6)]
    await settle()
    assert (order, places.in_flight, places.queued) == ([0, 1], 2, 4)
    for number in range(6):
        holders[number].leave.set()
        await settle()
    assert order == [0, 1, 2, 3, 4, 5]
    assert (places.in_flight, places.queued) == (0, 0)


async def test_a_full_queue_takes_nobody_and_forgets_nobody() -> None:
    places = InFlightLimit(most=1, most_queued=1)
    order = list[int]()
    holders = [Holder(places, order, number) for number in range(2)]
    await settle()
    with pytest.raises(asyncio.QueueFull):
        async with places.place():
            pass
    for holder in holders:
        holder.leave.set()
        await holder.task
    async with places.place():
        assert order == [0, 1]


async def test_who_gives_up_waiting_leaves_no_hole() -> None:
    places = InFlightLimit(most=1, most_queued=3)
    order = list[int]()
    holders = [Holder(places, order, number) for number in range(4)]
    await settle()
    holders[1].task.cancel()
    await settle()
    assert places.queued == 2
    for holder in holders:
        holder.leave.set()
    await settle()
    assert order == [0, 2, 3]
    assert (places.in_flight, places.queued) == (0, 0)


async def test_who_gives_up_in_the_moment_of_its_turn_passes_it_on() -> None:
    places = InFlightLimit(most=1, most_queued=3)
    order = list[int]()
    holders = [Holder(places, order, number) for number in range(3)]
    await settle()
    holders[0].leave.set()
    holders[0].task.add_done_callback(lambda _: holders[1].task.cancel())
    holders[2].leave.set()
    await settle()
    assert 2 in order
    assert (places.in_flight, places.queued) == (0, 0)


async def test_no_more_requests_are_under_way_than_may_be() -> None:
    release = asyncio.Event()
    most = 0
    now = 0

    async def hold(_: web.Request) -> web.StreamResponse:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await release.wait()
        now -= 1
        return web.Response(text="{}")

    async with between(
        Server(hold), Server(saying("{}")), "--max-in-flight=2"
    ) as proxy:
        tasks = [
            asyncio.create_task(proxy.ask(ASKED | {"prompt": str(number)}))
            for number in range(5)
        ]
        # Two are under way and two wait: the fifth is told at once.
        full, others = await asyncio.wait(
            tasks, return_when=asyncio.FIRST_COMPLETED
        )
        (refused,) = (task.result() for task in full)
        assert refused[0] == 503
        assert "the proxy is full" in json.loads(refused[1])["error"]["message"]
        found = await proxy.metrics()
        assert (
            found["benchrun_proxy_in_flight"],
            found["benchrun_proxy_queued"],
        ) == (2, 2)
        release.set()
        assert {task.result()[0] for task in (await asyncio.wait(others))[0]} == {
            200
        }
        assert most == 2
        assert await proxy.outcomes() == {"ok": 4, "refused": 1}


async def test_a_client_that_goes_away_while_it_waits_is_never_sent() -> None:
    release = asyncio.Event()

    async def hold(_: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.Response(text="{}")

    async with between(
        Server(hold), Server(saying("{}")), "--max-in-flight=1"
    ) as proxy:
        first = asyncio.create_task(proxy.ask())
        await proxy.prefill.came.wait()
        waiting = asyncio.create_task(proxy.ask())
        while (await proxy.metrics())["benchrun_proxy_queued"] != 1:
            pass
        waiting.cancel()
        while (await proxy.metrics())["benchrun_proxy_queued"] != 0:
            pass
        release.set()
        assert (await first)[0] == 200
        assert len(proxy.prefill.requests) == 1


class Clock:
    """Stands in for `time`: it goes on only when a test says so."""

    now = 1000.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The proxy's clock."""
    clock = Clock()
    for module in (forwarding, upstream):
        monkeypatch.setattr(module, "time", clock)
    return clock


async def test_the_wait_for_a_place_is_distinguished_from_what_the_proxy_adds(
    clock: Clock,
) -> None:
    release = asyncio.Event()

    async def hold(request: web.Request) -> web.StreamResponse:
        if "slow" in await request.text():
            await release.wait()
        return web.Response(text="{}")

    async with between(
        Server(hold), Server(saying("{}")), "--max-in-flight=1"
    ) as proxy:
        first = asyncio.create_task(proxy.ask(ASKED | {"prompt": "slow"}))
        await proxy.prefill.came.wait()
        second = asyncio.create_task(proxy.ask())
        while (await proxy.metrics())["benchrun_proxy_queued"] != 1:
            pass
        clock.now += 0.5
        release.set()
        await asyncio.gather(first, second)
        found = await proxy.metrics()
    names = ("queue", "prefill", "added", "time_to_first_token")
    # The first was under way, the second waited, and its client waited for the first token all the
    # while.
    assert [found[f"benchrun_proxy_{name}_seconds_sum"] for name in names] == [
        0.5,
        0.5,
        0,
        1,
    ]
    assert [found[f"benchrun_proxy_{name}_seconds_count"] for name in names] == [
        2,
        2,
        2,
        2,
    ]


@pytest.mark.parametrize(
    ("slow_role", "prefill_seconds"), [("prefill", 0.5), ("decode", 0)]
)
async def test_what_a_server_takes_is_not_the_proxys_doing(
    clock: Clock, slow_role: str, prefill_seconds: float
) -> None:
    async def slow(_: web.Request) -> web.StreamResponse:
        clock.now += 0.5
        return web.Response(text="{}")

    servers = {"prefill": prefilling(), "decode": Server(saying("{}"))} | {
        slow_role: Server(slow)
    }
    async with between(servers["prefill"], servers["decode"]) as proxy:
        await proxy.ask()
        found = await proxy.metrics()
    assert found["benchrun_proxy_prefill_seconds_sum"] == prefill_seconds
    assert found["benchrun_proxy_added_seconds_sum"] == 0
    assert found["benchrun_proxy_time_to_first_token_seconds_sum"] == 0.5
