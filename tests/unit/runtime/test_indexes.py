"""What the cluster holds, told in any order: the newest version stands, the dead stay dead, silence
is noticed."""

import json
import random
import tracemalloc
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
from benchrun import names
from benchrun.child_kinds import LEADER_WORKER_SET
from benchrun.effects import (
    ClusterError,
    Forbidden,
    NotFound,
    NotServed,
    Unavailable,
)
from benchrun.observe import (
    Child,
    Key,
    Sweep,
    child_of,
    is_finished,
    run_key,
    sweep_key,
    sweep_of_run,
    view_builders,
)
from benchrun.runtime.indexes import Body, Indexes
from benchrun.runtime.watching import Lister
from unit.runtime.bodies import (
    KEY,
    NAMESPACE,
    UID,
    child_body,
    pod_body,
    run_body,
    stage_body,
    swept_body,
)
from unit.runtime.memory_cluster import MemoryCluster, list_everything, status_of
from unit.runtime.scene import Scene, manifest

FINISHED = {
    "conditions": [{"type": "Complete", "status": "True"}],
    "results": [{"loadPoint": "c"}],
    "headline": {"loadPoint": "c"},
}


class Seconds:
    """A clock to be set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    """The time of the indexes."""
    return Seconds()


@pytest.fixture
def indexes(seconds: Seconds) -> Indexes:
    return Indexes(seconds=seconds)


def status_message(indexes: Indexes) -> object:
    run = indexes.run(KEY)
    return None if run is None else run.status.get("message")


def version(indexes: Indexes) -> str | None:
    run = indexes.run(KEY)
    return None if run is None else run.version


def test_event_of_a_run_or_of_anything_with_its_label_names_the_run(
    indexes: Indexes,
) -> None:
    assert indexes.heard("BenchmarkRun", run_body(), deleted=False) == KEY
    assert indexes.heard("Deployment", child_body(), deleted=False) == KEY
    assert indexes.heard("Pod", pod_body(), deleted=False) == KEY


def test_an_object_whose_label_is_changed_belongs_to_the_other_run(
    indexes: Indexes,
) -> None:
    """Once: the first run could not be looked at any more when the object was gone, and was let
    go."""
    indexes.heard("Service", child_body(version=200), deleted=False)
    other = indexes.heard(
        "Service", child_body(version=201, run="other"), deleted=False
    )
    assert other == run_key(KEY.namespace, "other")
    assert (
        len(indexes.children(KEY).objects),
        len(indexes.children(other).objects),
    ) == (0, 1)
    indexes.heard("Service", child_body(version=202, run="other"), deleted=True)
    assert (indexes.children(KEY).objects, indexes.children(other).objects) == (
        (),
        (),
    )


def test_views_are_found_by_run(indexes: Indexes) -> None:
    indexes.heard("BenchmarkRun", run_body(), deleted=False)
    indexes.heard("Deployment", child_body(), deleted=False)
    indexes.heard("Pod", pod_body(), deleted=False)
    indexes.heard("Service", child_body(uid="other", run="another"), deleted=False)
    run = indexes.run(KEY)
    children = indexes.children(KEY)
    assert run is not None
    assert (run.uid, run.version) == (UID, "100")
    assert [(c.kind, c.name, c.owner_uid) for c in children.objects] == [
        ("Deployment", "br-chat-4e20caa2-server", UID)
    ]
    assert [(p.name, p.ip, p.run_uid) for p in children.pods] == [
        ("br-chat-4e20caa2-server-x", "10.0.0.1", UID)
    ]
    assert indexes.runs() == [KEY]


def test_older_version_does_not_replace_a_newer_one_and_is_no_news(
    indexes: Indexes,
) -> None:
    indexes.heard(
        "BenchmarkRun",
        run_body(version=9, status={"message": "new"}),
        deleted=False,
    )
    assert (
        indexes.heard(
            "BenchmarkRun",
            run_body(version=8, status={"message": "old"}),
            deleted=False,
        )
        is None
    )
    assert (
        indexes.heard(
            "BenchmarkRun",
            run_body(version=9, status={"message": "same"}),
            deleted=False,
        )
        is None
    )
    assert status_message(indexes) == "new"


def test_change_that_no_decision_looks_at_is_no_news_but_is_the_newest_version(
    indexes: Indexes,
) -> None:
    indexes.heard("BenchmarkRun", run_body(version=9), deleted=False)
    indexes.heard("Deployment", child_body(version=9), deleted=False)
    assert (
        indexes.heard("Deployment", child_body(version=10), deleted=False) is None
    )
    assert (
        indexes.heard("BenchmarkRun", run_body(version=10), deleted=False) is None
    )
    assert version(indexes) == "10"
    assert (
        indexes.heard(
            "BenchmarkRun",
            run_body(version=11, status={"message": "new"}),
            deleted=False,
        )
        == KEY
    )


def test_versions_are_compared_as_numbers(indexes: Indexes) -> None:
    indexes.heard(
        "BenchmarkRun",
        run_body(version=9, status={"message": "old"}),
        deleted=False,
    )
    indexes.heard(
        "BenchmarkRun",
        run_body(version=10, status={"message": "new"}),
        deleted=False,
    )
    assert status_message(indexes) == "new"


def test_object_recreated_under_the_same_name_replaces_the_old_one(
    indexes: Indexes,
) -> None:
    indexes.heard("BenchmarkRun", run_body(version=9), deleted=False)
    assert (
        indexes.heard(
            "BenchmarkRun", run_body(uid="again", version=12), deleted=False
        )
        == KEY
    )
    assert indexes.heard("BenchmarkRun", run_body(version=11), deleted=True) is None
    run = indexes.run(KEY)
    assert run is not None
    assert run.uid == "again"


def test_deleted_objects_are_gone(indexes: Indexes) -> None:
    indexes.heard("BenchmarkRun", run_body(), deleted=False)
    indexes.heard("Deployment", child_body(), deleted=False)
    assert indexes.heard("Deployment", child_body(version=201), deleted=True) == KEY
    assert indexes.children(KEY).objects == ()
    assert indexes.heard("BenchmarkRun", run_body(version=101), deleted=True) == KEY
    assert indexes.run(KEY) is None
    assert indexes.runs() == []


def test_object_that_was_never_known_can_be_deleted(indexes: Indexes) -> None:
    assert indexes.heard("Job", child_body(), deleted=True) is None


def test_deletion_requested_is_seen_before_the_watch_tells(
    indexes: Indexes,
) -> None:
    indexes.heard("Deployment", child_body(), deleted=False)
    indexes.mark_deleting(
        "Deployment", "lab", "br-chat-4e20caa2-server", "a-namesake"
    )
    indexes.mark_deleting("Deployment", "lab", "never-there", "child-1")
    assert [c.deleting for c in indexes.children(KEY).objects] == [False]
    indexes.mark_deleting("Deployment", "lab", "br-chat-4e20caa2-server", "child-1")
    assert [c.deleting for c in indexes.children(KEY).objects] == [True]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("Workload", "br-chat-4e20caa2-queue-1"), ("ConfigMap", "")],
)
def test_what_nobody_watches_is_gone_when_its_deletion_is_requested(
    indexes: Indexes, kind: str, name: str
) -> None:
    """Also where a list that began before names it once more."""
    body = child_body(name) if name else stage_body()
    indexes.learnt(kind, body)
    about = body["metadata"]
    with indexes.listing(kind, None) as listing:
        indexes.mark_deleting(kind, "lab", about["name"], "a-namesake")
        assert len(indexes.children(KEY).objects) == 1
        indexes.mark_deleting(kind, "lab", about["name"], about["uid"])
        indexes.listed(listing, body)
    assert indexes.children(KEY).objects == ()


def test_answer_to_our_own_write_counts_at_once(indexes: Indexes) -> None:
    indexes.heard(
        "BenchmarkRun",
        run_body(version=9, status={"message": "old"}),
        deleted=False,
    )
    indexes.learnt("BenchmarkRun", run_body(version=10, status={"message": "ours"}))
    assert (status_message(indexes), version(indexes)) == ("ours", "10")
    assert (
        indexes.heard(
            "BenchmarkRun",
            run_body(version=10, status={"message": "ours"}),
            deleted=False,
        )
        is None
    )


def test_results_of_a_run_that_ended_are_not_kept_in_memory(
    indexes: Indexes,
) -> None:
    indexes.heard("BenchmarkRun", run_body(status=FINISHED), deleted=False)
    run = indexes.run(KEY)
    assert run is not None
    assert run.status == {
        "conditions": FINISHED["conditions"],
        "headline": FINISHED["headline"],
    }


def test_the_table_of_a_sweep_that_ended_is_not_kept_in_memory(
    indexes: Indexes,
) -> None:
    status = {
        "phase": "Completed",
        "results": [{}],
        "variants": [{}],
        "best": [{}],
        "front": [{}],
    }
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert indexes.heard(
        "BenchmarkSweep", run_body("s", status=status | ended), deleted=False
    ) == sweep_key("lab", "s")
    sweep = indexes.sweep(sweep_key("lab", "s"))
    assert sweep is not None
    assert sweep.status == {"phase": "Completed"} | ended
    assert indexes.sweeps() == [sweep_key("lab", "s")]
    assert indexes.runs() == []


def test_runs_that_go_on_come_before_those_that_have_ended(
    indexes: Indexes,
) -> None:
    """At a start ten thousand ended ones would otherwise keep them waiting."""
    for name, status in (("old", FINISHED), ("new", {}), ("older", FINISHED)):
        indexes.learnt("BenchmarkRun", run_body(name, uid=name, status=status))
    ordered = [key.name for key in indexes.runs()]
    assert ordered == ["new", "old", "older"]


def test_runs_of_a_sweep_are_those_that_it_made(indexes: Indexes) -> None:
    for body in (
        swept_body("s-v1-r1"),
        swept_body("s-v2-r10-a2"),
        swept_body("s-v3-r1", sweep_uid="a-namesake's"),
        swept_body(
            "s-v4-r1", sweep="t"
        ),  # names another sweep than its own name does
        swept_body("t-v1-r1"),
        swept_body("s-v5-r1", namespace="elsewhere"),
        swept_body("s"),
        run_body("s-v6-r1"),
    ):
        indexes.heard("BenchmarkRun", body, deleted=False)
    sweep = Sweep("lab", "s", "u1", generation=1)
    assert [run.name for run in indexes.runs_of(sweep)] == [
        "s-v1-r1",
        "s-v2-r10-a2",
    ]


def test_results_of_a_run_that_goes_on_are_kept(indexes: Indexes) -> None:
    status = FINISHED | {"conditions": [{"type": "Complete", "status": "False"}]}
    indexes.heard("BenchmarkRun", run_body(status=status), deleted=False)
    run = indexes.run(KEY)
    assert run is not None
    assert run.status == status


@pytest.mark.parametrize(
    ("ended", "conditions"),
    [
        pytest.param(False, None, id="none"),
        pytest.param(False, [], id="empty"),
        pytest.param(False, [{"type": "Ready", "status": "True"}], id="other"),
        pytest.param(
            False, [{"type": "Failed", "status": "False"}], id="not-failed"
        ),
        pytest.param(True, [{"type": "Failed", "status": "True"}], id="failed"),
        pytest.param(True, [{"type": "Complete", "status": "True"}], id="complete"),
    ],
)
def test_run_has_ended_when_a_condition_says_so(
    ended: bool, conditions: object
) -> None:
    assert is_finished({"conditions": conditions}) is ended


def test_stored_stages_leave_with_their_run(indexes: Indexes) -> None:
    indexes.heard("BenchmarkRun", run_body(), deleted=False)
    indexes.learnt("ConfigMap", stage_body(0))
    indexes.heard(
        "Job", child_body("br-chat-4e20caa2-client", uid="job"), deleted=False
    )
    assert [c.sequence for c in indexes.children(KEY).objects] == [0, None]
    indexes.heard("BenchmarkRun", run_body(version=101), deleted=True)
    assert [c.kind for c in indexes.children(KEY).objects] == ["Job"]


def test_watches_owe_what_we_wrote_until_they_tell(
    indexes: Indexes, seconds: Seconds
) -> None:
    assert indexes.owed.silent_seconds() == 0
    indexes.learnt("Deployment", child_body(version=5))
    seconds.now = 7
    indexes.learnt("Job", child_body("job", uid="job", version=6))
    assert indexes.owed.silent_seconds() == 7
    indexes.heard("Deployment", child_body(version=5), deleted=False)
    assert indexes.owed.silent_seconds() == 0
    seconds.now = 10
    assert indexes.owed.silent_seconds() == 3


@pytest.mark.parametrize(
    ("version", "deleted", "silent"),
    [
        pytest.param(4, False, 7, id="an older event does not"),
        pytest.param(6, True, 0, id="a deletion does"),
    ],
)
def test_an_event_settles_a_write(
    indexes: Indexes, seconds: Seconds, version: int, deleted: bool, silent: float
) -> None:
    indexes.learnt("Deployment", child_body(version=5))
    indexes.heard("Deployment", child_body(version=version), deleted=deleted)
    seconds.now = 7
    assert indexes.owed.silent_seconds() == silent


def test_write_that_changed_nothing_owes_nothing(
    indexes: Indexes, seconds: Seconds
) -> None:
    indexes.heard("Deployment", child_body(version=5), deleted=False)
    indexes.learnt("Deployment", child_body(version=5))
    seconds.now = 7
    assert indexes.owed.silent_seconds() == 0


def test_nobody_owes_what_is_not_watched(
    indexes: Indexes, seconds: Seconds
) -> None:
    indexes.learnt("ConfigMap", stage_body())
    indexes.learnt("Deployment", child_body("foreign", run=None))
    seconds.now = 7
    assert indexes.owed.silent_seconds() == 0


def listed(
    indexes: Indexes,
    kind: str,
    *bodies: dict[str, object],
    namespace: str | None = None,
) -> None:
    with indexes.listing(kind, namespace) as listing:
        for body in bodies:
            indexes.listed(listing, body)


def test_list_fills_and_removes_what_it_does_not_hold(indexes: Indexes) -> None:
    indexes.heard("Job", child_body("gone", uid="gone"), deleted=False)
    indexes.heard("Service", child_body("other-kind", uid="svc"), deleted=False)
    listed(indexes, "Job", child_body("there", uid="there"))
    assert [c.name for c in indexes.children(KEY).objects] == [
        "there",
        "other-kind",
    ]


def test_list_of_a_namespace_reports_nothing_of_another(indexes: Indexes) -> None:
    indexes.heard("Job", child_body("elsewhere", uid="e"), deleted=False)
    listed(indexes, "Job", namespace="prod")
    assert [c.name for c in indexes.children(KEY).objects] == ["elsewhere"]


def test_list_that_broke_off_removes_nothing(indexes: Indexes) -> None:
    indexes.heard("Job", child_body(), deleted=False)
    with suppress(TimeoutError), indexes.listing("Job", None):
        raise TimeoutError
    assert len(indexes.children(KEY).objects) == 1


def test_two_lists_under_way_do_not_end_each_other(indexes: Indexes) -> None:
    """Both are empty as yet. The second ends first: what is deleted until the first ends must stay
    dead."""
    with indexes.listing("Job", None) as whole:
        with indexes.listing("Job", "prod"):
            pass
        indexes.heard("Job", child_body(version=6), deleted=True)
        indexes.listed(whole, child_body(version=5))
    assert indexes.children(KEY).objects == ()


def test_object_deleted_while_the_list_was_read_stays_deleted(
    indexes: Indexes,
) -> None:
    indexes.heard("Job", child_body(version=5), deleted=False)
    with indexes.listing("Job", None) as listing:
        indexes.heard("Job", child_body(version=6), deleted=True)
        indexes.listed(listing, child_body(version=5))
    assert indexes.children(KEY).objects == ()


def test_object_made_while_the_list_was_read_stays(indexes: Indexes) -> None:
    with indexes.listing("Job", None):
        indexes.heard("Job", child_body(), deleted=False)
    assert len(indexes.children(KEY).objects) == 1


def test_our_own_write_while_the_list_was_read_stays(indexes: Indexes) -> None:
    with indexes.listing("ConfigMap", None):
        indexes.learnt("ConfigMap", stage_body())
    assert [c.role for c in indexes.children(KEY).objects] == [names.ROLE_STAGE]


def test_change_that_only_a_list_shows_is_owed_by_the_watch(
    indexes: Indexes, seconds: Seconds
) -> None:
    indexes.heard("Job", child_body(version=5), deleted=False)
    listed(indexes, "Job", child_body(version=6))
    seconds.now = 7
    assert indexes.owed.silent_seconds() == 7


def test_what_a_list_finds_gone_is_owed_no_more(
    indexes: Indexes, seconds: Seconds
) -> None:
    indexes.learnt("Job", child_body())
    listed(indexes, "Job")
    seconds.now = 7
    assert indexes.owed.silent_seconds() == 0


def test_names_of_runs_do_not_mix_between_namespaces(indexes: Indexes) -> None:
    indexes.heard("BenchmarkRun", run_body(), deleted=False)
    assert indexes.run(run_key("prod", "chat")) is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"metadata": None}, id="no-metadata"),
        pytest.param(
            {"metadata": {"name": "chat", "uid": "u", "resourceVersion": "1"}},
            id="no-namespace",
        ),
        pytest.param(
            {
                "metadata": {
                    "namespace": "lab",
                    "name": "chat",
                    "resourceVersion": "1",
                }
            },
            id="no-uid",
        ),
        *(
            pytest.param(
                {
                    "metadata": {
                        "namespace": "lab",
                        "name": "c",
                        "uid": "u",
                        "resourceVersion": version,
                    }
                },
                id=f"version-{version}",
            )
            for version in ("", "x", "-1", "1.5", None, "\u0663")
        ),
    ],
)
def test_object_that_does_not_say_which_it_is_is_passed_over(
    indexes: Indexes, body: Body
) -> None:
    for kind in ("BenchmarkRun", "BenchmarkSweep", "Deployment", "Pod"):
        assert indexes.heard(kind, body, deleted=False) is None
        assert indexes.heard(kind, body, deleted=True) is None
        assert indexes.learnt(kind, body) is None
        listed(indexes, kind, body)
    assert indexes.runs() == []
    assert sweep_of_run(body) is None


def test_versions_of_other_stores_than_etcd_are_longer(indexes: Indexes) -> None:
    assert (
        indexes.heard(
            "BenchmarkRun",
            run_body(version=1_764_000_000_000_000_000_001),
            deleted=False,
        )
        == KEY
    )
    assert version(indexes) == "1764000000000000000001"


def test_object_that_cannot_be_read_is_kept_by_its_metadata_and_stops_no_list(
    indexes: Indexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads_metadata_only(kind: str, body: Body) -> Child:
        if body.get("status") == "hostile":
            raise RecursionError
        return child_of(kind, body)

    monkeypatch.setattr(view_builders, "child_of", reads_metadata_only)
    hostile = child_body(status="hostile")
    listed(indexes, "Deployment", hostile, child_body("well", uid="2"))
    assert [(c.name, c.owner_uid) for c in indexes.children(KEY).objects] == [
        ("br-chat-4e20caa2-server", UID),
        ("well", UID),
    ]
    assert len(indexes.unreadable) == 1
    assert indexes.holds_server(KEY)
    assert (
        indexes.heard("Deployment", child_body(version=201), deleted=False) is None
    )
    assert len(indexes.unreadable) == 0
    indexes.heard(
        "Deployment", child_body(version=202, status="hostile"), deleted=False
    )
    indexes.heard(
        "Deployment", child_body(version=203, status="hostile"), deleted=True
    )
    assert len(indexes.unreadable) == 0


def test_object_of_which_not_even_the_metadata_can_be_read_is_passed_over(
    indexes: Indexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(kind: str, body: Body) -> Child:
        raise ValueError

    monkeypatch.setattr(view_builders, "child_of", raises)
    listed(indexes, "Deployment", child_body())
    assert indexes.children(KEY).objects == ()


@pytest.mark.parametrize(
    "conditions", ["x", ["x"], [None], {"type": "Complete"}, 7]
)
def test_conditions_of_any_sort_are_no_end(conditions: object) -> None:
    assert not is_finished({"conditions": conditions})


@pytest.mark.parametrize(
    ("kind", "role", "holds"),
    [
        ("Deployment", names.ROLE_SERVER, True),
        ("Deployment", names.ROLE_PREFILL, True),
        ("LeaderWorkerSet", names.ROLE_DECODE, True),
        ("Job", names.ROLE_CLIENT, False),
        ("Service", names.ROLE_SERVER, False),
    ],
)
def test_run_holds_a_server_while_there_is_one_that_was_not_deleted(
    indexes: Indexes, kind: str, role: str, holds: bool
) -> None:
    assert not indexes.holds_server(KEY)
    indexes.heard(kind, child_body(role=role), deleted=False)
    assert indexes.holds_server(KEY) is holds
    indexes.mark_deleting(kind, "lab", "br-chat-4e20caa2-server", "child-1")
    assert not indexes.holds_server(KEY)


def test_sweep_holds_no_server(indexes: Indexes) -> None:
    indexes.heard("BenchmarkSweep", run_body("s"), deleted=False)
    assert not indexes.holds_server(sweep_key("lab", "s"))


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


@pytest.mark.parametrize(
    "error",
    [NotFound("404 page not found", code=404), Forbidden("no rights", code=403)],
)
async def test_everything_else_is_listed_where_the_kind_is_missing_or_not_ours_to_read(
    error: ClusterError,
) -> None:
    cluster = Lacking(error)
    indexes = Indexes()
    cluster.add("BenchmarkRun", run_body())
    cluster.add("Deployment", child_body())
    await list_everything(cluster, indexes, ())
    assert [child.kind for child in indexes.children(KEY).objects] == ["Deployment"]
    assert indexes.runs() == [KEY]


async def test_an_api_server_that_does_not_answer_is_not_taken_for_a_missing_kind() -> (
    None
):
    lister = Lister(Lacking(Unavailable("down")), Indexes(), ())
    await lister.list_all()
    assert not lister.known


async def test_groups_are_found_by_an_operator_that_has_just_started() -> None:
    cluster = MemoryCluster()
    indexes = Indexes()
    cluster.add(LEADER_WORKER_SET, child_body(GROUP))
    await list_everything(cluster, indexes, ())
    assert [child.kind for child in indexes.children(KEY).objects] == [
        LEADER_WORKER_SET
    ]


async def test_groups_that_we_made_are_not_waited_for_on_a_watch_that_does_not_exist() -> (
    None
):
    clock = [0.0]
    indexes = Indexes(seconds=lambda: clock[0])
    indexes.learnt(LEADER_WORKER_SET, child_body(GROUP))
    clock[0] = 1000.0
    assert indexes.owed.silent_seconds() == 0.0


async def test_a_missing_kind_is_reported_and_retried_until_it_is_there(
    scene: Scene,
) -> None:
    scene.cluster.broken["apply"] = NotServed(
        "this cluster has no such kind", code=404
    )
    group = manifest(GROUP, LEADER_WORKER_SET)
    waits = [
        await scene.once(apply=(group,), requeue_after_seconds=100.0)
        for _ in range(3)
    ]
    assert waits == [0.0, 15.0, 15.0]
    refused = scene.facts_seen[-1].collected.refused_object
    assert refused is not None
    assert (refused.is_kind_missing, refused.curable) == (True, True)
    assert [event.reason for event in scene.cluster.events] == ["NotInstalled"]
    assert status_of(scene.cluster)["phase"] == "Running"
    del scene.cluster.broken["apply"]
    await scene.once(apply=(group,))
    assert (LEADER_WORKER_SET, NAMESPACE, GROUP) in scene.cluster.objects


# ---- what runs declare, in bounded memory
# ------------------------------------------------------------------------------------


def declaring(
    name: str, spec: Body, *, namespace: str = "lab", **more: Any
) -> Body:
    """A run with that spec."""
    body = run_body(
        name, uid=f"uid-of-{namespace}-{name}", namespace=namespace, **more
    )
    return body | {"spec": spec}


def memory_of(indexes: Indexes, bodies: Iterable[Body]) -> int:
    """Bytes that stay when they were heard of."""
    tracemalloc.start()
    try:
        for body in bodies:
            indexes.heard("BenchmarkRun", body, deleted=False)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def noise(size: int, seed: int) -> str:
    """A text that can't be compressed by much."""
    return random.Random(seed).randbytes(size).hex()


