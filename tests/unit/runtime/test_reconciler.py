"""What the API server said no to becomes a wait for the queue, and a word in the metrics."""

from typing import Any

import pytest
from benchrun import names
from benchrun.child_kinds import LEADER_WORKER_SET
from benchrun.decide import Compilations, Decision, Facts
from benchrun.effects import errors
from benchrun.observe import Key, Run
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import RunMemory
from benchrun.runtime.queue import LONGEST_RETRY_SECONDS, Later
from benchrun.runtime.reconciler import (
    LONGEST_CONFLICT_SECONDS,
    LONGEST_SECONDS,
    MOST_FAILURES,
    RETRY_SECONDS,
    Reconciler,
)
from benchrun.runtime.telemetry import Telemetry
from benchrun_client.engines import ENGINES
from unit.runtime.bodies import KEY, NAMESPACE, child_body, run_body, stage_body
from unit.runtime.fast_time import in_fast_time, passing
from unit.runtime.memory_cluster import MemoryCluster, status_of
from unit.runtime.scene import ENDED, NOW, RUNNING, Scene

VLLM = ENGINES["VLLM"]


class Nothing(Reconciler[Run, RunMemory]):
    """Knows no object."""

    def known(self, key: Key) -> None:
        return None

    async def look_at(self, key: Key, declared: Run) -> None:
        raise AssertionError

    async def let_go(self, declared: Run) -> list[errors.ClusterError]:
        raise AssertionError


class Pass:
    """One that fails so, or returns seconds."""

    def __init__(self, outcome: Exception | float | None) -> None:
        self.telemetry = Telemetry()
        self.cluster = MemoryCluster()
        self._reconciler = Nothing(
            cluster=self.cluster,
            indexes=Indexes(),
            now=lambda: NOW,
            telemetry=self.telemetry,
        )
        self._outcome = outcome

    async def _make(self) -> float | None:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    @property
    def reads(self) -> int:
        return len(self.cluster.log)

    async def made(self) -> float | None:
        return await self._reconciler.guard(KEY, self._make)

    def counted(self) -> dict[str, float]:
        results = (
            "success",
            "throttled",
            "conflict",
            "error",
            "notfound",
            "forbidden",
            "invalid",
            "unavailable",
        )
        found = {
            result: self.telemetry.registry.get_sample_value(
                "benchrun_reconcile_total", {"result": result}
            )
            for result in results
        }
        return {result: count for result, count in found.items() if count}


@pytest.mark.parametrize("seconds", [None, 0.0, 5.0])
async def test_a_pass_that_went_well_says_when_the_next_is_due(
    seconds: float | None,
) -> None:
    well = Pass(seconds)
    assert await well.made() == seconds
    assert (well.counted(), well.reads) == ({"success": 1}, 0)


@pytest.mark.parametrize(
    ("error", "result", "seconds", "reads"),
    [
        pytest.param(
            errors.Throttled("slow down", retry_after_seconds=7.5),
            "throttled",
            7.5,
            0,
            id="throttled",
        ),
        pytest.param(
            errors.Conflict("moved on", code=409),
            "conflict",
            RETRY_SECONDS,
            1,
            id="conflict",
        ),
        pytest.param(
            errors.Exists("is there", code=409),
            "conflict",
            RETRY_SECONDS,
            1,
            id="exists",
        ),
        pytest.param(
            errors.Occupied("not ours", found={}),
            "conflict",
            RETRY_SECONDS,
            1,
            id="occupied",
        ),
        pytest.param(
            errors.NotFound("gone", code=404),
            "notfound",
            RETRY_SECONDS,
            0,
            id="not-found",
        ),
        pytest.param(
            errors.Forbidden("no", code=403),
            "forbidden",
            RETRY_SECONDS,
            0,
            id="forbidden",
        ),
        pytest.param(
            errors.Invalid("never", code=422),
            "invalid",
            RETRY_SECONDS,
            0,
            id="invalid",
        ),
        pytest.param(
            errors.Unavailable("no answer"),
            "unavailable",
            RETRY_SECONDS,
            0,
            id="unavailable",
        ),
    ],
)
async def test_a_refusal_is_retried_later(
    error: errors.ClusterError, result: str, seconds: float, reads: int
) -> None:
    refused = Pass(error)
    with pytest.raises(Later) as later:
        await refused.made()
    assert later.value.seconds == seconds
    longest = (
        LONGEST_CONFLICT_SECONDS if result == "conflict" else LONGEST_RETRY_SECONDS
    )
    assert later.value.longest_seconds == longest
    assert str(error) in str(later.value)
    assert later.value.__cause__ is error
    assert (refused.counted(), refused.reads) == ({result: 1}, reads)


async def test_a_fault_of_ours_is_no_refusal() -> None:
    broken = Pass(ZeroDivisionError("ours"))
    with pytest.raises(ZeroDivisionError):
        await broken.made()
    assert (broken.counted(), broken.reads) == ({"error": 1}, 0)


HOLDERS = [
    ("Deployment", "relabelled"),
    ("Deployment", "server"),
    (LEADER_WORKER_SET, "group"),
    ("Job", "client"),
]
CONDITIONS = {
    "Accepted": "True",
    "ClientReady": "False",
    "ServerReady": "False",
    "Measured": "False",
    "Stored": "Unknown",
    "Valid": "False",
    "Complete": "False",
    "Failed": "True",
    "Succeeded": "False",
    "Ready": "False",
    "Reconciling": "False",
    "Stalled": "True",
}


def broken(facts: Facts) -> Decision:
    raise OverflowError("intermediate overflow in fsum")


async def holding(status: dict[str, Any] | None = None) -> Scene:
    """A run with everything that it may hold, a record, and something that is not its own."""
    scene = Scene(status)
    roles = {"client": names.ROLE_CLIENT, "relabelled": "monitoring"}
    for kind, name in HOLDERS:
        scene.cluster.add(
            kind,
            child_body(name, uid=name, role=roles.get(name, names.ROLE_SERVER)),
        )
    scene.cluster.add(
        "Deployment", child_body("theirs", uid="theirs", owner_uid="another-run")
    )
    scene.cluster.add("ConfigMap", stage_body())
    await scene.listed()
    scene.decide = broken
    return scene


async def fails(scene: Scene, times: int = 1) -> None:
    """So many passes, none of which succeeds or lets go."""
    for _ in range(times):
        with pytest.raises((OverflowError, Later)):
            await scene.reconciler(KEY)


def poisoned(scene: Scene) -> float:
    return (
        scene.telemetry.registry.get_sample_value("benchrun_runs_let_go_total")
        or 0.0
    )


def left(scene: Scene) -> set[str]:
    return {
        name for kind, _, name in scene.cluster.objects if kind != "BenchmarkRun"
    }


def test_it_takes_five_failures_or_a_minute() -> None:
    assert (MOST_FAILURES, LONGEST_SECONDS) == (5, 60.0)


@in_fast_time
async def test_the_fifth_failure_in_a_row_lets_go_of_everything_and_says_so() -> (
    None
):
    scene = await holding()
    await fails(scene, MOST_FAILURES - 1)
    assert scene.cluster.writes() == []
    assert await scene.reconciler(KEY) is None
    assert [e for e in scene.cluster.writes() if e[0] == "delete"] == [
        ("delete", *each) for each in HOLDERS
    ]
    assert left(scene) == {"theirs", stage_body()["metadata"]["name"]}
    status = status_of(scene.cluster)
    assert (status["phase"], status["verdict"], status["observedGeneration"]) == (
        "Failed",
        "Unknown",
        1,
    )
    assert {c["type"]: c["status"] for c in status["conditions"]} == CONDITIONS
    assert (
        next(c["reason"] for c in status["conditions"] if c["type"] == "Stalled")
        == "InternalError"
    )
    assert "OverflowError" in status["message"]
    assert "fsum" not in status["message"]
    assert poisoned(scene) == 1


@in_fast_time
async def test_what_is_said_only_of_a_run_that_goes_on_goes_with_it() -> None:
    going_on = {
        "live": {"running": 3},
        "ending": {"reason": "CrashLoop", "message": "m"},
        "blocked": {"by": "Node", "since": "2026-11-21T11:55:00Z"},
        "judgeAttempts": 1,
    }
    scene = await holding({"phase": "Running", **going_on})
    await fails(scene, MOST_FAILURES - 1)
    await scene.reconciler(KEY)
    status = status_of(scene.cluster)
    assert (status["phase"], going_on.keys() & status.keys()) == ("Failed", set())


@in_fast_time
async def test_nothing_goes_on_for_it_after_that() -> None:
    scene = await holding()
    scene.cluster.hanging = {"log since"}
    query = Compilations(
        pod="p", container="server", since="2026-11-21T12:00:00Z", engine=VLLM
    )
    await scene.once(lookups=(query,))
    await passing(0.1)
    scene.decide = broken
    await fails(scene, MOST_FAILURES - 1)
    assert (len(scene.memories), scene.sessions.stopped) == (1, 0)
    await scene.reconciler(KEY)
    assert (len(scene.memories), scene.sessions.stopped) == (0, 1)
    await passing(60)
    assert scene.news == []  # its look-up was left


@in_fast_time
async def test_a_minute_of_failures_is_enough() -> None:
    scene = await holding()
    await fails(scene)
    await passing(LONGEST_SECONDS - 1)
    await fails(scene)
    await passing(1)
    await scene.reconciler(KEY)
    assert status_of(scene.cluster)["phase"] == "Failed"


