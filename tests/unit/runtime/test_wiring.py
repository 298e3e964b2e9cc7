"""What a running operator says is wrong with itself: exactly what a restart may cure."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession
from benchrun import effects
from benchrun.api import Live
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.decide import Decision, Facts
from benchrun.effects import CHILD_KINDS, LEASE_SECONDS, WATCH_SECONDS, Unavailable
from benchrun.observe import run_key
from benchrun.runtime.background_tasks import (
    ENDS_REMEMBERED,
    ENDS_WITHIN_SECONDS,
    RESTART_SECONDS,
)
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.settings import OperatorSettings
from benchrun.runtime.telemetry import MAX_LAG_SECONDS, MAX_SILENCE_SECONDS
from benchrun.runtime.watching import KINDS
from benchrun.runtime.wiring import Operator
from kubernetes.aio.client.configuration import Configuration
from unit.golden_messages import golden
from unit.runtime.bodies import KEY, NAMESPACE, child_body, run_body
from unit.runtime.fast_time import FastLoop, in_fast_time, now, passing, run_fast
from unit.runtime.fenced import Fenced
from unit.runtime.memory_cluster import MemoryCluster
from unit.runtime.memory_lease import MemoryLease
from unit.runtime.scene import ENDED, RUNNING

SETTINGS = OperatorSettings(client_image="client", listen=("127.0.0.1", 0))
EDITED = {"observedGeneration": 0}  # of a run whose first pass writes its status
A_MINUTE = 60.4  # not on a beat of the pulse, which comes with every full second


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Fenced:
    """What the operator finds where it looks for an API server."""
    there = Fenced()
    there.add("BenchmarkRun", run_body(status=EDITED))

    async def configuration(**_: object) -> Configuration:
        return Configuration()

    async def channel_key(*_: object, **__: object) -> bytes:
        return b"k" * 32

    monkeypatch.setattr(effects, "configuration", configuration)
    monkeypatch.setattr(effects, "channel_key", channel_key)
    monkeypatch.setattr(
        effects, "KubernetesApi", lambda connection, *, count: there
    )
    return there


@asynccontextmanager
async def running(settings: OperatorSettings = SETTINGS) -> AsyncIterator[Operator]:
    """An operator that has read the cluster and made its first passes."""
    operator = Operator(settings, decide=lambda facts: Decision(status=RUNNING))
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


def counted(operator: Operator, name: str, **labels: str) -> float | None:
    """A series of its metrics page."""
    return operator.telemetry.registry.get_sample_value(name, labels)


async def status_of(operator: Operator, path: str) -> int:
    """Of one of its pages."""
    async with ClientSession() as client:
        return (
            await client.get(f"http://127.0.0.1:{operator.health.port}{path}")
        ).status


def changed() -> dict[str, Any]:
    """The run, after somebody changed it."""
    body = run_body(version=2000)
    body["spec"] = {"model": {"name": "another"}}
    return body


def problems_after(then: Callable[[Operator], Awaitable[None]]) -> list[str]:
    """Its problems after something happened to it; it had none before."""

    async def scenario() -> list[str]:
        async with running() as operator:
            assert operator.problems() == []
            await then(operator)
            return operator.problems()

    return run_fast(scenario())


@pytest.mark.usefixtures("cluster")
def test_a_worker_that_has_ended_is_named() -> None:
    golden(*problems_after(lambda operator: ends("queue worker 3")))


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("task", ["pulse", "resync", "verify"])
def test_a_task_that_has_ended_is_restarted_and_counted(task: str) -> None:
    async def died(operator: Operator) -> None:
        await ends(task)
        await passing(RESTART_SECONDS + 0.5)
        assert [each.get_name() for each in asyncio.all_tasks()].count(task) == 1
        assert counted(operator, "benchrun_tasks_restarted_total", task=task) == 1

    assert problems_after(died) == []


@pytest.mark.usefixtures("cluster")
def test_a_task_that_ends_whenever_it_is_started_is_a_problem_until_it_goes_on() -> (
    None
):
    async def keeps_dying(operator: Operator) -> None:
        for _ in range(ENDS_REMEMBERED):
            assert operator.problems() == []
            await ends("resync")
            await passing(RESTART_SECONDS + 0.5)
        assert operator.problems() == [
            "the background task resync ends after every restart"
        ]
        await passing(ENDS_WITHIN_SECONDS)

    assert problems_after(keeps_dying) == []


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("seconds", "problems"),
    [
        (MAX_LAG_SECONDS - 2, []),
        (MAX_LAG_SECONDS + 2, ["the event loop is 31 s late"]),
    ],
    ids=["busy", "stuck"],
)
def test_a_loop_that_does_nothing_else_is_late(
    seconds: float, problems: list[str]
) -> None:
    async def blocked(operator: Operator) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FastLoop)
        loop.busy(seconds)

    assert problems_after(blocked) == problems


def test_a_watch_that_does_not_tell_what_was_written_is_silent_until_it_does(
    cluster: MemoryCluster,
) -> None:
    async def report_late(operator: Operator) -> None:
        # The first pass wrote a status when the operator started.
        await passing(MAX_SILENCE_SECONDS - A_MINUTE - 1)
        assert operator.problems() == []
        await passing(2)
        assert operator.problems() == [
            "no watch has reported a change that is 181 s old"
        ]
        operator.indexes.heard(
            "BenchmarkRun",
            cluster.objects["BenchmarkRun", NAMESPACE, "chat"],
            deleted=False,
        )

    assert problems_after(report_late) == []


def test_a_change_that_was_listed_and_is_gone_when_the_watch_begins_does_not_end_the_process(
    cluster: MemoryCluster,
) -> None:
    cluster.add("Deployment", child_body())

    async def gone(operator: Operator) -> None:
        del cluster.objects["Deployment", NAMESPACE, "br-chat-4e20caa2-server"]
        operator.indexes.heard(
            "BenchmarkRun",
            cluster.objects["BenchmarkRun", NAMESPACE, "chat"],
            deleted=False,
        )
        await passing(MAX_SILENCE_SECONDS)
        assert operator.indexes.children(KEY).objects == ()

    assert problems_after(gone) == []


@in_fast_time
async def test_a_namespace_that_cannot_be_read_stops_nobody_else(
    cluster: Fenced,
) -> None:
    cluster.fenced.add("closed")
    elsewhere = run_body("elsewhere", uid="2")
    elsewhere["metadata"]["namespace"] = "closed"
    cluster.add("BenchmarkRun", elsewhere)
    settings = SETTINGS.model_copy(update={"namespaces": ("closed", NAMESPACE)})
    async with running(settings) as operator:
        assert ("status", "BenchmarkRun", "chat") in cluster.log
        assert operator.problems() == []
        assert (
            counted(operator, "benchrun_namespace_unreadable", namespace="closed")
            == 1
        )
        assert (
            counted(operator, "benchrun_namespace_unreadable", namespace=NAMESPACE)
            == 0
        )
        golden(*[remark.split(":")[0] for remark in operator.remarks()])
        # A watch that tells of it changes nothing: its children are not known.
        key = operator.indexes.heard("BenchmarkRun", elsewhere, deleted=False)
        assert key is not None
        operator.enqueue(key)
        await passing(1)
        assert ("status", "BenchmarkRun", "elsewhere") not in cluster.log
        cluster.fenced.clear()
        await passing(SETTINGS.resync_seconds)
        assert ("status", "BenchmarkRun", "elsewhere") in cluster.log
        assert operator.remarks() == []
        assert (
            counted(operator, "benchrun_namespace_unreadable", namespace="closed")
            == 0
        )


SERVER = ("Deployment", NAMESPACE, "br-chat-4e20caa2-server")


@in_fast_time
@pytest.mark.parametrize("kind", ["NetworkPolicy", "Service", SWEEP_KIND])
async def test_a_kind_that_runs_can_do_without_stops_no_run(
    cluster: Fenced, kind: str
) -> None:
    cluster.fenced.add(kind)
    async with running() as operator:
        assert ("status", "BenchmarkRun", "chat") in cluster.log
        assert len(operator.remarks()) == 1


@in_fast_time
@pytest.mark.parametrize("kind", ["Job", "Pod", "ConfigMap"])
async def test_a_kind_that_cannot_be_listed_keeps_no_server(
    cluster: Fenced, kind: str
) -> None:
    """Nothing else is done about the run: what is there of it is not known."""
    cluster.fenced.add(kind)
    cluster.add("Deployment", child_body())
    cluster.objects["BenchmarkRun", NAMESPACE, "chat"]["spec"] = {"cancel": True}
    async with running():
        assert SERVER not in cluster.objects
        assert cluster.writes() == [("delete", "Deployment", SERVER[2])]
        cluster.fenced.clear()
        await passing(SETTINGS.resync_seconds)
        assert ("status", "BenchmarkRun", "chat") in cluster.log


@in_fast_time
async def test_a_server_that_is_needed_stays_where_a_kind_cannot_be_listed(
    cluster: Fenced,
) -> None:
    cluster.fenced.add("Job")
    cluster.add("Deployment", child_body())
    async with running():
        assert SERVER in cluster.objects
        change = {"spec": {"cancel": True}}
        cluster.change(
            "BenchmarkRun",
            cluster.objects["BenchmarkRun", NAMESPACE, "chat"],
            change,
        )
        await passing(2 * SETTINGS.resync_seconds)
        assert SERVER not in cluster.objects


@in_fast_time
async def test_resync_goes_on_where_one_namespace_is_not_readable_any_more(
    cluster: Fenced,
) -> None:
    settings = SETTINGS.model_copy(update={"namespaces": ("closed", NAMESPACE)})
    async with running(settings) as operator:
        cluster.fenced.add("closed")
        cluster.add("BenchmarkRun", run_body("late", uid="2", status=EDITED))
        await passing(SETTINGS.resync_seconds)
        assert run_key(NAMESPACE, "late") in operator.indexes.runs()
        assert len(operator.remarks()) == 1


@in_fast_time
async def test_waiting_for_an_api_server_is_no_problem_of_this_process(
    cluster: MemoryCluster,
) -> None:
    cluster.broken["list"] = Unavailable("connection refused")
    operator = Operator(SETTINGS, decide=lambda facts: Decision(status=RUNNING))
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


# ---- two of them
# -----------------------------------------------------------------------------------------------------


@pytest.fixture
def lease(monkeypatch: pytest.MonkeyPatch) -> MemoryLease:
    """What operators that elect a leader share."""
    there = MemoryLease()
    monkeypatch.setattr(
        effects, "LeaseApi", lambda connection, *, namespace, name: there
    )
    return there


def electing(name: str) -> OperatorSettings:
    """Settings of one of several operators."""
    return SETTINGS.model_copy(
        update={
            "leader_election": True,
            "operator_namespace": "benchrun",
            "pod_name": name,
        }
    )


def passes(operator: Operator) -> float:
    return counted(operator, "benchrun_reconcile_total", result="success") or 0.0


@in_fast_time
async def test_a_standby_knows_everything_is_live_and_ready_and_makes_no_pass(
    cluster: Fenced, lease: MemoryLease
) -> None:
    async with running(electing("a")) as leader, running(electing("b")) as standby:
        assert (passes(leader), passes(standby)) == (1, 0)
        assert counted(leader, "benchrun_leader") == 1
        assert counted(standby, "benchrun_leader") == 0
        assert counted(standby, "benchrun_queue_depth") == 0
        assert standby.problems() == standby.remarks() == []
        assert standby.indexes.runs() == [KEY]
        for operator in (leader, standby):
            assert await status_of(operator, "/readyz") == 200
            key = operator.indexes.heard(
                "BenchmarkRun",
                cluster.add("BenchmarkRun", changed()),
                deleted=False,
            )
            assert key is not None
            operator.enqueue(key)
        await passing(1)
        assert (passes(leader), passes(standby)) == (2, 0)


@in_fast_time
async def test_the_standby_takes_over_with_what_is_there_then(
    cluster: Fenced, lease: MemoryLease
) -> None:
    async with running(electing("a")) as leader, running(electing("b")) as standby:
        cluster.add("BenchmarkRun", run_body("late", uid="2", status=EDITED))
        await leader.stop()
        assert lease.holder == ""
        await passing(WATCH_SECONDS + 1)
        assert counted(standby, "benchrun_leader") == 1
        assert passes(standby) == 2
        assert run_key(NAMESPACE, "late") in standby.indexes.runs()


@in_fast_time
async def test_a_leader_that_cannot_renew_makes_no_pass_until_it_can(
    cluster: Fenced, lease: MemoryLease
) -> None:
    async with running(electing("a")) as leader:
        lease.broken = Unavailable("connection refused")
        await passing(LEASE_SECONDS)
        before = passes(leader)
        leader.enqueue(KEY)
        await passing(60)
        assert passes(leader) == before
        assert counted(leader, "benchrun_leader") == 0
        assert leader.problems() == []
        assert await status_of(leader, "/readyz") == 503
        lease.broken = None
        await passing(LEASE_SECONDS)
        assert passes(leader) == before + 1


@in_fast_time
async def test_an_operator_that_was_superseded_makes_no_pass_and_ends(
    cluster: Fenced, lease: MemoryLease
) -> None:
    async with running(electing("a")) as leader:
        assert lease.lease is not None
        await lease.replace(
            {**lease.lease, "spec": {**lease.lease["spec"], "holderIdentity": "b"}}
        )
        before = passes(leader)
        await passing(LEASE_SECONDS)
        assert leader.is_superseded
        assert leader.ends.is_set()
        assert leader.problems() == ["another operator leads"]
        leader.enqueue(KEY)
        await passing(2 * SETTINGS.resync_seconds)
        assert passes(leader) == before
        assert (
            counted(leader, "benchrun_tasks_restarted_total", task="leading")
            is None
        )


@in_fast_time
async def test_the_election_survives_its_own_task(
    cluster: Fenced, lease: MemoryLease
) -> None:
    async with running(electing("a")) as leader:
        await ends("leading")
        await passing(A_MINUTE)
        assert counted(leader, "benchrun_leader") == 1
        assert leader.problems() == []


# ---- by whose time
# -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cluster")
def test_passes_are_made_by_the_api_servers_time() -> None:
    """Its node's clock is months behind, or ahead."""
    seen = list[Facts]()

    def decide(facts: Facts) -> Decision:
        seen.append(facts)
        return Decision(status=RUNNING)

    async def scenario() -> None:
        operator = Operator(SETTINGS, decide=decide)
        operator.clock.told("Fri, 15 Jan 2027 08:00:00 GMT")
        await operator.start()
        await passing(1)
        await operator.stop()

    run_fast(scenario())
    assert {facts.now.strftime("%Y-%m-%d %H:%M") for facts in seen} == {
        "2027-01-15 08:00"
    }


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("road", "untold"), [("Direct", 0), ("Proxy", 1)])
def test_pods_behind_the_proxy_do_not_tell_the_time(
    road: str, untold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[object]()
    made = effects.Connection.__init__

    def noting(
        self: effects.Connection, found: Configuration, **given: Any
    ) -> None:
        told.append(given["told"])
        made(self, found, **given)

    monkeypatch.setattr(effects.Connection, "__init__", noting)

    async def scenario() -> None:
        operator = Operator(
            SETTINGS.model_copy(update={"pod_road": road}),
            decide=lambda facts: Decision(status=RUNNING),
        )
        await operator.start()
        await operator.stop()
        assert [each for each in told if each is not None] == [operator.clock.told]

    run_fast(scenario())
    assert told.count(None) == untold


# ---- what a start costs
# ----------------------------------------------------------------------------------------------

ENDED_RUNS = 60
ACTIVE_RUNS = 6


@in_fast_time
async def test_a_start_lists_every_kind_once_and_decides_once_on_what_goes_on(
    cluster: MemoryCluster,
) -> None:
    cluster.objects.clear()
    for number in range(ENDED_RUNS):
        body = run_body(f"old-{number}", uid=f"old-{number}", status=ENDED)
        cluster.add("BenchmarkRun", body)
    for number in range(ACTIVE_RUNS):
        body = run_body(f"new-{number}", uid=f"new-{number}", status=EDITED)
        cluster.add("BenchmarkRun", body)
    decided = Counter[str]()

    def decide(facts: Facts) -> Decision:
        decided[facts.run.name] += 1
        return Decision(status=RUNNING)

    operator = Operator(SETTINGS, decide=decide)
    operator.indexes = Indexes(seconds=now)
    await operator.start()
    await passing(1)
    assert decided == {f"new-{number}": 1 for number in range(ACTIVE_RUNS)}
    passes = counted(operator, "benchrun_reconcile_seconds_count")
    assert passes == ACTIVE_RUNS
    for kind in CHILD_KINDS:
        assert operator.reached(kind, None), "its watch makes no list of its own"
    asked = Counter((entry[0], entry[1]) for entry in cluster.log)
    assert {kind: asked["list", kind] for kind in KINDS} == dict.fromkeys(KINDS, 1)
    await operator.stop()


# ---- what anybody may read
# -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("enabled", [False, True])
def test_single_runs_stand_on_the_metrics_page_only_where_that_was_requested(
    enabled: bool,
) -> None:
    live = Live(at="", running=1)

    async def scenario() -> str:
        operator = Operator(
            SETTINGS.model_copy(update={"run_metrics": enabled}),
            decide=lambda facts: Decision(
                status=RUNNING.model_copy(update={"live": live})
            ),
        )
        await operator.start()
        await passing(1)
        done = {
            "conditions": [{"type": "Complete", "status": "True"}],
            "completionTime": "2026-11-21T12:00:00Z",
        }
        operator.indexes.heard(
            "BenchmarkRun", run_body("done", uid="2", status=done), deleted=False
        )
        page = operator.telemetry.page().decode()
        await operator.stop()
        return page

    page = run_fast(scenario())
    assert ('run="chat"' in page) is enabled
    assert ('run="done"' in page) is enabled
    assert f'namespace="{NAMESPACE}"' in page or not enabled


@pytest.mark.parametrize("kueue", [True, False])
def test_workloads_are_watched_where_runs_may_use_queues(
    cluster: Fenced, kueue: bool
) -> None:
    async def seen() -> None:
        async with running(SETTINGS.model_copy(update={"kueue": kueue})):
            watched = [each[1] for each in cluster.log if each[0] == "watch"]
            assert watched == (["Workload"] if kueue else [])

    run_fast(seen())
