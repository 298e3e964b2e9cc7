"""A namespace is not taken out of `watchNamespaces` while a server of a run holds a node there."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from chart.rendering import (
    CHART,
    NAMESPACE,
    NAMESPACED,
    RELEASE,
    Object,
    helm,
    notes,
)

STATE = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{RELEASE}-benchrun-release"
ANSWERS: dict[str, Object] = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.3"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {
                "name": "configmaps",
                "kind": "ConfigMap",
                "namespaced": True,
                "verbs": ["get"],
            }
        ],
    },
    STATE: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{RELEASE}-benchrun-release", "namespace": NAMESPACE},
        "data": {"team-b.4e20caa2-0000": "1800000000"},
    },
}


class Handler(BaseHTTPRequestHandler):
    """An API server as far as Helm's `lookup` asks it."""

    def do_GET(self) -> None:
        found = ANSWERS.get(self.path.partition("?")[0])
        missing = {
            "apiVersion": "v1",
            "kind": "Status",
            "reason": "NotFound",
            "code": 404,
        }
        body = json.dumps(found or missing).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """Of an API server that holds the clock of one server, in team-b."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def said(url: str, values: Object) -> str:
    """What an upgrade that looks at the cluster complains of."""
    where = (
        f"--kube-apiserver={url}",
        "--kubeconfig=/dev/null",
        "--disable-openapi-validation",
    )
    chart = ("template", RELEASE, str(CHART), f"--namespace={NAMESPACE}")
    return helm(*chart, "--dry-run=server", *where, values=values).stderr


def watching(*namespaces: str) -> Object:
    return {**NAMESPACED, "watchNamespaces": list(namespaces)}


def test_it_is_refused_by_name(url: str) -> None:
    assert "watchNamespaces lacks team-b" in said(url, watching("team-a"))


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(watching("team-b"), id="watched"),
        pytest.param({}, id="the whole cluster"),
        pytest.param(
            {**watching("team-a"), "release": {"enabled": False}}, id="no CronJob"
        ),
    ],
)
def test_elsewhere_nothing_is_refused_for_it(url: str, values: Object) -> None:
    assert "watchNamespaces" not in said(url, values)


def test_the_notes_say_what_to_end_first() -> None:
    assert "watchNamespaces" in notes(NAMESPACED)
    assert "watchNamespaces" not in notes({})
