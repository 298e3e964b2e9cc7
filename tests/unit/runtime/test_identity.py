"""Which object is which: by namespace, name and uid together. A namesake, one in another namespace
and one that only says so stand for nobody, wake nobody and inherit nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.decide import Decision, Facts, LogTail
from benchrun.effects import Conflict, NotFound
from benchrun.names import KIND
from benchrun.observe import Key, run_key, sweep_key
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.queue import Later
from benchrun.runtime.reconciler import MOST_FAILURES
from unit.runtime.bodies import (
    KEY,
    NAMESPACE,
    child_body,
    run_body,
    stage_body,
    swept_body,
)
from unit.runtime.fast_time import in_fast_time
from unit.runtime.memory_cluster import MemoryCluster, list_everything, status_of
from unit.runtime.scene import RUNNING, Scene as RunScene
from unit.runtime.test_sweep_reconciler import FIRST, SECOND, Scene as SweepScene
from unit.sweep.sweeps import NAME, UID as SWEEP_UID, ended, failed

Json = dict[str, Any]


def forged(status: Json | None = None, **meta: Any) -> Json:
    """What a tenant makes of a sweep's uid in a namespace of his own."""
    meta = {"namespace": "attacker", "finalizers": ["evil.example/keep"], **meta}
    return swept_body(FIRST, sweep=NAME, sweep_uid=SWEEP_UID, status=status, **meta)


FORGERIES = [
    pytest.param(forged(), id="it goes on"),
    pytest.param(forged(failed("OutOfGPUMemory")), id="it has failed"),
    pytest.param(forged(ended()), id="it is completed"),
    pytest.param(
        forged(deletionTimestamp="2026-11-21T12:00:00Z"), id="a finalizer keeps it"
    ),
]


async def ends(scene: SweepScene) -> None:
    for name in (FIRST, SECOND):
        await scene.until_settled()
        scene.end(name)
    await scene.until_settled()


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_run_of_another_namespace_stands_for_none_of_the_sweep(
    forgery: Json,
) -> None:
    undisturbed = SweepScene()
    scene = SweepScene()
    scene.cluster.add(KIND, forgery)
    for each in (undisturbed, scene):
        await ends(each)
    assert (scene.status, scene.status["phase"]) == (
        undisturbed.status,
        "Completed",
    )


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_it_hides_none_that_goes_on_from_being_cancelled(
    forgery: Json,
) -> None:
    scene = SweepScene()
    await scene.until_settled()
    scene.cluster.add(KIND, forgery)
    sweep = scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]
    scene.cluster.change(SWEEP_KIND, sweep, {"spec": {"cancel": True}})
    await scene.once()
    assert scene.cluster.objects[KIND, NAMESPACE, FIRST]["spec"]["cancel"] is True
    assert "cancel" not in scene.cluster.objects[KIND, "attacker", FIRST]["spec"]


async def test_a_run_that_says_so_and_has_another_name_is_left_alone() -> None:
    scene = SweepScene()
    theirs = swept_body("nightly", sweep=NAME, sweep_uid=SWEEP_UID)
    scene.cluster.add(KIND, theirs)
    sweep = scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]
    scene.cluster.change(SWEEP_KIND, sweep, {"spec": {"cancel": True}})
    await scene.until_settled()
    assert "cancel" not in scene.cluster.objects[KIND, NAMESPACE, "nightly"]["spec"]


# ---- an event wakes what it changes
# -------------------------------------------------------------------------------------------------


@pytest.fixture
def woken() -> list[Key]:
    """Runs and sweeps that nobody but the index tells of."""
    return []


@pytest.fixture
def indexes(woken: list[Key]) -> Indexes:
    return Indexes(wake=woken.append)


S = sweep_key(NAMESPACE, "s")
T = sweep_key(NAMESPACE, "t")
RUN = run_key(NAMESPACE, "s-v1-r1")


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(
            swept_body(version=101, ownerReferences=[]),
            [S],
            id="it is taken from it",
        ),
        pytest.param(
            swept_body(version=101, sweep="t", sweep_uid="u2"),
            [S],
            id="claimed by one",
        ),
        pytest.param(
            swept_body(version=101, status={"phase": "Running"}),
            [],
            id="it goes on",
        ),
    ],
)
def test_the_sweep_that_a_run_was_taken_from_is_woken(
    indexes: Indexes, woken: list[Key], after: Json, expected: list[Key]
) -> None:
    indexes.heard(KIND, swept_body(), deleted=False)
    indexes.heard(KIND, after, deleted=False)
    assert woken == expected


def test_a_run_that_is_gone_wakes_its_sweep_whoever_finds_out(
    indexes: Indexes, woken: list[Key]
) -> None:
    indexes.heard(KIND, swept_body(), deleted=False)
    indexes.drop(RUN, "uid-of-s-v1-r1")
    assert set(woken) == {S, RUN}


