"""Servers that are held longer than they may be are deleted, by metadata alone, and whatever else
fails."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from benchrun import child_kinds, names
from benchrun.plan import Owner, server_roles, workload
from benchrun.release.main import KINDS, main
from unit.plan.specs import spec
from unit.release.api_server import STATE, Cluster, Json
from unit.release.conftest import LookAt

T0 = 1_800_000_000
HOUR = 3_600
DAY = 86_400
HOLD = 1800 + HOUR + 60
AT = "2027-01-15T08:00:00Z"


def server(
    cluster: Cluster,
    *,
    run: str = "chat",
    namespace: str = "team-a",
    node: str = "n",
    since: int | None = None,
    **changes: Any,
) -> Json:
    """A server as the operator makes it, with its pod, which started then; `hold` and `metadata`
    replace what it says of itself."""
    owner = Owner(namespace, run, f"{run}-uid")
    wanted = spec(
        startupDeadlineSeconds=1800,
        runDeadlineSeconds=HOUR,
        **changes.pop("spec", {}),
    )
    [role] = server_roles(owner, wanted, client_image="c", pull_policy="Always")
    manifest = workload(owner, role)
    meta = {
        **manifest["metadata"],
        "uid": f"{run}-server-uid",
        **changes.pop("metadata", {}),
    }
    if "hold" in changes:
        meta["annotations"] = {names.ANNOTATION_HOLD: changes.pop("hold")}
    assert not changes
    plural = {"Deployment": "deployments", "LeaderWorkerSet": "leaderworkersets"}[
        manifest["kind"]
    ]
    pod = {
        "name": f"{run}-pod",
        "namespace": namespace,
        "labels": meta["labels"],
        "uid": "p",
    }
    status = {} if since is None else {"startTime": time_of(since)}
    cluster.add(
        "pods", {"metadata": pod, "spec": {"nodeName": node}, "status": status}
    )
    return cluster.add(plural, {**manifest, "metadata": meta})


def time_of(seconds: int) -> str:
    """As the API server writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def owner(**changes: Any) -> Json:
    """The reference that a server has to its run, with changes."""
    run = {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "name": "chat",
        "uid": "chat-uid",
    }
    return {**run, "controller": True, **changes}


def deleted(cluster: Cluster) -> list[str]:
    """Paths of what a look tried to delete."""
    return [path for verb, path, _ in cluster.calls if verb == "DELETE"]


def test_a_server_is_released_when_it_was_held_longer_than_it_says(
    cluster: Cluster, look: LookAt
) -> None:
    server(cluster)
    assert [look(T0), look(T0 + HOLD), len(cluster.names("deployments"))] == [
        0,
        0,
        1,
    ]
    assert [look(T0 + HOLD + 1), cluster.names("deployments")] == [0, []]
    [body] = [body for verb, _, body in cluster.calls if verb == "DELETE"]
    assert body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "chat-server-uid"},
    }


def test_the_run_gets_an_event(cluster: Cluster, look: LookAt) -> None:
    name = server(cluster)["metadata"]["name"]
    look(T0)
    look(T0 + HOLD + 1)
    [event] = cluster.of("events")
    assert (event["type"], event["reason"]) == ("Warning", "ServerReleased")
    assert event["involvedObject"] == {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "namespace": "team-a",
        "name": "chat",
        "uid": "chat-uid",
    }
    assert (
        event["firstTimestamp"] == event["lastTimestamp"] == "2027-01-15T09:31:01Z"
    )
    assert {name, str(HOLD), str(HOLD + 1)} <= set(
        event["message"].replace(";", "").split()
    )


def test_groups_of_pods_are_ended_all_at_once(
    cluster: Cluster, look: LookAt
) -> None:
    server(cluster, spec={"server": {"image": "v", "nodesPerReplica": 2}})
    look(T0)
    look(T0 + HOLD + 1800 + 1)
    [body] = [body for verb, _, body in cluster.calls if verb == "DELETE"]
    assert (
        cluster.names("leaderworkersets"),
        body and body["propagationPolicy"],
    ) == (
        [],
        "Foreground",
    )


