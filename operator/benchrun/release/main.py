"""`benchrun-operator release`, run by `release-cronjob.yaml` of the chart: delete overdue servers.

A server is overdue if it is held longer than allowed. The time of a run counts from when the first
pod of its servers was scheduled. A ConfigMap keeps these start times, because pods come and go. All
times come from the API server, so clocks of nodes are not compared.
"""

import argparse
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import product
from typing import NamedTuple, TypeVar

from benchrun import names
from benchrun.release.api_server import (
    METADATA,
    Api,
    Codes,
    Json,
    listing,
    mapping,
    path_of,
)

DEPLOYMENTS = "apis/apps/v1 deployments"
GROUPS = "apis/leaderworkerset.x-k8s.io/v1 leaderworkersets"
CONFIG_MAPS = "api/v1 configmaps"
EVENTS = "api/v1 events"
PODS = "api/v1 pods"
# No groups were created where that kind is missing, or where the operator has no right to it.
KINDS: tuple[tuple[str, Codes], ...] = (DEPLOYMENTS, ()), (GROUPS, (403, 404))
# A server that lost one of these labels is found by the other.
LABELS = (names.LABEL_RUN, names.LABEL_RUN_UID)
LISTS = 1 + len(KINDS) * len(LABELS)  # lists read per namespace: pods, and servers
SERVERS = (
    f"{names.LABEL_RUN_UID},{names.LABEL_ROLE} in "
    f"({names.ROLE_SERVER},{names.ROLE_PREFILL},{names.ROLE_DECODE})"
)
ON_A_NODE = {"labelSelector": SERVERS, "fieldSelector": "spec.nodeName!="}
OURS = {"apiVersion": names.API_VERSION, "kind": names.KIND}
MAX_CLOCKS = 7_000  # most clocks that a ConfigMap holds with the longest names
SAME_START_SECONDS = 60  # seconds within which the servers of one run are made
LOOK_AGAIN_SECONDS = 2.0
Item = TypeVar("Item")


def main(arguments: Sequence[str]) -> int:
    """Run the release and return its exit status.

    The status is 1 if something could not be read, deleted or written; all else is done even then.
    """
    env = os.environ.get
    parser = argparse.ArgumentParser(
        prog="benchrun-operator release", description=__doc__
    )
    parser.add_argument(
        "--namespace",
        action="append",
        help="namespace to check; may be repeated (BENCHRUN_NAMESPACES). Namespaces in which "
        "servers were held at the last check are checked, too",
    )
    parser.add_argument(
        "--max-hold-seconds",
        type=number,
        metavar="N",
        default=env("BENCHRUN_MAX_HOLD_SECONDS", "86400"),
    )
    parser.add_argument(
        "--state",
        metavar="NAMESPACE/CONFIGMAP",
        default=env("BENCHRUN_RELEASE_STATE") or "benchrun-system/benchrun-release",
    )
    parser.add_argument(
        "--expect-none",
        type=int,
        metavar="SECONDS",
        help="delete nothing; exit with 1 if servers are still there after this time, and name "
        "them",
    )
    options = parser.parse_args(arguments)
    if not options.max_hold_seconds:
        parser.error(
            "--max-hold-seconds, BENCHRUN_MAX_HOLD_SECONDS: must be a whole number above 0"
        )
    watched = [name for name in env("BENCHRUN_NAMESPACES", "").split(",") if name]
    namespaces = options.namespace or watched or [""]
    if options.expect_none is not None:
        return expect_none(namespaces, seconds=options.expect_none)
    api = Api(lists=len(namespaces) * LISTS)
    look = Look(api, options.state, max_hold_seconds=options.max_hold_seconds)
    return 1 if look.at(namespaces) else 0


def number(text: object) -> int:
    """Return the whole number above 0 that a text has; 0 for any other text."""
    return (
        int(text)
        if isinstance(text, str)
        and len(text) <= 12
        and text.isascii()
        and text.isdigit()
        else 0
    )


def instant(text: object) -> int:
    """Return a timestamp of the API server as Unix seconds; 0 for any other text."""
    try:
        return max(
            int(datetime.fromisoformat(str(text)).replace(tzinfo=UTC).timestamp()),
            0,
        )
    except (ValueError, OverflowError):
        return 0


class FoundServer(NamedTuple):
    """A server that was found. `run` is empty if it is being deleted or is not this operator's."""

    kind: str
    namespace: str
    name: str
    uid: str
    created: int
    clock: str
    run: Json
    hold_seconds: int

    @property
    def path(self) -> str:
        return path_of(self.kind, self.namespace, self.name)


def seen(kind: str, metadata: Json) -> FoundServer:
    """Read a server from its metadata, without an exception whatever the values are."""
    namespace, name, uid = (
        str(metadata.get(key)) for key in ("namespace", "name", "uid")
    )
    labels = mapping(metadata.get("labels"))
    annotations = mapping(metadata.get("annotations"))
    hold = number(annotations.get(names.ANNOTATION_HOLD))
    label = labels.get(names.LABEL_RUN_UID)
    owners = map(mapping, listing(metadata.get("ownerReferences")))
    # Without a controller, its run was deleted with --cascade=orphan.
    orphaned = (
        {**OURS, "name": labels.get(names.LABEL_RUN), "uid": label}
        if hold and label
        else {}
    )
    run = next(
        (owner for owner in owners if owner.get("controller") is True), orphaned
    )
    # A background deletion waits for finalizers, and so does that of its pods; in a foreground
    # deletion pods go first.
    is_deleted = metadata.get(
        "deletionTimestamp"
    ) and "'foregroundDeletion'" in str(metadata.get("finalizers"))
    is_ours = not is_deleted and OURS.items() <= run.items()
    about = {
        key: str(run.get(key))[:253]
        for key in ("apiVersion", "kind", "name", "uid")
    }
    created = instant(metadata.get("creationTimestamp"))
    clock = clock_of(namespace, about["uid"] if is_ours else label)
    return FoundServer(
        kind, namespace, name, uid, created, clock, about if is_ours else {}, hold
    )


def clock_of(namespace: str, run_uid: object) -> str:
    """Return the key under which a run's start time is stored: namespace, dot, uid.

    Names of namespaces have no dots, so keys of different namespaces are always different.
    """
    return f"{namespace}.{run_uid}"


def got_its_node(pod: Json, now: int) -> int:
    """Return when this pod was scheduled to a node, in Unix seconds.

    The API server records the time when a scheduler binds the pod. Without that record the node's
    own start time counts, but never as earlier than the pod's creation or later than `now`.
    """
    status = mapping(pod.get("status"))
    bound = (
        instant(condition.get("lastTransitionTime"))
        for condition in map(mapping, listing(status.get("conditions")))
        if (condition.get("type"), condition.get("status"))
        == ("PodScheduled", "True")
    )
    claimed = next(bound, 0) or instant(status.get("startTime")) or now
    return min(
        max(
            claimed, instant(mapping(pod.get("metadata")).get("creationTimestamp"))
        ),
        now,
    )


def servers(api: Api, namespace: str) -> Iterator[FoundServer]:
    """Yield everything that may be a server of this operator; only metadata is read.

    A server may be yielded twice.
    """
    for (kind, expected), label in product(KINDS, LABELS):
        query = {"labelSelector": label}
        for item in api.objects(
            kind, namespace, expected, accept=METADATA, query=query
        ):
            yield seen(kind, mapping(item.get("metadata")))


def expect_none(namespaces: Sequence[str], *, seconds: int) -> int:
    """Wait until no server is left; return 1 if some are left after `seconds`, else 0.

    Return 1 also if the servers can't be listed. The servers of runs that were just deleted vanish
    within a few seconds.
    """
    until = time.monotonic() + seconds
    while True:
        api = Api(lists=len(namespaces) * LISTS)
        found = (
            server for namespace in namespaces for server in servers(api, namespace)
        )
        there = {
            f"{server.namespace}/{server.name}" for server in found if server.run
        }
        if not there and not api.failures:
            return 0
        if time.monotonic() >= until:
            break
        time.sleep(LOOK_AGAIN_SECONDS)
    for name in sorted(there):
        print(f"server {name} still exists: delete its run, or set spec.cancel")
    return 1


def in_turns(items: Iterable[tuple[str, int, Item]]) -> list[Item]:
    """Return the items in rounds: first the best item of every namespace, then the second.

    So no namespace can push out or delay the items of another.
    """
    turns = dict[str, int]()
    ordered = list[tuple[int, int, Item]]()
    for namespace, rank, item in sorted(items, key=lambda each: each[1]):
        turns[namespace] = turns.get(namespace, 0) + 1
        ordered.append((turns[namespace], rank, item))
    return [item for *_, item in sorted(ordered, key=lambda each: each[:2])]


class Look:
    """One check of the servers of some namespaces. It continues after every failure."""

    def __init__(self, api: Api, state: str, *, max_hold_seconds: int) -> None:
        self._api = api
        self._bound = max_hold_seconds
        self._own_namespace, _, self._own_name = state.partition("/")

    def at(self, namespaces: Sequence[str]) -> int:
        """Read the servers, store their start times, and release overdue ones.

        Return the number of failures. The namespace "" means all of them.
        """
        api = self._api
        state = path_of(CONFIG_MAPS, self._own_namespace, self._own_name)
        self._stored = api.request("GET", state, expected=(404,))
        self._writable = not api.failures
        kept = mapping(self._stored.get("data")).items()
        self._known = {key: number(text) for key, text in kept if number(text)}
        self._now = api.now
        latest = max(self._known.values(), default=0)
        if not self._now or self._now < latest:
            # One of two contradicting times is wrong, and it is not known which.
            api.fail(
                f"nothing is done: the API server's time is {self._now}, but a start time in "
                f"ConfigMap {self._own_namespace}/{self._own_name} is {latest}, which is later "
                "(Unix seconds); delete the ConfigMap if that time is wrong"
            )
            return api.failures
        clocks = dict[str, int]()
        held = dict[str, tuple[FoundServer, int]]()
        former = self._former(namespaces)
        for namespace in (*namespaces, *former):
            failures = api.failures
            for server, since in self._held(namespace):
                clocks[server.clock] = min(clocks.get(server.clock, since), since)
                held[server.path] = server, since
            if api.failures > failures:  # what was not listed may still be there
                own = namespace and f"{namespace}."
                clocks = {
                    k: v for k, v in self._known.items() if k.startswith(own)
                } | clocks
                if namespace in former:
                    self._tell_of(namespace)
        self._save(clocks)  # before anything is deleted, which may take long
        for server, since in in_turns(
            (server.namespace, since, (server, since))
            for server, since in held.values()
        ):
            self._release_if_due(server, self._now - since)
        return api.failures

    def _former(self, namespaces: Sequence[str]) -> Sequence[str]:
        """Return the namespaces that had servers at the last check and are no longer watched.

        No operator sees the servers that still run there.
        """
        if "" in namespaces:
            return ()
        held = {clock.partition(".")[0] for clock in self._known}
        return sorted(held.difference(namespaces))

    def _tell_of(self, namespace: str) -> None:
        print(
            f"{namespace}: servers of runs were still held there when the namespace was "
            "taken out of watchNamespaces; watch it again, end its runs, then take it "
            "out. If nothing runs "
            f"there, delete ConfigMap {self._own_namespace}/{self._own_name}"
        )

    def _held(self, namespace: str) -> Iterator[tuple[FoundServer, int]]:
        """Yield this operator's servers that hold a node, each with its start in Unix seconds."""
        started = dict[str, int]()
        for pod in self._api.objects(
            PODS, namespace, accept="application/json", query=ON_A_NODE
        ):
            about = mapping(pod.get("metadata"))
            label = mapping(about.get("labels")).get(names.LABEL_RUN_UID)
            clock = clock_of(str(about.get("namespace")), label)
            at = got_its_node(pod, self._now)
            started[clock] = min(started.get(clock, at), at)
        for server in servers(self._api, namespace):
            since = self._since(server, started.get(server.clock))
            if server.run and since is not None:
                yield server, since

    def _since(self, server: FoundServer, started: int | None) -> int | None:
        """Return since when a server holds a node, in Unix seconds; None if that is unknown.

        The stored start counts, unless the server was created after it: a run that was suspended
        creates a new server. Otherwise `started` counts, when the first pod got its node.
        """
        stored = self._known.get(server.clock)
        if stored is not None and stored >= server.created - SAME_START_SECONDS:
            return stored
        return None if started is None else max(started, server.created)

    def _save(self, clocks: dict[str, int]) -> None:
        ranked = (
            (key.partition(".")[0], since, key) for key, since in clocks.items()
        )
        data = {key: str(clocks[key]) for key in in_turns(ranked)[:MAX_CLOCKS]}
        if not self._writable or data == mapping(self._stored.get("data")):
            return
        path = path_of(
            CONFIG_MAPS, self._own_namespace, self._own_name if self._stored else ""
        )
        metadata = {"name": self._own_name} | mapping(self._stored.get("metadata"))
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": data,
        }
        written = self._api.request("PUT" if self._stored else "POST", path, body)
        self._stored = written or self._stored

    def _release_if_due(self, server: FoundServer, seconds: int) -> None:
        allowed = min(server.hold_seconds or self._bound, self._bound)
        if seconds <= allowed:
            return
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": server.uid},
        }
        # 404, 409: it is gone, maybe replaced by a namesake
        if not self._api.request("DELETE", server.path, body, (404, 409)):
            return
        message = (
            f"{server.name} deleted: on a node for {seconds} s, at most {allowed} s are allowed; "
            "is the operator running?"
        )
        print(f"{server.namespace}: {message}")
        self._api.request(
            "POST", path_of(EVENTS, server.namespace), self._event(server, message)
        )

    def _event(self, server: FoundServer, message: str) -> Json:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._now))
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{server.name}.{self._now:x}"},
            "involvedObject": {**server.run, "namespace": server.namespace},
            "type": "Warning",
            "reason": "ServerReleased",
            "message": message,
            "source": {"component": "benchrun-release"},
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
