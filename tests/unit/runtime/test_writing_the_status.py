"""When the status is written: what a person waits for at once, what follows closely together,
progress now and then. Time jumps."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from benchrun.api import (
    BenchmarkRunStatus,
    Blocked,
    Live,
    QueueStatus,
    ServerStatus,
)
from benchrun.decide import Ending, Event, Ref
from benchrun.observe import run_key
from benchrun.runtime.run_reconciler import (
    JUDGED_WITHIN_SECONDS,
    LONGEST_CROWD_SECONDS,
    RUNS_A_SECOND,
    SETTLE_SECONDS,
)
from unit.runtime.bodies import KEY
from unit.runtime.fast_time import passing, run_fast
from unit.runtime.memory_cluster import status_of
from unit.runtime.scene import RUNNING, Scene, manifest

LIVE_SECONDS = 5.0


def scenario(
    test: Callable[[Scene], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    """The test in jumping time, of a run whose status was written a minute ago."""

    def run() -> None:
        async def go() -> None:
            scene = Scene()
            await scene.listed()
            await scene.once()
            await passing(60)
            scene.cluster.log.clear()
            await test(scene)

        run_fast(go())

    run.__name__ = test.__name__
    return run


def status(**changes: Any) -> BenchmarkRunStatus:
    return RUNNING.model_copy(update=changes)


def live(running: float) -> BenchmarkRunStatus:
    return status(
        live=Live(at=f"2026-11-21T12:00:{running:02.0f}Z", running=running)
    )


def writes(scene: Scene) -> int:
    return len([entry for entry in scene.cluster.log if entry[0] == "status"])


@scenario
async def test_changes_that_follow_closely_are_one_write(scene: Scene) -> None:
    assert await scene.once(status=status(start_time="a")) == SETTLE_SECONDS
    await passing(SETTLE_SECONDS / 2)
    assert (
        await scene.once(status=status(start_time="b"), requeue_after_seconds=9)
        == SETTLE_SECONDS / 2
    )
    assert writes(scene) == 0
    await passing(SETTLE_SECONDS / 2)
    assert (
        await scene.once(status=status(start_time="b"), requeue_after_seconds=9)
        == 9
    )
    assert (writes(scene), status_of(scene.cluster)["startTime"]) == (1, "b")


@scenario
async def test_an_end_is_written_at_once(scene: Scene) -> None:
    await scene.once(status=status(message="over"), forget=True)
    assert (writes(scene), status_of(scene.cluster)["message"]) == (1, "over")


@scenario
async def test_why_a_run_ends_is_written_at_once(scene: Scene) -> None:
    """A new operator must not find another reason."""
    await scene.once(
        status=status(start_time="a"), ending=Ending("Cancelled", "by hand")
    )
    assert writes(scene) == 1
    assert scene.collected.ending == Ending("Cancelled", "by hand")


def test_a_queue_and_its_quota_are_noted_at_once() -> None:
    """A label that changes before the queue is noted would take the run out of it, and objects are
    made when the quota is noted: until then GPUs would be held for nothing."""

    async def go() -> None:
        scene = Scene({"observedGeneration": -1})
        await scene.listed()
        queue = QueueStatus(name="gpus", since="2026-11-21T12:00:00Z")
        await scene.once(status=status(queue=queue))
        assert writes(scene) == 1
        await passing(60)
        ahead = queue.model_copy(update={"place": 3})
        assert await scene.once(status=status(queue=ahead)) == SETTLE_SECONDS
        assert writes(scene) == 1
        granted = queue.model_copy(update={"admitted_time": "2026-11-21T12:00:01Z"})
        await scene.once(status=status(queue=granted))
        assert writes(scene) == 2
        await scene.once(status=status(queue=granted, message="a"))
        assert writes(scene) == 2, "it is noted once"

    run_fast(go())


@scenario
async def test_an_edited_file_is_reread(scene: Scene) -> None:
    await scene.once(status=status(observed_generation=2))
    assert status_of(scene.cluster)["observedGeneration"] == 2


@pytest.mark.parametrize("status_before", [{}, {"observedGeneration": -1}])
def test_the_first_words_wait_for_those_that_follow(
    status_before: dict[str, int],
) -> None:
    """Of a hundred runs that are applied at once the children come before.

    The CRD's default is no word.
    """

    async def go() -> None:
        scene = Scene(status_before)
        await scene.listed()
        assert await scene.once(status=RUNNING) == SETTLE_SECONDS
        assert writes(scene) == 0
        await passing(SETTLE_SECONDS)
        await scene.once(status=status(start_time="a"))
        assert (writes(scene), status_of(scene.cluster)["startTime"]) == (1, "a")

    run_fast(go())


@pytest.mark.parametrize(
    ("crowd", "namespace", "seconds"),
    [
        (5 * RUNS_A_SECOND, KEY.namespace, 5),
        (1000, KEY.namespace, LONGEST_CROWD_SECONDS),
        (1000, "of another", SETTLE_SECONDS),
    ],
)
def test_the_first_words_of_a_crowd_wait_for_its_objects(
    crowd: int, namespace: str, seconds: float
) -> None:
    """A tenant with few runs waits for no other's."""

    async def go() -> None:
        scene = Scene({})
        await scene.listed()
        for number in range(crowd - 1):
            key = run_key(namespace, f"another-{number}")
            scene.memories.of(key, "uid").outdated_since = 0.0
        assert await scene.once(status=RUNNING) == seconds
        assert writes(scene) == 0

    run_fast(go())


def test_the_first_words_wait_no_longer_where_many_runs_are_measured() -> None:
    """Until they are written, deadlines and the queue of the run are not noted."""

    async def go() -> None:
        scene = Scene({"observedGeneration": -1})
        await scene.listed()
        scene.sessions.active = 60 * RUNS_A_SECOND
        assert await scene.once(status=RUNNING) == SETTLE_SECONDS

    run_fast(go())


def test_no_server_is_held_by_a_run_without_words() -> None:
    """Its deadlines count from what they say, and may be raised until then."""

    async def go() -> None:
        scene = Scene({"observedGeneration": -1})
        await scene.listed()
        assert await scene.once(status=RUNNING) == SETTLE_SECONDS
        await scene.once(status=RUNNING, apply=(manifest(kind="Deployment"),))
        assert writes(scene) == 1

    run_fast(go())


@scenario
async def test_live_figures_are_written_at_intervals(scene: Scene) -> None:
    for second in range(1, 31):
        await scene.once(status=live(second))
        await passing(1)
    assert 30 / LIVE_SECONDS - 1 <= writes(scene) <= 30 / LIVE_SECONDS + 1


@scenario
async def test_live_figures_of_many_runs_are_written_less_often(
    scene: Scene,
) -> None:
    scene.sessions.active = 10 * RUNS_A_SECOND
    for second in range(1, 31):
        await scene.once(status=live(second))
        await passing(1)
    assert 2 <= writes(scene) <= 4


@scenario
async def test_each_of_many_runs_has_its_turn(scene: Scene) -> None:
    scene.sessions.active = 10 * RUNS_A_SECOND
    assert await scene.once(status=status(start_time="a")) == 10
    await passing(10)
    await scene.once(status=status(start_time="a"))
    assert writes(scene) == 1


@scenario
async def test_what_is_measured_is_reported_with_its_results_where_they_come_soon(
    scene: Scene,
) -> None:
    judging = {"status": status(phase="Collecting")}
    assert await scene.once(**judging) == JUDGED_WITHIN_SECONDS
    await passing(JUDGED_WITHIN_SECONDS)
    await scene.once(**judging)
    assert (writes(scene), status_of(scene.cluster)["phase"]) == (1, "Collecting")


@scenario
async def test_why_what_is_measured_is_not_judged_yet_is_reported_soon(
    scene: Scene,
) -> None:
    """A quota takes no records, say."""
    blocked = Blocked(by="Records", since="2026-11-21T12:00:00Z")
    refused = status(phase="Collecting", blocked=blocked)
    assert await scene.once(status=refused) == SETTLE_SECONDS
    await passing(SETTLE_SECONDS)
    await scene.once(status=refused)
    assert writes(scene) == 1


@scenario
async def test_what_the_servers_were_is_written_while_their_pods_are_there(
    scene: Scene,
) -> None:
    server = ServerStatus(engine="VLLM", role="server", replicas=3)
    held = status(phase="Collecting", servers=[server])
    assert await scene.once(status=status(servers=[server])) is None
    await passing(60)
    assert (
        await scene.once(status=status(servers=[server], start_time="a"))
        == SETTLE_SECONDS
    )
    assert writes(scene) == 0
    await scene.once(
        status=held,
        delete=(Ref("Deployment", "lab", "br-chat-4e20caa2-server", "u"),),
    )
    assert (writes(scene), status_of(scene.cluster)["servers"][0]["replicas"]) == (
        1,
        3,
    )


@scenario
async def test_a_change_that_is_taken_back_is_not_written(scene: Scene) -> None:
    await scene.once(status=status(start_time="a"))
    assert await scene.once(status=RUNNING) is None
    await passing(60)
    assert await scene.once(status=status(start_time="b")) == SETTLE_SECONDS
    assert writes(scene) == 0


@scenario
async def test_events_come_after_the_status_that_they_tell_of(scene: Scene) -> None:
    written = {
        "status": status(start_time="a"),
        "events": (Event("Running", "go"),),
    }
    await scene.once(**written)
    assert scene.cluster.events == []
    await passing(SETTLE_SECONDS)
    await scene.once(**written)
    assert [entry[0] for entry in scene.cluster.writes()] == ["status", "event"]
