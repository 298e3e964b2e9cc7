"""Runs and sweeps that are as small as possible, and the statuses of failing pods.

A kubelet or a scheduler would write those statuses.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.names import API_VERSION, CLIENT_CONTAINER, SERVER_CONTAINER
from runs_kit import manifests

Json = dict[str, Any]

STAGES = 2
DEADLINE_SECONDS = 90
"""Longer than a chaos round disturbs one run."""
CLIENT_IMAGE = "docker.io/benchrun/client:scale"
SERVER_IMAGE = "docker.io/vllm/vllm-openai:v0.32.0"
CONTAINERS = {
    "client": (CLIENT_CONTAINER, CLIENT_IMAGE),
    "server": (SERVER_CONTAINER, SERVER_IMAGE),
}
_NO_NODE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
_NEVER = (
    "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
)
_INSTANTS = ("startedAt", "finishedAt", "startTime", "lastTransitionTime")


def run(name: str, namespace: str) -> Json:
    """Build a BenchmarkRun of one load point and two repeats."""
    body = manifests.run(name, namespace)
    spec = body["spec"]
    spec["workloads"] = [
        {
            "name": "chat",
            "dataset": {"random": {"inputTokens": 64, "outputTokens": 16}},
            "load": {"concurrencies": [4]},
            "requests": 40,
        }
    ]
    spec |= {
        "repeats": STAGES,
        "startupDeadlineSeconds": DEADLINE_SECONDS,
        "runDeadlineSeconds": DEADLINE_SECONDS,
    }
    return body


def sweep(name: str, namespace: str, *, variants: int) -> Json:
    """Build a BenchmarkSweep with one run of each variant."""
    listed = [
        {"name": f"seqs-{n}", "args": [f"--max-num-seqs={n}"]}
        for n in range(1, variants + 1)
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": SWEEP_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "template": run("any", namespace)["spec"],
            "matrix": {"variants": listed},
            "order": "AsListed",
        },
    }


def unschedulable(*, ever: bool) -> Json:
    """Build the status patch of a pod without a node; with `ever`, a node may come free."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": _NO_NODE if ever else _NEVER,
    }
    return {"status": {"conditions": [condition]}}


def running(role: str, address: str, *, ready: bool = True) -> Json:
    """Build the status patch of a pod whose container runs."""
    container, image = CONTAINERS[role]
    return manifests.running(address, container=container, image=image, ready=ready)


def succeeded(role: str) -> Json:
    """Build the status patch of a pod whose container has exited with 0."""
    container, image = CONTAINERS[role]
    return manifests.succeeded(container=container, image=image)


def failed(role: str, how: str) -> Json:
    """Build the status patch of a pod that failed for good, itself or its container."""
    code, reason = {"oom": (137, "OOMKilled"), "exit": (1, "Error")}.get(
        how, (137, "Error")
    )
    body = succeeded(role)
    status = body["status"]
    status["phase"] = "Failed"
    if how == "evicted":
        status |= {
            "reason": "Evicted",
            "message": "The node was low on resource: memory.",
        }
    ended = status["containerStatuses"][0]["state"]["terminated"]
    ended |= {"exitCode": code, "reason": reason}
    return body


def restarted(role: str, address: str, *, out_of_memory: bool) -> Json:
    """Build the status patch of a pod whose container ended and runs once more."""
    body = running(role, address)
    container = body["status"]["containerStatuses"][0]
    now = container["state"]["running"]["startedAt"]
    ended = {
        "exitCode": 137 if out_of_memory else 1,
        "reason": "OOMKilled" if out_of_memory else "Error",
        "startedAt": now,
        "finishedAt": now,
    }
    container |= {"restartCount": 1, "lastState": {"terminated": ended}}
    return body


def by_clock(body: Json, seconds: float) -> Json:
    """Return a status patch as a node would write it whose clock is so many seconds ahead."""
    return (
        {key: _shifted(key, value, seconds) for key, value in body.items()}
        if seconds
        else body
    )


def _shifted(key: str, value: Any, seconds: float) -> Any:
    if isinstance(value, dict) and value.get("type") == "PodScheduled":
        return value  # written by the scheduler, whose clock is right
    if isinstance(value, dict):
        return {name: _shifted(name, each, seconds) for name, each in value.items()}
    if isinstance(value, list):
        return [_shifted(key, each, seconds) for each in value]
    if key in _INSTANTS:
        at = datetime.fromisoformat(value).astimezone(UTC) + timedelta(
            seconds=seconds
        )
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return value
