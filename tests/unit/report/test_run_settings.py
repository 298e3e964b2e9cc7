"""Which settings are the server's and which the client's, and what the server reported of its KV cache."""

from benchrun.api import BenchmarkRunStatus, ServerStatus
from benchrun.report.run_settings import kv_cache_text, settings_rows
from unit.plan.specs import spec_body, workload

ARGS = ["--max-num-seqs=256", "--no-enable-prefix-caching", "--max-model-len", "16384"]


def test_each_setting_names_its_side_and_its_field() -> None:
    reported = {"gpu_memory_utilization": "0.9", "enable_prefix_caching": "True"}
    status = BenchmarkRunStatus(servers=[ServerStatus(role="server", args=ARGS, reported=reported)])
    spec = spec_body(workloads=[workload("mix", requests=128, ignoreEOS=False)], repeats=2)
    rows = {(row[0], row[3]): row[1:3] for row in settings_rows(spec, status).rows}
    assert rows["max-num-seqs", "server.args"] == ("256", "server")
    assert rows["max-model-len", "server.args"] == ("16384", "server")
    assert rows["enable-prefix-caching", "server.args"] == ("false", "server")
    assert rows["gpu-memory-utilization", "server.args"] == ("0.9 (reported)", "server")
    assert rows["max-num-batched-tokens", "server.args"] == ("default", "server")
    assert rows["requests", "workloads[mix].requests"] == ("128", "client")
    assert rows["ignoreEOS", "workloads[mix].ignoreEOS"] == ("false", "client")
    assert (rows["load", "workloads[mix].load"][1], rows["repeats", "repeats"]) == ("client", ("2", "client"))
    assert rows["cachePolicy", "measurement.cachePolicy"] == ("default", "client")


def test_a_spec_of_nobody_knows_what_has_no_settings_and_does_no_harm() -> None:
    hostile = {"workloads": [3, {"name": {}, "load": [[{}]]}], "measurement": "?"}
    assert all(len(row) == 4 for row in settings_rows(hostile, BenchmarkRunStatus()).rows)


def test_a_token_of_the_kv_cache_takes_what_was_available_over_the_tokens() -> None:
    """Hermes-3-Llama-3.1-8B on one H800: 2 x 32 layers x 8 heads x 128 x 2 bytes = 128 KiB a token."""
    server = ServerStatus(role="server", kv_cache_tokens=416_304, reported={"available_kv_cache_gib": "50.83, 50.82"})
    assert kv_cache_text(server) == "KV cache 416304 tokens in 50.8 GiB a GPU, 128 KiB a token and GPU"
    bare = server.model_copy(update={"reported": {"available_kv_cache_gib": "?"}})
    assert kv_cache_text(bare) == "KV cache 416304 tokens"
    assert kv_cache_text(ServerStatus(role="server")) == ""


def test_memory_that_was_given_stands_for_what_vllm_did_not_measure() -> None:
    given = ServerStatus(role="server", kv_cache_tokens=1_048_576, reported={"kv_cache_memory_bytes": "1073741824"})
    assert kv_cache_text(given) == "KV cache 1048576 tokens in 1 GiB a GPU, 1 KiB a token and GPU"
    none = given.model_copy(update={"reported": {"kv_cache_memory_bytes": "None"}})
    assert kv_cache_text(none) == "KV cache 1048576 tokens"
