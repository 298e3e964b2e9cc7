"""Runs are told what Kueue does with their Workloads, and a thousand runs ask no more than one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from benchrun import names
from benchrun.child_kinds import WORKLOAD
from benchrun.decide import Collected, QueuedWorkload
from benchrun.effects import ClusterError, Forbidden, Unavailable
from benchrun.observe import Key, run_key
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.queued_workloads import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    PLACE_SECONDS,
    QueuedWorkloads,
)
from unit.runtime.bodies import KEY, NAMESPACE, UID, Json, child_body
from unit.runtime.fast_time import in_fast_time, passing
from unit.runtime.memory_cluster import MemoryCluster

QUEUED = QueuedWorkload(names.queued_name("chat", UID, 1), 1, "gpus")
HELD = {
    "status": {
        "conditions": [
            {"type": type_, "status": "True"}
            for type_ in ("QuotaReserved", "Admitted")
        ]
    }
}


class Queues:
    """What runs are told, by a cluster with or without Workloads."""

    def __init__(self, **given: Any) -> None:
        self.cluster = MemoryCluster()
        self.indexes = Indexes()
        self.enqueued: list[Key] = []
        self.collected = Collected()
        self.workloads = QueuedWorkloads(
            cluster=self.cluster,
            indexes=self.indexes,
            enqueue=self.enqueued.append,
            **given,
        )

    def follow(self, wanted: QueuedWorkload | None = QUEUED) -> None:
        self.workloads.follow(KEY, wanted, self.collected)

    def workload(self, **more: Any) -> Json:
        """A Workload of the run is made, as the operator made it once."""
        return self.cluster.add(WORKLOAD, child_body(QUEUED.name) | more)

    def known(self) -> list[bool]:
        """Of the Workloads that are known, whether each is admitted."""
        return [
            child.quota.is_admitted
            for child in self.indexes.children(KEY).objects
            if child.kind == WORKLOAD and child.quota is not None
        ]

    @property
    def gone(self) -> set[int]:
        return self.collected.gone_workloads

    def asked(self, verb: str) -> int:
        return sum(entry[0] == verb for entry in self.cluster.log)


@asynccontextmanager
async def watching(queues: Queues) -> AsyncIterator[Queues]:
    """All that goes on in the background."""
    workloads = queues.workloads
    tasks = [
        asyncio.create_task(work)
        for work in (
            *(workloads.watch(scope) for scope in workloads.scopes),
            workloads.look_up_places(),
        )
    ]
    await passing(0.5)
    yield queues
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@in_fast_time
async def test_a_workload_is_heard_to_come_change_and_go() -> None:
    async with watching(Queues()) as queues:
        queues.follow()
        assert queues.gone == {1}
        there = queues.workload()
        await passing(0.1)
        assert (queues.known(), queues.gone) == ([False], set())
        queues.enqueued.clear()
        queues.cluster.change(WORKLOAD, there, HELD)
        await passing(0.1)
        assert (queues.known(), queues.enqueued) == ([True], [KEY])
        queues.enqueued.clear()
        queues.cluster.remove(WORKLOAD, QUEUED.name)
        await passing(0.1)
        assert (queues.known(), queues.gone) == ([], {1})
        assert KEY in queues.enqueued


@in_fast_time
async def test_a_workload_that_went_while_nobody_watched_is_gone() -> None:
    queues = Queues()
    queues.workload()
    async with watching(queues):
        queues.follow()
        assert (queues.known(), queues.gone) == ([False], set())
        [(_, _, changes)] = queues.cluster.watches
        changes.put_nowait(Unavailable("too old resource version", code=410))
        await passing(0.1)
        queues.cluster.objects.clear()
        await passing(FIRST_PAUSE_SECONDS + 0.1)
        assert (queues.known(), queues.gone) == ([], {1})
        assert KEY in queues.enqueued


@in_fast_time
async def test_a_watch_that_ends_goes_on_from_where_it_was() -> None:
    async with watching(Queues()) as queues:
        there = queues.workload()
        changed = queues.cluster.change(WORKLOAD, there, HELD)
        await passing(0.1)
        [(_, _, changes)] = queues.cluster.watches
        bookmark = {"metadata": {"resourceVersion": "4711"}}
        changes.put_nowait(("BOOKMARK", bookmark))
        changes.put_nowait(None)
        await passing(FIRST_PAUSE_SECONDS + 0.1)
        since = [each[-1] for each in queues.cluster.log if each[0] == "watch"]
        assert (len(since), since[-1]) == (2, "4711")
        assert queues.asked("list") == 1
        assert queues.known() == [True]
        assert changed["metadata"]["resourceVersion"] != "4711"


@pytest.mark.parametrize(
    "error", [Forbidden("no rights", code=403), Unavailable("down")]
)
@in_fast_time
async def test_what_can_not_be_watched_is_not_gone_and_tried_again(
    error: ClusterError,
) -> None:
    """Kueue may come after the operator."""
    queues = Queues()
    queues.cluster.broken["list"] = error
    async with watching(queues):
        queues.follow()
        await passing(600)
        assert queues.gone == set()
        assert 600 / LONGEST_PAUSE_SECONDS <= queues.asked("list") < 60
        queues.cluster.broken.clear()
        await passing(LONGEST_PAUSE_SECONDS)
        assert queues.gone == {1}


@in_fast_time
async def test_what_may_be_listed_and_not_watched_is_not_listed_all_the_time() -> (
    None
):
    """So it is while the roles of an older release hold."""
    queues = Queues()
    queues.cluster.broken["watch"] = Forbidden("no rights", code=403)
    async with watching(queues):
        queues.follow()
        await passing(600)
        assert 600 / LONGEST_PAUSE_SECONDS <= queues.asked("list") < 60
        queues.workload()
        await passing(LONGEST_PAUSE_SECONDS)
        assert (queues.known(), queues.gone) == ([False], set())


@in_fast_time
async def test_a_namespace_that_can_not_be_watched_stops_no_other() -> None:
    class Fenced(MemoryCluster):
        async def version(self, kind: str, *, namespace: str | None) -> str:
            if namespace == "closed":
                raise Forbidden("no rights", code=403)
            return await super().version(kind, namespace=namespace)

    queues = Queues(namespaces=("closed", NAMESPACE))
    queues.cluster = queues.workloads.cluster = Fenced()
    closed = Collected()
    async with watching(queues):
        queues.follow()
        queues.workloads.follow(run_key("closed", "chat"), QUEUED, closed)
        assert (queues.gone, closed.gone_workloads) == ({1}, set())


@in_fast_time
async def test_a_run_that_follows_no_more_is_told_nothing() -> None:
    async with watching(Queues()) as queues:
        queues.follow()
        queues.follow(None)
        queues.workload()
        await passing(60)
        assert queues.gone == {1}


def waiting(number: int) -> tuple[Key, QueuedWorkload, Collected]:
    key = run_key(NAMESPACE, f"run-{number}")
    name = names.queued_name(key.name, f"uid-{number}", 1)
    return key, QueuedWorkload(name, 1, "gpus"), Collected()


@in_fast_time
async def test_a_thousand_runs_ask_no_more_than_one() -> None:
    requests: list[int] = []
    for many in (1, 1000):
        async with watching(Queues()) as queues:
            for number in range(many):
                queues.workloads.follow(*waiting(number))
            await passing(600)
            requests.append(len(queues.cluster.log))
    assert requests[0] == requests[1] < 600 / PLACE_SECONDS + 10


@in_fast_time
async def test_places_are_looked_up_once_a_queue_and_only_while_runs_wait() -> None:
    async with watching(Queues()) as queues:
        first, second = waiting(1), waiting(2)
        queues.cluster.ahead = {first[1].name: 0, second[1].name: 1}
        queues.workloads.follow(*first)
        queues.workloads.follow(*second)
        await passing(PLACE_SECONDS)
        assert [first[2].places, second[2].places] == [{1: 0}, {1: 1}]
        assert {first[0], second[0]} <= set(queues.enqueued)
        queues.enqueued.clear()
        await passing(2 * PLACE_SECONDS)
        assert queues.enqueued == []
        queues.cluster.ahead = {second[1].name: 0}
        await passing(PLACE_SECONDS)
        assert [first[2].places, second[2].places] == [{}, {1: 0}]
        queues.cluster.broken["place"] = Unavailable("no visibility")
        await passing(PLACE_SECONDS)
        assert second[2].places == {}
        for key, wanted, collected in (first, second):
            admitted = QueuedWorkload(wanted.name, 1, None)
            queues.workloads.follow(key, admitted, collected)
        before = queues.asked("place")
        await passing(10 * PLACE_SECONDS)
        assert queues.asked("place") == before