def test_waiting_for_a_node_is_not_holding_one(
    cluster: Cluster, look: LookAt
) -> None:
    server(cluster, node="")
    assert [look(T0 + day * DAY) for day in range(5)] == [0] * 5
    assert (deleted(cluster), STATE in cluster.objects) == ([], False)
    cluster.of("pods")[0]["spec"]["nodeName"] = "n"
    look(T0 + 5 * DAY)
    look(T0 + 5 * DAY + HOLD)
    assert deleted(cluster) == []


def test_a_proxy_on_a_node_starts_no_clock(cluster: Cluster, look: LookAt) -> None:
    """The GPUs of its run are still waited for."""
    labels = server(cluster, node="")["metadata"]["labels"] | {
        names.LABEL_ROLE: names.ROLE_PROXY
    }
    proxy = {"name": "proxy", "namespace": "team-a", "labels": labels, "uid": "q"}
    cluster.add("pods", {"metadata": proxy, "spec": {"nodeName": "n"}})
    assert [look(T0), look(T0 + DAY), deleted(cluster)] == [0, 0, []]


def test_the_clock_goes_on_while_a_pod_moves(
    cluster: Cluster, look: LookAt
) -> None:
    server(cluster)
    look(T0)
    cluster.of("pods")[0]["spec"]["nodeName"] = ""
    look(T0 + HOLD + 1)
    assert cluster.names("deployments") == []


@pytest.mark.parametrize(
    "written",
    [
        "",
        "-1",
        "0",
        "1e3",
        "12 ",
        "²",
        "9" * 5000,
        "0x10",
        "NaN",
        "inf",
        7,
        None,
        ["1"],
    ],
)
def test_what_is_not_a_number_above_0_is_the_bound(
    cluster: Cluster, look: LookAt, written: object
) -> None:
    server(cluster, hold=written)
    assert [
        look(T0),
        look(T0 + 7200, bound=7200),
        len(cluster.names("deployments")),
    ] == [0, 0, 1]
    assert [look(T0 + 7201, bound=7200), cluster.names("deployments")] == [0, []]


@pytest.mark.parametrize(
    "changed", [{"annotations": None}, {"annotations": "none"}, {"annotations": {}}]
)
def test_so_is_no_annotation_at_all(
    cluster: Cluster, look: LookAt, changed: Json
) -> None:
    server(cluster, metadata=changed)
    look(T0)
    look(T0 + DAY)
    assert deleted(cluster) == []
    look(T0 + DAY + 1)
    assert cluster.names("deployments") == []


def test_the_bound_caps_what_is_written(cluster: Cluster, look: LookAt) -> None:
    server(cluster, hold="999999999999")
    look(T0, bound=100)
    look(T0 + 101, bound=100)
    assert cluster.names("deployments") == []


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(
            {"ownerReferences": [], "annotations": {}},
            id="no owner, and no time to be held",
        ),
        pytest.param(
            {"ownerReferences": [], "labels": {names.LABEL_RUN: "chat"}},
            id="no owner, and no run's uid",
        ),
        pytest.param({"ownerReferences": [owner(apiVersion=None)]}, id="no group"),
        pytest.param(
            {"ownerReferences": [owner(apiVersion="apps/v1", kind="Deployment")]},
            id="another kind's",
        ),
        pytest.param(
            {"deletionTimestamp": AT, "finalizers": ["a/b", "foregroundDeletion"]},
            id="being deleted",
        ),
    ],
)
def test_what_no_run_owns_is_left_alone(
    cluster: Cluster, look: LookAt, changed: Json
) -> None:
    server(cluster, metadata=changed)
    assert [look(T0), look(T0 + 10 * DAY), deleted(cluster)] == [0, 0, []]


LABELS = {
    names.LABEL_RUN: "chat",
    names.LABEL_RUN_UID: "chat-uid",
    names.LABEL_ROLE: "server",
}


