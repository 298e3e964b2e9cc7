"""An API server of a few kinds, over HTTP: what a release sees of a cluster and does to it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
STATE = "/api/v1/namespaces/benchrun-system/configmaps/benchrun-release"
KINDS = {
    "deployments": "/apis/apps/v1",
    "leaderworkersets": "/apis/leaderworkerset.x-k8s.io/v1",
    "pods": "/api/v1",
    "events": "/api/v1",
    "configmaps": "/api/v1",
}


class Cluster:
    """Objects by path, each whole.

    Lists answer with metadata alone, except for pods, and only where that was asked for.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.refused: dict[
            tuple[str, str], int
        ] = {}  # status by verb and beginning of the path
        self.calls: list[
            tuple[str, str, Json | None]
        ] = []  # verb, path without its query, body
        self.pages = 0
        self.url = ""
        # by its own clock; None: it tells no time
        self.now: int | None = 1_800_000_000
        # reads a page's objects
        self.takes: Callable[[list[Json]], None] = lambda page: None

    def add(self, plural: str, body: Json) -> Json:
        """Add an object, as if another client had created it."""
        meta = body["metadata"]
        self.objects[
            f"{KINDS[plural]}/namespaces/{meta['namespace']}/{plural}/{meta['name']}"
        ] = body
        return body

    def names(self, plural: str) -> list[str]:
        """Return the names of what is left of a kind."""
        return [
            body["metadata"]["name"]
            for path, body in self.objects.items()
            if path.split("/")[-2] == plural
        ]

    def of(self, plural: str) -> list[Json]:
        return [
            body
            for path, body in self.objects.items()
            if path.split("/")[-2] == plural
        ]

    def answer(
        self, verb: str, target: str, body: Json | None, accept: str
    ) -> tuple[int, Json]:
        path, _, query = target.partition("?")
        self.calls.append((verb, path, body))
        for (refused, beginning), status in self.refused.items():
            if refused == verb and path.startswith(beginning):
                return status, {"kind": "Status", "message": f"{status} \x1b[31m"}
        if verb == "GET" and path.rsplit("/", 1)[1] in KINDS:
            whole = path.endswith("/pods")
            assert accept == ("application/json" if whole else METADATA)
            return self._page(
                path, {key: values[0] for key, values in parse_qs(query).items()}
            )
        if verb == "POST":
            assert body is not None
            self.add(
                path.rsplit("/", 1)[1],
                body
                | {
                    "metadata": {
                        "namespace": path.split("/")[-2],
                        **body["metadata"],
                    }
                },
            )
            return 201, body
        if path not in self.objects:
            return 404, {"kind": "Status"}
        if verb == "DELETE":
            assert body is not None
            if (
                body["preconditions"]["uid"]
                != self.objects[path]["metadata"]["uid"]
            ):
                return 409, {"kind": "Status"}
            del self.objects[path]
            return 200, {"kind": "Status", "status": "Success"}
        if verb == "PUT":
            assert body is not None
            self.objects[path] = body
        return 200, self.objects[path]

    def _page(self, path: str, query: dict[str, str]) -> tuple[int, Json]:
        self.pages += 1
        *head, plural = path.split("/")
        label, _, roles = query["labelSelector"].partition(",")
        assert roles == (
            "benchrun.dev/role in (server,prefill,decode)"
            if plural == "pods"
            else ""
        )
        namespace = (
            f"/namespaces/{head[-1]}/"
            if head[-2] == "namespaces"
            else "/namespaces/"
        )
        found = sorted(
            (
                (at, body)
                for at, body in self.objects.items()
                if namespace in at and at.split("/")[-2] == plural
            ),
            key=lambda each: each[0],
        )
        found = [
            (at, body) for at, body in found if label in body["metadata"]["labels"]
        ]
        fields = (
            query["fieldSelector"].split(",") if "fieldSelector" in query else []
        )
        for field, _, namespace in (each.partition("!=") for each in fields):
            assert field in ("metadata.namespace", "spec.nodeName")
            if field == "metadata.namespace":
                found = [
                    (at, b)
                    for at, b in found
                    if b["metadata"]["namespace"] != namespace
                ]
        assert ("spec.nodeName!=" in fields) == (plural == "pods")
        if plural == "pods":
            found = [(at, body) for at, body in found if body["spec"]["nodeName"]]
            found = [
                (at, body)
                for at, body in found
                if body["metadata"]["labels"].get("benchrun.dev/role") != "proxy"
            ]
        found = [(at, body) for at, body in found if at > query.get("continue", "")]
        page = found[: int(query["limit"])]
        more = {"continue": page[-1][0]} if len(page) < len(found) else {}
        bodies = [body for _, body in page]
        self.takes(bodies)
        items = (
            bodies
            if plural == "pods"
            else [{"metadata": b["metadata"]} for b in bodies]
        )
        return 200, {
            "kind": "PartialObjectMetadataList",
            "metadata": more,
            "items": items,
        }


@contextmanager
def serving(cluster: Cluster) -> Iterator[str]:
    """Serve the cluster, and yield its URL, which is in `cluster.url` as well."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            assert self.command is not None
            assert self.headers["Authorization"] == "Bearer secret"
            status, answer = cluster.answer(
                self.command, self.path, body, self.headers["Accept"]
            )
            text = json.dumps(answer).encode()
            self.send_response_only(status)
            if cluster.now is not None:
                self.send_header("Date", formatdate(cluster.now, usegmt=True))
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}
    )
    thread.start()
    cluster.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield cluster.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def kubeconfig(url: str) -> str:
    """Build a kubeconfig of this server."""
    assert urlsplit(url).scheme == "http"
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )
