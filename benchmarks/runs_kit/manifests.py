"""The runs, and the pod statuses the benchmark writes in place of a kubelet and the scheduler."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from benchrun.names import API_VERSION, KIND

Json = dict[str, Any]

NO_SCHEDULER = "benchrun-scale-nobody"
"""Name that no scheduler has, so no node takes the pods and no kubelet touches them."""
STAGES = 6
ALIKE_KINDS = ("BenchmarkRun", "ConfigMap", "NetworkPolicy", "Service", "Job")


def run(name: str, namespace: str) -> Json:
    """Build a BenchmarkRun of 2 load points x 3 repeats, with 400 requests each."""
    nobody = {"schedulerName": NO_SCHEDULER}
    workload = {
        "name": "chat",
        "dataset": {"random": {"inputTokens": 1024, "outputTokens": 128}},
        "load": {"concurrencies": [4, 16]},
        "requests": 400,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "model": {
                "name": "scale/model",
                "source": {"path": {"path": "/models/scale"}},
            },
            "server": {
                "image": "docker.io/vllm/vllm-openai:v0.32.0",
                "args": ["--max-model-len=12000", "--no-enable-prefix-caching"],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "pod": nobody,
            },
            "client": {"pod": nobody},
            "workloads": [workload],
            "repeats": 3,
        },
    }


def alike(name: str, namespace: str) -> Iterator[tuple[str, Json]]:
    """Yield a run and objects like its first children and about as large, each with its kind.

    The Job gets a pod, as a client's Job does.
    """
    about = {
        "metadata": {"name": name, "namespace": namespace, "labels": {"alike": ""}}
    }
    pod = {
        "schedulerName": NO_SCHEDULER,
        "restartPolicy": "Never",
        "containers": [{"name": "client", "image": "client"}],
    }
    yield "BenchmarkRun", {**run(name, namespace), **about}
    yield "ConfigMap", {**about, "data": {"plan.json": "x" * 4096}}
    yield (
        "NetworkPolicy",
        {**about, "spec": {"podSelector": {"matchLabels": {"alike": name}}}},
    )
    yield (
        "Service",
        {**about, "spec": {"selector": {"alike": name}, "ports": [{"port": 8000}]}},
    )
    yield "Job", {**about, "spec": {"template": {"spec": pod}}}


def pending() -> Json:
    """Build a status patch about as large as the first one the operator writes for a run."""
    words = "waiting for the client: its pod waits for a node"
    conditions = [
        _condition(type_, "Unknown", reason="InProgress", message=words)
        for type_ in ("Accepted", "ServerReady", "Complete", "Valid")
    ]
    return {
        "status": {"phase": "Pending", "message": words, "conditions": conditions}
    }


def unschedulable() -> Json:
    """Build the status patch that the scheduler writes while no GPU is free."""
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    return {
        "status": {
            "conditions": [
                _condition(
                    "PodScheduled", "False", reason="Unschedulable", message=message
                )
            ]
        }
    }


def running(address: str, *, container: str, image: str, ready: bool) -> Json:
    """Build the status patch that a kubelet writes once the container runs."""
    state = {"running": {"startedAt": _now()}}
    return {
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": _now(),
            "conditions": [
                _condition("PodScheduled", "True"),
                _condition("Ready", str(ready)),
            ],
            "containerStatuses": [_container(container, image, state, ready=ready)],
        }
    }


def succeeded(*, container: str, image: str) -> Json:
    """Build the status patch that a kubelet writes when the container has exited with 0."""
    state = {
        "terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": _now(),
            "finishedAt": _now(),
        }
    }
    return {
        "status": {
            "phase": "Succeeded",
            "conditions": [
                _condition("PodScheduled", "True"),
                _condition("Ready", "False"),
            ],
            "containerStatuses": [_container(container, image, state, ready=False)],
        }
    }


def _container(name: str, image: str, state: Json, *, ready: bool) -> Json:
    return {
        "name": name,
        "image": image,
        "imageID": f"{image}@sha256:{'0' * 64}",
        "ready": ready,
        "restartCount": 0,
        "state": state,
    }


def _condition(
    type_: str, status: str, *, reason: str = "", message: str = ""
) -> Json:
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": _now(),
        "reason": reason,
        "message": message,
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
