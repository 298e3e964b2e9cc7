"""Check that a run whose operator was killed lost nothing and did nothing twice."""

import json

from kit.kubectl import Namespace, Object
from kit.runs import children_selector, condition, finished

REPEATS = 2


def stored_stages(namespace: Namespace, run: Object) -> list[Object]:
    """Return the ConfigMaps of the run's records."""
    return namespace.list(
        "configmaps", selector=f"{children_selector(run)},benchrun.dev/role=stage"
    )


def assert_nothing_was_lost_or_done_twice(
    namespace: Namespace, name: str, *, timeout_seconds: float = 350
) -> Object:
    """Check that every stage was measured once, and every record stored unchanged.

    Returns the run's status. There must have been one client and one server. The run must be the
    only one in its namespace, with two load points and two repeats.
    """
    run = finished(namespace, name, timeout_seconds=timeout_seconds)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    assert [row["repeats"] for row in run["status"]["results"]] == [
        REPEATS,
        REPEATS,
    ]
    stages = stored_stages(namespace, run)
    assert sorted(
        int(c["metadata"]["labels"]["benchrun.dev/sequence"]) for c in stages
    ) == [
        0,
        1,
        2,
        3,
    ]
    stored = {
        json.loads(c["metadata"]["annotations"]["benchrun.dev/envelope"])["digest"]
        for c in stages
    }
    assert stored == _digests_in_client_log(namespace, run), (
        "a record is not the one that was measured"
    )
    assert {kind: len(uids) for kind, uids in _started(namespace).items()} == {
        "Job": 1,
        "Deployment": 1,
    }
    status: Object = run["status"]
    return status


def _digests_in_client_log(namespace: Namespace, run: Object) -> set[str]:
    """Return the digests of all records, as the client logged them when it measured each stage."""
    log = namespace.kubectl(
        "logs",
        "--tail=-1",
        "-l",
        f"{children_selector(run)},benchrun.dev/role=client",
    )
    lines = [
        json.loads(line)
        for line in log.splitlines()
        if line.startswith('{"schema":"benchrun.headline')
    ]
    return {line["digest"] for line in lines}


def _started(namespace: Namespace) -> dict[str, set[str]]:
    """Return the uids of every Job and Deployment that ever started a pod here, by kind.

    They come from their controllers' events.
    """
    uids: dict[str, set[str]] = {"Job": set(), "Deployment": set()}
    for event in namespace.list("events"):
        about = event["involvedObject"]
        if (
            event["reason"] in ("SuccessfulCreate", "ScalingReplicaSet")
            and about["kind"] in uids
        ):
            uids[about["kind"]].add(about["uid"])
    return uids
