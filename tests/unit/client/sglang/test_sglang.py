"""SGLang's settings and logs in the form that the source of 0.5.23 gives them, as benchrun reads
them."""

from pathlib import Path
from typing import Any

import pytest
from benchrun.measure import bounded_settings
from benchrun.measure.server_pressure import server_limits
from benchrun.observe import diagnose_server
from benchrun_client.engines import ENGINES, EngineSetting
from benchrun_client.server.counter_snapshots import settings_digest
from unit.observe.bodies import ended

SGLANG = ENGINES["SGLang"]
PAGES = Path(__file__).parent / "pages"
INFO: dict[str, Any] = {
    "model_path": "/model",
    "api_key": "secret",
    "launch_command": "python -m sglang.launch_server --api-key secret",
    "context_length": None,
    "mem_fraction_static": 0.88,
    "max_running_requests": None,
    "chunked_prefill_size": 8192,
    "disable_radix_cache": False,
    "attention_backend": "fa3",
    "kv_cache_dtype": "auto",
    "page_size": 1,
    "tp_size": 2,
    "dp_size": 1,
    "cuda_graph_config": {"decode": {"backend": "full"}},
    "max_total_num_tokens": 100_000,
    "internal_states": [
        {"effective_max_running_requests_per_dp": 2048, "last_gen_throughput": 1.5}
    ],
    "version": "0.5.23",
}


def page(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


def test_settings_are_those_of_server_info_that_are_known_by_name() -> None:
    settings = SGLANG.answered_settings(INFO)
    assert settings == {
        "attention_backend": "fa3",
        "chunked_prefill_size": "8192",
        "disable_radix_cache": "False",
        "dp_size": "1",
        "effective_max_running_requests_per_dp": "2048",
        "kv_cache_dtype": "auto",
        "max_total_num_tokens": "100000",
        "mem_fraction_static": "0.88",
        "page_size": "1",
        "tp_size": "2",
    }
    assert bounded_settings(settings) == settings
    assert INFO[SGLANG.version_key] == "0.5.23"
    assert SGLANG.reported(EngineSetting.MEMORY_SHARE, settings) == "0.88"
    assert SGLANG.reported(EngineSetting.MAX_TOKENS, settings) is None


def test_the_limit_of_running_requests_is_the_one_it_chose() -> None:
    limits = server_limits([], SGLANG, SGLANG.answered_settings(INFO))
    assert limits.sequences == 2048


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"internal_states": []},
        {"internal_states": ["x"], "tp_size": [2]},
        {"internal_states": {"0": 1}, "dtype": {}},
    ],
)
def test_settings_of_a_strange_answer_are_absent(answer: dict[str, Any]) -> None:
    assert SGLANG.answered_settings(answer) == {}


def test_equal_servers_have_the_digest_of_their_settings() -> None:
    digest = settings_digest("", SGLANG, SGLANG.answered_settings(INFO))
    other = SGLANG.answered_settings(INFO | {"kv_cache_dtype": "fp8_e5m2"})
    busy = SGLANG.answered_settings(INFO | {"startup_time": 3.0})
    assert settings_digest("", SGLANG, busy) == digest
    assert settings_digest("", SGLANG, other) != digest


def test_the_parts_of_a_start_are_those_of_the_slowest_rank() -> None:
    phases = SGLANG.startup_phases(page("started.log"))
    assert (phases.load, phases.warm_up) == (12.34, 6.75)
    assert (phases.download, phases.compile) == (None, None)


def test_graphs_of_older_releases_are_read_and_other_lines_are_not() -> None:
    old = "[2025-06-01 10:00:40 TP0] Capture cuda graph end. Time elapsed: 5.50 s. mem usage=0.5 GB."
    assert SGLANG.startup_phases(old).warm_up == 5.5
    assert SGLANG.startup_phases("Load weight end. elapsed=many s, x").load is None
    assert SGLANG.startup_phases("").load is None


def test_a_cache_without_memory_is_told_with_the_flag() -> None:
    found = diagnose_server(
        [ended(137, restarts=3)], None, SGLANG, log_tail=page("no-cache-memory.log")
    )
    assert found is not None
    assert found.reason == "KVCacheTooSmall"
    assert "Raise --mem-fraction-static" in found.message