@in_fast_time
async def test_a_pass_that_succeeds_begins_the_count_anew() -> None:
    scene = await holding()
    await fails(scene, MOST_FAILURES - 1)
    await passing(LONGEST_SECONDS)
    await scene.once(status=RUNNING)
    scene.decide = broken
    await fails(scene, MOST_FAILURES - 1)
    assert poisoned(scene) == 0


@pytest.mark.parametrize(
    "error",
    [
        errors.Unavailable("down", code=503),
        errors.Throttled("slow down", retry_after_seconds=1),
        errors.Conflict("moved on", code=409),
        errors.Forbidden("no rights", code=403),
        errors.NotFound("gone", code=404),
    ],
)
@in_fast_time
async def test_what_the_api_server_does_not_do_now_is_no_poison(
    error: errors.ClusterError,
) -> None:
    scene = await holding()
    scene.cluster.broken["status"] = error
    scene.decide = lambda facts: Decision(status=RUNNING)
    for _ in range(2 * MOST_FAILURES):
        await fails(scene)
        await passing(LONGEST_SECONDS)
    assert (poisoned(scene), len(left(scene))) == (0, 6)


@in_fast_time
async def test_a_status_that_is_rejected_for_ever_is() -> None:
    """The minimal one says nothing that could be refused."""
    scene = await holding()
    scene.decide = lambda facts: Decision(status=RUNNING)
    refused = {"status": errors.Invalid("status.live.running: too large", code=422)}
    scene.cluster.broken = dict[str, errors.ClusterError](refused)
    await fails(scene, MOST_FAILURES)
    assert len(left(scene)) == 2, "the servers go, though nothing can be said"
    scene.cluster.broken.clear()
    scene.decide = broken
    await scene.reconciler(KEY)
    assert status_of(scene.cluster)["phase"] == "Failed"
    assert poisoned(scene) == 1


@pytest.mark.parametrize(
    "error",
    [
        errors.Unavailable("down"),
        errors.Throttled("slow down", retry_after_seconds=1),
    ],
)
@in_fast_time
async def test_a_delete_that_fails_is_retried_and_keeps_no_other_from_being_tried(
    error: errors.ClusterError,
) -> None:
    scene = await holding()
    scene.cluster.broken_objects["server"] = error
    await fails(scene, MOST_FAILURES)
    assert left(scene) >= {"server"}
    assert left(scene).isdisjoint({"group", "client"})
    assert "phase" not in status_of(scene.cluster), (
        "it is not over before everything is let go"
    )
    scene.cluster.broken_objects.clear()
    assert await scene.reconciler(KEY) is None
    assert "server" not in left(scene)
    assert (status_of(scene.cluster)["phase"], poisoned(scene)) == ("Failed", 1)


@in_fast_time
async def test_a_run_that_has_ended_keeps_its_status_and_lets_go_of_what_it_still_holds() -> (
    None
):
    scene = await holding(status=ENDED)
    await fails(scene, MOST_FAILURES - 1)
    await scene.reconciler(KEY)
    assert status_of(scene.cluster) == ENDED
    assert left(scene).isdisjoint({"server", "group", "client"})


@in_fast_time
async def test_a_second_pass_leaves_a_released_run_alone() -> None:
    scene = await holding()
    await fails(scene, MOST_FAILURES - 1)
    await scene.reconciler(KEY)
    scene.cluster.log.clear()
    await fails(scene, MOST_FAILURES - 1)
    assert await scene.reconciler(KEY) is None
    assert scene.cluster.writes() == []


@in_fast_time
async def test_a_run_that_went_meanwhile_is_forgotten() -> None:
    scene = await holding()
    await fails(scene, MOST_FAILURES - 1)
    scene.indexes.heard("BenchmarkRun", run_body(version=2000), deleted=True)
    assert await scene.reconciler(KEY) is None
    scene.cluster.add("BenchmarkRun", run_body(uid="again", version=2001))
    await scene.listed()
    await fails(scene, MOST_FAILURES - 1)
    assert ("BenchmarkRun", NAMESPACE, "chat") in scene.cluster.objects
    assert poisoned(scene) == 0


@in_fast_time
async def test_a_status_in_which_nothing_can_be_read_is_replaced() -> None:
    """Of a newer operator that was rolled back, or spoilt by hand."""
    odd = {
        "phase": "Dreaming",
        "live": {"at": "x", "running": "many"},
        "conditions": [{"type": 7}],
        "ending": {},
    }
    scene = await holding(status=odd)
    await fails(scene, MOST_FAILURES - 1)
    await scene.reconciler(KEY)
    status = status_of(scene.cluster)
    assert {c["type"]: c["status"] for c in status["conditions"]} == CONDITIONS
    assert (status["phase"], "live" in status, "ending" in status) == (
        "Failed",
        False,
        False,
    )
