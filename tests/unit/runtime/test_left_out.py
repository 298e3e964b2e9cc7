"""Runs and sweeps that memory has no room for: what is needed of them is read in the pass."""

import pytest
from benchrun.decide import Ref
from benchrun.effects import NotFound
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.run_reconciler import MOST_FAILURES
from unit.runtime.bodies import KEY, NAMESPACE, child_body
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
    await full.once(delete=(Ref("Deployment", NAMESPACE, "br-chat-4e20caa2-server", "child-1"),))
    assert ("delete", "Deployment", "br-chat-4e20caa2-server") in full.cluster.log


async def test_one_that_is_gone_is_forgotten(full: Scene) -> None:
    full.cluster.broken["get"] = NotFound("gone", code=404)
    assert await full.once() == 0.0
    assert (full.indexes.run(KEY), full.facts_seen) == (None, [])


async def test_one_that_has_ended_is_not_called_failed(full: Scene) -> None:
    """Whatever memory knows of it."""
    full.cluster.objects["BenchmarkRun", NAMESPACE, "chat"]["status"] = ENDED
    await full.listed()

    def fail(facts: object) -> None:
        raise ZeroDivisionError

    full.decide = fail  # type: ignore[assignment]
    for _ in range(MOST_FAILURES - 1):
        with pytest.raises(ZeroDivisionError):
            await full.once()
    await full.once()
    assert status_of(full.cluster) == ENDED