async def test_a_list_wakes_what_it_has_news_of(
    indexes: Indexes, woken: list[Key]
) -> None:
    """The watches owed it: no event will come."""
    cluster = MemoryCluster()
    cluster.add(KIND, swept_body())
    cluster.add("Deployment", child_body())
    await list_everything(cluster, indexes, ())
    assert set(woken) == {S, RUN, KEY}
    woken.clear()
    await list_everything(cluster, indexes, ())
    assert woken == []
    cluster.objects.clear()
    await list_everything(cluster, indexes, ())
    assert set(woken) == {S, RUN, KEY}


def test_the_run_that_an_object_was_taken_from_is_woken(
    indexes: Indexes, woken: list[Key]
) -> None:
    indexes.heard("Deployment", child_body(), deleted=False)
    assert indexes.heard(
        "Deployment", child_body(version=201, run="other"), deleted=False
    ) == run_key(NAMESPACE, "other")
    assert woken == [KEY]
    assert indexes.children(KEY).objects == ()


# ---- namesakes
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "earlier", "later"),
    [
        pytest.param(
            KIND,
            run_body(version=105, status={"message": "earlier"}),
            run_body(uid="later", version=110),
            id="run",
        ),
        pytest.param(
            "Deployment",
            child_body(version=105),
            child_body(uid="later", version=110),
            id="child",
        ),
    ],
)
def test_a_late_answer_about_an_earlier_object_hides_no_later_one(
    indexes: Indexes, kind: str, earlier: Json, later: Json
) -> None:
    """The answer to a write was under way while the object was deleted and made anew."""
    indexes.heard(kind, later, deleted=False)
    assert indexes.learnt(kind, earlier) is None
    assert indexes.heard(kind, earlier, deleted=True) is None
    known = [run.uid for run in (indexes.run(KEY),) if run is not None]
    assert known + [child.uid for child in indexes.children(KEY).objects] == [
        "later"
    ]


def test_the_end_of_an_earlier_object_confirms_nothing_of_the_later_one() -> None:
    seconds = iter((0.0, 100.0))
    indexes = Indexes(seconds=lambda: next(seconds))
    indexes.learnt("Job", child_body(uid="later", version=210))
    indexes.heard("Job", child_body(version=205), deleted=True)
    assert indexes.owed.silent_seconds() == 100


def test_what_is_found_gone_is_not_what_took_its_name(indexes: Indexes) -> None:
    indexes.heard(KIND, run_body(uid="later"), deleted=False)
    indexes.drop(KEY, "earlier")
    assert indexes.run(KEY) is not None


async def conflicts() -> None:
    raise Conflict("modified", code=409)


class Replaced(MemoryCluster):
    """Whatever is read by its name is replaced while the answer is under way."""

    def __init__(self, replace: Callable[[], object]) -> None:
        super().__init__()
        self._replace = replace

    async def get(self, kind: str, *, namespace: str, name: str) -> Json:
        self._replace()
        raise NotFound("gone", code=404)


async def test_a_run_that_was_made_anew_while_its_predecessor_was_looked_for_stays_known() -> (
    None
):
    scene = RunScene()
    await scene.listed()
    later = run_body(uid="later", version=2000)
    scene.reconciler.cluster = Replaced(
        lambda: scene.indexes.heard(KIND, later, deleted=False)
    )
    with pytest.raises(Later):
        await scene.reconciler.guard(KEY, conflicts)
    run = scene.indexes.run(KEY)
    assert run is not None
    assert run.uid == "later"


def broken(facts: Facts) -> Decision:
    raise OverflowError


@in_fast_time
async def test_failures_are_counted_of_each_object_by_itself() -> None:
    scene = RunScene()
    await scene.listed()
    scene.decide = broken
    for uid in ("later", "latest"):
        for _ in range(MOST_FAILURES - 1):
            with pytest.raises(OverflowError):
                await scene.reconciler(KEY)
        scene.cluster.add(KIND, run_body(uid=uid, version=2000))
        await scene.listed()
    assert "phase" not in status_of(scene.cluster)


async def test_what_goes_on_for_an_earlier_run_is_stopped_for_the_later_one() -> (
    None
):
    scene = RunScene()
    await scene.listed()
    scene.cluster.hanging = {"log"}
    query = LogTail("p", "server", previous=False)
    await scene.once(lookups=(query,))
    earlier = scene.memories[KEY]
    scene.cluster.add(KIND, run_body(uid="later", version=2000))
    await scene.listed()
    assert scene.sessions.stopped == 0
    await scene.once(lookups=(query,))
    assert scene.sessions.stopped == 1
    assert scene.memories[KEY] is not earlier
    await scene.lookups.close()


async def test_what_the_earlier_run_had_stored_does_not_count_for_the_later_one() -> (
    None
):
    scene = RunScene()
    scene.cluster.add("ConfigMap", stage_body())
    scene.cluster.add(KIND, run_body(uid="later", version=2000))
    await scene.listed()
    await scene.once(status=RUNNING)
    (child,) = scene.facts_seen[-1].children.objects
    assert child.owner_uid != scene.facts_seen[-1].run.uid
