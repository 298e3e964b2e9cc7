"""Plans, stages and records to test with: small, valid, changed by keyword."""

from collections.abc import Callable
from typing import Any, TypeVar

from benchrun_client.contract import (
    NO_FIELDS,
    Api,
    DataFile,
    KindOfRequest,
    LoadEngineVersion,
    Plan,
    SamplingParams,
    ServedModel,
    ServerEdge,
    Stage,
    Target,
    UsersLoad,
    WarmupPlan,
    asked_body,
    digest_of_token,
)
from benchrun_client.contract.datasets import RandomData, ShareGPTData
from benchrun_client.stage_record import ClientCost, Instants, RawStage

T = TypeVar("T")
TOKEN = "0123456789abcdef" * 4
TOKEN_DIGEST = digest_of_token(TOKEN)


def stage(**changes: Any) -> Stage:
    """Build a stage of four short random requests."""
    return Stage(
        **{
            "id": "chat/concurrency=2/r1",
            "workload": "chat",
            "repeat": 1,
            "load": UsersLoad(concurrency=2),
            "data": RandomData(input_tokens=32, output_tokens=4),
            "requests": 4,
            "seed": 1,
            **changes,
        }
    )


def warmup(**changes: Any) -> WarmupPlan:
    """Build a warm-up of two short random requests."""
    return WarmupPlan(
        **{
            "workload": "chat",
            "data": RandomData(input_tokens=32, output_tokens=4),
            "requests": 2,
            "concurrency": 2,
            "seed": 9,
            "max_seconds": 30,
            **changes,
        }
    )


def sharegpt_stage(path: str, **changes: Any) -> Stage:
    """Build a stage that takes rows of a ShareGPT file."""
    return stage(data=sharegpt(path), **changes)


def sharegpt(path: str, **changes: Any) -> ShareGPTData:
    """Build a dataset of rows of a file in the client's container."""
    return ShareGPTData(file=DataFile(path=path), **changes)


def plan(
    *stages: Stage, target: dict[str, Any] | None = None, **changes: Any
) -> Plan:
    """Build a plan of one stage, or of those given."""
    return Plan(
        **{
            "run_uid": "run-1",
            "token_digest": TOKEN_DIGEST,
            "target": Target(
                **{
                    "engine": "VLLM",
                    "base_url": "http://127.0.0.1:8000",
                    "servers": 1,
                    "served_model": "tiny",
                    "tokenizer": "/models/tiny",
                    **(target or {}),
                }
            ),
            "stages": stages or (stage(),),
            "percentiles": ("50", "99"),
            "health_deadline_seconds": 0,
            **changes,
        }
    )


def raw_stage(**changes: Any) -> RawStage:
    """Build the engine's raw results for a stage of two requests, the second of which failed.

    Instants, costs and the server's side are changed by their fields' names.
    """

    def made(kind: Callable[..., T], **defaults: Any) -> T:
        return kind(
            **{
                name: changes.pop(name, default)
                for name, default in defaults.items()
            }
        )

    instants = made(
        Instants,
        due=[100.0, 100.0],
        sent=[100.0, 100.5],
        answered=[101.0, 101.5],
        ok=[True, False],
        ended=[True, False],
        cached={},
        order=None,
    )
    of_node = {
        "lost_segments": None,
        "node_cpu_seconds": None,
        "stolen_seconds": None,
    }
    cost = made(
        ClientCost,
        cpu_seconds=0.5,
        wall_seconds=1.5,
        throttled_periods=None,
        lags=[0.001, 0.002],
        **of_node,
    )
    models = "id=tiny max_model_len=4096"
    served = ServedModel(id="tiny")
    before = {"request_success_total": 1.0}
    after = {"request_success_total": 2.0}
    of_server = {
        "version": "0.32.0",
        "settings": "c" * 32,
        "models": models,
        "served": served,
    }
    edge = made(
        ServerEdge,
        address="10.0.0.1:8000",
        role="server",
        before=before,
        after=after,
        **of_server,
    )
    return RawStage(
        **{
            "run_uid": "run-1",
            "load": UsersLoad(concurrency=2),
            "plan_digest": "a" * 64,
            "sequence": 0,
            "stage_id": "chat/concurrency=2/r1",
            "prompts_digest": "b" * 64,
            "engine": LoadEngineVersion(
                name="vllm", version="0.32.0", trust_env=False
            ),
            "scalars": {"completed": 1, "failed": 1},
            "instants": instants,
            "unix_minus_perf": 1_700_000_000.0,
            "previous_answer": 99.75,
            "ttfts": [0.1, 0.0],
            "itls": [[0.02, 0.03, 0.02], []],
            "input_lens": [32, 32],
            "expected_lens": [32, 32],
            "output_lens": [4, 0],
            "requested_lens": [4, 4],
            "shared_prefix_tokens": 1,
            "repeated_tokens": 0,
            "errors": ["", "Bad Request"],
            "cost": cost,
            "api": "Completions",
            "sampling": SamplingParams(),
            "servers": (edge,),
            **changes,
        }
    )


def kind_of_api(api: Api, **changes: Any) -> KindOfRequest:
    """Return greedy requests with nothing else in them."""
    usual = KindOfRequest(
        api,
        asked_body(api, SamplingParams(), NO_FIELDS),
        adapter=None,
        ignore_eos=False,
    )
    return usual._replace(**changes)
