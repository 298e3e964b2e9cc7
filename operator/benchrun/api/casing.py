"""How a Python name is written on the wire."""

from __future__ import annotations

from pydantic.alias_generators import to_camel

_ACRONYMS = {
    "ignore_eos": "ignoreEOS",
    "share_gpt": "shareGPT",
    "p99_ttft": "p99TTFT",
    "throughput_per_gpu": "throughputPerGPU",
    "mean_tpot_ms": "meanTPOTMs",
    "per_gpu_hour": "perGPUHour",
    "no_gpu_telemetry_reason": "noGPUTelemetryReason",
}


def json_name(name: str) -> str:
    """`max_concurrency` is `maxConcurrency`; acronyms stay whole."""
    return _ACRONYMS.get(name) or to_camel(name)
