"""A cluster in memory with what reconciling relies on: uids, versions, conflicts, controllers.

Reality is tested in tests/cluster.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from typing import Any

from benchrun.decide import (
    Compilations,
    Event,
    ExporterPod,
    Exporters,
    LogTail,
    Ref,
    ServerStart,
)
from benchrun.effects import (
    LIST_PAGE,
    ClusterError,
    Conflict,
    InShort,
    KubernetesApi,
    NotFound,
    Occupied,
)
from benchrun.names import KIND
from benchrun.observe import Declared, untrusted_json as raw
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.queued_workloads import QueuedWorkloads
from benchrun.runtime.watching import Lister
from unit.runtime.bodies import NAMESPACE
from unit.runtime.tables import table_of

Json = dict[str, Any]


Watch = tuple[
    str, str | None, asyncio.Queue[tuple[str, Json] | ClusterError | None]
]
"""Kind, namespace and what is told: changes, then an error or None, which end it."""


class MemoryCluster(KubernetesApi):
    """A cluster in memory.

    `log` holds all requests in order. A verb in `broken` fails; a log query whose verb is in
    `hanging` hangs.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.log: list[tuple[str, ...]] = []
        self.broken: dict[str, ClusterError] = {}
        self.broken_objects: dict[
            str, ClusterError
        ] = {}  # by name: can't be read, created or deleted
        self.broken_kinds: dict[str, ClusterError] = {}  # can't be listed
        self.events: list[Event] = []
        self.log_text = "the last words"
        self.log_is_whole = True
        self.hanging: set[str] = set()
        self.image_pulls: tuple[Json, ...] = ()
        self.exporters: dict[str, ExporterPod] = {}
        self.addresses: tuple[str, ...] = ()
        self.ahead: dict[str, int] = {}  # in every queue, by Workload
        self.watches: list[Watch] = []  # that are open
        self.whole_pages = 0  # pages of a list in short that were read whole
        self._version = 1000

    def add(self, kind: str, body: Json) -> Json:
        """Put an object there, as another client would."""
        meta = body["metadata"]
        self.objects[kind, meta["namespace"], meta["name"]] = body
        self._tell(kind, "MODIFIED", body)
        return body

    def remove(self, kind: str, name: str, namespace: str = NAMESPACE) -> None:
        """Let an object go, as another client would."""
        self._tell(kind, "DELETED", self.objects.pop((kind, namespace, name)))

    def _tell(self, kind: str, change: str, body: Json) -> None:
        for of, namespace, changes in self.watches:
            if of == kind and namespace in (None, body["metadata"]["namespace"]):
                changes.put_nowait((change, body))

    def writes(self) -> list[tuple[str, ...]]:
        """Return the requests that changed something, in order."""
        return [
            entry
            for entry in self.log
            if entry[0] in ("apply", "delete", "status", "event")
        ]

    async def apply(self, manifest: Json) -> Json:
        kind = manifest["kind"]
        meta = manifest["metadata"]
        self._ask("apply", kind, meta["name"])
        key = (kind, meta["namespace"], meta["name"])
        there = self.objects.get(key)
        if there is not None:
            if raw.controller(there["metadata"]).get("uid") != raw.controller(
                manifest["metadata"]
            ).get("uid"):
                raise Occupied(
                    f"{kind} {meta['name']} exists and has another owner",
                    found=there,
                )
            return there
        body = copy.deepcopy(manifest)
        body["metadata"] |= {
            "uid": f"uid-of-{meta['name']}",
            "resourceVersion": self._next_version(),
        }
        if kind == KIND:
            body["metadata"]["generation"] = 1
            return self.add(KIND, body)
        self.objects[key] = body
        return body

    async def cancel_run(self, ref: Ref) -> Json | None:
        self._ask("cancel", ref.kind, ref.name)
        there = self.objects.get((ref.kind, ref.namespace, ref.name))
        if there is None or there["metadata"]["uid"] != ref.uid:
            return None
        return self.change(KIND, there, {"spec": {"cancel": True}})

    def change(self, kind: str, body: Json, changes: Json) -> Json:
        """Merge-patch an object, as another client would."""
        merged = _merged(copy.deepcopy(body), changes)
        merged["metadata"]["resourceVersion"] = self._next_version()
        return self.add(kind, merged)

    async def delete(self, ref: Ref) -> None:
        self._ask("delete", ref.kind, ref.name)
        there = self.objects.get((ref.kind, ref.namespace, ref.name))
        if there is not None and ref.uid == there["metadata"]["uid"]:
            del self.objects[ref.kind, ref.namespace, ref.name]

    async def patch_status(
        self, declared: Declared, *, resource_version: str, changes: Json
    ) -> Json:
        self._ask("status", declared.kind, declared.name)
        body = await self.get(
            declared.kind, namespace=declared.namespace, name=declared.name
        )
        if (body["metadata"]["uid"], body["metadata"]["resourceVersion"]) != (
            declared.uid,
            resource_version,
        ):
            raise Conflict("the object has been modified", code=409)
        return self.change(declared.kind, body, {"status": changes})

    async def resource_flavor(self, name: str) -> Json:
        return await self.get("ResourceFlavor", namespace="", name=name)

    async def ahead_in_queue(self, namespace: str, queue: str) -> dict[str, int]:
        self._ask("place", namespace, queue)
        return self.ahead

    async def version(self, kind: str, *, namespace: str | None) -> str:
        self._ask("version", kind, namespace or "*")
        return str(self._version)

    async def watch(
        self, kind: str, *, namespace: str | None, selector: str, since: str
    ) -> AsyncIterator[tuple[str, Json]]:
        self._ask("watch", kind, namespace or "*", since)
        watch: Watch = (kind, namespace, asyncio.Queue())
        self.watches.append(watch)
        try:
            while isinstance(change := await watch[-1].get(), tuple):
                yield change
            if change is not None:
                raise change
        finally:
            self.watches.remove(watch)

    async def get(self, kind: str, *, namespace: str, name: str) -> Json:
        self._ask("get", kind, name)
        try:
            return self.objects[kind, namespace, name]
        except KeyError:
            raise NotFound(f"{kind} {name} not found", code=404) from None

    async def list(
        self,
        kind: str,
        *,
        namespace: str | None,
        selector: str | None = None,
        fields: str | None = None,
        metadata_only: bool = False,
        reached: Callable[[str], None] = lambda _: None,
    ) -> AsyncIterator[Json]:
        self._ask(
            "list",
            kind,
            namespace or "*",
            selector or "*",
            "metadata" if metadata_only else "whole",
        )
        for (k, ns, _), body in list(self.objects.items()):
            labelled = selector is None or _selects(
                selector, body["metadata"].get("labels") or {}
            )
            if k == kind and namespace in (None, ns) and labelled:
                yield {"metadata": body["metadata"]} if metadata_only else body
        reached(str(self._version))

    async def list_in_short(
        self,
        kind: str,
        *,
        namespace: str | None,
        in_short: InShort,
        reached: Callable[[str], None] = lambda _: None,
    ) -> AsyncIterator[tuple[Json, bool]]:
        self._ask("list", kind, namespace or "*", "*", "table")
        there = [
            body
            for (k, ns, _), body in sorted(self.objects.items())
            if k == kind and namespace in (None, ns)
        ]
        for first in range(0, len(there), LIST_PAGE):
            page = there[first : first + LIST_PAGE]
            if (found := in_short(table_of(page))) is None:
                self.whole_pages += 1
            for body in page if found is None else found:
                yield body, found is not None
        reached(str(self._version))

    async def log_tail(self, namespace: str, wanted: LogTail) -> str:
        await self._read("log", wanted.pod, wanted.container)
        return self.log_text

    async def log_since(
        self, namespace: str, wanted: Compilations
    ) -> tuple[str, bool]:
        await self._read("log since", wanted.pod, wanted.since)
        return self.log_text, self.log_is_whole

    async def log_head(self, namespace: str, wanted: ServerStart) -> str:
        await self._read("log head", wanted.pod, wanted.container)
        return self.log_text

    async def image_events(
        self, namespace: str, wanted: ServerStart
    ) -> tuple[Json, ...]:
        self._ask("image events", wanted.uid)
        return self.image_pulls

    async def exporter_on(
        self, exporters: Exporters, node: str
    ) -> ExporterPod | None:
        self._ask("exporter", exporters.namespace, node)
        return self.exporters.get(node)

    async def endpoint_addresses(
        self, namespace: str, service: str, port: int
    ) -> tuple[str, ...]:
        self._ask("endpoints", service, str(port))
        return self.addresses

    async def pod_addresses(
        self, namespace: str, selector: str, port: int
    ) -> tuple[str, ...]:
        self._ask("pod addresses", selector, str(port))
        return self.addresses

    async def create_event(
        self, about: Declared, event: Event, *, now: datetime
    ) -> None:
        self._ask("event", event.reason, about.name)
        self.events.append(event)

    def _ask(self, verb: str, *about: str) -> None:
        self.log.append((verb, *about))
        if verb in self.broken:
            raise self.broken[verb]
        if verb == "list" and about[0] in self.broken_kinds:
            raise self.broken_kinds[about[0]]
        if verb in ("apply", "delete", "get") and about[-1] in self.broken_objects:
            raise self.broken_objects[about[-1]]

    async def _read(self, verb: str, *about: str) -> None:
        self._ask(verb, *about)
        if verb in self.hanging:
            await asyncio.Event().wait()

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)


