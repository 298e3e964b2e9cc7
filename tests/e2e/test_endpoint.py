"""An existing server is measured and left alone."""

from typing import Any

import pytest
from kit.kubectl import Namespace, command
from kit.runs import (
    SIMULATOR_IMAGE,
    TINY_MODEL,
    VLLM_IMAGE,
    children_selector,
    condition,
    finished,
    simulated_run,
)


def _existing_server(image: str, *args: str) -> list[dict[str, Any]]:
    labels = {"app": "existing"}
    container = {
        "name": "vllm",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            TINY_MODEL,
            "--served-model-name=tiny",
            "--max-model-len=4096",
            *args,
        ],
        "ports": [{"containerPort": 8000}],
        "readinessProbe": {
            "httpGet": {"path": "/health", "port": 8000},
            "periodSeconds": 1,
        },
        "resources": {"requests": {"cpu": "100m"}},
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"}
        ],  # vLLM's processes talk through 160 MiB of it
    }
    shared_memory = {
        "name": "shm",
        "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"},
    }
    pod = {
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [shared_memory],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "existing"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": template,
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "existing"},
            "spec": {"selector": labels, "ports": [{"port": 8000}]},
        },
    ]


def _against(name: str, endpoint: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return simulated_run(name, server=None, endpoint=endpoint, **spec)


@pytest.mark.timeout(400)
def test_a_real_vllm_behind_a_service_is_measured_and_left_alone(
    namespace: Namespace,
) -> None:
    namespace.apply(
        *_existing_server(VLLM_IMAGE, "--max-num-seqs=16", "--enforce-eager")
    )
    namespace.kubectl(
        "rollout",
        "status",
        "deployment/existing",
        "--timeout=240s",
        timeout_seconds=250,
    )
    before = namespace.list("pods", selector="app=existing")[0]
    namespace.apply(
        _against("existing", {"serviceRef": {"name": "existing", "port": 8000}})
    )
    run = finished(namespace, "existing", timeout_seconds=200)

    assert condition(run, "Complete")["status"] == "True", run["status"]
    row = run["status"]["results"][0]
    assert row["metrics"]["completed"] == 8
    assert row["roles"][0]["prefixHitPercent"] == 0
    assert run["status"]["servers"][0]["version"].startswith("0.32")
    after = namespace.list("pods", selector="app=existing")[0]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    assert "deletionTimestamp" not in after["metadata"]
    assert namespace.list("deployments", selector=children_selector(run)) == []


@pytest.mark.timeout(200)
def test_an_endpoint_that_serves_another_model_is_told_with_what_it_serves(
    namespace: Namespace,
) -> None:
    namespace.apply(*_existing_server(SIMULATOR_IMAGE))
    namespace.kubectl("rollout", "status", "deployment/existing", "--timeout=60s")
    model = {"name": "other", "source": {"path": {"path": TINY_MODEL}}}
    namespace.apply(
        _against("wrong-name", {"url": "http://existing:8000"}, model=model)
    )
    run = finished(namespace, "wrong-name", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "ModelNotServed"
    assert "tiny" in run["status"]["message"]


@pytest.mark.timeout(200)
def test_an_endpoint_that_answers_html_is_told_as_such(
    namespace: Namespace,
) -> None:
    page = (
        "import http.server as h\nclass H(h.BaseHTTPRequestHandler):\n def do_GET(s):\n  "
        "s.send_response(200); "
        "s.send_header('Content-Type','text/html'); s.end_headers(); "
        "s.wfile.write(b'<html>hello</html>')\n"
        " do_POST=do_GET\nh.HTTPServer(('',8000),H).serve_forever()"
    )
    labels = {"app": "web"}
    container = {
        "name": "web",
        "image": SIMULATOR_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", page],
    }
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "labels": labels},
            "spec": {"containers": [container]},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": labels, "ports": [{"port": 8000}]},
        },
    )
    command(
        "kubectl",
        f"--namespace={namespace.name}",
        "wait",
        "pod/web",
        "--for=condition=Ready",
        "--timeout=60s",
    )
    namespace.apply(_against("html", {"url": "http://web:8000"}))
    run = finished(namespace, "html", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] in (
        "EndpointNotFound",
        "CanaryFailed",
    ), run["status"]["message"]
    assert "HTML" in run["status"]["message"]
    assert "<html>" not in run["status"]["message"]
