"""What a server really ran with: its own word before its arguments, and never a default."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from benchrun.api import ServerStatus
from benchrun.measure import (
    bounded_settings,
    effective_settings,
    given_settings,
    parse_facts,
)
from benchrun.measure.effective_settings import MAX_CHARS
from benchrun_client.engines import ENGINES, EngineName, EngineSetting as S

UNIT = Path(__file__).parents[1]


def settings(
    *args: str,
    engine: EngineName = "VLLM",
    tokens: int | None = None,
    reported: Mapping[str, str] | None = None,
) -> dict[S, str]:
    server = ServerStatus(
        role="server",
        engine=engine,
        args=list(args),
        reported=dict(reported or {}),
        kv_cache_tokens=tokens,
    )
    return {s: each.value for s, each in effective_settings(server).items()}


def test_a_real_vllm_tells_most_of_its_settings() -> None:
    page = (UNIT / "measure/pages/vllm-0.32.0.txt").read_text()
    log = (UNIT / "client/vllm/pages/config-0.32.0-cpu.log").read_text()
    engine = ENGINES["VLLM"]
    facts = parse_facts(page, engine)
    reported = {**facts.reported, **engine.startup_phases(log).chosen}
    found = settings(
        "--max-num-seqs=16", tokens=facts.kv_cache_tokens, reported=reported
    )
    assert found == {
        S.DTYPE: "bfloat16",
        S.QUANTIZATION: "none",
        S.KV_CACHE_DTYPE: "bfloat16",
        S.PREFIX_CACHE: "on",
        S.CHUNKED_PREFILL: "on",
        S.EAGER: "on",
        S.SPECULATION: "none",
        S.MAX_RUNNING: "16",
        S.MAX_TOKENS: "512",
        S.KV_CACHE_TOKENS: str(facts.kv_cache_tokens),
        S.BLOCK_TOKENS: "128",
        S.MEMORY_SHARE: "0.92",
        S.KV_CACHE_BYTES: reported["kv_cache_memory_bytes"],
        S.TENSOR_PARALLEL: "1",
        S.PIPELINE_PARALLEL: "1",
        S.DATA_PARALLEL: "1",
    }


def test_a_real_llamacpp_tells_less() -> None:
    props = json.loads((UNIT / "client/llamacpp/pages/props.json").read_text())
    engine = ENGINES["LlamaCpp"]
    reported = bounded_settings(engine.answered_settings(props))
    assert settings("--ctx-size", "4096", engine="LlamaCpp", reported=reported) == {
        S.DTYPE: "float32",
        S.QUANTIZATION: "none",
        S.SPECULATION: "none",
        S.MAX_RUNNING: "2",
        S.MAX_TOKENS: "2048",
        S.KV_CACHE_TOKENS: "4096",
    }


@pytest.mark.parametrize(
    ("args", "reported", "expected"),
    [
        (["--no-enable-prefix-caching"], {}, {S.PREFIX_CACHE: "off"}),
        (
            ["--no-enable-prefix-caching"],
            {"enable_prefix_caching": "True"},
            {S.PREFIX_CACHE: "on"},
        ),
        (["--max-model-len=8k"], {}, {S.MAX_TOKENS: "8000"}),
        (["--gpu-memory-utilization", ".90"], {}, {S.MEMORY_SHARE: "0.9"}),
        (["--dtype=half"], {}, {S.DTYPE: "float16"}),
        (["--kv-cache-dtype=fp8"], {}, {S.KV_CACHE_DTYPE: "fp8_e4m3"}),
        ([], {"cache_dtype": "auto"}, {}),
        (["--dtype", "auto"], {}, {}),
        (
            [],
            {"cache_dtype": "auto", "dtype": "float16"},
            {S.DTYPE: "float16", S.KV_CACHE_DTYPE: "float16"},
        ),
        (
            [
                '--speculative-config={"method": "ngram", "num_speculative_tokens": 4}'
            ],
            {},
            {S.SPECULATION: "ngram, 4 tokens"},
        ),
        (
            [
                '--speculative-config={"method": "eagle3", "model": "a/b", '
                '"num_speculative_tokens": 4}'
            ],
            {},
            {S.SPECULATION: "eagle3 of a/b, 4 tokens"},
        ),
        (["--speculative-config={broken"], {}, {}),
        (['--speculative-config={"method": 1}'], {}, {}),
        (["--config=/a"], {}, {}),
        ([], {}, {}),
    ],
)
def test_what_a_server_says_counts_before_its_arguments(
    args: list[str], reported: dict[str, str], expected: dict[S, str]
) -> None:
    assert settings(*args, reported=reported) == expected


def test_the_source_of_a_setting_is_known() -> None:
    server = ServerStatus(
        role="server",
        engine="VLLM",
        args=["--max-num-seqs=8"],
        reported={"dtype": "float16"},
    )
    found = effective_settings(server)
    assert {s: each.source for s, each in found.items()} == {
        S.DTYPE: "Reported",
        S.MAX_RUNNING: "Args",
    }
    # Arguments that the status has cut are those of the spec.
    assert S.MAX_RUNNING not in effective_settings(server, [])


def test_the_kv_cache_is_that_of_one_process() -> None:
    found = settings(tokens=1000, reported={"data_parallel_size": "4"})
    assert found[S.KV_CACHE_TOKENS] == "250"
    assert (
        settings(tokens=1000, reported={"data_parallel_size": "0"})[
            S.KV_CACHE_TOKENS
        ]
        == "1000"
    )


def test_what_a_slot_of_llamacpp_holds_follows_from_two_flags() -> None:
    words = ("--ctx-size", "4096", "--parallel", "4", "-ctk", "q8_0")
    assert given_settings(words, ENGINES["LlamaCpp"]) == {
        S.MAX_RUNNING: "4",
        S.MAX_TOKENS: "1024",
        S.KV_CACHE_TOKENS: "4096",
        S.KV_CACHE_DTYPE: "q8_0",
    }
    assert given_settings(("--parallel", "many"), ENGINES["LlamaCpp"]) == {}


@pytest.mark.parametrize("text", ["x" * 300, "{" * 5000, "\x00", "9" * 200, "nan"])
def test_strange_values_stay_short(text: str) -> None:
    found = settings(
        reported={"dtype": text[:253], "speculative_config": text[:253]}
    )
    assert all(len(value) <= 60 for value in found.values())


def test_every_setting_says_what_it_changes_or_is_not_compared() -> None:
    assert [s for s in S if not s.effects] == [S.CONFIG_FILE]
    assert {s for s in S if "Answers" in s.effects} == {
        S.DTYPE,
        S.QUANTIZATION,
        S.KV_CACHE_DTYPE,
    }


@pytest.mark.parametrize("name", ["speculative_config", "attention_backend"])
def test_values_that_differ_only_far_behind_are_not_the_same(name: str) -> None:
    begin = "eagle3 of /models/" + "x" * 80
    ends = ("/a, 4 tokens", "/b, 4 tokens", "/a, 5 tokens")
    values = [
        value
        for end in ends
        for value in settings(reported={name: begin + end}).values()
    ]
    assert len(set(values)) == 3
    assert max(map(len, values)) <= MAX_CHARS