def _merged(target: Json, changes: Json) -> Json:
    """Apply a JSON merge patch (RFC 7386), and return the result."""
    merged = dict(target)
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            before = merged.get(name)
            merged[name] = _merged(
                before if isinstance(before, dict) else {}, value
            )
        else:
            merged[name] = value
    return merged


def status_of(cluster: MemoryCluster, name: str = "chat") -> Json:
    """Return the status that a user reads."""
    status: Json = cluster.objects[KIND, NAMESPACE, name].get("status") or {}
    return status


def merge(target: Json, changes: Json) -> Json:
    """Return what the API server makes of a status and a merge patch."""
    return _merged(target, changes)


def _selects(selector: str, labels: Json) -> bool:
    """Return whether the labels fit a selector: `key` or `key=value`, separated by commas."""
    parts = [part.partition("=") for part in selector.split(",")]
    return all(
        key in labels and value in ("", labels[key]) for key, _, value in parts
    )


async def list_everything(
    cluster: MemoryCluster, indexes: Indexes, namespaces: Iterable[str]
) -> None:
    """Bring the indexes up to date with the cluster, as far as it can be read."""
    await Lister(cluster, indexes, namespaces).list_all()


def no_workloads() -> QueuedWorkloads:
    """Return what follows Workloads where there are none."""
    return QueuedWorkloads(
        cluster=MemoryCluster(), indexes=Indexes(), enqueue=lambda _: None
    )
