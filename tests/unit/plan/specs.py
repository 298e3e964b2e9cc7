"""Specs as users write them, small, for the tests of plans and decisions."""

from typing import Any

from benchrun.api import BenchmarkRunSpec
from benchrun.plan import Owner

Json = dict[str, Any]

UID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
OWNER = Owner(namespace="lab", name="qwen", uid=UID)


def spec_body(**changes: Any) -> Json:
    """Build a spec with a server and one workload of one load point.

    `changes` replace whole top-level fields, None drops one.
    """
    body: Json = {
        "model": {"name": "Qwen/Qwen3-4B"},
        "server": {
            "image": "vllm/vllm-openai:v0.32.0",
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        },
        "workloads": [workload()],
    }
    return {
        name: value for name, value in (body | changes).items() if value is not None
    }


def endpoint_body(endpoint: Json, **changes: Any) -> Json:
    """Build the same spec against an endpoint."""
    return spec_body(server=None, endpoint=endpoint, **changes)


def workload(name: str = "chat", **changes: Any) -> Json:
    """Build a workload of random tokens at 4 requests a second.

    `changes` replace fields, None drops one.
    """
    body: Json = {
        "name": name,
        "dataset": {"random": {"inputTokens": 128, "outputTokens": 16}},
        "load": {"requestRates": ["4"]},
        "requests": 100,
    }
    return {
        field: value
        for field, value in (body | changes).items()
        if value is not None
    }


def rates(*values: str) -> Json:
    return {"requestRates": list(values)}


def concurrencies(*values: int) -> Json:
    return {"concurrencies": list(values)}


def spec(**changes: Any) -> BenchmarkRunSpec:
    """Parse `spec_body`."""
    return BenchmarkRunSpec.model_validate(spec_body(**changes))
