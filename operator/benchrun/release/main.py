"""`benchrun-operator release`, by `release-cronjob.yaml` of the chart: delete servers that are held
longer than they may be.

Metadata does not show when a pod was scheduled, so a ConfigMap keeps when one of a server's was
first seen on a node."""

import argparse
import json
import os
import ssl
import time
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any, NamedTuple

import httpx
from kubernetes.client.configuration import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from benchrun import names

Json = dict[str, Any]
Codes = tuple[int, ...]
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
CHUNK_BYTES, MAX_CHUNKS, SECONDS = 65_536, 160, 10.0  # parsed, a page takes twelve times as much
PAGE, LIST_SECONDS = (
    64,
    15.0,
)  # the metadata of one object can be made to be 9 MB of JSON; of a list's pages together
DEPLOYMENTS, GROUPS = (
    "apis/apps/v1 deployments",
    "apis/leaderworkerset.x-k8s.io/v1 leaderworkersets",
)
CONFIG_MAPS, EVENTS, PODS = "api/v1 configmaps", "api/v1 events", "api/v1 pods"
# We made no groups where that kind is not there, or not ours to make.
KINDS: tuple[tuple[str, Codes], ...] = (DEPLOYMENTS, ()), (GROUPS, (403, 404))
LABELS = (
    names.LABEL_RUN,
    names.LABEL_RUN_UID,
)  # a server that somebody took one of them from is found by the other
SERVERS = (
    f"{names.LABEL_RUN_UID},{names.LABEL_ROLE} in "
    f"({names.ROLE_SERVER},{names.ROLE_PREFILL},{names.ROLE_DECODE})"
)
ON_A_NODE = {"labelSelector": SERVERS, "fieldSelector": "spec.nodeName!="}
MAX_CLOCKS, OURS = 8_000, {"apiVersion": names.API_VERSION, "kind": names.KIND}


def main(arguments: Sequence[str]) -> int:
    """Returns 1 when something could not be read, deleted or written; everything else was done
    nevertheless."""
    parser, env = (
        argparse.ArgumentParser(prog="benchrun-operator release", description=__doc__),
        os.environ.get,
    )
    parser.add_argument(
        "--namespace", action="append", help="only this one; may be repeated (BENCHRUN_NAMESPACES)"
    )
    bound, state = env("BENCHRUN_MAX_HOLD_SECONDS", "86400"), env("BENCHRUN_RELEASE_STATE", "")
    parser.add_argument("--max-hold-seconds", type=number, metavar="N", default=bound)
    parser.add_argument(
        "--state",
        metavar="NAMESPACE/CONFIGMAP",
        default=state or "benchrun-system/benchrun-release",
    )
    options = parser.parse_args(arguments)
    if not options.max_hold_seconds:
        parser.error(
            "--max-hold-seconds, BENCHRUN_MAX_HOLD_SECONDS: must be a whole number above 0"
        )
    namespaces = options.namespace or [
        name for name in env("BENCHRUN_NAMESPACES", "").split(",") if name
    ]
    look = Look(
        Api(), options.state, max_hold_seconds=options.max_hold_seconds, now=int(time.time())
    )
    return 1 if look.at(namespaces or [""]) else 0


def path_of(kind: str, namespace: str, name: str = "") -> str:
    """Of an object, or of all of its kind; without a namespace, of all namespaces."""
    version, plural = kind.split(" ")
    return f"/{version}{namespace and f'/namespaces/{namespace}'}/{plural}{name and f'/{name}'}"


def number(text: object) -> int:
    """0 for whatever is not a whole number above it."""
    return (
        int(text)
        if isinstance(text, str) and len(text) <= 12 and text.isascii() and text.isdigit()
        else 0
    )


class Seen(NamedTuple):
    """A server, or one of its pods, which has the same group; without a run where it is not ours,
    or already deleted."""

    namespace: str
    name: str
    uid: str
    group: tuple[str, str]
    run: Json
    hold_seconds: int


def seen(metadata: Json) -> Seen:
    """No value of the metadata raises."""
    namespace, name, uid = (str(metadata.get(key)) for key in ("namespace", "name", "uid"))
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    hold, label = number(annotations.get(names.ANNOTATION_HOLD)), labels.get(names.LABEL_RUN_UID)
    owners = map(mapping, metadata.get("ownerReferences") or ())
    # Without a controller: its run was deleted with --cascade=orphan.
    orphaned = {**OURS, "name": labels.get(names.LABEL_RUN), "uid": label} if hold and label else {}
    run = next((owner for owner in owners if owner.get("controller") is True), orphaned)
    # In the background its deletion waits for finalizers, and that of its pods with it; in the
    # foreground pods go first.
    is_deleted = metadata.get("deletionTimestamp") and "'foregroundDeletion'" in str(
        metadata.get("finalizers")
    )
    if is_deleted or not OURS.items() <= run.items():
        return Seen(namespace, name, uid, (namespace, str(label)), {}, hold)
    about: Json = {key: str(run.get(key))[:253] for key in ("apiVersion", "kind", "name", "uid")}
    return Seen(namespace, name, uid, (namespace, about["uid"]), about, hold)


class Look:
    """One look at the servers of some namespaces. Nothing that fails keeps it from anything
    else."""

    def __init__(self, api: "Api", state: str, *, max_hold_seconds: int, now: int) -> None:
        self._api, self._bound, self._now = api, max_hold_seconds, now
        self._own_namespace, _, self._own_name = state.partition("/")

    def at(self, namespaces: Sequence[str]) -> int:
        """Read, release, remember. The namespace "" is all of them. Returns how much failed."""
        api, clocks = self._api, dict[str, int]()
        self._stored = api.request(
            "GET", path_of(CONFIG_MAPS, self._own_namespace, self._own_name), expected=(404,)
        )
        self._writable, kept = not api.failures, mapping(self._stored.get("data")).items()
        known = {key: min(number(text), self._now) for key, text in kept if number(text)}
        for namespace in namespaces:
            failures = api.failures
            pods = {
                seen(pod).group for pod in api.metadata(path_of(PODS, namespace), (), **ON_A_NODE)
            }
            for (kind, expected), label in product(KINDS, LABELS):
                for server in [
                    *map(
                        seen, api.metadata(path_of(kind, namespace), expected, labelSelector=label)
                    )
                ]:
                    clock = f"{server.namespace}.{server.uid}"
                    since = known.get(clock, self._now if server.group in pods else None)
                    if server.run and since is not None and clock not in clocks:
                        clocks[clock] = since
                        self._release_if_due(kind, server, self._now - since)
                self._save(known | clocks)  # whoever ends us within the next list
            if api.failures > failures:  # what was not listed may still be there
                clocks = {
                    k: v for k, v in known.items() if k.startswith(namespace and f"{namespace}.")
                } | clocks
        self._save(clocks)
        return api.failures

    def _save(self, clocks: dict[str, int]) -> None:
        data = {
            key: str(since)
            for key, since in sorted(clocks.items(), key=lambda clock: clock[1])[:MAX_CLOCKS]
        }
        if self._writable and data != mapping(self._stored.get("data")):
            path = path_of(CONFIG_MAPS, self._own_namespace, self._own_name if self._stored else "")
            metadata = {"name": self._own_name} | mapping(self._stored.get("metadata"))
            body: Json = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": data,
            }
            self._stored = (
                self._api.request("PUT" if self._stored else "POST", path, body) or self._stored
            )

    def _release_if_due(self, kind: str, server: Seen, seconds: int) -> None:
        allowed = min(server.hold_seconds or self._bound, self._bound)
        if seconds <= allowed:
            return
        body: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
        }
        body["preconditions"] = {
            "uid": server.uid
        }  # 404, 409: it is gone, maybe replaced by a namesake
        if not self._api.request(
            "DELETE", path_of(kind, server.namespace, server.name), body, (404, 409)
        ):
            return
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._now))
        message = (
            f"{server.name} deleted: on a node for {seconds} s, allowed are {allowed} s; is the "
            "operator running?"
        )
        print(f"{server.namespace}: {message}")
        event: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        event |= {
            "type": "Warning",
            "reason": "ServerReleased",
            "source": {"component": "benchrun-release"},
        }
        event |= {
            "message": message,
            "involvedObject": {**server.run, "namespace": server.namespace},
        }
        event |= {"metadata": {"name": f"{server.name}.{self._now:x}"}}
        self._api.request("POST", path_of(EVENTS, server.namespace), event)


