"""What the operator works with breaks: each fault has an operator and a namespace of its own, and
meanwhile a server runs out of memory. That is told, and the server let go, as soon as the fault is
over; most of the faults last, so they do that together."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    suppress,
)
from functools import partial
from pathlib import Path

import pytest
from kit import definitions, pod_statuses
from kit.faults import COMPLETED, Fault, Measured, of
from kit.faulty_way import SILENCE, FaultyWay, expired, refusal
from kit.kubectl import Namespace, Object
from kit.played import STAGES, played_cluster
from kit.polling import turns
from kit.trials import Outcomes, Plays, Trial, checked, measured
from runs_kit.cluster import PATHS
from runs_kit.operator_process import OperatorProcess
from runs_kit.proxy import Request

AWAY_SECONDS = 120
STOPPED_SECONDS = 90
WRONG_SECONDS = 20
SLOWER_SECONDS = 1
WATCHED_AGAIN_SECONDS = 60
DEFINED_SECONDS = 60
MEASURED_SECONDS = 20  # until all that a run measures is known
AHEAD_SECONDS = {
    "operator-clock-behind": -5 * 3600,
    "operator-clock-ahead": 30 * 86_400,
    "server-clock-behind": -5 * 3600,
    "server-clock-ahead": 30 * 86_400,
}
STARTS_AT_A_TIME = 3  # operators; each of them needs a core while it starts
PLAYS = Plays()


def way_of(trial: Trial) -> FaultyWay:
    way = trial.played.way
    assert isinstance(way, FaultyWay)
    return way


async def runs_out_of_memory(
    trial: Trial, *, clock_ahead_seconds: float = 0.0
) -> None:
    """Its process is gone; that shows only once the fault of the control plane is over."""
    trial.run.pages.stop()
    status = pod_statuses.ended("server", code=137, reason="OOMKilled")
    by_its_clock = pod_statuses.by_a_clock(
        status, ahead_seconds=clock_ahead_seconds
    )
    await trial.played.write_pod(trial.run, "server", by_its_clock)


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


@PLAYS.of("operator-clock-behind")
@PLAYS.of("operator-clock-ahead")
async def operators_clock_jumps(trial: Trial) -> None:
    operator = trial.played.operator
    await operator.stop()
    operator.set_clock(ahead_seconds=0)
    await operator.start()
    await trial.measures()
    operator.set_clock(ahead_seconds=AHEAD_SECONDS[trial.fault.name])
    await goes_on(trial)
    await runs_out_of_memory(trial)
    trial.shown()


@PLAYS.of("server-clock-behind")
@PLAYS.of("server-clock-ahead")
async def servers_clock_is_wrong(trial: Trial) -> None:
    ahead = AHEAD_SECONDS[trial.fault.name]
    await trial.has_client()
    await trial.played.server_starts(trial.run, clock_ahead_seconds=ahead)
    await trial.goes_on_measuring()
    await goes_on(trial)
    await runs_out_of_memory(trial, clock_ahead_seconds=ahead)
    trial.shown()


async def goes_on(trial: Trial) -> None:
    """For a while nothing is made of the wrong time."""
    await asyncio.sleep(WRONG_SECONDS)
    assert trial.played.status(trial.run)["phase"] == "Running"


@PLAYS.of("right-removed-one")
async def right_removed_of_one_kind(trial: Trial) -> None:
    await trial.measures()
    here = Namespace(trial.played.namespace)
    roles = await asyncio.to_thread(here.list, "roles")
    for each in roles:
        each["metadata"] = {"name": each["metadata"]["name"]}
    await asyncio.to_thread(here.apply, *map(_without_pods, roles))
    way_of(trial).cut()  # a watch is asked about once, when it begins
    await runs_out_of_memory(trial)
    await asyncio.sleep(WRONG_SECONDS)
    await asyncio.to_thread(here.apply, *roles)
    trial.shown()


def _without_pods(role: Object) -> Object:
    rules = [
        {
            **rule,
            "resources": [each for each in rule["resources"] if each != "pods"],
        }
        for rule in role["rules"]
    ]
    return {**role, "rules": [rule for rule in rules if rule["resources"]]}


@PLAYS.of("right-removed")
async def right_removed(trial: Trial) -> None:
    await trial.measures()
    here = Namespace(trial.played.namespace)
    bindings = await asyncio.to_thread(here.list, "rolebindings")
    for each in bindings:
        each["metadata"] = {"name": each["metadata"]["name"]}
        await asyncio.to_thread(
            here.delete, "rolebinding", each["metadata"]["name"]
        )
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
    way_of(trial).is_slow = lambda _: True
    await runs_out_of_memory(trial)
    trial.shown()


def _changes_something(request: Request) -> bool:
    return request.writes and request.method != "DELETE"


@PLAYS.of("etcd-slow")
async def etcd_slow(trial: Trial) -> None:
    await trial.measures()
    way_of(trial).delay_seconds = SLOWER_SECONDS
    way_of(trial).is_slow = lambda request: request.writes
    await runs_out_of_memory(trial)
    trial.shown()


@PLAYS.of("kind-unlistable")
async def kind_unlistable(trial: Trial) -> None:
    await trial.measures()
    await trial.played.operator.kill()
    answer = refusal(403)
    way_of(trial).wrong = lambda request: (
        answer if _lists_policies(request) else None
    )
    await runs_out_of_memory(trial)
    await trial.played.operator.start()
    trial.shown()


def _lists_policies(request: Request) -> bool:
    return request.of_collection and request.resource == "networkpolicies"


@PLAYS.of("api-conflicts")
async def api_conflicts(trial: Trial) -> None:
    await trial.measures()
    # Of a deletion by uid it says something else: that another object has the name.
    async with wrong_for_a_while(trial, refusal(409), _changes_something):
        await runs_out_of_memory(trial)


@PLAYS.of("api-invalid")
async def api_invalid(trial: Trial) -> None:
    await trial.measures()
    async with wrong_for_a_while(trial, refusal(422), _changes_something):
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
    await page_is_read(trial)
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


async def page_is_read(trial: Trial) -> None:
    """What has never answered is not missed when it does not."""
    async for _ in turns(
        f"metrics of {trial.run.name} are read", seconds=WATCHED_AGAIN_SECONDS
    ):
        if trial.run.pages.readings[trial.run.address]:
            return


# ---- deletion
# -------------------------------------------------------------------------------------------------


@PLAYS.of("namespace-deleted")
async def namespace_deleted(trial: Trial) -> None:
    await trial.measures()
    await trial.played.api.ask(
        "DELETE", f"/api/v1/namespaces/{trial.played.namespace}"
    )
    trial.shown()


@PLAYS.of("deleted-background")
@PLAYS.of("deleted-foreground")
@PLAYS.of("deleted-orphan")
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


# ---- the operator is killed, once, while runs are at every step
# -------------------------------------------------------------------------------------------------

STEPS = Plays()


@STEPS.of("killed-pending")
async def is_pending(trial: Trial) -> None:
    await trial.begins()
    await trial.played.gets(trial.run, "Pod", "client")


@STEPS.of("killed-starting")
async def is_starting(trial: Trial) -> None:
    await trial.has_server()


@STEPS.of("killed-first-stage")
async def is_in_the_first_stage(trial: Trial) -> None:
    await trial.measures()


@STEPS.of("killed-later-stage")
async def is_in_a_later_stage(trial: Trial) -> None:
    await is_about_to_measure(trial)
    await trial.goes_on_measuring(after_stages=STAGES - 1)


@STEPS.of("killed-released")
@STEPS.of("killed-ending")
async def is_about_to_measure(trial: Trial) -> None:
    await trial.has_client()
    await trial.played.server_starts(trial.run)


async def kill_at_every_step(trials: dict[str, Trial]) -> None:
    """Bring each run to its step, kill the operator, and start it anew when all that had gone wrong
    for these runs is over."""
    played = trials["killed-pending"].played
    way = way_of(trials["killed-pending"])
    await asyncio.gather(*(STEPS[trial.fault](trial) for trial in trials.values()))
    # One run lets go of its server and can't store its records, the other can't even do that.
    way.wrong = lambda request: refusal(403) if _stores(request) else None
    trials["killed-released"].measures_all()
    await played.released(trials["killed-released"].run, seconds=MEASURED_SECONDS)
    ends = asyncio.Event()

    def let_go_of_nothing(request: Request) -> bytes | None:
        if _lets_go(request):
            ends.set()
        return refusal(503) if _stores(request) or _lets_go(request) else None

    way.wrong = let_go_of_nothing
    trials["killed-ending"].measures_all()
    await asyncio.wait_for(ends.wait(), MEASURED_SECONDS)
    await played.operator.kill()
    way.wrong = lambda _: None
    out_of_memory = pod_statuses.ended(
        "client", code=137, reason="OOMKilled", phase="Failed"
    )
    await played.write_pod(trials["killed-pending"].run, "client", out_of_memory)
    for name in ("killed-starting", "killed-first-stage", "killed-later-stage"):
        await runs_out_of_memory(trials[name])
    await played.operator.start()


def _lets_go(request: Request) -> bool:
    return (request.method, request.resource) == ("DELETE", "deployments")


def _stores(request: Request) -> bool:
    return (request.method, request.resource) == ("POST", "configmaps")


async def _killed(directory: Path, starting: asyncio.Semaphore) -> Outcomes:
    """What became of each of these runs."""
    async with AsyncExitStack() as stack:
        async with starting:
            cluster = played_cluster(directory, way=FaultyWay)
            played = await stack.enter_async_context(cluster)
        trials = {fault.name: Trial(played, fault) for fault in STEPS}
        try:
            await kill_at_every_step(trials)
            for trial in trials.values():
                trial.shown()
            found = await asyncio.gather(
                *(trial.measured() for trial in trials.values()),
                return_exceptions=True,
            )
            _assert_each_stage_was_stored_once(trials.values())
        finally:
            for trial in trials.values():
                await trial.over()
    outcomes: Outcomes = dict(zip(trials, found, strict=True))
    return outcomes


def _assert_each_stage_was_stored_once(trials: Iterable[Trial]) -> None:
    for trial in (each for each in trials if each.fault.phase == COMPLETED):
        stages = trial.played.children(trial.run, "ConfigMap", "stage")
        assert len(stages) == STAGES, trial.fault.name


# ---- the definition is of another release; there is one for all, so these come one by one, at last
# -------------------------------------------------------------------------------------------------

RELEASES = Plays()


@RELEASES.of("crd-older")
async def crd_older(trial: Trial) -> None:
    await is_defined(trial, definitions.older())
    await trial.measures()
    kept = set(definitions.OF_YESTERDAY)
    await trial.played.until(
        lambda: trial.played.status(trial.run).keys() <= kept,
        what="the status has lost its fields",
    )
    await goes_on(trial)
    await runs_out_of_memory(trial)
    trial.shown()


@RELEASES.of("crd-newer")
async def crd_newer(trial: Trial) -> None:
    await is_defined(trial, definitions.newer())
    await trial.measures()
    await trial.played.operator.kill()
    await trial.played.status_holds(trial.run, definitions.OF_TOMORROW)
    await runs_out_of_memory(trial)
    await trial.played.operator.start()
    trial.shown()


async def is_defined(
    trial: Trial, definition: AbstractContextManager[None]
) -> None:
    """For as long as the trial lasts, from when the API server knows it: until then it refuses every
    watch of runs."""
    stack = ExitStack()
    trial.at_the_end(partial(asyncio.to_thread, stack.close))
    await asyncio.to_thread(stack.enter_context, definition)
    path = PATHS["BenchmarkRun"].format(trial.played.namespace)
    async for _ in turns(
        "the kind that was defined anew is served", seconds=DEFINED_SECONDS
    ):
        with suppress(RuntimeError):
            await trial.played.api.ask("GET", f"{path}?resourceVersion=0")
            return


# ---- all of them
# -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcomes(definition: str, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What became of each of them."""
    return asyncio.run(_tried(tmp_path_factory))


