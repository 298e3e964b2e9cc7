"""Runs and sweeps that memory has no room for: what is needed of them is read in the pass."""

import pytest
from benchrun.decide import Ref
from benchrun.effects import NotFound
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.reconciler import MOST_FAILURES
from unit.runtime.bodies import KEY, NAMESPACE, UID, child_body, run_body
from unit.runtime.memory_cluster import status_of
from unit.runtime.scene import ENDED, Scene


@pytest.fixture
async def full() -> Scene:
    """A run for which the indexes have no room."""
    scene = Scene()
    scene.indexes = scene.reconciler.indexes = Indexes(declared_bytes=10)
    await scene.listed()
    return scene


async def test_its_spec_is_read_for_the_pass_and_not_kept(full: Scene) -> None:
    await full.once()
    (facts,) = full.facts_seen
    assert (facts.run.spec, facts.run.left_out) == ({"model": {"name": "m"}}, True)
    assert ("get", "BenchmarkRun", "chat") in full.cluster.log
    assert status_of(full.cluster)["phase"] == "Running"
    known = full.indexes.run(KEY)
    assert known is not None
    assert (known.spec, known.left_out) == ({}, True)


async def test_with_room_it_is_kept_from_then_on(full: Scene) -> None:
    full.indexes.declared.total = 10_000
    await full.once()
    assert not full.facts_seen[0].run.left_out
    full.cluster.log.clear()
    await full.once()
    assert ("get", "BenchmarkRun", "chat") not in full.cluster.log


async def test_its_server_is_deleted(full: Scene) -> None:
    full.cluster.add("Deployment", child_body())
    await full.listed()
    await full.once(
        delete=(Ref("Deployment", NAMESPACE, "br-chat-4e20caa2-server", "child-1"),)
    )
    assert ("delete", "Deployment", "br-chat-4e20caa2-server") in full.cluster.log


async def test_one_that_is_gone_is_forgotten(full: Scene) -> None:
    full.cluster.broken["get"] = NotFound("gone", code=404)
    assert await full.once() == 0.0
    assert (full.indexes.run(KEY), full.facts_seen) == (None, [])


SERVER = ("Deployment", NAMESPACE, "br-chat-4e20caa2-server")


async def test_one_that_is_being_deleted_lets_its_server_go(full: Scene) -> None:
    """What was read for the pass is no news to the index when the watch tells it."""
    full.cluster.add("Deployment", child_body())
    await full.listed()
    going = {"deletionTimestamp": "2026-11-21T12:00:00Z", "resourceVersion": "2000"}
    full.cluster.objects["BenchmarkRun", NAMESPACE, "chat"]["metadata"] |= going
    assert await full.once() == 0.0
    await full.once()
    assert (full.facts_seen, SERVER in full.cluster.objects) == ([], False)


async def test_another_that_has_its_name_by_now_inherits_nothing(
    full: Scene,
) -> None:
    await full.once()
    earlier = full.memories[KEY]
    full.cluster.add("BenchmarkRun", run_body(uid="later", version=2000))
    assert await full.once() == 0.0
    assert await full.once() != 0.0
    assert [facts.run.uid for facts in full.facts_seen] == [UID, "later"]
    assert full.memories[KEY] is not earlier
    assert full.sessions.stopped == 1


@pytest.mark.parametrize("known", [True, False], ids=["told", "found out"])
async def test_where_little_is_known_its_server_goes_with_it(
    full: Scene, known: bool
) -> None:
    full.cluster.add("Deployment", child_body())
    await full.listed()
    going = {"deletionTimestamp": "2026-11-21T12:00:00Z", "resourceVersion": "2000"}
    full.cluster.objects["BenchmarkRun", NAMESPACE, "chat"]["metadata"] |= going
    if known:
        await full.listed()
        full.cluster.broken["get"] = NotFound("gone", code=404)
    else:
        assert await full.reconciler.release(KEY) == 0.0
    await full.reconciler.release(KEY)
    assert SERVER not in full.cluster.objects


async def test_one_that_has_ended_is_not_called_failed(full: Scene) -> None:
    """Whatever memory knows of it."""
    run = full.cluster.objects["BenchmarkRun", NAMESPACE, "chat"]
    run["status"] = ENDED
    run["spec"] |= {"ttlSecondsAfterFinished": 900}
    await full.listed()

    def fail(facts: object) -> None:
        raise ZeroDivisionError

    full.decide = fail  # type: ignore[assignment]
    for _ in range(MOST_FAILURES - 1):
        with pytest.raises(ZeroDivisionError):
            await full.once()
    await full.once()
    assert status_of(full.cluster) == ENDED
