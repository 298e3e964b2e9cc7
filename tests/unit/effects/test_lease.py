"""The Lease as it goes over the wire."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from benchrun.effects import (
    GIVE_UP_SECONDS,
    LEASE_SECONDS,
    LONGEST_LEASE_SECONDS,
    RENEW_SECONDS,
    REQUEST_SECONDS,
    RETRY_SECONDS,
    WATCH_SECONDS,
    ClusterError,
    Conflict,
    Connection,
    Elector,
    Exists,
    Forbidden,
    LeaseApi,
    NotFound,
    Unavailable,
)
from unit.effects.scripted_api import Answer, Json, answering, gives, refuses
from unit.runtime.fast_time import FastLoop, now, passing, run_fast
from unit.runtime.memory_lease import MemoryLease

LEASES = "/apis/coordination.k8s.io/v1/namespaces/benchrun/leases"
LEASE: Json = {
    "metadata": {"name": "op", "resourceVersion": "7"},
    "spec": {"holderIdentity": "a"},
}


def api(connection: Connection) -> LeaseApi:
    return LeaseApi(connection, namespace="benchrun", name="op")


async def test_it_is_read_and_made_and_replaced_by_name_with_the_version_that_was_read() -> (
    None
):
    async with answering(gives(LEASE), gives(LEASE), gives(LEASE)) as exchange:
        leases = api(exchange.connection)
        assert (
            await leases.read()
            == await leases.create(LEASE["spec"])
            == await leases.replace(LEASE)
            == LEASE
        )
    made = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "op", "namespace": "benchrun"},
        "spec": LEASE["spec"],
    }
    assert [(each.method, each.path, each.body) for each in exchange.requests] == [
        ("GET", f"{LEASES}/op", None),
        ("POST", LEASES, made),
        ("PUT", f"{LEASES}/op", LEASE),
    ]


async def test_one_that_is_not_there_is_none() -> None:
    async with answering(refuses(404, "NotFound")) as exchange:
        assert await api(exchange.connection).read() is None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refuses(409, "Conflict"), Conflict),
        (refuses(409, "AlreadyExists"), Exists),
        (refuses(404, "NotFound"), NotFound),
        (refuses(403, "Forbidden"), Forbidden),
    ],
)
async def test_who_was_too_late_or_may_not_is_reported(
    answer: Answer, error: type[ClusterError]
) -> None:
    async with answering(answer, answer) as exchange:
        with pytest.raises(error):
            await api(exchange.connection).replace(LEASE)
        with pytest.raises(error):
            await api(exchange.connection).create({})


FAILOVER_SECONDS = 20.0


class WrongClock:
    """A node's clock, years away from everybody else's."""

    def __init__(self, year: int) -> None:
        self._began = datetime(year, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self._began + timedelta(seconds=now())


class Process:
    """An elector that leads, as an operator lets it, until it is killed or another one leads."""

    def __init__(
        self, lease: MemoryLease, identity: str, *, year: int = 2026
    ) -> None:
        self.elector = Elector(
            lease, identity=identity, now=WrongClock(year).now, monotonic=now
        )
        self.led_at: float | None = None
        self.has_ended = False
        self._task = asyncio.create_task(self._run())

    async def kill(self) -> None:
        """It does nothing any more, from one instant to the next."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def stop(self) -> None:
        """It is told to end."""
        await self.kill()
        await self.elector.release()

    async def _run(self) -> None:
        await self.elector.acquire()
        self.led_at = now()
        await self.elector.hold()
        self.has_ended = True


def scenario(make: Callable[[MemoryLease], Coroutine[Any, Any, None]]) -> None:
    run_fast(make(MemoryLease()))


def test_a_lease_that_does_not_exist_is_made_and_renewed() -> None:
    async def alone(lease: MemoryLease) -> None:
        process = Process(lease, "a")
        await passing(1)
        assert process.elector.leads
        assert lease.lease is not None
        assert lease.lease["spec"] == {
            "holderIdentity": "a",
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }
        await passing(60)
        assert process.elector.leads
        assert lease.writes == 1 + 60 // RENEW_SECONDS
        await process.kill()

    scenario(alone)


def test_what_a_live_other_holds_is_never_taken_whatever_its_clock_says() -> None:
    async def two(lease: MemoryLease) -> None:
        first = Process(lease, "a", year=1999)
        await passing(0.5)
        second = Process(lease, "b", year=2040)
        for _ in range(600):
            await passing(1)
            assert first.elector.leads
            assert not second.elector.leads
        await first.kill()
        await second.kill()

    scenario(two)


@pytest.mark.parametrize("killed_at", [10.1, 11.0, 12.9, 14.5])
def test_another_leads_soon_after_the_leader_was_killed_and_not_before_its_lease_is_over(
    killed_at: float,
) -> None:
    async def failover(lease: MemoryLease) -> None:
        first = Process(lease, "a")
        await passing(0.7)
        second = Process(lease, "b")
        await passing(killed_at - 0.7)
        await first.kill()
        await passing(FAILOVER_SECONDS)
        assert second.led_at is not None
        assert (
            LEASE_SECONDS - RENEW_SECONDS
            <= second.led_at - killed_at
            <= LEASE_SECONDS + 2 * WATCH_SECONDS
        )
        assert lease.lease is not None
        assert lease.lease["spec"]["leaseTransitions"] == 1
        assert lease.lease["metadata"]["labels"] == {"kept": "yes"}
        await second.kill()

    scenario(failover)