async def _tried(directories: pytest.TempPathFactory) -> Outcomes:
    starting = asyncio.Semaphore(STARTS_AT_A_TIME)
    killed = asyncio.create_task(_killed(directories.mktemp("killed"), starting))
    found = await asyncio.gather(
        *(_tried_one(PLAYS, fault, directories, starting) for fault in PLAYS),
        return_exceptions=True,
    )
    outcomes: Outcomes = dict(
        zip((fault.name for fault in PLAYS), found, strict=True)
    )
    [at_steps] = await asyncio.gather(killed, return_exceptions=True)
    if isinstance(at_steps, BaseException):
        at_steps = dict.fromkeys((fault.name for fault in STEPS), at_steps)
    outcomes |= at_steps
    for fault in RELEASES:
        [outcomes[fault.name]] = await asyncio.gather(
            _tried_one(RELEASES, fault, directories, starting),
            return_exceptions=True,
        )
    return outcomes


async def _tried_one(
    plays: Plays,
    fault: Fault,
    directories: pytest.TempPathFactory,
    starting: asyncio.Semaphore,
) -> Measured:
    async with AsyncExitStack() as stack:
        async with starting:
            cluster = played_cluster(directories.mktemp(fault.name), way=FaultyWay)
            played = await stack.enter_async_context(cluster)
        return await measured(Trial(played, fault), plays[fault])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", of("control plane"), ids=lambda fault: fault.name)
def test_a_fault_is_made_good_when_it_is_over(
    fault: Fault, outcomes: Outcomes
) -> None:
    checked(fault, outcomes)
