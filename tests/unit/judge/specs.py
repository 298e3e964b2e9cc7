"""Specs for judging: the smallest valid one, changed by name."""

from typing import Any

from benchrun.api import BenchmarkRunSpec

SERVER = {
    "image": "vllm/vllm-openai:v0.32.0",
    "resources": {"limits": {"nvidia.com/gpu": 1}},
}


def spec(**changes: Any) -> BenchmarkRunSpec:
    """Build a spec of one workload at an endpoint, with percentiles 50 and 99."""
    values: dict[str, Any] = {
        "model": {"name": "Qwen/Qwen3-4B"},
        "endpoint": {"url": "http://server:8000"},
        "workloads": [workload()],
        "measurement": {"percentiles": ["50", "99"]},
    }
    return BenchmarkRunSpec.model_validate(values | changes)


def workload(name: str = "chat", **changes: Any) -> dict[str, Any]:
    """Build a workload that sends two requests at four a second."""
    return {
        "name": name,
        "dataset": {"random": {}},
        "load": {"requestRates": ["4"]},
        "requests": 2,
    } | changes
