"""The same stages behind a proxy: two servers that prefill, one that decodes on as many GPUs."""

from collections.abc import Sequence
from typing import Any

from benchrun.api import BenchmarkRunSpec, BenchmarkRunStatus, ServerStatus
from benchrun.measure.metrics_page import Sample
from benchrun.report.export.formats import ExportedRun
from benchrun_client.contract import (
    PROXY_COUNTERS,
    START_TIME,
    ServerEdge,
    StageRecord,
)
from unit.measure.records import edge, served
from unit.plan.specs import Json
from unit.report.export.runs import (
    CHAT,
    GPU,
    measured,
    run,
    server_sample,
    spec,
    status,
)

KV_TRANSFER = (
    '--kv-transfer-config={"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
)
PREFILL_ARGS = ["--tensor-parallel-size=1", "--enforce-eager"]
DECODE_ARGS = [
    "--tensor-parallel-size=1",
    "--data-parallel-size=2",
    "--enable-expert-parallel",
]
PROMPTS = float(sum(measured(CHAT).requests.input_tokens))
_STARTED = {"prefill": 1000.0, "decode": 2000.0}


def _edge(role: str, **rises: float) -> ServerEdge:
    port = 8000 + len(role)
    started = {START_TIME: _STARTED[role], "generation_tokens_total": 0.0}
    counted = served(measured(CHAT).requests) | {
        "external_prefix_cache_queries_total": PROMPTS
    }
    return edge(
        f"10.0.0.1:{port}", role=role, before=started, rises=counted | rises
    )


PREFILL = _edge("prefill", external_prefix_cache_hits_total=0.0)
SECOND_PREFILL = edge(
    "10.0.0.2:8007",
    role="prefill",
    before={START_TIME: 1500.0, "generation_tokens_total": 0.0},
    rises={},
)
DECODE = _edge(
    "decode",
    external_prefix_cache_hits_total=PROMPTS / 2,
    nixl_num_failed_transfers_total=3.0,
)
PROXY = ServerEdge(
    address="10.0.0.9:8000",
    role="proxy",
    before=dict.fromkeys(PROXY_COUNTERS, 0.0),
    after=dict.fromkeys(PROXY_COUNTERS, 0.0)
    | {
        "benchrun_proxy_added_seconds_sum": 0.048,
        "benchrun_proxy_added_seconds_count": 24.0,
    },
)


def split_spec(**disaggregated: Any) -> BenchmarkRunSpec:
    roles = {
        "prefill": {"replicas": 2, "args": PREFILL_ARGS},
        "decode": {"args": DECODE_ARGS},
        "kvTransfer": {"connector": "NixlConnector"},
    }
    server: Json = {
        "image": "vllm/vllm-openai:v0.32.0",
        "disaggregated": roles | disaggregated,
    }
    return spec(server=server)


def split_status(*, args: bool = True, **gpus: int) -> BenchmarkRunStatus:
    """Build a status with two GPUs for each role, or as many as given."""
    held = {"prefill": 2, "decode": 2, "proxy": 0} | gpus
    servers = [
        ServerStatus(
            engine="VLLM",
            role=role,
            image="benchrun/client"
            if role == "proxy"
            else "vllm/vllm-openai:v0.32.0",
            version=None if role == "proxy" else "0.32.0",
            gpu=GPU,
            gpus=held[role],
            replicas=2 if role == "prefill" else 1,
            kv_cache_tokens=None if role == "proxy" else 100_000,
            args=[*of_role, KV_TRANSFER] if args and of_role else [],
        )
        for role, of_role in (
            ("prefill", PREFILL_ARGS),
            ("decode", DECODE_ARGS),
            ("proxy", []),
        )
    ]
    return status().model_copy(update={"servers": servers})


def split_record(**changes: Any) -> StageRecord:
    """Build the record of a stage that went through all of them."""
    return measured(
        CHAT, **({"servers": (PREFILL, SECOND_PREFILL, DECODE, PROXY)} | changes)
    )


def split_sample(role: str, **figures: Any) -> Sample:
    """Build a sample of a server of the role."""
    return server_sample(
        CHAT, role=role, pod=role, start_time=_STARTED[role], **figures
    )


def split_run(
    *,
    of_spec: BenchmarkRunSpec | None = None,
    of_status: BenchmarkRunStatus | None = None,
    samples: Sequence[Sample] = (),
) -> ExportedRun:
    """Build the run with this stage alone."""
    return run(
        split_record(),
        of_spec=of_spec or split_spec(),
        of_status=of_status or split_status(),
        samples=samples,
    )
