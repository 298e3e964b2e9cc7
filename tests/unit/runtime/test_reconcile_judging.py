"""A run that takes long to judge: the event loop goes on meanwhile, and passes over other runs too."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
from benchrun.decide.decision import Decision, Ending, Ref, World
from benchrun.effects.errors import Unavailable
from benchrun.runtime import judging
from benchrun.runtime.indexes import RunKey
from benchrun.runtime.judging import AGAIN_SECONDS, PATIENCE_SECONDS, Bench
from benchrun.runtime.queue import Later
from unit.runtime.bodies import KEY, NAMESPACE, UID, run_body
from unit.runtime.fast_time import now, passing, run_fast
from unit.runtime.memory_cluster import status_of
from unit.runtime.scene import RUNNING, Scene, arrival, stage

OTHER = RunKey(NAMESPACE, "other")
SERVER = Ref("Deployment", NAMESPACE, "br-other-server-a1", "child-9")
ENDING = Ending("Cancelled", "by hand")
LONGEST_SECONDS = 10.0
"""Nothing here takes so long; a test that fails should end, too."""


class LongJudgement:
    """Ends when it is let, and tells that it has begun."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.ended_in_time = False

    def __call__(self, world: World) -> Decision:
        if not world.collected.read_back:
            collecting = RUNNING.model_copy(update={"phase": "Collecting"})
            delete = (SERVER,) if world.run.name == "other" else ()
            return Decision(status=collecting, delete=delete, read_back=True, ending=ENDING)
        self.began.set()
        self.ended_in_time = self.may_end.wait(LONGEST_SECONDS)
        return Decision(status=RUNNING.model_copy(update={"phase": "Completed"}), forget=True)


async def until(event: threading.Event) -> None:
    """Come back when another thread says so; it takes an event loop that goes on."""
    assert await asyncio.to_thread(event.wait, LONGEST_SECONDS)


async def test_the_event_loop_goes_on_while_a_run_is_judged(scene: Scene) -> None:
    scene.decide = judgement = LongJudgement()
    made = asyncio.create_task(scene.once())
    await until(judgement.began)
    judgement.may_end.set()
    await made
    assert judgement.ended_in_time
    assert status_of(scene.cluster)["phase"] == "Completed"


async def test_what_comes_meanwhile_does_not_change_what_is_judged(scene: Scene) -> None:
    scene.decide = judgement = LongJudgement()
    scene.memories.of(KEY, UID).take(arrival(0))
    made = asyncio.create_task(scene.once())
    await until(judgement.began)
    scene.memories.of(KEY, UID).take(arrival(1))
    judgement.may_end.set()
    await made
    assert [r.sequence for r in scene.worlds[-1].collected.records] == [0]


@pytest.fixture
async def two(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Another run that has come to its end; passes don't wait for their turn to judge."""
    monkeypatch.setattr(judging, "PATIENCE_SECONDS", 0.0)
    scene.cluster.add("BenchmarkRun", run_body("other", uid="uid-other"))
    await scene.listed()
    return scene


async def test_the_other_run_gives_way_when_its_server_is_released(two: Scene) -> None:
    two.decide = judgement = LongJudgement()
    made = asyncio.create_task(two.once())
    await until(judgement.began)
    assert await two.reconciler(OTHER) == AGAIN_SECONDS
    assert ("delete", "Deployment", SERVER.name) in two.cluster.log
    assert two.cluster.objects["BenchmarkRun", NAMESPACE, "other"]["status"]["phase"] == "Collecting"
    judgement.may_end.set()
    await made
    await two.reconciler(OTHER)
    assert two.cluster.objects["BenchmarkRun", NAMESPACE, "other"]["status"]["phase"] == "Completed"


async def test_why_it_ends_is_not_forgotten_when_it_gives_way(two: Scene) -> None:
    two.decide = judgement = LongJudgement()
    made = asyncio.create_task(two.once())
    await until(judgement.began)
    await two.reconciler(OTHER)
    judgement.may_end.set()
    await made
    await two.reconciler(OTHER)
    assert two.worlds[-1].collected.ending == ENDING


async def test_a_judgement_that_breaks_off_leaves_the_seat_to_the_next(two: Scene) -> None:
    def fails(world: World) -> Decision:
        if world.collected.read_back:
            raise RuntimeError("a bug")
        return Decision(status=RUNNING, read_back=True)

    two.decide = fails
    for key in (KEY, OTHER):
        with pytest.raises(RuntimeError, match="a bug"):
            await two.reconciler(key)


async def test_what_was_read_back_is_read_anew_when_the_end_could_not_be_written(scene: Scene) -> None:
    """A pass after that decides as the first did: it does not judge before it has let go of the server."""
    scene.decide = judgement = LongJudgement()
    judgement.may_end.set()
    scene.cluster.add("ConfigMap", stored := stage(arrival(0)))
    stored["metadata"] |= {"uid": "s0", "resourceVersion": "500"}
    await scene.listed()
    scene.cluster.broken["status"] = Unavailable("down")
    with pytest.raises(Later):
        await scene.once()
    scene.cluster.broken.clear()
    await scene.once()
    assert [world.collected.read_back for world in scene.worlds] == [False, True, False, True]
    assert [len(world.collected.records) for world in scene.worlds] == [0, 1, 0, 1]


async def test_what_is_stored_by_the_judgement_alone_is_acknowledged_after_it(scene: Scene) -> None:
    """Records that the API server refuses are in memory only: the client keeps them until they are judged."""
    judged = LongJudgement()
    judged.may_end.set()
    scene.decide = lambda world: replace(judged(world), acknowledge=2 if world.collected.read_back else None)
    await scene.once()
    log = [entry[0] for entry in scene.cluster.log if entry[0] in ("acknowledge", "status")]
    assert log == ["acknowledge", "status"]


# ---- turns -----------------------------------------------------------------------------------------------------------


async def takes(bench: Bench, seconds: float) -> tuple[bool, float]:
    """Whether it got its turn, and when."""
    async with bench.turn() as ours:
        at = now()
        if ours:
            await passing(seconds)
    return ours, at


def test_short_judgements_wait_for_each_other_and_long_ones_are_left() -> None:
    async def five() -> list[tuple[bool, float]]:
        bench = Bench()
        return await asyncio.gather(*(takes(bench, seconds) for seconds in (0.25, 0.5, 9.0, 0.25, 0.25)))

    first, second, long, *others = run_fast(five())
    assert [first, second, long] == [(True, 0.0), (True, 0.25), (True, 0.75)]
    assert others == [(False, PATIENCE_SECONDS)] * 2
