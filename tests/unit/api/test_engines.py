"""A spec names its engine, and is checked by it."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun_client.engines import ENGINES, EngineName
from pydantic import ValidationError
from unit.plan.specs import endpoint_body, spec_body

SPLIT = {"kvTransfer": {"connector": "NixlConnector"}}


def server(engine: EngineName, **fields: Any) -> dict[str, Any]:
    return spec_body(server={"image": "engine:1", "engine": engine, **fields})


def paths_of(body: dict[str, Any]) -> list[str]:
    """Return where each problem is; empty for a valid spec."""
    try:
        BenchmarkRunSpec.model_validate(body)
    except ValidationError as problem:
        found = []
        for each in problem.errors():
            place = ".".join(str(part) for part in each["loc"])
            found.append(place + str(each.get("ctx", {}).get("path", "")))
        return found
    return []


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (spec_body(), "VLLM"),
        (server("SGLang"), "SGLang"),
        (server("LlamaCpp"), "LlamaCpp"),
        (endpoint_body({"url": "http://a"}), "VLLM"),
        (endpoint_body({"url": "http://a", "engine": "SGLang"}), "SGLang"),
    ],
)
def test_the_engine_is_the_one_that_is_named_else_vllm(
    body: dict[str, Any], name: EngineName
) -> None:
    spec = BenchmarkRunSpec.model_validate(body)
    assert spec.engine_name == name
    assert spec.engine is ENGINES[name]


@pytest.mark.parametrize(
    ("engine", "fields", "paths"),
    [
        ("VLLM", {"args": ["--uds=/s"]}, ["server.args[0]"]),
        ("SGLang", {"args": ["--uds=/s"]}, []),
        ("SGLang", {"args": ["--tp-size=2", "--model-path=x"]}, ["server.args[1]"]),
        ("VLLM", {"args": ["--model-path=x"]}, []),
        (
            "VLLM",
            {"env": [{"name": "VLLM_API_KEY", "value": "k"}]},
            ["server.env[0]"],
        ),
        ("SGLang", {"env": [{"name": "VLLM_API_KEY", "value": "k"}]}, []),
        ("SGLang", {"command": ["run", "--host=1"]}, ["server.command[1]"]),
        ("TensorRTLLM", {"args": ["--max_batch_size=4"]}, []),
        (
            "TensorRTLLM",
            {"args": ["--x", "--max-batch-size=4"]},
            ["server.args[1]"],
        ),
        (
            "TensorRTLLM",
            {"args": ["--set=cuda_graph_config=null", "--set", "max_seq_len=9"]},
            ["server.args[1]"],
        ),
        ("TensorRTLLM", {"disaggregated": SPLIT}, ["server.disaggregated"]),
        ("TensorRTLLM", {"nodesPerReplica": 2}, ["server.nodesPerReplica"]),
        ("LlamaCpp", {"args": ["--parallel", "4"]}, []),
        ("LlamaCpp", {"args": ["-np", "4", "--ctx-size=1"]}, ["server.args[2]"]),
        ("LlamaCpp", {"args": ["-np", "4", "-m", "x"]}, ["server.args[2]"]),
        (
            "LlamaCpp",
            {"env": [{"name": "LLAMA_API_KEY", "value": "k"}]},
            ["server.env[0]"],
        ),
        ("LlamaCpp", {"disaggregated": SPLIT}, ["server.disaggregated"]),
        ("LlamaCpp", {"nodesPerReplica": 2}, ["server.nodesPerReplica"]),
        ("VLLM", {"disaggregated": SPLIT}, []),
        ("SGLang", {"disaggregated": SPLIT}, ["server.disaggregated"]),
        (
            "VLLM",
            {"disaggregated": {**SPLIT, "decode": {"args": ["--x", "--port=1"]}}},
            ["server.disaggregated.decode.args[1]"],
        ),
        ("VLLM", {"nodesPerReplica": 2}, []),
        ("SGLang", {"nodesPerReplica": 2}, ["server.nodesPerReplica"]),
    ],
)
def test_a_server_is_checked_by_its_engine(
    engine: EngineName, fields: dict[str, Any], paths: list[str]
) -> None:
    assert paths_of(server(engine, **fields)) == paths


@pytest.mark.parametrize(
    ("engine", "paths"), [("VLLM", [".server.env"]), ("SGLang", [])]
)
def test_only_vllm_has_a_development_mode(
    engine: EngineName, paths: list[str]
) -> None:
    off = [{"name": "VLLM_SERVER_DEV_MODE", "value": "0"}]
    body = server(engine, env=off) | {"measurement": {"cachePolicy": "Reset"}}
    assert paths_of(body) == paths


@pytest.mark.parametrize(
    ("engine", "claim", "paths"),
    [
        ("VLLM", "compiled", []),
        ("SGLang", "compiled", ["server.compileCacheClaim"]),
        ("SGLang", "", []),
    ],
)
def test_a_claim_for_what_is_compiled_needs_an_engine_that_keeps_it(
    engine: EngineName, claim: str, paths: list[str]
) -> None:
    assert paths_of(server(engine, compileCacheClaim=claim)) == paths


@pytest.mark.parametrize(
    ("engine", "paths"),
    [
        ("VLLM", []),
        ("SGLang", []),
        ("LlamaCpp", [".measurement.cachePolicy"]),
        ("TensorRTLLM", [".measurement.cachePolicy"]),
    ],
)
def test_a_cache_that_no_request_empties_is_not_reset(
    engine: EngineName, paths: list[str]
) -> None:
    reset = {"measurement": {"cachePolicy": "Reset"}}
    endpoint = {"url": "http://a", "engine": engine, "allowCacheReset": True}
    assert paths_of(server(engine) | reset) == paths
    assert paths_of(endpoint_body(endpoint) | reset) == paths
    assert paths_of(server(engine)) == []


@pytest.mark.parametrize(
    ("engine", "paths"), [("VLLM", []), ("SGLang", [".measurement.profile"])]
)
def test_a_profile_needs_a_known_profiler(
    engine: EngineName, paths: list[str]
) -> None:
    profile = {"measurement": {"profile": {"seconds": 2}}}
    assert paths_of(server(engine) | profile) == paths
    assert (
        paths_of(endpoint_body({"url": "http://a", "engine": engine}) | profile)
        == paths
    )


def test_an_engine_without_a_server_is_vllms() -> None:
    offline = {"image": "v", "engine": "SGLang"}
    load = {"requestRates": ["inf"]}
    body = spec_body(server=None, offline=offline)
    body["workloads"][0]["load"] = load
    assert paths_of(body) == ["offline.engine"]
