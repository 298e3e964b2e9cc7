"""The three pages of the process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession
from benchrun.runtime.telemetry import Health, Pulse, Telemetry
from unit.runtime.fast_time import passing, run_fast


class State:
    """What the process says of itself."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.ready = False


@pytest.fixture
def state() -> State:
    """A process that is well and not ready."""
    return State()


@pytest.fixture
async def client(state: State) -> AsyncIterator[ClientSession]:
    """A client of the running health server."""
    health = Health(Telemetry(), problems=lambda: state.problems, ready=lambda: state.ready)
    await health.start("127.0.0.1", 0)
    async with ClientSession(f"http://127.0.0.1:{health.port}") as made:
        yield made
    await health.stop()


async def test_healthy_as_long_as_there_is_no_problem(client: ClientSession, state: State) -> None:
    answer = await client.get("/healthz")
    assert (answer.status, await answer.text()) == (200, "ok\n")
    state.problems = ["a queue worker has ended", "a watch is silent"]
    answer = await client.get("/healthz")
    assert (answer.status, await answer.text()) == (503, "a queue worker has ended\na watch is silent\n")


async def test_ready_once_the_cluster_was_read(client: ClientSession, state: State) -> None:
    assert (await client.get("/readyz")).status == 503
    state.ready = True
    assert (await client.get("/readyz")).status == 200


async def test_metrics_are_prometheus_text(client: ClientSession) -> None:
    answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "benchrun_reconcile_seconds_count" in await answer.text()


async def test_nothing_else_is_served(client: ClientSession) -> None:
    assert (await client.get("/")).status == 404
    assert (await client.post("/healthz")).status == 405


def test_pulse_that_stops_is_late() -> None:
    async def scenario() -> None:
        pulse = Pulse(Telemetry())
        beating = asyncio.create_task(pulse.beat())
        await passing(100.5)
        assert pulse.lag_seconds() == 0
        beating.cancel()
        await passing(60)
        assert pulse.lag_seconds() == pytest.approx(59.5)

    run_fast(scenario())


async def test_server_that_was_never_started_can_be_stopped() -> None:
    await Health(Telemetry(), problems=list, ready=lambda: True).stop()