def test_one_of_many_racing_processes_leads() -> None:
    async def race(lease: MemoryLease) -> None:
        processes = [Process(lease, f"p{number}") for number in range(5)]
        for _ in range(3):
            await passing(FAILOVER_SECONDS)
            leading = [process for process in processes if process.elector.leads]
            assert len(leading) == 1
            processes.remove(leading[0])
            await leading[0].kill()
        for process in processes:
            await process.kill()

    scenario(race)


def test_who_is_restarted_under_its_name_leads_at_once() -> None:
    async def restart(lease: MemoryLease) -> None:
        first = Process(lease, "a")
        await passing(10)
        await first.kill()
        repeated = Process(lease, "a")
        await passing(0.1)
        assert repeated.elector.leads
        assert lease.lease is not None
        assert lease.lease["spec"]["leaseTransitions"] == 0
        await repeated.kill()

    scenario(restart)


def test_what_is_released_is_taken_at_the_next_look() -> None:
    async def handover(lease: MemoryLease) -> None:
        first = Process(lease, "a")
        await passing(0.5)
        second = Process(lease, "b")
        await passing(10)
        await first.stop()
        stopped_at = now()
        assert lease.holder == ""
        assert not first.elector.leads
        await passing(10)
        assert second.led_at is not None
        assert second.led_at - stopped_at <= WATCH_SECONDS
        await second.kill()

    scenario(handover)


def test_a_standby_releases_nothing() -> None:
    async def standby(lease: MemoryLease) -> None:
        first = Process(lease, "a")
        await passing(0.5)
        second = Process(lease, "b")
        await passing(5)
        await second.stop()
        assert lease.holder == "a"
        await first.kill()

    scenario(standby)


def test_a_release_that_nobody_answers_does_not_hold_up_the_end() -> None:
    async def hanging(lease: MemoryLease) -> None:
        first = Process(lease, "a")
        await passing(1)
        lease.hangs = True
        before = now()
        await first.stop()
        assert now() - before == REQUEST_SECONDS

    scenario(hanging)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_leader_that_cannot_renew_stops_before_another_may_begin_and_goes_on_when_it_can(
    hangs: bool,
) -> None:
    async def outage(lease: MemoryLease) -> None:
        process = Process(lease, "a")
        await passing(1)
        lease.hangs = hangs
        lease.broken = Unavailable("connection refused")
        await passing(GIVE_UP_SECONDS)
        assert not process.elector.leads
        assert process.elector.trouble is not None
        await passing(60)
        assert not process.elector.leads
        assert not process.has_ended
        lease.hangs = False
        lease.broken = None
        await passing(REQUEST_SECONDS + RETRY_SECONDS + 0.1)
        assert process.elector.leads
        assert process.elector.trouble is None
        await process.kill()

    scenario(outage)


def test_a_leader_whose_lease_another_took_ends() -> None:
    async def frozen(lease: MemoryLease) -> None:
        first = Process(lease, "a")
        await passing(0.5)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FastLoop)
        loop.busy(LEASE_SECONDS)
        assert not first.elector.leads, (
            "told by the clock alone, before anything else is done"
        )
        assert lease.lease is not None
        other = await lease.replace(
            {**lease.lease, "spec": {**lease.lease["spec"], "holderIdentity": "b"}}
        )
        await passing(RENEW_SECONDS + 1)
        assert first.has_ended
        assert not first.elector.leads
        assert lease.lease == other
        await first.stop()
        assert lease.holder == "b"

    scenario(frozen)


def test_a_write_whose_answer_was_lost_costs_nothing() -> None:
    async def lost(lease: MemoryLease) -> None:
        process = Process(lease, "a")
        await passing(0.5)
        lease.loses_answers = True
        await passing(RENEW_SECONDS)
        lease.loses_answers = False
        await passing(2 * RETRY_SECONDS + 0.1)
        assert process.elector.leads
        assert process.elector.trouble is None
        assert not process.has_ended
        await process.kill()

    scenario(lost)


def test_a_lease_that_somebody_deleted_is_recreated() -> None:
    async def deleted(lease: MemoryLease) -> None:
        process = Process(lease, "a")
        await passing(0.5)
        lease.lease = None
        await passing(RENEW_SECONDS + 0.1)
        assert lease.holder == "a"
        assert process.elector.leads
        await process.kill()

    scenario(deleted)


def test_without_the_right_to_the_lease_nobody_leads_and_it_is_reported() -> None:
    async def forbidden(lease: MemoryLease) -> None:
        lease.broken = Forbidden("leases is forbidden", code=403)
        process = Process(lease, "a")
        await passing(60)
        assert not process.elector.leads
        assert process.elector.trouble == "Forbidden: leases is forbidden"
        await process.kill()

    scenario(forbidden)


@pytest.mark.parametrize("value", [None, "soon", -5, 0, 10**9])
def test_a_lease_that_says_nonsense_is_waited_for_no_longer_than_a_minute(
    value: object,
) -> None:
    async def nonsense(lease: MemoryLease) -> None:
        await lease.create(
            {"holderIdentity": "b", "leaseDurationSeconds": value, "renewTime": 7}
        )
        process = Process(lease, "a")
        await passing(LONGEST_LEASE_SECONDS + 2 * WATCH_SECONDS)
        assert process.elector.leads
        await process.kill()

    scenario(nonsense)
