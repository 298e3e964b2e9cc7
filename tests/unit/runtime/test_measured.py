"""What is measured and not stored yet, in bounded memory: a namespace that holds more than is left
for all others is asked for no more."""

import os

import pytest
from benchrun.decide import (
    FEW_UNSTORED_SAMPLES,
    SAMPLE_BYTES,
    Answer,
    Judging,
    LogTail,
)
from benchrun.observe import Run, run_key
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import Measured, RunMemory
from benchrun.runtime.sessions import Sessions
from benchrun.runtime.telemetry import Telemetry
from benchrun_client.contract import Sealed
from unit.measure.records import sealed_bytes
from unit.runtime.bodies import KEY, NAMESPACE, UID
from unit.runtime.fakes import PAGE, Web, loop_now
from unit.runtime.fast_time import in_fast_time, passing
from unit.runtime.memory_cluster import MemoryCluster, no_workloads
from unit.runtime.scene import SCRAPE, Scene, sample
from unit.runtime.test_client_polling import TARGET, answer, sealed

OTHER = run_key("another", "chat")


def record(sequence: int, size: int) -> Sealed:
    return sealed_bytes(sequence, os.urandom(size))


class Background:
    """Sessions of two namespaces that share what memory there is."""

    def __init__(self, measured: Measured) -> None:
        self.web = Web(
            metrics=PAGE,
            version='{"version": "1"}',
            records=lambda: answer(sealed(0)),
        )
        self.measured = measured
        self.memory = RunMemory(uid=UID)
        self.sessions = Sessions(
            cluster=MemoryCluster(),
            fetcher=self.web,
            now=loop_now,
            telemetry=Telemetry(),
            indexes=Indexes(),
            enqueue=lambda key: None,
            workloads=no_workloads(),
            measured=measured,
        )

    def follow(self, *, scrapes: bool) -> None:
        run = Run(namespace=NAMESPACE, name="chat", uid=UID, generation=1)
        self.sessions.follow(
            KEY,
            run,
            self.memory,
            scrape=(SCRAPE,) if scrapes else (),
            pull=None if scrapes else TARGET,
        )


@in_fast_time
async def test_a_client_is_asked_for_no_record_until_there_is_room() -> None:
    scene = Background(Measured(record_bytes=1000))
    scene.measured.records.note(run_key(NAMESPACE, "earlier"), 600)
    scene.follow(scrapes=False)
    await passing(20)
    assert scene.memory.collected.arrivals == {}
    scene.measured.let_go(run_key(NAMESPACE, "earlier"))
    await passing(2)
    assert list(scene.memory.collected.arrivals) == [0]
    assert (
        scene.measured.records.of(KEY) == scene.memory.collected.backlog_bytes > 0
    )
    await scene.sessions.close()


@in_fast_time
async def test_whoever_holds_nothing_is_asked_whatever_others_hold() -> None:
    scene = Background(Measured(record_bytes=1000))
    scene.measured.records.note(OTHER, 1000)
    scene.follow(scrapes=False)
    await passing(1)
    assert list(scene.memory.collected.arrivals) == [0]
    await scene.sessions.close()


@in_fast_time
async def test_of_samples_few_are_kept_where_memory_is_scarce() -> None:
    scene = Background(Measured(sample_bytes=100 * SAMPLE_BYTES))
    scene.follow(scrapes=True)
    await passing(400)
    held = scene.memory.collected.samples
    assert FEW_UNSTORED_SAMPLES // 2 <= len(held.unstored) <= 101
    assert scene.measured.samples.of(KEY) == held.held_bytes
    await scene.sessions.close()


@in_fast_time
async def test_with_room_every_sample_is_kept() -> None:
    scene = Background(Measured())
    scene.follow(scrapes=True)
    await passing(400.5)
    assert 399 <= len(scene.memory.collected.samples.unstored) <= 401
    await scene.sessions.close()


async def test_what_a_run_holds_is_noted_and_let_go(scene: Scene) -> None:
    await scene.once()
    scene.collected.take(record(0, 500))
    scene.collected.answers[LogTail("p", "server", previous=False)] = Answer(
        "x" * 100
    )
    scene.collected.samples.add(sample(1))
    await scene.once()
    measured = scene.reconciler.measured
    assert (measured.records.of(KEY), measured.samples.of(KEY)) == (
        600,
        SAMPLE_BYTES,
    )
    await scene.once(forget=True)
    assert (measured.records.used, measured.samples.used) == (0, 0)


async def test_what_waits_for_the_judge_is_held_though_it_is_stored(
    scene: Scene,
) -> None:
    await scene.once()
    scene.collected.take(record(0, 500))
    await scene.once(lookups=(Judging(ended_early=False),))
    scene.collected.arrivals.clear()
    await scene.once(lookups=(Judging(ended_early=False),))
    assert scene.reconciler.measured.records.of(KEY) == 500
    await scene.lookups.close()


@pytest.mark.parametrize(
    ("namespaces", "runs", "seconds"),
    [(1, 1, 50.0), (2, 1, 5.0), (4, 100, 20.0), (4, 1000, 50.0)],
)
async def test_a_namespace_with_few_runs_writes_as_often_as_if_all_had_as_few(
    scene: Scene, namespaces: int, runs: int, seconds: float
) -> None:
    """A thousand runs go on in all; 20 statuses are written a second."""
    scene.sessions.active = 1000
    for namespace in range(1, namespaces):
        scene.memories.of(run_key(f"n{namespace}", "r"), "u")
    for number in range(1, runs):
        scene.memories.of(run_key(NAMESPACE, str(number)), "u")
    await scene.once()
    assert scene.facts_seen[0].context.live_interval_seconds == seconds
