"""BenchmarkRuns for tests, and what their status says."""

import copy
import os
from datetime import datetime
from typing import Any

from kit.kubectl import RUN, Namespace, Object

TINY_MODEL = "/models/tiny"
SIMULATOR_IMAGE = os.environ.get(
    "SIMULATOR_IMAGE", "docker.io/benchrun/simulator:dev"
)
VLLM_IMAGE = os.environ.get("VLLM_IMAGE", "docker.io/vllm/vllm-openai:dev")

OF_A_BUSY_MACHINE = [
    {"code": "ClientSaturated", "severity": "Note"},
    {"code": "ClientServerGap", "severity": "Note"},
    {"code": "FrontendSaturated", "severity": "Note"},
    {"code": "PathSlow", "severity": "Note"},
    {"code": "RateNotAchieved", "severity": "Note"},
    {"code": "ConcurrencyNotReached", "severity": "Note"},
    {"code": "NotSteadyState", "severity": "Note"},
    {"code": "FirstPartDiffers", "severity": "Note"},
]
"""Severities for runs that ask for a good verdict while everything shares two cores: a late client
and a server that slows down are then true and expected."""


def condition(run: Object, type_: str) -> dict[str, str]:
    """Return a condition of the run; empty when it has none of that type."""
    return next(
        (
            c
            for c in run.get("status", {}).get("conditions", [])
            if c["type"] == type_
        ),
        {},
    )


def is_finished(run: Object) -> bool:
    """Return whether the run has ended, completed or failed."""
    return any(
        condition(run, t).get("status") == "True" for t in ("Complete", "Failed")
    )


def phase(run: Object) -> str:
    """Return the run's phase; empty while it has none."""
    found: str = run.get("status", {}).get("phase", "")
    return found


def merged(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return a deep copy of `base` with `change` laid over it; None removes a key."""
    result = copy.deepcopy(base)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def simulated_run(
    name: str, *, args: tuple[str, ...] = (), **spec: Any
) -> dict[str, Any]:
    """Return a small run against the simulator, with `spec` laid over its own."""
    base: dict[str, Any] = {
        "model": {"name": "tiny", "source": {"path": {"path": TINY_MODEL}}},
        "server": {
            "image": SIMULATOR_IMAGE,
            "args": ["--max-model-len=4096", *args],
            "resources": {
                "limits": {"nvidia.com/gpu": 1},
                "requests": {"cpu": "50m", "memory": "64Mi"},
            },
        },
        "workloads": [
            {
                "name": "chat",
                "dataset": {"random": {"inputTokens": 64, "outputTokens": 8}},
                "load": {"concurrencies": [2]},
                "requests": 8,
            }
        ],
        "client": {"resources": {"requests": {"cpu": "100m", "memory": "512Mi"}}},
        "measurement": {"warmup": {"none": {}}},
        "validity": {"severities": OF_A_BUSY_MACHINE},
    }
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": name},
        "spec": merged(base, spec),
    }


def finished(
    namespace: Namespace, name: str, *, timeout_seconds: float = 300
) -> Object:
    """Wait until the run has ended, and return it."""
    return namespace.wait_for(
        RUN, name, is_finished, timeout_seconds=timeout_seconds, what="finished"
    )


def held_seconds(run: Object) -> float:
    """Return the seconds that a finished run had a node for its server, and with it a GPU."""
    scheduled, ended = (
        datetime.fromisoformat(run["status"][name])
        for name in ("scheduledTime", "completionTime")
    )
    return (ended - scheduled).total_seconds()


def children_selector(run: Object) -> str:
    """Return the label selector of everything the run owns."""
    return f"benchrun.dev/run-uid={run['metadata']['uid']}"
