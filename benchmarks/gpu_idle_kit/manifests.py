"""The objects of both arms.

The stages are the same: load points x repeats, with so many requests each.
"""

import copy
import os
from dataclasses import dataclass
from typing import Any

from benchrun.names import API_VERSION, KIND
from benchrun_client.engines import ENGINES

VLLM = ENGINES["VLLM"]

Json = dict[str, Any]

NAME = "idle"
MODEL = "tiny"
MODEL_PATH = "/models/tiny"
VLLM_IMAGE = os.environ.get("VLLM_IMAGE", "docker.io/vllm/vllm-openai:dev")
SIMULATOR_IMAGE = os.environ.get(
    "SIMULATOR_IMAGE", "docker.io/benchrun/simulator:dev"
)

CONCURRENCIES = (2, 8)
REPEATS = 3
REQUESTS = 16
INPUT_TOKENS = 64
OUTPUT_TOKENS = 16
STAGES = [concurrency for _ in range(REPEATS) for concurrency in CONCURRENCIES]
CLIENT_REQUESTS = {"cpu": "500m", "memory": "1Gi"}


@dataclass(frozen=True, slots=True)
class ServerKind:
    """A server image with its flags and resource requests."""

    image: str
    args: tuple[str, ...]
    requests: tuple[tuple[str, str], ...]


SERVERS = {
    "vllm": ServerKind(
        VLLM_IMAGE,
        ("--max-model-len=4096", "--max-num-seqs=16", "--enforce-eager"),
        (("cpu", "500m"), ("memory", "3Gi")),
    ),
    # It takes as long to load as a small model on a GPU.
    "simulator": ServerKind(
        SIMULATOR_IMAGE,
        ("--max-model-len=4096", "--sim-load-seconds=75", "--sim-tpot-ms=20"),
        (("cpu", "50m"), ("memory", "64Mi")),
    ),
}


def benchmark_run(namespace: str, server: ServerKind) -> Json:
    """Build the BenchmarkRun, which is all of arm (a)."""
    workload = {
        "name": "chat",
        "dataset": {
            "random": {"inputTokens": INPUT_TOKENS, "outputTokens": OUTPUT_TOKENS}
        },
        "load": {"concurrencies": list(CONCURRENCIES)},
        "requests": REQUESTS,
    }
    spec = {
        "model": {"name": MODEL, "source": {"path": {"path": MODEL_PATH}}},
        "server": {
            "image": server.image,
            "args": list(server.args),
            "resources": {
                "limits": {"nvidia.com/gpu": 1},
                "requests": dict(server.requests),
            },
        },
        "client": {"resources": {"requests": CLIENT_REQUESTS}},
        "workloads": [workload],
        "repeats": REPEATS,
    }
    meta = {"name": NAME, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": spec}


def deployment(namespace: str, template: Json) -> Json:
    """Build the Deployment of arm (b), with the very pod that the BenchmarkRun got."""
    labels = {"app": NAME}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": copy.deepcopy(template["spec"]),
            },
        },
    }


def service(namespace: str) -> Json:
    """Build the Service of arm (b), the name the Jobs talk to."""
    spec = {"selector": {"app": NAME}, "ports": [{"port": VLLM.port}]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": spec,
    }


def job(namespace: str, number: int, concurrency: int) -> Json:
    """Build the Job of one stage of arm (b), as vLLM's documentation tells to measure it."""
    flags = {
        "backend": "openai",
        "base-url": f"http://{NAME}:{VLLM.port}",
        "model": MODEL,
        "tokenizer": MODEL_PATH,
        "dataset-name": "random",
        "random-input-len": INPUT_TOKENS,
        "random-output-len": OUTPUT_TOKENS,
        "num-prompts": REQUESTS,
        "max-concurrency": concurrency,
        "seed": number,
    }
    user = 65532
    container = {
        "name": "bench",
        "image": VLLM_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "vllm",
            "bench",
            "serve",
            "--ignore-eos",
            *(f"--{name}={value}" for name, value in flags.items()),
        ],
        "env": [
            {"name": "HOME", "value": "/tmp"},
            {"name": "USER", "value": "bench"},
        ],
        "resources": {"requests": CLIENT_REQUESTS},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"stage-{number}", "namespace": namespace},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }
