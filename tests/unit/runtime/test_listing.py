"""Listing everything, in as few bytes as it takes."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from benchrun import names
from benchrun.child_kinds import EXTENSION_KINDS
from benchrun.effects import (
    CHILD_KINDS,
    LIST_PAGE,
    Forbidden,
    NotFound,
    Unavailable,
)
from benchrun.observe import Key, run_key
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.watching import (
    ALL_NAMESPACES,
    MAX_AGE_SECONDS,
    VERIFIED_AFTER_SECONDS,
    Lister,
)
from unit.runtime.bodies import (
    KEY,
    NAMESPACE,
    child_body,
    pod_body,
    run_body,
    stage_body,
    swept_body,
)
from unit.runtime.fast_time import in_fast_time, passing
from unit.runtime.fenced import Fenced
from unit.runtime.memory_cluster import MemoryCluster, list_everything
from unit.runtime.scene import ENDED


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
    assert indexes.runs() == [KEY]
    assert [
        (c.kind, c.envelope and c.envelope.digest) for c in children.objects
    ] == [
        ("ConfigMap", "e" * 64),
        ("Deployment", None),
    ]
    assert [p.name for p in children.pods] == ["br-chat-4e20caa2-server-x"]


async def test_only_labelled_objects_are_requested_and_of_configmaps_only_metadata() -> (
    None
):
    cluster = filled()
    await list_everything(cluster, Indexes(), ())
    listed = {entry[1]: entry[3:] for entry in cluster.log}
    expected: dict[str, tuple[str, ...]] = dict.fromkeys(
        (*CHILD_KINDS, *EXTENSION_KINDS), (names.LABEL_RUN, "whole")
    )
    assert listed == expected | {
        "BenchmarkRun": ("*", "table"),
        "BenchmarkSweep": ("*", "whole"),
        "ConfigMap": (names.LABEL_RUN, "metadata"),
    }


async def test_owners_come_last_so_that_none_is_known_without_its_children() -> (
    None
):
    cluster = filled()
    await list_everything(cluster, Indexes(), ())
    assert [entry[1] for entry in cluster.log[-2:]] == [
        "BenchmarkRun",
        "BenchmarkSweep",
    ]


async def test_what_a_cluster_may_lack_is_listed_when_the_other_children_could_be_read() -> (
    None
):
    """A right that is not there yet must not be taken for one that never will be, where all else
    can be read a moment later."""
    cluster = filled()
    await list_everything(cluster, Indexes(), ())
    assert [entry[1] for entry in cluster.log[:-2]] == [
        *CHILD_KINDS,
        *EXTENSION_KINDS,
    ]


async def test_namespaces_are_listed_one_by_one() -> None:
    cluster = filled()
    indexes = Indexes()
    await list_everything(cluster, indexes, ("prod", "stage"))
    assert {entry[2] for entry in cluster.log} == {"prod", "stage"}
    assert indexes.runs() == []


async def test_list_that_fails_leaves_what_was_known() -> None:
    cluster = filled()
    indexes = Indexes()
    lister = Lister(cluster, indexes, ())
    await lister.list_all()
    cluster.broken["list"] = Unavailable("down")
    await lister.list_all()
    assert len(indexes.children(KEY).objects) == 2
    assert list(lister.unreadable) == [ALL_NAMESPACES]
    assert lister.knows(NAMESPACE), "it was listed once, and the watches go on"


async def test_an_unreadable_namespace_is_reported_and_stops_nobody_else() -> None:
    cluster = Fenced("closed")
    indexes = Indexes()
    cluster.add("BenchmarkRun", run_body())
    events: list[tuple[str, bool]] = []
    lister = Lister(
        cluster,
        indexes,
        ("closed", NAMESPACE),
        turned=lambda *turn: events.append(turn),
    )
    await lister.list_all()
    assert indexes.runs() == [KEY]
    assert events == [("closed", True), (NAMESPACE, False)]
    assert (
        lister.knows("closed"),
        lister.knows(NAMESPACE),
        bool(lister.known),
    ) == (
        False,
        True,
        True,
    )
    assert list(lister.unreadable) == ["closed"]
    cluster.fenced.clear()
    cluster.log.clear()
    assert await lister.list_unreadable()
    assert {entry[2] for entry in cluster.log} == {"closed"}
    assert lister.knows("closed")
    assert lister.unreadable == {}
    assert events[2:] == [("closed", False)]


async def test_a_namespace_of_which_one_kind_is_unreadable_is_not_known_but_the_other_kinds_are_listed() -> (
    None
):
    cluster = Fenced("Deployment")
    indexes = Indexes()
    cluster.add("BenchmarkRun", run_body())
    lister = Lister(cluster, indexes, ())
    await lister.list_all()
    assert not lister.known
    assert lister.unreadable == {ALL_NAMESPACES: "Deployment: Forbidden: not yours"}
    assert indexes.runs() == [KEY]
    assert not await lister.list_unreadable()


# ---- what no watch will ever tell
# ------------------------------------------------------------------------------------


async def test_an_object_deleted_before_the_watch_began_is_dropped() -> None:
    seconds = [0.0]
    cluster = filled()
    indexes = Indexes(seconds=lambda: seconds[0])
    lister = Lister(cluster, indexes, ())
    await lister.list_all()
    del cluster.objects["Deployment", NAMESPACE, "br-chat-4e20caa2-server"]
    for kind in ("BenchmarkRun", "Pod"):
        indexes.heard(
            kind,
            next(body for (k, *_), body in cluster.objects.items() if k == kind),
            deleted=False,
        )
    seconds[0] = VERIFIED_AFTER_SECONDS
    assert indexes.owed.silent_seconds() == VERIFIED_AFTER_SECONDS
    cluster.log.clear()
    await lister.verify_overdue()
    assert [entry[1:3] for entry in cluster.log] == [("Deployment", NAMESPACE)]
    assert indexes.owed.silent_seconds() == 0
    assert [child.kind for child in indexes.children(KEY).objects] == ["ConfigMap"]


@pytest.mark.parametrize("namespaces", [(), (NAMESPACE,)])
async def test_what_cannot_be_looked_for_is_not_counted_either(
    namespaces: tuple[str, ...],
) -> None:
    seconds = [0.0]
    cluster = filled()
    indexes = Indexes(seconds=lambda: seconds[0])
    lister = Lister(cluster, indexes, namespaces)
    await lister.list_all()
    cluster.broken["list"] = Forbidden("the namespace is being deleted", code=403)
    seconds[0] = VERIFIED_AFTER_SECONDS
    await lister.verify_overdue()
    assert list(lister.unreadable) == list(namespaces or (ALL_NAMESPACES,))


async def test_an_object_that_no_watch_reported_stays_owed() -> None:
    seconds = [0.0]
    cluster = filled()
    indexes = Indexes(seconds=lambda: seconds[0])
    lister = Lister(cluster, indexes, ())
    await lister.list_all()
    seconds[0] = VERIFIED_AFTER_SECONDS
    await lister.verify_overdue()
    seconds[0] = 100.0
    assert indexes.owed.silent_seconds() == 100


async def test_what_is_not_overdue_is_not_looked_for() -> None:
    seconds = [0.0]
    cluster = filled()
    indexes = Indexes(seconds=lambda: seconds[0])
    lister = Lister(cluster, indexes, ())
    await lister.list_all()
    seconds[0] = VERIFIED_AFTER_SECONDS - 1
    cluster.log.clear()
    await lister.verify_overdue()
    assert cluster.log == []


async def test_watches_of_a_namespace_that_becomes_readable_have_their_whole_time() -> (
    None
):
    seconds = [0.0]
    cluster = Fenced()
    indexes = Indexes(seconds=lambda: seconds[0])
    cluster.add("BenchmarkRun", run_body())
    lister = Lister(cluster, indexes, (NAMESPACE,))
    await lister.list_all()
    seconds[0] = 100.0
    cluster.fenced.add(NAMESPACE)
    await lister.list_all()
    assert indexes.owed.silent_seconds() == 100
    assert indexes.owed.silent_seconds(unreadable=lister.unreadable) == 0
    cluster.fenced.clear()
    await lister.list_unreadable()
    assert indexes.owed.silent_seconds() == 0


# ---- from where watches go on
# ------------------------------------------------------------------------------------


async def test_a_watch_can_go_on_once_from_the_first_list_and_owes_nothing_of_it() -> (
    None
):
    seconds = [0.0]
    cluster = filled()
    indexes = Indexes(seconds=lambda: seconds[0])
    lister = Lister(cluster, indexes, ())
    await lister.list_all()
    seconds[0] = 50.0
    assert indexes.owed.silent_seconds() == 50
    versions = {lister.reached(kind, None) for kind in CHILD_KINDS}
    assert versions == {"1000"}
    assert indexes.owed.overdue(0) == {("BenchmarkRun", NAMESPACE)}
    assert lister.reached("BenchmarkRun", None) == "1000"
    assert indexes.owed.silent_seconds() == 0
    assert lister.reached("BenchmarkRun", None) is None
    await lister.list_all()
    assert lister.reached("BenchmarkRun", None) is None, "its watch has begun"


async def test_no_watch_goes_on_from_a_list_that_failed() -> None:
    cluster = Fenced("closed")
    lister = Lister(cluster, Indexes(), ("closed", NAMESPACE))
    await lister.list_all()
    assert lister.reached("Job", "closed") is None
    assert lister.reached("Job", NAMESPACE) == "1000"
    cluster.fenced.clear()
    await lister.list_unreadable()
    assert lister.reached("Job", "closed") == "1000"


@in_fast_time
async def test_no_watch_goes_on_from_a_list_of_long_ago() -> None:
    lister = Lister(filled(), Indexes(), ())
    await lister.list_all()
    await passing(MAX_AGE_SECONDS - 1)
    assert lister.reached("Job", None) == "1000"
    await passing(2)
    assert lister.reached("Pod", None) is None


async def test_what_was_written_after_the_list_is_still_owed() -> None:
    seconds = [0.0]
    cluster = filled()
    indexes = Indexes(seconds=lambda: seconds[0])
    lister = Lister(cluster, indexes, (NAMESPACE,))
    await lister.list_all()
    indexes.learnt("BenchmarkRun", run_body("late", uid="2", version=1001))
    seconds[0] = 9.0
    lister.reached("BenchmarkRun", NAMESPACE)
    assert indexes.owed.overdue(9) == {
        (kind, NAMESPACE) for kind in ("BenchmarkRun", "Deployment", "Pod")
    }
    indexes.heard(
        "BenchmarkRun", run_body("late", uid="2", version=1001), deleted=False
    )
    assert ("BenchmarkRun", NAMESPACE) not in indexes.owed.overdue(9)


# ---- runs that have ended
# ------------------------------------------------------------------------------------------------


AT_REST = ENDED | {"completionTime": "2026-11-21T12:00:00Z"}


def with_ended(cluster: MemoryCluster, runs: int, **spec: Any) -> MemoryCluster:
    for number in range(runs):
        name = f"old-{number:03d}"
        at = f"2026-11-21T12:{number % 60:02d}:00Z"
        body = run_body(name, uid=name, status=AT_REST | {"completionTime": at})
        body["spec"] |= spec
        cluster.add("BenchmarkRun", body)
    return cluster


def whole_reads(cluster: MemoryCluster) -> int:
    """Return how often a page or one run was read whole."""
    asked = Counter(entry[:2] for entry in cluster.log)
    return cluster.whole_pages + asked["get", "BenchmarkRun"]


async def test_runs_that_have_ended_cost_a_look_at_their_columns() -> None:
    """One page of five has a run that goes on; it alone is read whole."""
    cluster = with_ended(MemoryCluster(), 5 * LIST_PAGE - 1)
    cluster.add("BenchmarkRun", run_body())
    indexes = Indexes()
    await list_everything(cluster, indexes, ())
    assert whole_reads(cluster) == 1
    assert len(indexes.runs()) == 5 * LIST_PAGE
    assert indexes.runs()[0] == KEY
    in_short = [key for key in indexes.runs() if indexes.is_in_short(key)]
    assert len(in_short) == 4 * LIST_PAGE
    assert all(map(indexes.may_rest, in_short))
    assert not indexes.left_out


@pytest.mark.parametrize(
    "cluster",
    [
        with_ended(MemoryCluster(), 1, ttlSecondsAfterFinished=9),
        filled(),
    ],
    ids=["to be deleted", "goes on"],
)
async def test_a_run_that_a_decision_may_be_due_for_is_read_whole(
    cluster: MemoryCluster,
) -> None:
    indexes = Indexes()
    await list_everything(cluster, indexes, ())
    (key,) = indexes.runs()
    known = indexes.run(key)
    assert known is not None
    assert known.spec.get("model") or known.spec == {"ttlSecondsAfterFinished": 9}
    assert not known.left_out


async def test_a_run_of_a_sweep_is_read_whole_since_the_sweep_reads_its_status() -> (
    None
):
    cluster = MemoryCluster()
    cluster.add("BenchmarkRun", swept_body(status=AT_REST))
    indexes = Indexes()
    await list_everything(cluster, indexes, ())
    (key,) = indexes.runs()
    assert not indexes.is_in_short(key)


async def test_the_next_list_changes_nothing_of_what_is_known_in_short_or_whole() -> (
    None
):
    woken: list[Key] = []
    cluster = with_ended(MemoryCluster(), 2)
    indexes = Indexes(wake=woken.append)
    await list_everything(cluster, indexes, ())
    whole = run_key(NAMESPACE, "old-000")
    indexes.learnt(
        "BenchmarkRun", await cluster.get("BenchmarkRun", **_place(whole))
    )
    woken.clear()
    await list_everything(cluster, indexes, ())
    assert not indexes.is_in_short(whole)
    cluster.add("BenchmarkRun", run_body())  # now its page is read whole
    await list_everything(cluster, indexes, ())
    assert indexes.is_in_short(run_key(NAMESPACE, "old-001"))
    assert woken == [KEY]


async def test_news_of_a_run_in_short_makes_it_whole() -> None:
    cluster = with_ended(MemoryCluster(), 1)
    indexes = Indexes()
    await list_everything(cluster, indexes, ())
    (key,) = indexes.runs()
    edited = run_body(
        "old-000", uid="old-000", version=101, status=AT_REST, generation=2
    )
    assert indexes.heard("BenchmarkRun", edited, deleted=False) == key
    assert (indexes.is_in_short(key), indexes.may_rest(key)) == (False, False)


async def test_a_watch_that_begins_anew_tells_nothing_of_runs_in_short() -> None:
    """After an expired watch ten thousand of them would be decided on, and kept whole."""
    cluster = with_ended(MemoryCluster(), 2)
    indexes = Indexes()
    await list_everything(cluster, indexes, ())
    for body in list(cluster.objects.values()):
        assert indexes.heard("BenchmarkRun", body, deleted=False) is None
    assert all(map(indexes.is_in_short, indexes.runs()))
    assert indexes.owed.silent_seconds() == 0


async def test_results_are_read_of_the_runs_that_ended_last_and_only_once() -> None:
    cluster = with_ended(MemoryCluster(), 30)
    indexes = Indexes(result_runs=3)
    await list_everything(cluster, indexes, ())
    names_of = [key.name for key, _ in indexes.results]
    assert names_of == ["old-027", "old-028", "old-029"]
    assert whole_reads(cluster) == 3
    await list_everything(cluster, indexes, ())
    assert whole_reads(cluster) == 3


async def test_a_run_that_is_gone_by_then_has_no_results() -> None:
    cluster = with_ended(MemoryCluster(), 2)
    cluster.broken_objects["old-001"] = NotFound("gone", code=404)
    indexes = Indexes(result_runs=2)
    await list_everything(cluster, indexes, ())
    assert [key.name for key, _ in indexes.results] == ["old-000"]


async def test_results_that_can_not_be_read_keep_no_run_from_being_known() -> None:
    """They are for the metrics alone; servers are let go of by what was listed."""
    cluster = with_ended(MemoryCluster(), 3)
    cluster.broken["get"] = Unavailable("down")
    indexes = Indexes(result_runs=2)
    lister = Lister(cluster, indexes, ())
    await lister.list_all()
    assert lister.can_release
    assert lister.unreadable == {}
    assert len([entry for entry in cluster.log if entry[0] == "get"]) == 1
    del cluster.broken["get"]
    await lister.list_all()
    assert [key.name for key, _ in indexes.results] == ["old-001", "old-002"]


class Meanwhile(MemoryCluster):
    """A cluster in which something happens just before, or after, a run is read whole."""

    before: Callable[[dict[str, Any]], object] = staticmethod(lambda _: None)
    after: Callable[[dict[str, Any]], object] = staticmethod(lambda _: None)

    async def get(self, kind: str, *, namespace: str, name: str) -> dict[str, Any]:
        self.before(self.objects[kind, namespace, name])
        body = await super().get(kind, namespace=namespace, name=name)
        self.after(body)
        return body


async def test_a_run_that_was_edited_when_its_results_are_read_is_decided_on() -> (
    None
):
    """Its watch would tell of a version that is known by then, and wake nobody."""
    woken: list[Key] = []
    cluster = with_ended(Meanwhile(), 1)
    assert isinstance(cluster, Meanwhile)

    def edit(body: dict[str, Any]) -> None:
        woken.clear()
        cluster.change(names.KIND, body, {"metadata": {"generation": 2}})

    cluster.before = edit
    indexes = Indexes(result_runs=1, wake=woken.append)
    await list_everything(cluster, indexes, ())
    assert woken == indexes.runs()
    assert not indexes.may_rest(*woken)


async def test_a_run_that_is_deleted_while_its_results_are_read_stays_deleted() -> (
    None
):
    cluster = with_ended(Meanwhile(), 1)
    assert isinstance(cluster, Meanwhile)
    indexes = Indexes(result_runs=1)
    cluster.after = lambda body: indexes.heard(names.KIND, body, deleted=True)
    await list_everything(cluster, indexes, ())
    assert indexes.runs() == []


def _place(key: Key) -> dict[str, str]:
    return {"namespace": key.namespace, "name": key.name}
