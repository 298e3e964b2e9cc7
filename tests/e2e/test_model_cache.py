"""Two runs that fill one claim at once, and one that finds it filled: one download, and no server
waits for it."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from e2e.conftest import in_a_namespace
from kit import model_hub
from kit.kubectl import RUN, Namespace, Object
from kit.runs import SIMULATOR_IMAGE, TINY_MODEL, condition, finished, simulated_run

REPOSITORY = "org/tiny"
HUB = f"http://hub:{model_hub.PORT}"
WEIGHTS = 8_000_000
SECONDS_A_CHUNK = 0.05
"""The weights take six seconds: longer than two clients need to meet."""


@pytest.fixture(scope="module")
def shelf(operator: Namespace) -> Iterator[Namespace]:
    """A namespace that has a hub, and a claim that is empty."""
    with in_a_namespace() as namespace:
        namespace.apply(*_manifests())
        namespace.kubectl(
            "wait", "pod/hub", "--for=condition=Ready", "--timeout=60s"
        )
        yield namespace


def _manifests() -> tuple[Object, ...]:
    program = Path(model_hub.__file__).read_text(encoding="utf-8")
    lay = (
        f"cp {TINY_MODEL}/* /files && head -c {WEIGHTS} /dev/urandom > "
        "/files/extra.safetensors && exec python3 /program/serve.py"
    )
    env = {
        "FOLDER": "/files",
        "REPOSITORY": REPOSITORY,
        "SECONDS_A_CHUNK": str(SECONDS_A_CHUNK),
        "PYTHONUNBUFFERED": "1",
    }
    container = {
        "name": "serve",
        "image": SIMULATOR_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-euc", lay],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "readinessProbe": {
            "tcpSocket": {"port": model_hub.PORT},
            "periodSeconds": 1,
        },
        "volumeMounts": [
            {"name": "files", "mountPath": "/files"},
            {"name": "program", "mountPath": "/program"},
        ],
    }
    return (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "program"},
            "data": {"serve.py": program},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "models"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "hub"},
            "spec": {
                "selector": {"app": "hub"},
                "ports": [{"port": model_hub.PORT}],
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "hub", "labels": {"app": "hub"}},
            "spec": {
                "enableServiceLinks": False,
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                "volumes": [
                    {"name": "files", "emptyDir": {}},
                    {"name": "program", "configMap": {"name": "program"}},
                ],
            },
        },
    )


def cached_run(name: str, **model: Any) -> Object:
    hub = {"endpoint": HUB, "cacheClaim": "models"}
    run: Object = simulated_run(name)
    run["spec"]["model"] = {"name": REPOSITORY, "source": {"hub": hub}, **model}
    return run


def handed_out(namespace: Namespace) -> dict[str, int]:
    """Return how many bytes of each file the hub has handed out."""
    ask = (
        "import urllib.request as r;"
        f"print(r.urlopen('http://localhost:{model_hub.PORT}/counted').read().decode())"
    )
    found: dict[str, int] = json.loads(
        namespace.kubectl("exec", "hub", "--", "python3", "-c", ask)
    )
    return found


@pytest.mark.timeout(600)
def test_a_model_is_downloaded_once_and_before_any_server(shelf: Namespace) -> None:
    shelf.apply(cached_run("first"), cached_run("second"))
    runs = [finished(shelf, name) for name in ("first", "second")]
    assert handed_out(shelf)["extra.safetensors"] == WEIGHTS
    commits = set()
    for run in runs:
        status = run["status"]
        assert condition(run, "Complete")["status"] == "True", status
        model = status["model"]
        assert (model["state"], model["start"]) == ("Complete", "Cold")
        commits.add(model["commit"])
        (server,) = status["servers"]
        assert f"--revision={model['commit']}" in server["args"]
        assert server["startup"]["model"] == "Cold"
        completed, scheduled = (
            datetime.fromisoformat(text)
            for text in (model["completedTime"], status["scheduledTime"])
        )
        assert completed <= scheduled
        assert status["client"]["commit"] == model["commit"]
    (commit,) = commits

    shelf.apply(cached_run("third", revision=commit))
    warm = finished(shelf, "third")
    assert condition(warm, "Complete")["status"] == "True", warm["status"]
    assert warm["status"]["model"]["start"] == "Warm"
    assert handed_out(shelf)["extra.safetensors"] == WEIGHTS


def test_a_model_that_the_hub_has_not_costs_no_server(shelf: Namespace) -> None:
    shelf.apply(cached_run("nowhere", revision="v9"))
    run = finished(shelf, "nowhere")
    assert condition(run, "Failed")["reason"] == "ModelNotFound"
    assert "model.revision" in run["status"]["message"]
    assert "scheduledTime" not in run["status"]
    assert shelf.get(RUN, "nowhere")["status"].get("servers", []) == []
