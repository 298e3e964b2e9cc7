"""GPU seconds are counted once, whatever becomes of the operator; and the longest wait is shown."""

from datetime import timedelta
from typing import Any

import pytest
from benchrun.api import BenchmarkRunStatus, as_json, timestamp
from benchrun.effects import Unavailable
from benchrun.observe import run_key
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import WaitMetrics
from benchrun.runtime.queue import Later
from benchrun.runtime.watching import Lister
from prometheus_client import CollectorRegistry
from unit.runtime.bodies import NAMESPACE
from unit.runtime.fenced import Fenced
from unit.runtime.scene import ENDED, NOW, Scene, manifest


def at(seconds: float) -> str:
    return timestamp(NOW + timedelta(seconds=seconds))


def status(**times: float) -> BenchmarkRunStatus:
    """Build the status of a run with one GPU that got its node 100 s before `NOW`."""
    server = {"role": "server", "pod": "p", "engine": "VLLM", "gpus": 1}
    instants = {name: at(seconds) for name, seconds in times.items()}
    return BenchmarkRunStatus.model_validate(
        {
            "servers": [server],
            "scheduledTime": at(-100),
            "phase": "Running",
            **instants,
        }
    )


LOADS = status()
MEASURES = status(serverReadyTime=20, startTime=30)
RELEASED = BenchmarkRunStatus.model_validate(
    ENDED
    | as_json(status(serverReadyTime=20, startTime=30, serverReleasedTime=90))
    | {"phase": "Completed", "conditions": ENDED["conditions"]}
)


async def passed(scene: Scene, seconds: float, **decision: Any) -> None:
    """Reconcile so many seconds after `NOW`."""
    scene.reconciler.now = lambda: NOW + timedelta(seconds=seconds)
    await scene.once(**decision)


def counted(scene: Scene) -> dict[str, float]:
    found = {
        use: scene.telemetry.registry.get_sample_value(
            "benchrun_gpu_seconds_total", {"namespace": NAMESPACE, "use": use}
        )
        for use in ("starting", "measuring", "other")
    }
    return {use: seconds for use, seconds in found.items() if seconds}


async def test_the_time_between_reconciles_is_counted_by_use(scene: Scene) -> None:
    await passed(scene, 0, status=LOADS)
    assert counted(scene) == {}, "another process may have counted what was before"
    await passed(scene, 10, status=LOADS)
    await passed(scene, 50, status=MEASURES)
    await passed(scene, 50, status=MEASURES)
    assert counted(scene) == {"starting": 20, "other": 10, "measuring": 20}


async def test_a_new_process_counts_from_its_first_reconcile_on(
    scene: Scene,
) -> None:
    await passed(scene, 0, status=MEASURES)
    await passed(scene, 40, status=MEASURES)
    after = Scene()
    await after.listed()
    await passed(after, 60, status=MEASURES)
    await passed(after, 70, status=MEASURES)
    assert counted(scene)["measuring"] + counted(after)["measuring"] == 10 + 10


async def test_a_run_is_counted_until_its_release_and_never_again(
    scene: Scene,
) -> None:
    await passed(scene, 0, status=LOADS)
    await passed(scene, 80, status=MEASURES)
    await passed(scene, 95, status=RELEASED, forget=True)
    whole = {"starting": 20.0, "other": 10.0, "measuring": 60.0}
    assert counted(scene) == whole
    for seconds in (100, 1000):
        await passed(scene, seconds, status=RELEASED, forget=True)
    assert counted(scene) == whole


async def test_a_reconcile_that_fails_has_counted_what_it_saw(scene: Scene) -> None:
    await passed(scene, 0, status=LOADS)
    scene.cluster.broken["apply"] = Unavailable("away", code=503)
    with pytest.raises(Later):
        await passed(scene, 5, status=LOADS, apply=(manifest(),))
    scene.cluster.broken.clear()
    await passed(scene, 10, status=LOADS, apply=(manifest(),))
    assert counted(scene) == {"starting": 10}


def test_the_longest_wait_of_a_namespace_is_shown() -> None:
    waits = WaitMetrics(lambda: NOW)
    memories = waits.runs
    for name, seconds in (("first", 500), ("second", 90), ("third", None)):
        memory = memories.of(run_key("lab", name), name)
        memory.waits_since = NOW - timedelta(seconds=seconds) if seconds else None
    memories.of(run_key("other", "fourth"), "4")
    registry = CollectorRegistry()
    registry.register(waits)
    shown = [
        registry.get_sample_value(
            "benchrun_longest_wait_seconds", {"namespace": name}
        )
        for name in ("lab", "other")
    ]
    assert shown == [500, None]
    memories.drop(run_key("lab", "first"))
    assert (
        registry.get_sample_value(
            "benchrun_longest_wait_seconds", {"namespace": "lab"}
        )
        == 90
    )


async def test_a_namespace_that_can_t_be_read_has_no_wait() -> None:
    """Whether its runs still wait, or exist, is not known."""
    cluster = Fenced("other")
    cluster.fenced.clear()
    lister = Lister(cluster, Indexes(), ("lab", "other"))
    waits = WaitMetrics(lambda: NOW, is_readable=lister.is_readable)
    for namespace in ("lab", "other"):
        memory = waits.runs.of(run_key(namespace, "first"), "first")
        memory.waits_since = NOW - timedelta(seconds=90)
    registry = CollectorRegistry()
    registry.register(waits)

    def shown() -> list[float | None]:
        name = "benchrun_longest_wait_seconds"
        return [
            registry.get_sample_value(name, {"namespace": namespace})
            for namespace in ("lab", "other")
        ]

    await lister.list_all()
    assert shown() == [90, 90]
    cluster.fenced.add("other")
    await lister.list_all()
    assert shown() == [90, None]
    cluster.fenced.clear()
    await lister.list_unreadable()
    assert shown() == [90, 90]