MANY_VALUES = json.dumps(
    {"suspend": True, "free": {f"k{n}": [[]] * 600 for n in range(32)}}
)
LONG_TEXT = json.dumps({"suspend": True, "free": "a" * 1_400_000})


@pytest.mark.parametrize(
    "spec", [MANY_VALUES, LONG_TEXT], ids=["many values", "a long text"]
)
def test_twenty_suspended_runs_take_no_more_than_two_did(
    indexes: Indexes, spec: str
) -> None:
    bodies = (declaring(str(number), json.loads(spec)) for number in range(20))
    assert memory_of(indexes, bodies) < 2_800_000
    assert indexes.left_out == {}
    run = indexes.run(run_key("lab", "7"))
    assert run is not None
    assert run.spec == json.loads(spec)


def test_whatever_tenants_declare_the_total_holds() -> None:
    indexes = Indexes(declared_bytes=1_000_000)
    bodies = (
        declaring(
            str(number),
            {"free": noise(100_000, number)},
            namespace=f"tenant-{number % 40}",
        )
        for number in range(80)
    )
    assert memory_of(indexes, bodies) < 1_500_000
    assert 0 < indexes.declared.used <= 1_000_000
    assert len(indexes.runs()) == 80


def test_a_namespace_below_its_share_loses_nothing_to_one_above() -> None:
    indexes = Indexes(declared_bytes=1_000_000)
    indexes.heard(
        "BenchmarkRun", declaring("small", {"free": noise(1_000, 0)}), deleted=False
    )
    for number in range(30):
        body = declaring(
            str(number), {"free": noise(100_000, number)}, namespace="large"
        )
        indexes.heard("BenchmarkRun", body, deleted=False)
    indexes.heard(
        "BenchmarkRun", declaring("late", {"free": noise(1_000, 1)}), deleted=False
    )
    assert {key.namespace for key in indexes.left_out} == {"large"}


