"""A finished run's status, small and readable."""

from typing import Any

from benchrun.api import (
    BenchmarkRunStatus,
    Bottleneck,
    ProfileStatus,
    Result,
    RoleFigures,
    Waiting,
)

WAITING = Waiting(
    reason="SequenceLimit",
    sentence="Requests waited in 40 of 40 readings (6 on average, 6 at most) while running stayed at 2, the server's "
    "max-num-seqs; the KV cache was not full, with at most 3.1 % in use.",
)
LIMIT = Bottleneck(
    limit="SequenceLimit",
    sentence=(
        "The limit on running requests: running stayed at 2, the server's max-num-seqs, while 6 "
        "waited on average."
    ),
)

PROFILE = ProfileStatus(
    limit="Memory",
    sentence="Memory bandwidth is the limit, by a rule of thumb: no kernel ran in 12 % of 5 s; half of the step time is in steps of 8 "
    "tokens or more (threshold 128). The largest kernel is gemv_bf16 with 61 % of kernel time.",
    evidence={"workload": "chat", "hostPercent": 12.0, "stepTokens": 8.0},
    kernels={"flash_fwd_splitkv": 20.5, "gemv_bf16": 61.25, "rms_norm": 4.0},
)


def result(load_point: str = "chat/concurrency=8", **changes: Any) -> Result:
    """Build a result of 100 requests with a median that is certain and a p99 that is not."""
    values: dict[str, Any] = {
        "loadPoint": load_point,
        "workload": load_point.partition("/")[0],
        "axis": "Concurrency",
        "value": load_point.partition("=")[2],
        "repeats": 1,
        "repeats_planned": 1,
        "metrics": {
            "request_throughput": 3.456,
            "output_throughput": 812.34,
            "p50_ttft_ms": 81.234,
            "p99_ttft_ms": 118.4,
            "p50_tpot_ms": 9.87,
            "p99_e2el_ms": 12_345.6,
            "completed": 99.0,
            "failed": 1.0,
        },
        "intervals": {"p50_ttft_ms": [79.5, 83.25], "p50_tpot_ms": [9.8, 9.9]},
        "uncertain": ["p99_ttft_ms", "p99_e2el_ms"],
        "steady": {"p50_ttft_ms": 80.0},
        "roles": [
            RoleFigures(
                role="server",
                running_mean=2.0,
                waiting_mean=6.0,
                kv_cache_max_percent=3.1,
            )
        ],
        "waiting": WAITING,
        "bottleneck": LIMIT,
        "verdict": "Valid",
    }
    return Result(**(values | changes))


def status(*results: Result) -> BenchmarkRunStatus:
    return BenchmarkRunStatus(
        results=list(results), verdict="Valid", message="measured the load point"
    )
