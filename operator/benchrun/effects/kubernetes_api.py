"""What the operator asks of the API server, in its own words.

`apply` never takes over an object that somebody else made: an object we have not seen is created with POST, which fails
when the name is taken; only an object known to be ours (by controller uid) is updated, by server-side apply with its uid as
a precondition.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import NamedTuple, Protocol

from benchrun.api import names
from benchrun.api.base import API_VERSION
from benchrun.api.conditions import timestamp
from benchrun.decide.decision import Event, ExporterPod, GpuExporters, LogRange, LogWanted, Ref, StartupWanted
from benchrun.effects.connection import METADATA_LIST_ONLY, METADATA_ONLY, Connection, Json, Query
from benchrun.effects.errors import ClusterError, Conflict, Exists, NotFound, NotServed, Occupied
from benchrun.effects.resources import EXTENSION_KINDS, LEADER_WORKER_SET, RESOURCES, RUN, Resource
from benchrun.observe.views import Declared

LIST_PAGE = 50
"""A page of runs with the largest status is 5 MB."""
LOG_LINES = 300
LOG_READ_BYTES = 512 * 1024
"""What is read of these lines. The API server cuts at the end, where the news is, so the limit is far above them."""
LOG_RANGE_BYTES = 4 * 1024 * 1024
"""What is read of a whole measurement's log."""
LOG_HEAD_BYTES = 512 * 1024
"""What is read of a log's beginning. vLLM is up within 100 kB, a page of stack traces included."""
LOG_BYTES = 32 * 1024
"""What is kept: the end. The cause of a failed engine start stands some 8 kB above it."""
MAX_ENDPOINTS = 64
COMPONENT = "benchrun-operator"

Written = Json
"""An object as stored, with its metadata at least."""


class LogPart(NamedTuple):
    """What was read of a log."""

    text: str
    complete: bool
    """False: there is more than was read, and it is the newer part."""


class WriteCounter(Protocol):
    """Told of every call that changes something."""

    def __call__(self, *, verb: str, resource: str, code: str) -> None:
        """`code` is the HTTP status, "2xx" for success, or "none" when no answer came."""
        ...


class Cluster(Protocol):
    """The API server as a pass needs it. Every method raises ClusterError."""

    async def apply(self, manifest: Json, *, known_uid: str | None) -> Written:
        """Create the object, or update the one we know; Occupied when the name belongs to somebody else, NotServed when the
        cluster lacks its kind.

        An immutable object of ours that turns out to exist is returned as it is.
        """
        ...

    async def create_run(self, manifest: Json) -> Json:
        """Create a run of a sweep, once: one that exists and is the sweep's is returned as it is, whole. Occupied otherwise."""
        ...

    async def cancel_run(self, ref: Ref) -> Json | None:
        """Tell a run to end; None where it is gone, or replaced by a namesake."""
        ...

    async def delete(self, ref: Ref) -> None:
        """Delete without waiting for it; an object that is gone, or replaced by a namesake, is a success."""
        ...

    async def patch_status(self, declared: Declared, *, resource_version: str, changes: Json) -> Json:
        """Merge changes into the status of exactly this version of this object; Conflict when it has moved on."""
        ...

    async def get(self, kind: str, *, namespace: str, name: str) -> Json:
        """Read one object."""
        ...

    def list(
        self, kind: str, *, namespace: str | None, selector: str | None = None, metadata_only: bool = False
    ) -> AsyncIterator[Json]:
        """Read all objects of a kind, page by page."""
        ...

    async def log_tail(self, namespace: str, wanted: LogWanted) -> str:
        """The last lines of a container's log, bounded."""
        ...

    async def log_since(self, namespace: str, wanted: LogRange) -> LogPart:
        """A running container's log, each line behind its instant, bounded."""
        ...

    async def log_head(self, namespace: str, wanted: StartupWanted) -> str:
        """The beginning of a running container's log, bounded."""
        ...

    async def image_events(self, namespace: str, wanted: StartupWanted) -> tuple[Json, ...]:
        """What the node said of the images of a pod, bounded."""
        ...

    async def exporter_on(self, exporters: GpuExporters, node: str) -> ExporterPod | None:
        """The exporter of GPUs' figures that runs on a node."""
        ...

    async def endpoint_addresses(self, namespace: str, service: str, port: int) -> tuple[str, ...]:
        """Addresses of the ready pods behind a Service, as host:port."""
        ...

    async def create_event(self, about: Declared, event: Event, *, now: datetime) -> None:
        """Say something about a run or sweep, once: the same reason for the same object is one event."""
        ...