def filled(news: list[Key]) -> Indexes:
    """Indexes with two runs, and room for one: the second is left out."""
    indexes = Indexes(declared_bytes=15_000, wake=news.append)
    for name in ("first", "second"):
        indexes.heard(
            "BenchmarkRun",
            declaring(name, {"free": noise(10_000, 1)}),
            deleted=False,
        )
    return indexes


def test_what_there_is_no_room_for_is_known_by_its_metadata() -> None:
    indexes = filled([])
    run = indexes.run(run_key("lab", "second"))
    assert run is not None
    assert (run.left_out, run.spec, run.status, run.uid) == (
        True,
        {},
        {},
        "uid-of-lab-second",
    )
    assert (list(indexes.left_out), indexes.returning()) == (
        [run_key("lab", "second")],
        [],
    )


def test_it_is_looked_at_again_when_there_is_room() -> None:
    indexes = filled([])
    second = run_key("lab", "second")
    body = declaring("second", {"free": noise(10_000, 1)})
    assert indexes.learnt("BenchmarkRun", body) is None, "still no room"
    indexes.heard("BenchmarkRun", declaring("first", {}, version=101), deleted=True)
    assert indexes.returning() == [second]
    assert indexes.learnt("BenchmarkRun", body) == second
    run = indexes.run(second)
    assert run is not None
    assert (run.left_out, run.spec, indexes.left_out) == (False, body["spec"], {})


