"""The pods that doctor starts, and what they show."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest
from benchrun.cli import in_pod
from benchrun.doctor.asking import ApiAnswer
from benchrun.doctor.probe import (
    DEADLINE_SECONDS,
    LABEL,
    LONGEST_WAIT_SECONDS,
    client_probe,
    created,
    has_ended,
    results,
    server_probe,
)
from kit.strict_namespace import problems
from unit.doctor.worlds import a_server, a_target
from unit.plan.specs import Json

MODEL = {
    "name": "org/m",
    "revision": "v/1",
    "source": {"hub": {"tokenSecretRef": {"name": "hf", "key": "token"}}},
}


def container_of(pod: Json) -> Json:
    (only,) = pod["spec"]["containers"]
    found: Json = only
    return found


def test_policies_and_meshes_see_what_they_would_of_the_run() -> None:
    labels = {"cost-center": "1"}
    notes = {"sidecar.istio.io/inject": "false"}
    client = {"pod": {"labels": labels, "annotations": notes}}
    metadata = client_probe(a_target(client=client), "script", "pod-1")["metadata"]
    assert notes.items() <= metadata["annotations"].items()
    assert metadata["labels"] == {
        **labels,
        LABEL: "client",
        "benchrun.dev/role": "client",
    }


def test_the_clients_pod_has_all_of_the_clients_but_the_plan() -> None:
    client = {"pod": {"serviceAccountName": "a", "imagePullSecrets": ["s"]}}
    pod = client_probe(a_target(model=MODEL, client=client), "script", "pod-1")
    spec = pod["spec"]
    main = container_of(pod)
    assert main["image"] == "client:1"
    assert {"ports", "readinessProbe"}.isdisjoint(main)
    assert main["command"][:3] == ["python3", "-c", "script"]
    assert main["command"][4] == "org/m/resolve/v%2F1/config.json"
    assert [each["name"] for each in main["env"]][-1] == "HF_TOKEN"
    assert (spec["serviceAccountName"], spec["imagePullSecrets"]) == (
        "a",
        [{"name": "s"}],
    )
    assert [each["name"] for each in spec["volumes"]] == ["tmp"]
    assert [each["name"] for each in main["volumeMounts"]] == ["tmp"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert problems(spec) == []


def test_nothing_is_asked_of_a_hub_that_the_run_does_not_use() -> None:
    claim = {"name": "m", "source": {"pvc": {"claimName": "weights"}}}
    pod = client_probe(a_target(model=claim), "script", "pod-1")
    assert container_of(pod)["command"][4] == ""


def test_the_servers_pod_asks_for_no_device_and_does_nothing() -> None:
    target = a_target(server=a_server(pod={"nodeSelector": {"pool": "gpu"}}))
    pod = server_probe(target.pods[1], target, "pod-2")
    main = container_of(pod)
    assert main["image"] == "vllm/vllm-openai:v0.32.0"
    assert "nvidia.com/gpu" not in json.dumps(main["resources"])
    assert main["command"] == ["/bin/sh", "-c", "exit 0"]
    assert pod["spec"]["nodeSelector"] == {"pool": "gpu"}


def test_no_pod_outlives_doctor_for_long() -> None:
    target = a_target()
    for pod in (
        client_probe(target, "", "pod-1"),
        server_probe(target.pods[1], target, "pod-2"),
    ):
        assert pod["spec"]["activeDeadlineSeconds"] == DEADLINE_SECONDS
        assert pod["spec"]["restartPolicy"] == "Never"
        assert LABEL in pod["metadata"]["labels"]
        assert "benchrun.dev/run-uid" not in pod["metadata"]["labels"]
    assert LONGEST_WAIT_SECONDS < DEADLINE_SECONDS


def seen(phase: str, *, code: int | None = None, waiting: str = "") -> Json:
    """Return the client's pod as the cluster has it."""
    state: dict[str, Any] = {}
    if code is not None:
        state = {"terminated": {"exitCode": code, "reason": "Error"}}
    elif waiting:
        state = {"waiting": {"reason": waiting, "message": "no such image"}}
    status = {
        "phase": phase,
        "containerStatuses": [{"name": "client", "state": state}],
    }
    return {
        "metadata": {"name": "x", "labels": {"benchrun.dev/role": "client"}},
        "spec": {"nodeName": "a", "containers": [{"name": "client", "image": "c"}]},
        "status": status,
    }


ENDED = seen("Succeeded", code=0)