@pytest.mark.parametrize(
    "changed",
    [
        *(
            pytest.param(
                {"labels": {k: v for k, v in LABELS.items() if k != gone}}, id=gone
            )
            for gone in LABELS
        ),
        pytest.param(
            {"labels": {**LABELS, names.LABEL_ROLE: "client"}}, id="another role"
        ),
        pytest.param(
            {"labels": {**LABELS, names.LABEL_RUN_UID: "other"}}, id="another run"
        ),
        pytest.param({"ownerReferences": []}, id="orphaned"),
        pytest.param({"ownerReferences": None}, id="null"),
        pytest.param({"ownerReferences": ["run", {"kind": []}]}, id="nonsense"),
        pytest.param(
            {"ownerReferences": [owner(controller=False)]}, id="no controller"
        ),
    ],
)
def test_changed_labels_and_an_owner_that_let_it_go_keep_no_server(
    cluster: Cluster, look: LookAt, changed: Json
) -> None:
    name = server(cluster)["metadata"]["name"]
    cluster.objects[f"/apis/apps/v1/namespaces/team-a/deployments/{name}"][
        "metadata"
    ] |= changed
    look(T0)
    assert [look(T0 + HOLD + 1), cluster.names("deployments")] == [0, []]
    [event] = cluster.of("events")
    assert (event["involvedObject"]["kind"], event["involvedObject"]["uid"]) == (
        "BenchmarkRun",
        "chat-uid",
    )


@pytest.mark.parametrize(
    "finalizers", [["a/b"], ["orphan"], "foregroundDeletion", 7, None]
)
def test_one_that_a_finalizer_keeps_from_its_deletion_in_the_background_is_deleted_in_the_foreground(
    cluster: Cluster, look: LookAt, finalizers: object
) -> None:
    server(cluster, metadata={"deletionTimestamp": AT, "finalizers": finalizers})
    look(T0)
    assert [look(T0 + HOLD + 1), cluster.names("deployments")] == [0, []]


def test_broken_labels_raise_nothing(cluster: Cluster, look: LookAt) -> None:
    server(
        cluster,
        run="odd",
        metadata={"labels": {names.LABEL_RUN: ["no"], names.LABEL_RUN_UID: {}}},
    )
    server(cluster)
    look(T0)
    assert [look(T0 + HOLD + 1), deleted(cluster) != []] == [0, True]


def test_a_namesake_is_not_deleted_and_has_a_clock_of_its_own(
    cluster: Cluster, look: LookAt
) -> None:
    body = server(cluster)
    look(T0)
    cluster.refused["DELETE", "/apis/apps"] = 409
    assert [look(T0 + HOLD + 1), cluster.of("events")] == [0, []]
    del cluster.refused["DELETE", "/apis/apps"]
    body["metadata"] |= {
        "uid": "another",
        "creationTimestamp": time_of(T0 + HOLD + 2),
    }
    assert [
        look(T0 + HOLD + 2),
        look(T0 + 2 * HOLD + 2),
        len(cluster.names("deployments")),
    ] == [
        0,
        0,
        1,
    ]


def test_a_namespace_that_cannot_be_read_stops_no_other(
    cluster: Cluster, look: LookAt
) -> None:
    for namespace in ("team-a", "team-b"):
        server(cluster, namespace=namespace)
    look(T0, "team-a", "team-b")
    cluster.refused["GET", "/apis/apps/v1/namespaces/team-a"] = 403
    assert look(T0 + HOLD + 1, "team-a", "team-b") == 2  # by either label
    assert [path.split("/")[5] for path in deleted(cluster)] == ["team-b"]
    cluster.refused.clear()
    assert look(T0 + HOLD + 2, "team-a", "team-b") == 0  # its clock was kept
    assert cluster.names("deployments") == []


def test_a_namespace_that_is_not_watched_any_more_is_looked_at_while_servers_are_held_there(
    cluster: Cluster, look: LookAt
) -> None:
    for namespace in ("team-a", "team-b"):
        server(cluster, run=namespace, namespace=namespace)
    look(T0, "team-a", "team-b")
    assert look(T0 + HOLD + 1, "team-a") == 0
    assert sorted(path.split("/")[5] for path in deleted(cluster)) == [
        "team-a",
        "team-b",
    ]
    cluster.objects = {
        path: body for path, body in cluster.objects.items() if path == STATE
    }
    look(T0 + HOLD + 2, "team-a")
    cluster.calls.clear()
    look(T0 + HOLD + 3, "team-a")
    assert not any("team-b" in path for _, path, _ in cluster.calls)


def test_where_its_servers_cannot_be_reached_the_look_fails_until_somebody_helps(
    cluster: Cluster, look: LookAt, capsys: pytest.CaptureFixture[str]
) -> None:
    server(cluster, namespace="team-b")
    look(T0, "team-a", "team-b")
    cluster.refused |= {
        ("GET", f"/{api}/namespaces/team-b"): 403
        for api in ("api/v1", "apis/apps/v1", "apis/leaderworkerset.x-k8s.io/v1")
    }
    assert [look(T0 + HOLD + n, "team-a") for n in range(3)] == [3, 3, 3]
    assert [
        line
        for line in capsys.readouterr().out.splitlines()
        if "watchNamespaces" in line
    ]
    cluster.refused.clear()
    assert look(T0 + HOLD + 4, "team-a", "team-b") == 0  # its clock was kept
    assert cluster.names("deployments") == []


def test_pods_that_cannot_be_read_stop_no_clock(
    cluster: Cluster, look: LookAt
) -> None:
    server(cluster)
    look(T0)
    cluster.refused["GET", "/api/v1/pods"] = 500
    assert [look(T0 + HOLD + 1), cluster.names("deployments")] == [1, []]


@pytest.mark.parametrize("status", [403, 404])
def test_groups_of_pods_may_be_a_kind_that_is_not_there(
    cluster: Cluster, look: LookAt, status: int
) -> None:
    cluster.refused["GET", "/apis/leaderworkerset"] = status
    server(cluster)
    assert [look(T0), look(T0 + HOLD + 1), cluster.names("deployments")] == [
        0,
        0,
        [],
    ]


def test_one_that_cannot_be_deleted_stops_no_other(
    cluster: Cluster, look: LookAt, capsys: Any
) -> None:
    for run in ("a", "b"):
        server(cluster, run=run)
    look(T0)
    cluster.refused[
        "DELETE",
        f"/apis/apps/v1/namespaces/team-a/deployments/{cluster.names('deployments')[0]}",
    ] = 503
    capsys.readouterr()
    assert look(T0 + HOLD + 1) == 1
    assert len(cluster.names("deployments")) == 1
    assert "\x1b" not in capsys.readouterr().out
    cluster.refused.clear()
    assert [look(T0 + HOLD + 2), cluster.names("deployments")] == [0, []]


def test_an_event_that_is_rejected_is_a_failure_and_no_more(
    cluster: Cluster, look: LookAt
) -> None:
    server(cluster)
    look(T0)
    cluster.refused["POST", "/api/v1/namespaces/team-a/events"] = 403
    assert [look(T0 + HOLD + 1), cluster.names("deployments")] == [1, []]


@pytest.mark.parametrize(
    "data",
    [None, {}, [1], "text", {"team-a.chat-uid": "x"}, {"team-a.chat-uid": 7}],
)
def test_lost_clocks_start_anew_and_never_early(
    cluster: Cluster, look: LookAt, data: object
) -> None:
    server(cluster)
    look(T0)
    cluster.objects[STATE]["data"] = data
    assert [
        look(T0 + HOLD + 1),
        look(T0 + 2 * HOLD + 1),
        len(cluster.names("deployments")),
    ] == [
        0,
        0,
        1,
    ]
    assert [look(T0 + 2 * HOLD + 2), cluster.names("deployments")] == [0, []]


def test_a_look_before_a_stored_start_fails_and_changes_nothing(
    cluster: Cluster, look: LookAt
) -> None:
    """The clock of an API server, or of a node, is 5 hours behind for one look."""
    names_of_all = [
        server(cluster, run=f"r{i}")["metadata"]["name"] for i in range(3)
    ]
    assert [look(T0), look(T0 + 120)] == [0, 0]
    stored = dict(cluster.objects[STATE]["data"])
    assert look(T0 + 240 - 5 * HOUR) == 1
    assert (deleted(cluster), cluster.objects[STATE]["data"]) == ([], stored)
    assert look(T0 + 360) == 0
    assert (cluster.names("deployments"), cluster.objects[STATE]["data"]) == (
        names_of_all,
        stored,
    )