def test_once_more_read_is_owed_by_no_watch(seconds: Seconds) -> None:
    indexes = Indexes(seconds=seconds, declared_bytes=10)
    body = declaring("first", {"free": noise(10_000, 1)})
    indexes.heard("BenchmarkRun", body, deleted=False)
    indexes.learnt("BenchmarkRun", body)
    seconds.now = 7
    assert indexes.owed.silent_seconds() == 0


def test_who_loses_its_place_to_another_is_looked_at() -> None:
    news: list[Key] = []
    indexes = filled(news)
    assert news == []
    other = declaring("small", {"free": noise(5_000, 2)}, namespace="other")
    indexes.heard("BenchmarkRun", other, deleted=False)
    assert news == [run_key("lab", "first")]


def test_every_change_of_what_was_left_out_is_news() -> None:
    indexes = filled([])
    body = declaring("second", {"free": noise(10_000, 1)}, version=101)
    assert indexes.heard("BenchmarkRun", body, deleted=False) == run_key(
        "lab", "second"
    )


def test_of_a_run_that_ended_memory_keeps_what_cancel_and_ttl_need(
    indexes: Indexes,
) -> None:
    spec = {
        "ttlSecondsAfterFinished": 60,
        "cancel": True,
        "server": {"args": ["x"] * 100},
    }
    indexes.heard(
        "BenchmarkRun", declaring("chat", spec, status=FINISHED), deleted=False
    )
    run = indexes.run(KEY)
    assert run is not None
    assert run.spec == {"ttlSecondsAfterFinished": 60, "cancel": True}


def test_the_users_labels_are_kept_while_the_run_goes_on_and_no_longer() -> None:
    indexes = Indexes()
    body = run_body(version=1)
    own = {"team": "a", "benchrun.dev/sweep": "s"}
    body["metadata"]["labels"] = own
    indexes.heard(names.KIND, body, deleted=False)
    run = indexes.run(KEY)
    assert run is not None
    assert run.labels == (("team", "a"),)
    ended = run_body(version=2, status=FINISHED)
    ended["metadata"]["labels"] = own
    indexes.heard(names.KIND, ended, deleted=False)
    run = indexes.run(KEY)
    assert run is not None
    assert run.labels == ()
