"""The operator's requests to the API server.

Objects are created once and never corrected: `apply` sends a POST, which fails when the name is
taken. An existing object of that name is returned unchanged when it is the operator's own (by
controller uid), and never touched when it is somebody else's.
"""

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from ipaddress import IPv6Address, ip_address

from benchrun import names
from benchrun.api import plain_text, timestamp
from benchrun.child_kinds import EXTENSION_KINDS, SERVER_KINDS, WORKLOAD
from benchrun.decide import (
    Compilations,
    Event,
    ExporterPod,
    Exporters,
    LogTail,
    PodsRefused,
    Ref,
    ServerStart,
)
from benchrun.effects.connection import (
    JSON,
    RESOURCES,
    Connection,
    Json,
    QueryParameters,
    Resource,
)
from benchrun.effects.errors import (
    ClusterError,
    Conflict,
    Exists,
    Invalid,
    NotFound,
    NotServed,
    Occupied,
    TooLarge,
    Unavailable,
)
from benchrun.observe import Declared, untrusted_json as raw

METADATA_ONLY = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST_ONLY = (
    f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
)
TABLE = f"{JSON};as=Table;g=meta.k8s.io;v=v1,{JSON}"
"""A list as `kubectl get` asks for it: metadata and columns of every object."""
LIST_PAGE = 50  # most objects on a page
EVENT_PAGE = 200  # Most events of a query: for StatefulSets, it also finds events of other groups.
# largest page of several objects; parsed, it may take 25 times that
PAGE_BYTES = 2 * 1024 * 1024
LOG_LINES = 300
LOG_READ_BYTES = 512 * 1024
"""Most bytes of a log that are read: far more than LOG_LINES take, since the API server cuts off
the end, which has the newest lines."""
# most bytes that are read of the log of a whole measurement
LOG_RANGE_BYTES = 4 * 1024 * 1024
LOG_HEAD_BYTES = 512 * 1024
"""Most bytes of a log's beginning: vLLM is up within 100 kB, including a page of stack traces."""
LOG_BYTES = 32 * 1024
"""Bytes of a log's end that are kept. The cause of a failed engine start stands some 8 kB above
it."""
MAX_ENDPOINTS = 64
MAX_LABELLED_PODS = 500  # most running pods with a run's labels that are looked at
MANAGED_BY_CLUSTER = (
    "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io"
)
"""Label of EndpointSlices that the cluster makes from pods. Others, made by hand or mirrored from
Endpoints, may hold any address."""
VISIBILITY = "visibility.kueue.x-k8s.io"
"""API group with which Kueue says who waits in a queue."""
PLACES = 1000  # most Workloads of a queue whose places are told
WATCH_LASTS_SECONDS = 240  # seconds after which the API server is to end a watch
WATCH_IDLE_SECONDS = 90.0
"""Seconds without a bookmark, which come each minute, after which a watch is given up."""
COMPONENT = "benchrun-operator"
_AS_US: QueryParameters = (("fieldManager", names.FIELD_MANAGER),)
InShort = Callable[[Json], list[Json] | None]
"""Makes objects of a page that was read as a table; None: the page has to be read whole."""
CountWrite = Callable[[str, str, str], None]
"""Called for every request that changes an object, with the verb, the resource and the code: the
HTTP status, "2xx" or "none" (no answer)."""