def test_the_time_is_the_api_servers(cluster: Cluster, look: LookAt) -> None:
    server(cluster, since=T0)
    assert [look(None), deleted(cluster), STATE in cluster.objects] == [
        1,
        [],
        False,
    ]
    assert [look(T0 + HOLD + 1), cluster.names("deployments")] == [0, []]


def test_clocks_that_cannot_be_read_are_not_overwritten(
    cluster: Cluster, look: LookAt
) -> None:
    server(cluster)
    look(T0)
    cluster.refused["GET", STATE] = 500
    assert look(T0 + HOLD + 1) == 1
    cluster.refused.clear()
    assert [look(T0 + HOLD + 2), cluster.names("deployments")] == [0, []]


def test_clocks_of_what_is_gone_are_dropped_and_what_did_not_change_is_not_written(
    cluster: Cluster, look: LookAt
) -> None:
    server(cluster)
    for now in (T0, T0 + 60, T0 + 120):
        look(now)
    assert cluster.objects[STATE]["data"] == {"team-a.chat-uid": str(T0)}
    assert [verb for verb, path, _ in cluster.calls if verb in ("POST", "PUT")] == [
        "POST"
    ]
    cluster.objects = {STATE: cluster.objects[STATE]}
    look(T0 + 180)
    assert cluster.objects[STATE]["data"] == {}


