"""What a running operator says is wrong with itself: exactly what a restart may cure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from benchrun.decide.decision import Decision
from benchrun.effects.errors import Unavailable
from benchrun.runtime import process
from benchrun.runtime.health import MAX_LOOP_LAG_SECONDS, MAX_SILENCE_SECONDS
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.process import Operator
from benchrun.runtime.settings import Settings
from kubernetes.aio.client.configuration import Configuration
from unit.runtime.bodies import NAMESPACE, run_body
from unit.runtime.fast_time import FastLoop, now, passing, run_fast
from unit.runtime.memory_cluster import MemoryCluster
from unit.runtime.scene import RUNNING

SETTINGS = Settings(client_image="client", listen_host="127.0.0.1", listen_port=0)
A_MINUTE = 60.4
"""Not on a beat of the pulse, which comes with every full second."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MemoryCluster:
    """What the operator finds where it looks for an API server."""
    there = MemoryCluster()
    there.add("BenchmarkRun", run_body())

    async def configuration(**_: object) -> Configuration:
        return Configuration()

    monkeypatch.setattr(process, "configuration", configuration)
    monkeypatch.setattr(process, "KubernetesApi", lambda connection, *, count: there)
    return there


@asynccontextmanager
async def running() -> AsyncIterator[Operator]:
    """An operator that has read the cluster and made its first passes."""
    operator = Operator(SETTINGS, decide=lambda world: Decision(status=RUNNING))
    operator.indexes = Indexes(seconds=now)
    await operator.start()
    await passing(A_MINUTE)
    yield operator
    await operator.stop()


async def ends(name: str) -> None:
    """One of its tasks ends, as none ever should."""
    (task,) = (task for task in asyncio.all_tasks() if task.get_name() == name)
    task.cancel()
    await asyncio.wait([task])


def said(then: Callable[[Operator], Awaitable[None]]) -> list[str]:
    """Its problems after something happened to it; it had none before."""

    async def scenario() -> list[str]:
        async with running() as operator:
            assert operator.problems() == []
            await then(operator)
            return operator.problems()

    return run_fast(scenario())


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ("pulse", "pulse has ended"),
        ("resync", "resync has ended"),
        ("queue worker 3", "a queue worker has ended"),
    ],
)
def test_a_task_that_has_ended_is_named(task: str, problem: str) -> None:
    assert said(lambda operator: ends(task)) == [problem]


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("seconds", "problems"),
    [(MAX_LOOP_LAG_SECONDS - 2, []), (MAX_LOOP_LAG_SECONDS + 2, ["the event loop is 31 s late"])],
    ids=["busy", "stuck"],
)
def test_a_loop_that_does_nothing_else_is_late(seconds: float, problems: list[str]) -> None:
    async def blocked(operator: Operator) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FastLoop)
        loop.busy(seconds)

    assert said(blocked) == problems


def test_a_watch_that_does_not_tell_what_was_written_is_silent_until_it_does(cluster: MemoryCluster) -> None:
    async def told_late(operator: Operator) -> None:
        # The first pass wrote a status when the operator started.
        await passing(MAX_SILENCE_SECONDS - A_MINUTE - 1)
        assert operator.problems() == []
        await passing(2)
        assert operator.problems() == ["a watch is silent about a change that is 181 s old"]
        operator.indexes.heard("BenchmarkRun", cluster.objects["BenchmarkRun", NAMESPACE, "chat"], deleted=False)

    assert said(told_late) == []


def test_waiting_for_an_api_server_is_no_problem_of_this_process(cluster: MemoryCluster) -> None:
    cluster.broken["list"] = Unavailable("connection refused")

    async def scenario() -> None:
        operator = Operator(SETTINGS, decide=lambda world: Decision(status=RUNNING))
        starting = asyncio.create_task(operator.start())
        await passing(10 * A_MINUTE)
        assert not starting.done()
        assert operator.problems() == []
        cluster.broken.clear()
        await starting
        await passing(A_MINUTE)
        assert operator.problems() == []
        assert ("status", "BenchmarkRun", "chat") in cluster.log
        await operator.stop()

    run_fast(scenario())