class KubernetesApi:
    """`Cluster`, for real."""

    def __init__(self, connection: Connection, *, count: WriteCounter) -> None:
        self._connection = connection
        self._count = count

    async def apply(self, manifest: Json, *, known_uid: str | None) -> Written:
        """Create the object, or update the one we know; Occupied when the name belongs to somebody else."""
        if known_uid is None:
            try:
                return await self._create(manifest)
            except Exists:
                found = await self._found_to_be_ours(manifest)
                if manifest.get("immutable"):
                    return found
                known_uid = str(found["metadata"]["uid"])
        resource, meta = RESOURCES[manifest["kind"]], manifest["metadata"]
        return await self._write(
            "PATCH",
            resource,
            resource.path(meta["namespace"], meta["name"]),
            body={**manifest, "metadata": {**meta, "uid": known_uid}},
            query=(("fieldManager", names.FIELD_MANAGER), ("force", "true")),
            content_type="application/apply-patch+yaml",
            accept=METADATA_ONLY,
        )

    async def _create(self, manifest: Json) -> Written:
        resource = RESOURCES[manifest["kind"]]
        try:
            return await self._write(
                "POST",
                resource,
                resource.path(manifest["metadata"]["namespace"]),
                body=manifest,
                query=(("fieldManager", names.FIELD_MANAGER),),
                accept=METADATA_ONLY,
            )
        except NotFound as error:
            if manifest["kind"] not in EXTENSION_KINDS:
                raise  # the namespace is gone
            raise NotServed(f"this cluster has no {resource.plural}.{resource.group}", code=error.code) from error

    async def _found_to_be_ours(self, manifest: Json) -> Written:
        resource, meta = RESOURCES[manifest["kind"]], manifest["metadata"]
        found = await self._connection.json("GET", resource.path(meta["namespace"], meta["name"]), accept=METADATA_ONLY)
        if controller_uid(found) is None or controller_uid(found) != controller_uid(manifest):
            raise Occupied(f"{manifest['kind']} {meta['name']} exists and is not ours", found=found)
        return found

    async def create_run(self, manifest: Json) -> Json:
        """Create a run of a sweep, once: one that exists and is the sweep's is returned as it is, whole. Occupied otherwise."""
        meta = manifest["metadata"]
        try:
            query = (("fieldManager", names.FIELD_MANAGER),)
            return await self._write("POST", RUN, RUN.path(meta["namespace"]), body=manifest, query=query)
        except Exists:
            found = await self.get(manifest["kind"], namespace=meta["namespace"], name=meta["name"])
            if controller_uid(found) != controller_uid(manifest):
                raise Occupied(f"{manifest['kind']} {meta['name']} exists and is not ours", found=found) from None
            return found

    async def cancel_run(self, ref: Ref) -> Json | None:
        """Tell a run to end; None where it is gone, or replaced by a namesake."""
        body = {"metadata": {"uid": ref.uid}, "spec": {"cancel": True}}
        try:
            return await self._write(
                "PATCH",
                RUN,
                RUN.path(ref.namespace, ref.name),
                body=body,
                query=(("fieldManager", names.FIELD_MANAGER),),
                content_type="application/merge-patch+json",
            )
        except (NotFound, Conflict):
            return None

    async def delete(self, ref: Ref) -> None:
        """Delete without waiting for it; an object that is gone, or replaced by a namesake, is a success."""
        resource = RESOURCES[ref.kind]
        # Of a LeaderWorkerSet the workers belong to their leader's pod: in the background they would keep their GPUs until it
        # has ended. From the foreground all are told at once.
        policy = "Foreground" if ref.kind == LEADER_WORKER_SET else "Background"
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
        if ref.uid is not None:
            options["preconditions"] = {"uid": ref.uid}
        if ref.grace_seconds is not None:
            options["gracePeriodSeconds"] = ref.grace_seconds
        try:
            await self._write("DELETE", resource, resource.path(ref.namespace, ref.name), body=options)
        except (NotFound, Conflict):
            return

    async def patch_status(self, declared: Declared, *, resource_version: str, changes: Json) -> Json:
        """Merge changes into the status of exactly this version of this object; Conflict when it has moved on."""
        resource = RESOURCES[declared.kind]
        return await self._write(
            "PATCH",
            resource,
            resource.path(declared.namespace, declared.name, "status"),
            # A version belongs to one object alone, so a namesake is a conflict too (/status ignores a uid given here).
            body={"metadata": {"resourceVersion": resource_version}, "status": changes},
            query=(("fieldManager", names.FIELD_MANAGER),),
            content_type="application/merge-patch+json",
        )

    async def get(self, kind: str, *, namespace: str, name: str) -> Json:
        """Read one object."""
        return await self._connection.json("GET", RESOURCES[kind].path(namespace, name))

    async def list(
        self, kind: str, *, namespace: str | None, selector: str | None = None, metadata_only: bool = False
    ) -> AsyncIterator[Json]:
        """Read all objects of a kind, page by page."""
        path = RESOURCES[kind].path(namespace)
        accept = METADATA_LIST_ONLY if metadata_only else "application/json"
        token = ""
        while True:
            query: Query = (("limit", str(LIST_PAGE)),)
            query += (("labelSelector", selector),) if selector is not None else ()
            query += (("continue", token),) if token else ()
            page = await self._connection.json("GET", path, query=query, accept=accept)
            for item in page.get("items") or ():
                yield item
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    async def log_tail(self, namespace: str, wanted: LogWanted) -> str:
        """The last lines of a container's log, bounded."""
        query: Query = (
            ("container", wanted.container),
            ("previous", "true" if wanted.previous else "false"),
            ("tailLines", str(LOG_LINES)),
            ("limitBytes", str(LOG_READ_BYTES)),
        )
        path = RESOURCES["Pod"].path(namespace, wanted.pod, "log")
        return (await self._connection.text(path, query=query, limit_bytes=LOG_READ_BYTES))[-LOG_BYTES:]

    async def log_since(self, namespace: str, wanted: LogRange) -> LogPart:
        """A running container's log, each line behind its instant, bounded."""
        query: Query = (
            ("container", wanted.container),
            ("sinceSeconds", str(wanted.since_seconds)),
            ("timestamps", "true"),
            ("limitBytes", str(LOG_RANGE_BYTES)),
        )
        path = RESOURCES["Pod"].path(namespace, wanted.pod, "log")
        text = await self._connection.text(path, query=query, limit_bytes=LOG_RANGE_BYTES)
        return LogPart(text, complete=len(text.encode()) < LOG_RANGE_BYTES)

    async def log_head(self, namespace: str, wanted: StartupWanted) -> str:
        """The beginning of a running container's log, bounded."""
        query: Query = (("container", wanted.container), ("limitBytes", str(LOG_HEAD_BYTES)))
        path = RESOURCES["Pod"].path(namespace, wanted.pod, "log")
        return await self._connection.text(path, query=query, limit_bytes=LOG_HEAD_BYTES)

    async def image_events(self, namespace: str, wanted: StartupWanted) -> tuple[Json, ...]:
        """What the node said of the images of a pod, bounded."""
        selector = f"involvedObject.uid={wanted.uid},reason=Pulled"
        query: Query = (("fieldSelector", selector), ("limit", str(LIST_PAGE)))
        page = await self._connection.json("GET", RESOURCES["Event"].path(namespace), query=query)
        return tuple(page.get("items") or ())

    async def exporter_on(self, exporters: GpuExporters, node: str) -> ExporterPod | None:
        """The exporter of GPUs' figures that runs on a node."""
        selector = f"spec.nodeName={node},status.phase=Running"
        query: Query = (("labelSelector", exporters.selector), ("fieldSelector", selector), ("limit", str(LIST_PAGE)))
        page = await self._connection.json("GET", RESOURCES["Pod"].path(exporters.namespace), query=query)
        addresses = ((p["metadata"]["name"], (p.get("status") or {}).get("podIP")) for p in page.get("items") or ())
        return next((ExporterPod(str(name), str(ip)) for name, ip in addresses if ip), None)

    async def endpoint_addresses(self, namespace: str, service: str, port: int) -> tuple[str, ...]:
        """Addresses of the ready pods behind a Service, as host:port."""
        ports = (await self.get("Service", namespace=namespace, name=service)).get("spec", {}).get("ports") or []
        port_name = next((p.get("name", "") for p in ports if p.get("port") == port), None)
        if port_name is None:
            raise NotFound(f"Service {service} has no port {port}")
        selector = f"kubernetes.io/service-name={service}"
        slices = [s async for s in self.list("EndpointSlice", namespace=namespace, selector=selector)]
        return addresses_of(slices, port_name)

    async def create_event(self, about: Declared, event: Event, *, now: datetime) -> None:
        """Say something about a run or sweep, once: the same reason for the same object is one event."""
        resource = RESOURCES["Event"]
        try:
            await self._write("POST", resource, resource.path(about.namespace), body=event_body(about, event, now=now))
        except Exists:
            return

    async def _write(
        self,
        verb: str,
        resource: Resource,
        path: str,
        *,
        body: Json,
        query: Query = (),
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Json:
        try:
            answer = await self._connection.json(
                verb, path, body=body, query=query, content_type=content_type, accept=accept
            )
        except ClusterError as error:
            self._count(verb=verb, resource=resource.plural, code=str(error.code or "none"))
            raise
        self._count(verb=verb, resource=resource.plural, code="2xx")
        return answer


def controller_uid(body: Json) -> str | None:
    """Uid of the object's controller."""
    references = body["metadata"].get("ownerReferences") or ()
    return next((str(r["uid"]) for r in references if r.get("controller")), None)


def addresses_of(slices: list[Json], port_name: str) -> tuple[str, ...]:
    """Ready addresses in EndpointSlices, with the port of that name: sorted, without repeats, bounded."""
    found: set[str] = set()
    for endpoint_slice in slices:
        numbers = [p["port"] for p in endpoint_slice.get("ports") or () if (p.get("name") or "") == port_name]
        brackets = endpoint_slice.get("addressType") == "IPv6"
        for endpoint in endpoint_slice.get("endpoints") or ():
            # None is "unknown", which the API says to read as ready.
            if (endpoint.get("conditions") or {}).get("ready") is False:
                continue
            for address in endpoint.get("addresses") or ():
                host = f"[{address}]" if brackets else address
                found.update(f"{host}:{number}" for number in numbers)
    return tuple(sorted(found))[:MAX_ENDPOINTS]


def event_body(about: Declared, event: Event, *, now: datetime) -> Json:
    """A core/v1 Event whose name depends on object and reason alone, so that a repeat is refused as existing."""
    digest = hashlib.sha256(f"{about.uid}/{event.reason}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about.name}.{digest}", "namespace": about.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        },
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": event.message[:1024],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": timestamp(now),
        "lastTimestamp": timestamp(now),
        "count": 1,
    }
