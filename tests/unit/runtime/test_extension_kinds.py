"""Kinds that a cluster may lack: nobody tells of them, so they are listed, and read beside the passes (`test_sessions.py`)."""

from __future__ import annotations

import pytest
from benchrun import names
from benchrun.effects.connection import LEADER_WORKER_SET
from benchrun.effects.errors import ClusterError, Forbidden, NotFound, NotServed, Unavailable
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.watching import Lister
from unit.runtime.bodies import KEY, NAMESPACE, UID, child_body, run_body
from unit.runtime.memory_cluster import MemoryCluster, list_everything, status_of
from unit.runtime.scene import Scene, manifest

GROUP = names.group_name("chat", UID)


class Lacking(MemoryCluster):
    """A cluster that can't list one kind."""

    def __init__(self, error: ClusterError) -> None:
        super().__init__()
        self.error = error

    def _ask(self, verb: str, *about: str) -> None:
        super()._ask(verb, *about)
        if verb == "list" and about[0] == LEADER_WORKER_SET:
            raise self.error


@pytest.mark.parametrize("error", [NotFound("404 page not found", code=404), Forbidden("no rights", code=403)])
async def test_everything_else_is_listed_where_the_kind_is_missing_or_not_ours_to_read(error: ClusterError) -> None:
    cluster, indexes = Lacking(error), Indexes()
    cluster.add("BenchmarkRun", run_body())
    cluster.add("Deployment", child_body())
    await list_everything(cluster, indexes, ())
    assert [child.kind for child in indexes.children(KEY).objects] == ["Deployment"]
    assert list(indexes.runs()) == [KEY]


async def test_an_api_server_that_does_not_answer_is_not_taken_for_a_missing_kind() -> None:
    lister = Lister(Lacking(Unavailable("down")), Indexes(), ())
    await lister.list_all()
    assert not lister.knows_any


async def test_groups_are_found_by_an_operator_that_has_just_started() -> None:
    cluster, indexes = MemoryCluster(), Indexes()
    cluster.add(LEADER_WORKER_SET, child_body(GROUP))
    await list_everything(cluster, indexes, ())
    assert [child.kind for child in indexes.children(KEY).objects] == [LEADER_WORKER_SET]


async def test_groups_that_we_made_are_not_waited_for_on_a_watch_that_does_not_exist() -> None:
    clock = [0.0]
    indexes = Indexes(seconds=lambda: clock[0])
    indexes.learnt(LEADER_WORKER_SET, child_body(GROUP))
    clock[0] = 1000.0
    assert indexes.silent_seconds() == 0.0


async def test_a_missing_kind_is_told_and_offered_again_until_it_is_there(scene: Scene) -> None:
    scene.cluster.broken["apply"] = NotServed("this cluster has no such kind", code=404)
    group = manifest(GROUP, LEADER_WORKER_SET)
    waits = [await scene.once(apply=(group,), requeue_after_seconds=100.0) for _ in range(3)]
    assert waits == [0.0, 15.0, 15.0]
    refused = scene.worlds[-1].collected.refused_object
    assert refused is not None
    assert (refused.is_kind_missing, refused.curable) == (True, True)
    assert [event.reason for event in scene.cluster.events] == ["NotInstalled"]
    assert status_of(scene.cluster)["phase"] == "Running"
    del scene.cluster.broken["apply"]
    await scene.once(apply=(group,))
    assert (LEADER_WORKER_SET, NAMESPACE, GROUP) in scene.cluster.objects
