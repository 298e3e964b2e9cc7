"""Two replicas behind a real gateway: it is measured through, and both replicas are read."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kit.kubectl import Namespace
from kit.runs import SIMULATOR_IMAGE, TINY_MODEL, condition, finished, simulated_run

ROOT = Path(__file__).parents[2]
IMAGE = "docker.io/benchrun/gateway:test"
KEY = "the-gateways-key"
LABELS = {"app": "chat"}
REQUESTS, USERS = 400, 4
CONFIGURATION = """
pid /tmp/nginx.pid;
events {}
http {
  client_body_temp_path /tmp/body;
  proxy_temp_path /tmp/proxy;
  fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi;
  scgi_temp_path /tmp/scgi;
  access_log off;
  upstream replicas { server chat:8000; }
  server {
    listen 8080;
    proxy_http_version 1.1;
    proxy_buffering off;
    location /tenant-a/ {
      if ($http_x_api_key != "KEY") { return 401; }
      proxy_pass http://replicas/;
    }
    location / { return 200; }
  }
}
""".replace("KEY", KEY)


def _deployment(name: str, replicas: int, **container: Any) -> dict[str, Any]:
    labels = {"app": name}
    ready = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1}
    volume = {"name": "gateway", "configMap": {"name": "gateway"}}
    pod = {
        "enableServiceLinks": False,
        "containers": [
            {
                "name": name,
                "imagePullPolicy": "IfNotPresent",
                "readinessProbe": ready,
                **container,
            }
        ],
        "volumes": [volume],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _service(name: str, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": port}]},
    }


@pytest.fixture(scope="module")
def image() -> str:
    folder = Path(__file__).parent / "gateway"
    words: list[str | Path] = ["build", "-t", IMAGE, "-f", folder / "Dockerfile"]
    subprocess.run(
        [sys.executable, "devcluster", *words, folder], cwd=ROOT, check=True
    )
    return IMAGE


@pytest.mark.timeout(600)
def test_two_replicas_behind_a_gateway_are_measured_and_read(
    namespace: Namespace, image: str
) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "gateway"},
        "data": {"nginx.conf": CONFIGURATION},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "gateway"},
        "stringData": {"key": f"{KEY}\n"},
    }
    served = ["--served-model-name=tiny", "--max-model-len=4096"]
    namespace.apply(
        config,
        secret,
        _service("chat", 8000),
        _service("gateway", 8080),
        _deployment(
            "chat",
            2,
            image=SIMULATOR_IMAGE,
            args=[TINY_MODEL, *served, "--sim-ttft-ms=50", "--sim-tpot-ms=10"],
            ports=[{"name": "http", "containerPort": 8000}],
        ),
    )
    namespace.kubectl("rollout", "status", "deployment/chat", "--timeout=60s")
    mounts = [{"name": "gateway", "mountPath": "/etc/gateway"}]
    ports = [{"name": "http", "containerPort": 8080}]
    namespace.apply(
        _deployment("gateway", 1, image=image, ports=ports, volumeMounts=mounts)
    )
    namespace.kubectl("rollout", "status", "deployment/gateway", "--timeout=60s")
    endpoint = {
        "url": "http://gateway:8080/tenant-a",
        "headers": [
            {"name": "X-Api-Key", "secretKeyRef": {"name": "gateway", "key": "key"}}
        ],
        "metrics": {"pods": {"labels": LABELS}},
    }
    workload = {
        "name": "users",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 16}},
        "load": {"concurrencies": [USERS]},
        "requests": REQUESTS,
    }
    namespace.apply(
        simulated_run(
            "gateway", server=None, endpoint=endpoint, workloads=[workload]
        )
    )
    run = finished(namespace, "gateway", timeout_seconds=300)

    assert condition(run, "Complete")["status"] == "True", run["status"]
    (row,) = run["status"]["results"]
    assert row["metrics"]["completed"] == REQUESTS
    server, gateway = row["roles"]
    assert (server["role"], gateway["role"]) == ("server", "gateway")
    # Over both replicas, which are not read at one instant: one alone runs half of the users.
    assert 0.75 * USERS < server["runningMean"] < 1.25 * USERS
    assert server.get("serversMin") is None
    assert 0 < gateway["addedMeanMs"] < 50
    assert KEY not in str(namespace.list("configmaps", selector="benchrun.dev/run"))