class KubernetesApi:
    """The API server as reconcilers and queries need it. Every method raises ClusterError."""

    def __init__(self, connection: Connection, *, count: CountWrite) -> None:
        self._connection = connection
        self._count = count

    async def apply(self, manifest: Json) -> Json:
        """Create the object, or return the existing one if it is the operator's own.

        Runs and Workloads are returned whole, other kinds with their metadata only. Raises Occupied
        if the existing object has another owner, NotServed if the cluster lacks the kind.
        """
        kind = manifest["kind"]
        namespace = manifest["metadata"]["namespace"]
        name = manifest["metadata"]["name"]
        resource = RESOURCES[kind]
        accept = JSON if kind in (names.KIND, WORKLOAD) else METADATA_ONLY
        try:
            return await self._write(
                "POST", kind, namespace, body=manifest, query=_AS_US, accept=accept
            )
        except NotFound as error:
            if kind not in EXTENSION_KINDS:
                raise  # the namespace is gone
            raise NotServed(
                f"this cluster does not have the resource {resource.plural}.{resource.group}",
                code=error.code,
            ) from error
        except Exists:
            found = await self._connection.json(
                "GET", resource.path(namespace, name), accept=accept
            )
            owner, ours = (
                _owner_of(each["metadata"]) for each in (found, manifest)
            )
            if owner[-1] is None or owner != ours:
                raise Occupied(
                    f"{kind} {name} exists and has another owner", found=found
                ) from None
            return found

    async def cancel_run(self, ref: Ref) -> Json | None:
        """Set spec.cancel of a run; return None if it is gone, or a new run has its name."""
        body = {"metadata": {"uid": ref.uid}, "spec": {"cancel": True}}
        try:
            return await self._write(
                "PATCH",
                names.KIND,
                ref.namespace,
                ref.name,
                body=body,
                query=_AS_US,
            )
        except (NotFound, Conflict):
            return None

    async def delete(self, ref: Ref) -> None:
        """Delete an object without waiting until it is gone.

        It is also a success if the object is gone, or if a new object has its name.
        """
        # With background deletion, pods would keep their GPUs for as long as a finalizer keeps the
        # Deployment, or the leader of their group (LeaderWorkerSet) has not ended; with foreground
        # deletion all end at once.
        policy = "Foreground" if ref.kind in SERVER_KINDS else "Background"
        options: Json = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": policy,
            "preconditions": {"uid": ref.uid},
        }
        with suppress(NotFound, Conflict):
            await self._write(
                "DELETE", ref.kind, ref.namespace, ref.name, body=options
            )

    async def patch_status(
        self, declared: Declared, *, resource_version: str, changes: Json
    ) -> Json:
        """Merge changes into the status of exactly this version of this object.

        Raises Conflict when the object has a newer version.
        """
        path = (declared.namespace, declared.name, "status")
        # A version belongs to one object alone, so a namesake is a conflict too (/status ignores a
        # uid given here).
        body = {
            "metadata": {"resourceVersion": resource_version},
            "status": changes,
        }
        return await self._write(
            "PATCH", declared.kind, *path, body=body, query=_AS_US
        )

    async def get(self, kind: str, *, namespace: str, name: str) -> Json:
        return await self._connection.json(
            "GET", RESOURCES[kind].path(namespace, name)
        )

    async def resource_flavor(self, name: str) -> Json:
        """Return a ResourceFlavor of Kueue, which has no namespace."""
        return await self._connection.json(
            "GET", RESOURCES["ResourceFlavor"].path(None, name), most=PAGE_BYTES
        )

    async def ahead_in_queue(self, namespace: str, queue: str) -> Mapping[str, int]:
        """Return how many are ahead of each Workload that waits in this LocalQueue, by its name.

        Those ahead are counted over the whole ClusterQueue.
        """
        path = Resource(VISIBILITY, "v1beta1", "localqueues").path(
            namespace, queue, "pendingworkloads"
        )
        query = (("limit", str(PLACES)),)
        page = await self._connection.json(
            "GET", path, query=query, most=PAGE_BYTES
        )
        return {
            raw.text(raw.mapping(item.get("metadata")).get("name")): max(
                0, raw.number(item.get("positionInClusterQueue"))
            )
            for item in raw.mappings(page.get("items"))
        }

    async def version(self, kind: str, *, namespace: str | None) -> str:
        """Return the version of the collection now, from which changes can be watched."""
        page = await self._connection.json(
            "GET",
            RESOURCES[kind].path(namespace),
            query=(("limit", "1"),),
            accept=METADATA_LIST_ONLY,
        )
        return raw.text(raw.mapping(page.get("metadata")).get("resourceVersion"))

    async def watch(
        self, kind: str, *, namespace: str | None, selector: str, since: str
    ) -> AsyncIterator[tuple[str, Json]]:
        """Yield type and object of each change since a version, until the API server ends it.

        Bookmarks are among them: they have only a version. Raises ClusterError, also where that
        version is too old.
        """
        query = (
            ("watch", "true"),
            ("resourceVersion", since),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(WATCH_LASTS_SECONDS)),
            ("labelSelector", selector),
        )
        path = RESOURCES[kind].path(namespace)
        lines = self._connection.lines(
            path, query=query, idle_seconds=WATCH_IDLE_SECONDS
        )
        async with aclosing(lines):
            async for line in lines:
                event = raw.mapping(raw.parsed(line))
                body = event.get("object")
                if event.get("type") == "ERROR" or not isinstance(body, dict):
                    raise _ended(path, raw.mapping(body))
                yield raw.text(event.get("type")), body

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
        """Yield all objects of a kind, page by page; `fields` is a field selector.

        A page with too many bytes is read in parts, down to a single object. At the end `reached`
        is called with the resourceVersion of the list, from which a watch can continue.
        """
        path = RESOURCES[kind].path(namespace)
        accept = METADATA_LIST_ONLY if metadata_only else JSON
        asked: QueryParameters = ()
        asked += (("labelSelector", selector),) if selector is not None else ()
        asked += (("fieldSelector", fields),) if fields is not None else ()
        token = ""
        size = LIST_PAGE
        while True:
            query = (*asked, *_from(token))
            page, size = await self._page(path, query, size=size, accept=accept)
            items = page.get("items") or []
            while items:  # no object is kept while the next page is read
                yield items.pop(0)
            token, version = _end_of(page)
            if not token:
                reached(version)
                return

    async def list_in_short(
        self,
        kind: str,
        *,
        namespace: str | None,
        in_short: InShort,
        reached: Callable[[str], None] = lambda _: None,
    ) -> AsyncIterator[tuple[Json, bool]]:
        """Yield all objects of a kind, each with whether it is in short.

        Each page is read as a table first, and once more, whole, if `in_short` can't use that: the
        same token and limit give the same objects. A server that refuses tables is asked for none
        again. At the end `reached` is called as by `list`.
        """
        path = RESOURCES[kind].path(namespace)
        token = ""
        size = LIST_PAGE
        has_tables = True
        while True:
            page: Json = {}
            found: Sequence[Json] | None = None
            if has_tables:
                try:
                    page, found = await self._table(path, token, size, in_short)
                except (Invalid, Unavailable) as error:
                    if error.code is None:
                        raise  # it did not answer
                    has_tables = False
            is_short = found is not None
            if not is_short:
                page, size = await self._page(
                    path, _from(token), size=size, accept=JSON
                )
            items = [*(page.get("items") or ())] if found is None else [*found]
            token, version = _end_of(page)
            del page, found
            while items:  # no object is kept while the next page is read
                yield items.pop(0), is_short
            if not token:
                reached(version)
                return

    async def _table(
        self,
        path: str,
        token: str,
        size: int,
        in_short: InShort,
    ) -> tuple[Json, Sequence[Json] | None]:
        """Return a page as a table, and what `in_short` makes of it; None if it is too large."""
        query: QueryParameters = (("limit", str(size)), *_from(token))
        try:
            table = await self._connection.json(
                "GET", path, query=query, accept=TABLE, most=PAGE_BYTES
            )
        except TooLarge:
            return {}, None
        return table, in_short(table)

    async def _page(
        self, path: str, query: QueryParameters, *, size: int, accept: str
    ) -> tuple[Json, int]:
        """Return a page of at most `size` objects, and the size of the next one.

        It has fewer objects if so many are too large together.
        """
        while True:
            try:
                page = await self._connection.json(
                    "GET",
                    path,
                    query=(("limit", str(size)), *query),
                    accept=accept,
                    most=PAGE_BYTES if size > 1 else 0,
                )
            except TooLarge:
                if size == 1:
                    raise
                size = max(1, size // 4)
            else:
                return page, min(LIST_PAGE, 2 * size)

    async def log_tail(self, namespace: str, wanted: LogTail) -> str:
        """Return the last lines of a container's log, bounded."""
        query = (
            ("previous", "true" if wanted.previous else "false"),
            ("tailLines", str(LOG_LINES)),
        )
        return (await self._log(namespace, wanted, query, LOG_READ_BYTES))[
            -LOG_BYTES:
        ]

    async def log_since(
        self, namespace: str, wanted: Compilations
    ) -> tuple[str, bool]:
        """Return a running container's log, bounded, and whether that is all of it.

        Each line begins with its timestamp.
        """
        query = (("sinceTime", wanted.since), ("timestamps", "true"))
        text = await self._log(namespace, wanted, query, LOG_RANGE_BYTES)
        return text, len(text.encode()) < LOG_RANGE_BYTES

    async def log_head(self, namespace: str, wanted: ServerStart) -> str:
        """Return the beginning of a running container's log, bounded."""
        return await self._log(namespace, wanted, (), LOG_HEAD_BYTES)

    async def _log(
        self,
        namespace: str,
        wanted: LogTail | Compilations | ServerStart,
        query: QueryParameters,
        limit: int,
    ) -> str:
        path = RESOURCES["Pod"].path(namespace, wanted.pod, "log")
        query = (
            ("container", wanted.container),
            *query,
            ("limitBytes", str(limit)),
        )
        data = await self._connection.request(
            "GET", path, query=query, accept="*/*", limit_bytes=limit
        )
        return data.decode(errors="replace")

    async def image_events(
        self, namespace: str, wanted: ServerStart
    ) -> tuple[Json, ...]:
        selector = f"involvedObject.uid={wanted.uid},reason=Pulled"
        query: QueryParameters = (
            ("fieldSelector", selector),
            ("limit", str(LIST_PAGE)),
        )
        page = await self._connection.json(
            "GET", RESOURCES["Event"].path(namespace), query=query, most=PAGE_BYTES
        )
        return tuple(page.get("items") or ())

    async def refusal_events(
        self, namespace: str, wanted: PodsRefused
    ) -> tuple[Json, ...]:
        """Return the events about pods that could not be created.

        The events are about one Job, or about all StatefulSets of a group.
        """
        of = f"uid={wanted.uid}" if wanted.uid else f"kind={wanted.kind}"
        selector = f"involvedObject.{of},reason=FailedCreate"
        query: QueryParameters = (
            ("fieldSelector", selector),
            ("limit", str(EVENT_PAGE)),
        )
        page = await self._connection.json(
            "GET", RESOURCES["Event"].path(namespace), query=query, most=PAGE_BYTES
        )
        named = (
            (raw.text(_about(event).get("name")), event)
            for event in page.get("items") or ()
        )
        return tuple(
            event
            for name, event in named
            if wanted.uid or f"{name}-".startswith(f"{wanted.name}-")
        )

    async def exporter_on(
        self, exporters: Exporters, node: str
    ) -> ExporterPod | None:
        selector = f"spec.nodeName={node},status.phase=Running"
        query: QueryParameters = (
            ("labelSelector", exporters.selector),
            ("fieldSelector", selector),
            ("limit", str(LIST_PAGE)),
        )
        page = await self._connection.json(
            "GET", RESOURCES["Pod"].path(exporters.namespace), query=query
        )
        addresses = (
            (p["metadata"]["name"], (p.get("status") or {}).get("podIP"))
            for p in page.get("items") or ()
        )
        return next(
            (ExporterPod(str(name), str(ip)) for name, ip in addresses if ip), None
        )

    async def endpoint_addresses(
        self, namespace: str, service: str, port: int
    ) -> tuple[str, ...]:
        """Return the addresses of the ready pods behind a Service, as host:port.

        Raises NotFound where the Service lacks the port.
        """
        ports = (await self.get("Service", namespace=namespace, name=service)).get(
            "spec", {}
        ).get("ports") or []
        if (
            port_name := next(
                (p.get("name", "") for p in ports if p.get("port") == port), None
            )
        ) is None:
            raise NotFound(f"Service {service} has no port {port}")
        selector = f"kubernetes.io/service-name={service},{MANAGED_BY_CLUSTER}"
        slices = [
            s
            async for s in self.list(
                "EndpointSlice", namespace=namespace, selector=selector
            )
        ]
        return addresses_of(slices, port_name, namespace=namespace)

    async def pod_addresses(
        self, namespace: str, selector: str, port: int
    ) -> tuple[str, ...]:
        """Return the addresses of the ready pods with these labels, as host:port.

        At most `MAX_LABELLED_PODS` pods are read, and none is kept in memory: any number of pods
        may have these labels, and they are read again and again.
        """
        found: set[str] = set()
        looked_at = 0
        async for pod in self.list(
            "Pod",
            namespace=namespace,
            selector=selector,
            fields="status.phase=Running",
        ):
            found.update(addresses_of_pods([pod], port))
            looked_at += 1
            if looked_at == MAX_LABELLED_PODS:
                break
        return tuple(sorted(found))[:MAX_ENDPOINTS]

    async def create_event(
        self, about: Declared, event: Event, *, now: datetime
    ) -> None:
        """Post an event about a run or sweep, once.

        The same reason for the same object is one event.
        """
        with suppress(Exists):
            await self._write(
                "POST",
                "Event",
                about.namespace,
                body=event_body(about, event, now=now),
            )

    async def _write(
        self,
        verb: str,
        kind: str,
        *path: str,
        body: Json,
        query: QueryParameters = (),
        accept: str = JSON,
    ) -> Json:
        resource = RESOURCES[kind]
        try:
            answer = await self._connection.json(
                verb, resource.path(*path), body=body, query=query, accept=accept
            )
        except ClusterError as error:
            self._count(verb, resource.plural, str(error.code or "none"))
            raise
        self._count(verb, resource.plural, "2xx")
        return answer


def _from(token: str) -> QueryParameters:
    """Return the parameter of a list that goes on where a page ended; none without a token."""
    return (("continue", token),) if token else ()


def _end_of(page: Json) -> tuple[str, str]:
    """Return the token of the next page, empty after the last, and the version of the list."""
    meta = raw.mapping(page.get("metadata"))
    return str(meta.get("continue") or ""), raw.text(meta.get("resourceVersion"))


def _ended(path: str, status: raw.Object) -> ClusterError:
    code = raw.number(status.get("code")) or None
    said = raw.text(status.get("message")) or "not an event"
    return Unavailable(f"GET {path}: the watch ended: {said}", code=code)


def _owner_of(metadata: raw.Object) -> tuple[object, ...]:
    """Return kind, name and uid of an object's controller.

    Together they identify it in a namespace.
    """
    owner = raw.controller(metadata)
    return owner.get("kind"), owner.get("name"), owner.get("uid")


def _about(event: Json) -> raw.Object:
    return raw.mapping(event.get("involvedObject"))


def addresses_of(
    slices: list[Json], port_name: str, *, namespace: str
) -> tuple[str, ...]:
    """Return the ready addresses of this namespace's pods, with the port of that name.

    They are sorted, without repeats, and bounded. Addresses of anything but these pods are left
    out: otherwise anybody with the right to write EndpointSlices could make the operator and the
    client connect to any address of the network.
    """
    found: set[str] = set()
    for endpoint_slice in slices:
        ports = (
            port.get("port")
            for port in raw.mappings(endpoint_slice.get("ports"))
            if (port.get("name") or "") == port_name
        )
        numbers = [
            port for port in ports if type(port) is int and 0 < port < 65_536
        ]
        for endpoint in raw.mappings(endpoint_slice.get("endpoints")):
            target = raw.mapping(endpoint.get("targetRef"))
            is_pod = (
                target.get("kind") == "Pod" and target.get("namespace") == namespace
            )
            # None is "unknown", which the API says to read as ready.
            if (
                raw.mapping(endpoint.get("conditions")).get("ready") is False
                or not is_pod
            ):
                continue
            listed = endpoint.get("addresses")
            addresses = listed if isinstance(listed, list) else []
            hosts = [
                host for each in addresses if (host := _host(each)) is not None
            ]
            found.update(f"{host}:{number}" for host in hosts for number in numbers)
    return tuple(sorted(found))[:MAX_ENDPOINTS]


def addresses_of_pods(pods: Iterable[Json], port: int) -> tuple[str, ...]:
    """Return the addresses of those pods that are ready and stay, with this port.

    They are sorted, without repeats, and bounded.
    """
    found: set[str] = set()
    for pod in pods:
        status = raw.mapping(pod.get("status"))
        is_ready = raw.condition(status, "Ready").get("status") == "True"
        host = _host(status.get("podIP"))
        leaves = "deletionTimestamp" in raw.mapping(pod.get("metadata"))
        if is_ready and host is not None and not leaves:
            found.add(f"{host}:{port}")
    return tuple(sorted(found))[:MAX_ENDPOINTS]


def _host(address: object) -> str | None:
    """Return the address as it stands in a URL; None for text that can't be the address of a pod.

    That is a host name, or a loopback, link-local (the cloud's metadata service), unspecified or
    multicast address.
    """
    try:
        ip = ip_address(str(address))
    except ValueError:
        return None
    within = (
        ip.ipv4_mapped
        if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None
        else ip
    )
    if (
        within.is_loopback
        or within.is_link_local
        or within.is_unspecified
        or within.is_multicast
    ):
        return None
    return f"[{ip.compressed}]" if isinstance(ip, IPv6Address) else str(ip)


def event_body(about: Declared, event: Event, *, now: datetime) -> Json:
    """Return a core/v1 Event whose name depends on object and reason alone.

    So the API server refuses a repeat, because the name exists.
    """
    identity = {"namespace": about.namespace, "name": about.name, "uid": about.uid}
    digest = hashlib.sha256(f"{about.uid}/{event.reason}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{about.name}.{digest}",
            "namespace": about.namespace,
        },
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": about.kind,
            **identity,
        },
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": plain_text(event.message)[:1024],
        "source": {"component": COMPONENT},
        **dict.fromkeys(("reportingComponent", "reportingInstance"), COMPONENT),
        **dict.fromkeys(("firstTimestamp", "lastTimestamp"), timestamp(now)),
        "count": 1,
    }