def mapping(value: object) -> Json:
    """The value where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


class Api:
    """By this pod's service account, or by the kubeconfig. What fails is printed and counted, and
    raises nothing."""

    failures = 0

    def __init__(self) -> None:
        self._found = Configuration()
        load = (
            load_incluster_config if "KUBERNETES_SERVICE_HOST" in os.environ else load_kube_config
        )
        try:
            load(client_configuration=self._found)
            trusted = ssl.create_default_context(cafile=self._found.ssl_ca_cert)
            self._trust = (
                trusted if self._found.verify_ssl else httpx.create_ssl_context(verify=False)
            )
            if self._found.cert_file:
                self._trust.load_cert_chain(self._found.cert_file, self._found.key_file)
        except (ConfigException, OSError) as error:
            raise SystemExit(f"no way to reach an API server: {error}") from error

    def request(
        self, method: str, path: str, body: Json | None = None, expected: Codes = (), **query: str
    ) -> Json:
        """The answer, metadata only where it is a list's; empty where there is none, no failure
        with an expected status."""
        try:
            token = self._found.get_api_key_with_prefix("BearerToken", alias="authorization")
            headers = {
                "Accept": METADATA if query else "application/json",
                "Accept-Encoding": "identity",
            }
            headers |= {"Authorization": token} if token else {}
            options: Json = {
                "params": query or None,
                "json": body,
                "headers": headers,
                "timeout": SECONDS,
            }
            with httpx.stream(
                method, self._found.host + path, verify=self._trust, **options
            ) as answer:
                text = b"".join(
                    islice(answer.iter_raw(CHUNK_BYTES), MAX_CHUNKS)
                )  # what is cut off is no JSON
            status, found = (
                answer.status_code,
                mapping(json.loads(text)) if answer.is_success else {},
            )
        except (
            ConfigException,
            httpx.HTTPError,
            httpx.InvalidURL,
            OSError,
            ValueError,
            RecursionError,
        ) as error:
            status, text, found = 0, repr(error).encode(), {}
        if not found and status not in expected:
            self.failures += 1
            print(f"{method} {path}: {status or 'failed'}: {text[:300]!r}")
        return found

    def metadata(self, path: str, expected: Codes = (), **query: str) -> Iterator[Json]:
        """Metadata of all objects of a collection, as far as they can be read."""
        limit, until, failures = PAGE, time.monotonic() + LIST_SECONDS, self.failures
        while time.monotonic() <= until:
            page = self.request("GET", path, None, expected, **query, limit=str(limit))
            if self.failures > failures and limit > 1:
                limit, self.failures = limit // 8 or 1, failures  # maybe it was too large
                continue
            limit = min(2 * limit, PAGE)
            yield from (mapping(mapping(item).get("metadata")) for item in page.get("items") or ())
            query["continue"], page = str(mapping(page.get("metadata")).get("continue") or ""), {}
            if not query["continue"]:
                return
        self.failures += 1
        print(
            f"GET {path}: not all of it can be read within {LIST_SECONDS:g} s; the others were "
            "not read"
        )
