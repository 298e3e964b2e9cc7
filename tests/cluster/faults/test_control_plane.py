"""What the operator works with breaks: each fault has an operator and a namespace of its own, and
meanwhile a server runs out of memory. That is told, and the server let go, as soon as the fault is
over; most of the faults last, so they do that together."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from kit import pod_statuses
from kit.faults import Fault, Measured, of
from kit.faulty_way import SILENCE, FaultyWay, expired, refusal
from kit.kubectl import Namespace
from kit.played import played_cluster
from kit.trials import Outcomes, Plays, Trial, checked, measured
from runs_kit.cluster import PATHS
from runs_kit.operator_process import OperatorProcess
from runs_kit.proxy import Request

AWAY_SECONDS, STOPPED_SECONDS, WRONG_SECONDS, SLOWER_SECONDS = 120, 90, 20, 2
WATCHED_AGAIN_SECONDS = 60
STARTS_AT_A_TIME = 3  # operators; each of them needs a core while it starts
PLAYS = Plays()


def way_of(trial: Trial) -> FaultyWay:
    way = trial.played.way
    assert isinstance(way, FaultyWay)
    return way


async def runs_out_of_memory(trial: Trial) -> None:
    """Which shows only once the fault is over."""
    status = pod_statuses.ended("vllm", code=137, reason="OOMKilled")
    await trial.played.write_pod(trial.run, "server", status)


@asynccontextmanager
async def wrong_for_a_while(
    trial: Trial, answer: bytes, when: Callable[[Request], bool]
) -> AsyncIterator[None]:
    """These requests get this answer, from now on until some seconds after the block."""
    way = way_of(trial)
    way.wrong = lambda request: answer if when(request) else None
    way.cut()
    yield
    await asyncio.sleep(WRONG_SECONDS)
    way.wrong = lambda _: None
    trial.shown()


# ---- the operator
# -------------------------------------------------------------------------------------------------


@PLAYS.of("operator-killed")
async def operator_killed(trial: Trial) -> None:
    await trial.measures()
    await trial.played.operator.kill()
    await runs_out_of_memory(trial)
    await trial.played.operator.start()
    trial.shown()


@PLAYS.of("operator-stopped")
async def operator_stopped(trial: Trial) -> None:
    await trial.measures()
    trial.played.operator.signal(signal.SIGSTOP)
    await runs_out_of_memory(trial)
    await asyncio.sleep(STOPPED_SECONDS)
    trial.played.operator.signal(signal.SIGCONT)
    trial.shown()


@PLAYS.of("two-operators")
async def two_operators(trial: Trial) -> None:
    played = trial.played
    directory = played.operator.log.parent / "second"
    await asyncio.to_thread(directory.mkdir)
    second = OperatorProcess(
        played.api, played.namespace, api_url=played.way.url, directory=directory
    )
    trial.at_the_end(second.stop)
    await second.start()
    await trial.measures()
    await runs_out_of_memory(trial)
    trial.shown()


@PLAYS.of("right-removed")
async def right_removed(trial: Trial) -> None:
    await trial.measures()
    here = Namespace(trial.played.namespace)
    bindings = await asyncio.to_thread(here.list, "rolebindings")
    for each in bindings:
        each["metadata"] = {"name": each["metadata"]["name"]}
        await asyncio.to_thread(here.delete, "rolebinding", each["metadata"]["name"])
    await runs_out_of_memory(trial)
    await asyncio.sleep(WRONG_SECONDS)
    await asyncio.to_thread(here.apply, *bindings)
    trial.shown()


# ---- the API server
# -------------------------------------------------------------------------------------------------


@PLAYS.of("api-away")
async def api_away(trial: Trial) -> None:
    await trial.measures()
    way_of(trial).stop()
    way_of(trial).cut()
    await runs_out_of_memory(trial)
    await asyncio.sleep(AWAY_SECONDS)
    await way_of(trial).start()
    trial.shown()


@PLAYS.of("api-slow")
async def api_slow(trial: Trial) -> None:
    await trial.measures()
    way_of(trial).delay_seconds = SLOWER_SECONDS
    await runs_out_of_memory(trial)
    trial.shown()


def _changes_something(request: Request) -> bool:
    return request.writes and request.method != "DELETE"


@PLAYS.of("api-conflicts")
async def api_conflicts(trial: Trial) -> None:
    await trial.measures()
    # Of a deletion by uid it says something else: that another object has the name.
    async with wrong_for_a_while(trial, refusal(409), _changes_something):
        await runs_out_of_memory(trial)


@PLAYS.of("api-throttles")
async def api_throttles(trial: Trial) -> None:
    await trial.measures()
    async with wrong_for_a_while(trial, refusal(429), lambda _: True):
        await runs_out_of_memory(trial)


@PLAYS.of("api-fails")
async def api_fails(trial: Trial) -> None:
    await trial.measures()
    async with wrong_for_a_while(trial, refusal(500), lambda _: True):
        await runs_out_of_memory(trial)


@PLAYS.of("api-unavailable")
async def api_unavailable(trial: Trial) -> None:
    await trial.measures()
    async with wrong_for_a_while(trial, refusal(503), lambda _: True):
        await runs_out_of_memory(trial)


@PLAYS.of("watch-expired")
async def watch_expired(trial: Trial) -> None:
    await trial.measures()
    answer = expired()
    way_of(trial).wrong = lambda request: answer if request.watches else None
    way_of(trial).cut()
    await runs_out_of_memory(trial)
    trial.shown()


@PLAYS.of("watch-silent")
async def watch_silent(trial: Trial) -> None:
    await trial.measures()
    way = way_of(trial)
    silent = asyncio.Event()

    def silence(request: Request) -> bytes | None:
        if request.resource == "pods" and request.watches:
            silent.set()
        return SILENCE if request.watches else None

    way.wrong = silence
    way.cut()
    await asyncio.wait_for(silent.wait(), WATCHED_AGAIN_SECONDS)
    way.wrong = lambda _: None  # what has begun to be silent stays so
    await runs_out_of_memory(trial)
    trial.shown()


# ---- deletion
# -------------------------------------------------------------------------------------------------


@PLAYS.of("namespace-deleted")
async def namespace_deleted(trial: Trial) -> None:
    await trial.measures()
    await trial.played.api.ask("DELETE", f"/api/v1/namespaces/{trial.played.namespace}")
    trial.shown()


@PLAYS.of("deleted-background")
@PLAYS.of("deleted-foreground")
async def deleted(trial: Trial) -> None:
    await trial.measures()
    path = PATHS["BenchmarkRun"].format(trial.played.namespace)
    how = trial.fault.name.removeprefix("deleted-").capitalize()
    await trial.played.api.ask(
        "DELETE",
        f"{path}/{trial.run.name}",
        {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": how},
    )
    trial.shown()


# ---- all of them
# -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcomes(definition: str, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What became of each of them."""
    return asyncio.run(_tried({fault: tmp_path_factory.mktemp(fault.name) for fault in PLAYS}))


async def _tried(directories: dict[Fault, Path]) -> Outcomes:
    starting = asyncio.Semaphore(STARTS_AT_A_TIME)
    found = await asyncio.gather(
        *(_measured(fault, directory, starting) for fault, directory in directories.items()),
        return_exceptions=True,
    )
    return {fault.name: outcome for fault, outcome in zip(PLAYS, found, strict=True)}


async def _measured(fault: Fault, directory: Path, starting: asyncio.Semaphore) -> Measured:
    async with AsyncExitStack() as stack:
        async with starting:
            cluster = played_cluster(directory, way=FaultyWay)
            played = await stack.enter_async_context(cluster)
        return await measured(Trial(played, fault), PLAYS[fault])


@pytest.mark.timeout(420)
@pytest.mark.parametrize("fault", of("control plane"), ids=lambda fault: fault.name)
def test_a_fault_is_made_good_when_it_is_over(fault: Fault, outcomes: Outcomes) -> None:
    checked(fault, outcomes)