# The operator creates the key of all tokens itself and keeps it in a Secret of its own namespace:
# tools that render the chart anew each time could not keep a random value. Its rights allow it to
# read and create that one Secret, and no other.

CHANNEL_KEY = "benchrun-channel-key"  # name of the Secret
_ENTRY = "key"
_BYTES = 32


async def channel_key(connection: Connection, *, namespace: str) -> bytes:
    """Return the operator's key; create it if there is none yet.

    Raises ClusterError: without the key the operator can't talk to any client.
    """
    # not among RESOURCES: nothing else uses Secrets
    path = f"/api/v1/namespaces/{namespace}/secrets"
    with suppress(NotFound):
        return _key_in(await connection.json("GET", f"{path}/{CHANNEL_KEY}"))
    labels = {"app.kubernetes.io/managed-by": "benchrun-operator"}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": CHANNEL_KEY, "namespace": namespace, "labels": labels},
        "type": "Opaque",
        "immutable": True,
        "data": {_ENTRY: base64.b64encode(secrets.token_bytes(_BYTES)).decode()},
    }
    try:
        return _key_in(await connection.json("POST", path, body=secret))
    except Exists:  # another replica created it first
        return _key_in(await connection.json("GET", f"{path}/{CHANNEL_KEY}"))


def _key_in(body: Json) -> bytes:
    """Return the key that a Secret holds.

    Raises Invalid if it holds none; the text does not show the Secret's content.
    """
    try:
        key = base64.b64decode(body["data"][_ENTRY], validate=True)
    except (KeyError, TypeError, ValueError):
        key = b""
    if len(key) < _BYTES:
        # Raised without a cause, since a traceback is logged and would show what was found.
        raise Invalid(
            f"Secret {CHANNEL_KEY} has no key of {_BYTES} bytes at {_ENTRY!r}; delete the "
            "Secret to get a new one"
        )
    return key
