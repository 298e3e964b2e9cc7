"""Settings have one name, whatever an engine calls its flags."""

import pytest
from benchrun.measure.server_pressure import ServerLimits, server_limits
from benchrun.sizing import ServeArgs
from benchrun_client.engines import ENGINES, EngineName, EngineSetting


@pytest.mark.parametrize(
    ("engine", "words", "setting", "value"),
    [
        ("VLLM", ["--max-num-seqs=8"], EngineSetting.MAX_RUNNING, 8),
        ("VLLM", ["-tp", "2"], EngineSetting.TENSOR_PARALLEL, 2),
        ("VLLM", ["--max-running-requests=8"], EngineSetting.MAX_RUNNING, None),
        ("SGLang", ["--max-running-requests", "8"], EngineSetting.MAX_RUNNING, 8),
        ("SGLang", ["--max-run=8"], EngineSetting.MAX_RUNNING, 8),
        ("SGLang", ["--tp=4"], EngineSetting.TENSOR_PARALLEL, 4),
        ("SGLang", ["--tensor-parallel-size=4"], EngineSetting.TENSOR_PARALLEL, 4),
        ("SGLang", ["--context-length=32k"], EngineSetting.MAX_TOKENS, 32_000),
        ("SGLang", ["--max-num-seqs=8"], EngineSetting.MAX_RUNNING, None),
        ("SGLang", ["--max-prefill-tokens=8"], EngineSetting.STEP_TOKENS, None),
    ],
)
def test_a_setting_is_read_from_the_engines_flag(
    engine: EngineName, words: list[str], setting: EngineSetting, value: int | None
) -> None:
    assert ServeArgs.of(words, ENGINES[engine]).whole(setting) == value


@pytest.mark.parametrize(
    ("engine", "words", "on", "given"),
    [
        ("VLLM", [], True, False),
        ("VLLM", ["--no-enable-prefix-caching"], False, True),
        # As 0.33 spells it.
        ("VLLM", ["--disable-prefix-caching"], False, True),
        (
            "VLLM",
            ["--disable-prefix-caching", "--enable-prefix-caching"],
            True,
            True,
        ),
        (
            "VLLM",
            ["--no-enable-prefix-caching", "--enable-prefix-caching"],
            True,
            True,
        ),
        ("SGLang", [], True, False),
        ("SGLang", ["--disable-radix-cache"], False, True),
        ("SGLang", ["--no-enable-prefix-caching"], True, False),
    ],
)
def test_a_switch_is_turned_by_the_engines_flags(
    engine: EngineName, words: list[str], on: bool, given: bool
) -> None:
    args = ServeArgs.of(words, ENGINES[engine])
    assert args.switched(EngineSetting.PREFIX_CACHE, default=True) is on
    assert args.is_switched(EngineSetting.PREFIX_CACHE) is given


def test_limits_of_sglang_are_those_that_its_flags_say() -> None:
    args = ["--max-running-requests=32", "--dp-size=2"]
    found = server_limits(args, ENGINES["SGLang"], kv_cache_tokens=4096)
    assert found == ServerLimits(
        sequences=64,
        sequences_name="max-running-requests",
        kv_cache_tokens=4096,
        engines=2,
    )
    # What vLLM reports of itself is no label of SGLang's.
    assert (
        server_limits([], ENGINES["SGLang"], {"max_num_seqs": "2"})
        == ServerLimits()
    )
