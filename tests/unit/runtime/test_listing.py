"""Listing everything, in as few bytes as it takes."""

from __future__ import annotations

import pytest
from benchrun.api import names
from benchrun.effects.errors import Unavailable
from benchrun.effects.resources import CHILD_KINDS, EXTENSION_KINDS
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.listing import list_everything
from unit.runtime.bodies import KEY, child_body, pod_body, run_body, stage_body
from unit.runtime.memory_cluster import MemoryCluster


def filled() -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.add("BenchmarkRun", run_body())
    cluster.add("Deployment", child_body())
    cluster.add("Pod", pod_body())
    cluster.add("ConfigMap", stage_body(0, digest="e" * 64))
    cluster.add("ConfigMap", child_body("foreign", uid="foreign", run=None))
    return cluster


async def test_everything_of_every_run_is_known_afterwards() -> None:
    indexes = Indexes()
    await list_everything(filled(), indexes, ())
    children = indexes.children(KEY)
    assert list(indexes.runs()) == [KEY]
    assert [(c.kind, c.record_digest) for c in children.objects] == [("ConfigMap", "e" * 64), ("Deployment", None)]
    assert [p.name for p in children.pods] == ["br-chat-server-a1-x"]


async def test_only_labelled_objects_are_asked_for_and_of_configmaps_only_metadata() -> None:
    cluster = filled()
    await list_everything(cluster, Indexes(), ())
    asked = {entry[1]: entry[3:] for entry in cluster.log}
    expected: dict[str, tuple[str, ...]] = dict.fromkeys((*CHILD_KINDS, *EXTENSION_KINDS), (names.LABEL_RUN, "whole"))
    owners = dict.fromkeys(("BenchmarkRun", "BenchmarkSweep"), ("*", "whole"))
    assert asked == expected | owners | {"ConfigMap": (names.LABEL_RUN, "metadata")}


async def test_owners_come_last_so_that_none_is_known_without_its_children() -> None:
    cluster = filled()
    await list_everything(cluster, Indexes(), ())
    assert [entry[1] for entry in cluster.log[-2:]] == ["BenchmarkRun", "BenchmarkSweep"]


async def test_namespaces_are_listed_one_by_one() -> None:
    cluster = filled()
    indexes = Indexes()
    await list_everything(cluster, indexes, ("prod", "stage"))
    assert {entry[2] for entry in cluster.log} == {"prod", "stage"}
    assert list(indexes.runs()) == []


async def test_list_that_fails_leaves_what_was_known() -> None:
    cluster = filled()
    indexes = Indexes()
    await list_everything(cluster, indexes, ())
    cluster.broken["list"] = Unavailable("down")
    with pytest.raises(Unavailable):
        await list_everything(cluster, indexes, ())
    assert len(indexes.children(KEY).objects) == 2