@pytest.mark.parametrize(
    ("body", "state", "ended"),
    [
        pytest.param(ENDED, "Ok", True, id="done"),
        pytest.param(seen("Running", code=0), "Ok", True, id="a sidecar goes on"),
        pytest.param(
            seen("Failed", code=126), "Problem", True, id="no such program"
        ),
        pytest.param(seen("Failed"), "Problem", True, id="its deadline is over"),
        pytest.param(
            seen("Pending", waiting="ImagePullBackOff"),
            "Problem",
            True,
            id="no image",
        ),
        pytest.param(
            seen("Pending", waiting="ErrImagePull"), "NotChecked", False, id="pulls"
        ),
        pytest.param(seen("Pending"), "NotChecked", False, id="no node"),
        pytest.param({}, "NotChecked", False, id="nothing is known"),
    ],
)
def test_what_became_of_a_pod(body: Json, state: str, ended: bool) -> None:
    (line, *_) = results(body, [], a_target().pods[0])
    assert (line.name, line.state) == ("started", state)
    assert has_ended(body) == ended
    assert bool(line.remedy) == (state != "Ok")


@pytest.mark.parametrize(
    ("name", "fine", "state"),
    [
        ("dns", True, "Ok"),
        ("dns", False, "Problem"),
        ("hub", False, "Problem"),
        ("api", False, "Warning"),
    ],
)
def test_what_a_pod_tried(name: str, fine: bool, state: str) -> None:
    printed = json.dumps({"name": name, "fine": fine, "words": "w"})
    lines = ["noise", "[", json.dumps({"name": "other"}), printed]
    _, found = results(ENDED, lines, a_target().pods[0])
    assert (found.name, found.state) == (name, state)


def test_a_pod_that_is_refused_is_told() -> None:
    words = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": a'
    pod = a_target().pods[0]
    found = created(ApiAnswer(trouble="Forbidden", words=words), pod)
    assert found is not None
    assert (found.state, "spec.client.pod" in found.remedy) == ("Problem", True)
    assert created(ApiAnswer({}), pod) is None


def test_who_may_not_create_pods_needs_that_right() -> None:
    words = 'pods is forbidden: User "eve" cannot create resource "pods" in API group ""'
    found = created(ApiAnswer(trouble="Forbidden", words=words), a_target().pods[0])
    assert found is not None
    assert (found.state, "--pods" in found.remedy) == ("NotChecked", True)


class Hub(BaseHTTPRequestHandler):
    """A mirror that wants a token."""

    def do_HEAD(self) -> None:
        has_token = self.headers.get("Authorization") == "Bearer secret"
        self.send_response(200 if has_token else 401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def mirror(
    handler: type[BaseHTTPRequestHandler] = Hub,
) -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("token", "fine", "answer"), [("secret", True, "200"), ("", False, "401")]
)
def test_the_script_tries_what_a_pod_reaches(
    token: str, fine: bool, answer: str
) -> None:
    with mirror() as port:
        environment = {
            "HF_ENDPOINT": f"http://127.0.0.1:{port}/",
            "HF_TOKEN": token,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(port),
        }
        done = subprocess.run(
            [
                sys.executable,
                "-I",
                in_pod.__file__,
                "localhost",
                "m/config.json",
                "5",
            ],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
    found = {
        each["name"]: each for each in map(json.loads, done.stdout.splitlines())
    }
    assert {name: each["fine"] for name, each in found.items()} == {
        "dns": True,
        "hub": fine,
        "api": True,
    }
    assert f"m/config.json answers {answer}" in found["hub"]["words"]
    assert "secret" not in done.stdout


class Elsewhere(BaseHTTPRequestHandler):
    """Redirects to the same server under another name, and says whether the token came along."""

    seen: ClassVar[list[str | None]] = []

    def do_HEAD(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        if len(self.seen) == 1:
            assert isinstance(self.server, HTTPServer)
            port = self.server.server_port
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{port}/elsewhere")
        else:
            self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        """Answer as to HEAD: of a redirected HEAD urllib makes a GET."""
        self.do_HEAD()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_mirror_that_redirects_does_not_pass_the_token_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with mirror(Elsewhere) as port:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("HF_TOKEN", "secret")
        assert "answers 200" in in_pod.hub("m/config.json", 5)
    assert Elsewhere.seen == ["Bearer secret", None]


def test_a_password_of_the_mirror_is_not_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://eve:secret@hub.invalid")
    in_pod.tried("hub", lambda: in_pod.hub("m/config.json", 1))
    assert "secret" not in capsys.readouterr().out


def test_the_script_ends_well_where_nothing_is_reached() -> None:
    words = [sys.executable, "-I", in_pod.__file__, "no.such.name.invalid", "", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={})
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["name"], each["fine"]) for each in found] == [
        ("dns", False),
        ("api", False),
    ]