def test_too_many_clocks_are_bounded_by_dropping_the_newest(
    cluster: Cluster, look: LookAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchrun.release.main.MAX_CLOCKS", 1)
    server(cluster, run="b")
    look(T0)
    server(cluster, run="a")
    look(T0 + 1)
    assert cluster.objects[STATE]["data"] == {"team-a.b-uid": str(T0)}


def test_lists_are_read_page_by_page_and_only_for_so_long(
    cluster: Cluster, look: LookAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchrun.release.api_server.PAGE", 10)
    for number in range(25):
        server(cluster, run=f"r{number}")
    look(T0)
    assert (cluster.pages, look(T0 + HOLD + 1), cluster.names("deployments")) == (
        3 + 2 * 3 + 2,
        0,
        [],
    )
    for number in range(25):
        server(cluster, run=f"r{number}")
    monkeypatch.setattr("benchrun.release.api_server.LISTS_SECONDS", -1.0)
    assert look(T0 + DAY) == 5


def test_what_is_too_large_together_is_read_one_by_one(
    cluster: Cluster, look: LookAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        server(cluster, run=f"r{number}")
    monkeypatch.setattr("benchrun.release.api_server.CHUNK_BYTES", 2048)
    monkeypatch.setattr("benchrun.release.api_server.MAX_CHUNKS", 1)
    look(T0)
    assert [look(T0 + HOLD + 1), cluster.names("deployments")] == [0, []]


def test_clocks_are_saved_before_anything_is_deleted(
    cluster: Cluster, look: LookAt
) -> None:
    server(cluster, since=T0)
    look(T0 + HOLD + 1)
    verbs = [
        verb
        for verb, path, _ in cluster.calls
        if verb == "DELETE" or "configmaps" in path
    ]
    assert verbs == ["GET", "POST", "DELETE"]


def test_a_server_is_gone_one_look_after_its_limit(
    cluster: Cluster, look: LookAt
) -> None:
    """By its pod's own start: looks come every 120 s, and the first of them just missed it."""
    server(cluster, since=T0, hold="180")
    looks = range(T0 + 119, T0 + 600, 120)
    gone = [
        now - T0
        for now in looks
        if look(now) == 0 and not cluster.names("deployments")
    ]
    assert gone[0] == 239


def test_the_clock_is_that_of_the_first_pod_with_a_node(
    cluster: Cluster, look: LookAt
) -> None:
    server(cluster, since=T0)
    labels = cluster.of("pods")[0]["metadata"]["labels"]
    other = {"name": "second", "namespace": "team-a", "labels": labels, "uid": "q"}
    status = {"startTime": time_of(T0 - 60)}
    cluster.add(
        "pods", {"metadata": other, "spec": {"nodeName": "n"}, "status": status}
    )
    look(T0)
    assert cluster.objects[STATE]["data"] == {"team-a.chat-uid": str(T0 - 60)}


@pytest.mark.parametrize(
    ("created", "bound", "started", "since"),
    [
        pytest.param(-500, None, -100, -100, id="its start"),
        pytest.param(
            -500, -101, -99, -101, id="its binding, by the API server's clock"
        ),
        pytest.param(
            -500, None, -5 * HOUR, -500, id="a node's clock that is behind"
        ),
        pytest.param(-500, None, 5 * HOUR, 0, id="a node's clock that is ahead"),
        pytest.param(-500, None, None, 0, id="not started yet"),
    ],
)
def test_a_nodes_clock_is_believed_between_the_pods_creation_and_now(
    cluster: Cluster,
    look: LookAt,
    created: int,
    bound: int | None,
    started: int | None,
    since: int,
) -> None:
    server(cluster)
    pod = cluster.of("pods")[0]
    pod["metadata"]["creationTimestamp"] = time_of(T0 + created)
    if bound is not None:
        condition = {"type": "PodScheduled", "status": "True"}
        pod["status"]["conditions"] = [
            condition | {"lastTransitionTime": time_of(T0 + bound)}
        ]
    if started is not None:
        pod["status"]["startTime"] = time_of(T0 + started)
    look(T0)
    assert cluster.objects[STATE]["data"] == {"team-a.chat-uid": str(T0 + since)}


@pytest.mark.parametrize(
    "status",
    [None, [], {"conditions": "x"}, {"conditions": [7, {}]}, {"startTime": "0001"}],
)
def test_a_start_that_is_none_is_now(
    cluster: Cluster, look: LookAt, status: object
) -> None:
    server(cluster)
    cluster.of("pods")[0]["status"] = status
    assert look(T0) == 0
    assert cluster.objects[STATE]["data"] == {"team-a.chat-uid": str(T0)}


def test_a_stored_start_is_not_lowered(cluster: Cluster, look: LookAt) -> None:
    server(cluster, since=T0)
    look(T0)
    cluster.of("pods")[0]["status"]["startTime"] = time_of(T0 - HOUR)
    assert [look(T0 + HOLD), len(cluster.names("deployments"))] == [0, 1]
    assert cluster.objects[STATE]["data"] == {"team-a.chat-uid": str(T0)}


def test_a_server_of_a_resumed_run_has_a_clock_of_its_own(
    cluster: Cluster, look: LookAt
) -> None:
    body = server(cluster, since=T0)
    look(T0)
    body["metadata"] |= {"uid": "resumed", "creationTimestamp": time_of(T0 + HOUR)}
    cluster.of("pods")[0]["spec"]["nodeName"] = ""
    assert look(T0 + HOUR) == 0
    again = server(cluster, since=T0 + HOUR + 900, metadata=body["metadata"])
    assert look(T0 + HOLD + HOUR) == 0
    assert cluster.names("deployments") == [again["metadata"]["name"]]
    assert cluster.objects[STATE]["data"] == {
        "team-a.chat-uid": str(T0 + HOUR + 900)
    }


def test_deployments_of_one_run_share_its_clock(
    cluster: Cluster, look: LookAt
) -> None:
    """A tenant makes more Deployments than there are clocks before another's server comes."""
    body = server(cluster, namespace="aaa", since=T0, hold="999999999")
    for number in range(200):
        name = f"filler-{number}"
        copy = {**body["metadata"], "name": name, "uid": name}
        cluster.add("deployments", {**body, "metadata": copy})
    look(T0)
    server(cluster, run="victim", hold=str(HOUR), since=T0 + 120)
    look(T0 + 240)
    assert len(cluster.objects[STATE]["data"]) == 2
    look(T0 + 120 + HOUR + 1)
    assert [path.split("/")[5] for path in deleted(cluster)] == ["team-a"]


def test_where_clocks_are_bounded_each_namespace_keeps_its_share(
    cluster: Cluster, look: LookAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchrun.release.main.MAX_CLOCKS", 4)
    for number in range(20):
        server(cluster, run=f"r{number:02d}", namespace="aaa", since=T0 + number)
    for run in ("v1", "v2"):
        server(cluster, run=run, namespace="zzz", since=T0 + HOUR)
    look(T0 + HOUR)
    assert set(cluster.objects[STATE]["data"]) == {
        *("aaa.r00-uid", "aaa.r01-uid"),
        *("zzz.v1-uid", "zzz.v2-uid"),
    }
    for pod in cluster.of(
        "pods"
    ):  # what has no clock any more counts from its pod's start
        pod["spec"]["nodeName"] = (
            "" if pod["metadata"]["namespace"] == "zzz" else "n"
        )
    look(T0 + HOUR + HOLD + 1)
    assert cluster.names("deployments") == []


def test_where_many_are_due_namespaces_take_turns(
    cluster: Cluster, look: LookAt
) -> None:
    for number in range(9):
        server(cluster, run=f"r{number}", namespace="aaa", since=T0)
    server(cluster, namespace="zzz", since=T0 + HOUR)
    look(T0 + DAY)
    assert [path.split("/")[5] for path in deleted(cluster)][:2] == ["aaa", "zzz"]


@pytest.fixture
def slow(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each object of the namespace `aaa` takes a second, those of others none."""
    seconds = [0.0]

    def take(page: list[Json]) -> None:
        seconds[0] += sum(body["metadata"]["namespace"] == "aaa" for body in page)

    cluster.takes = take
    monkeypatch.setattr("benchrun.release.api_server.monotonic", lambda: seconds[0])
    monkeypatch.setattr("benchrun.release.api_server.PAGE", 2)


@pytest.mark.usefixtures("slow")
def test_a_namespace_with_huge_objects_hides_no_other(
    cluster: Cluster, look: LookAt
) -> None:
    for number in range(100):
        server(cluster, run=f"r{number:02d}", namespace="aaa", since=T0)
    server(cluster, namespace="zzz", since=T0)
    assert look(T0 + HOLD + 1) == 3  # pods, and Deployments by either label
    assert "zzz" in [path.split("/")[5] for path in deleted(cluster)]
    assert {"aaa.r00-uid", "zzz.chat-uid"} <= cluster.objects[STATE]["data"].keys()


@pytest.mark.usefixtures("slow")
def test_a_slow_namespace_is_read_whole_where_there_is_time(
    cluster: Cluster, look: LookAt
) -> None:
    for number in range(4):
        server(cluster, run=f"r{number}", namespace="aaa", since=T0)
    assert [look(T0 + HOLD + 1), cluster.names("deployments")] == [0, []]


def test_none_is_expected_when_the_chart_is_uninstalled(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [main(["--expect-none=0"]), capsys.readouterr().out] == [0, ""]
    body = server(cluster, since=T0 - 10 * DAY)
    assert main(["--expect-none=0", "--namespace=team-b"]) == 0
    assert main(["--expect-none=0"]) == 1
    assert f"team-a/{body['metadata']['name']}" in capsys.readouterr().out
    assert {verb for verb, _, _ in cluster.calls} == {"GET"}
    body["metadata"] |= {
        "deletionTimestamp": AT,
        "finalizers": ["foregroundDeletion"],
    }
    assert main(["--expect-none=0"]) == 0
    cluster.refused["GET", "/apis/apps"] = 403
    assert main(["--expect-none=0"]) == 1


def test_servers_of_runs_that_were_just_deleted_are_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    server(cluster)
    monkeypatch.setattr("benchrun.release.main.LOOK_AGAIN_SECONDS", 0.0)
    looks = [0]

    def garbage_collector(page: list[Json]) -> None:
        looks[0] += 1
        if looks[0] == 5:
            cluster.objects.clear()

    cluster.takes = garbage_collector
    assert main(["--expect-none=60"]) == 0
    assert looks[0] >= 5


def test_an_answer_that_is_too_large_or_nonsense_is_a_failure_and_raises_nothing(
    cluster: Cluster, look: LookAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    server(cluster)
    look(T0)
    monkeypatch.setattr("benchrun.release.api_server.CHUNK_BYTES", 10)
    monkeypatch.setattr("benchrun.release.api_server.MAX_CHUNKS", 1)
    assert [look(T0 + HOLD + 1) > 0, deleted(cluster)] == [True, []]


IMPORTS = """
import sys
from benchrun.runtime.__main__ import main
sys.argv[1:] = ["release", "--help"]
try:
    main()
except SystemExit:
    print("imported", *sorted(sys.modules))
"""


def run(
    *arguments: str,
    program: tuple[str, ...] = ("-m", "benchrun.runtime", "release"),
) -> tuple[int, str]:
    """Exit code and what it said."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)
    }
    done = subprocess.run(
        [sys.executable, *program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_look_by_hand(cluster: Cluster) -> None:
    assert run(
        "--namespace=team-a", "--namespace=team-b", "--state=ops/clocks"
    ) == (0, "")
    assert [path for _, path, _ in cluster.calls][:3] == [
        "/api/v1/namespaces/ops/configmaps/clocks",
        "/api/v1/namespaces/team-a/pods",
        "/apis/apps/v1/namespaces/team-a/deployments",
    ]
    assert (
        "/apis/leaderworkerset.x-k8s.io/v1/namespaces/team-b/leaderworkersets"
        in [p for _, p, _ in cluster.calls]
    )


def test_the_environment_of_the_cron_job(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHRUN_NAMESPACES", "team-a,team-b")
    monkeypatch.setenv("BENCHRUN_RELEASE_STATE", "ops/clocks")
    assert main([]) == 0
    assert (
        len([path for _, path, _ in cluster.calls if path.endswith("/deployments")])
        == 4
    )


def test_without_namespaces_the_whole_cluster(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHRUN_NAMESPACES", "")
    assert main([]) == 0
    assert [path for _, path, _ in cluster.calls] == [
        STATE,
        "/api/v1/pods",
        *["/apis/apps/v1/deployments"] * 2,
        *["/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"] * 2,
    ]


def test_a_proxy_of_the_environment_is_not_used(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert main([]) == 0


def test_a_failed_run_exits_with_1(cluster: Cluster) -> None:
    cluster.refused["GET", "/apis/apps/v1/namespaces/team-a"] = 403
    assert main(["--namespace=team-a"]) == 1


@pytest.mark.parametrize("bound", ["0", "-5", "soon", ""])
def test_a_bound_that_would_release_everything_is_rejected(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in ([f"--max-hold-seconds={bound}"], []):
        monkeypatch.setenv("BENCHRUN_MAX_HOLD_SECONDS", bound)
        with pytest.raises(SystemExit) as refused:
            main(arguments)
        assert refused.value.code == 2


def test_without_a_way_to_the_api_server_it_says_so(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "kubeconfig").unlink()
    code, output = run()
    assert (code, "Traceback" in output) == (1, False)


def test_an_api_server_that_is_gone_is_a_failure(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(file.read_text().replace(cluster.url, "http://127.0.0.1:1"))
    code, output = run()
    assert (code, "Traceback" in output) == (1, False)


def test_nothing_of_the_operator_is_imported() -> None:
    code, output = run(program=("-c", IMPORTS))
    imported = set(output.partition("imported ")[2].split())
    assert code == 0
    assert "benchrun.release.main" in imported
    assert {module.split(".")[0] for module in imported}.isdisjoint(
        {"kopf", "aiohttp", "benchrun_client"}
    )
    ours = {module for module in imported if module.startswith("benchrun.")}
    assert {module.split(".")[1] for module in ours} == {
        "names",
        "release",
        "runtime",
    }
    assert {m for m in imported if m.startswith("benchrun.runtime.")} == {
        "benchrun.runtime.__main__"
    }


def test_it_deletes_every_kind_that_holds_a_gpu() -> None:
    declared = [child_kinds.KINDS[name] for name in child_kinds.SERVER_KINDS]
    assert {path for path, _ in KINDS} == {
        f"apis/{kind.group}/{kind.version} {kind.plural}" for kind in declared
    }
