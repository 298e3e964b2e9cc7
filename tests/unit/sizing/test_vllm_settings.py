"""A server's flags as sizing reads them: each one, its default, its short name, and what is wrong
with it."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from benchrun.sizing import (
    ModelShape,
    ServeArgs,
    SizedEngine,
    UnreadableValue,
    compute_dtype,
    default_step_tokens,
    engine_of,
    max_model_tokens,
    model_shape,
)
from benchrun_client.engines import ENGINES
from unit.sizing import configs

VLLM = ENGINES["VLLM"]

GIB = 2**30
SHAPE: ModelShape = model_shape(configs.LLAMA_8B)


def engine(*flags: str, gpu_bytes: int | None = None) -> SizedEngine:
    return engine_of(ServeArgs.of(flags, VLLM), SHAPE, gpu_bytes=gpu_bytes)


def changed(*flags: str) -> dict[str, Any]:
    """What these flags make different from an engine without flags."""
    plain = asdict(engine())
    return {
        name: value
        for name, value in asdict(engine(*flags)).items()
        if value != plain[name]
    }


def test_without_flags_it_is_as_vllm_has_it() -> None:
    assert engine() == SizedEngine(
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        block_tokens=16,
        cache_dtype="bfloat16",
        utilization=0.92,
        max_tokens=131_072,
        sequences=None,
        step_tokens=2048,
        steps_in_flight=2,
        cache_bytes=None,
        blocks=None,
        drops_beyond_window=True,
        caveats=(),
    )


@pytest.mark.parametrize(
    ("flags", "difference"),
    [
        (["--tensor-parallel-size=4"], {"tensor_parallel": 4}),
        (["-tp", "4"], {"tensor_parallel": 4}),
        (
            ["--pipeline-parallel-size=3"],
            {"pipeline_parallel": 3, "steps_in_flight": 4},
        ),
        (
            ["-pp=3", "--no-async-scheduling"],
            {"pipeline_parallel": 3, "steps_in_flight": 3},
        ),
        (["--data-parallel-size=2"], {"data_parallel": 2}),
        (["-dp=2"], {"data_parallel": 2}),
        (["--block-size=128"], {"block_tokens": 128}),
        (["--kv-cache-dtype=fp8"], {"cache_dtype": "fp8"}),
        (["--gpu-memory-utilization=0.5"], {"utilization": 0.5}),
        (["--gpu-memory-utilization=1"], {"utilization": 1.0}),
        (["--max-model-len=8k"], {"max_tokens": 8000}),
        (["--max-model-len=8K"], {"max_tokens": 8192}),
        (["--max-model-len=auto"], {}),
        (["--max-model-len=AUTO"], {}),
        (["--max-model-len", "-1"], {}),
        (["--max-num-seqs=64"], {"sequences": 64}),
        (["--max-num-batched-tokens=4096"], {"step_tokens": 4096}),
        (["--no-async-scheduling"], {"steps_in_flight": 1}),
        (["--async-scheduling", "--no-async-scheduling", "--async-scheduling"], {}),
        (["--kv-cache-memory-bytes=2GiB"], {"cache_bytes": 2 * GIB}),
        (["--num-gpu-blocks-override=99"], {"blocks": 99}),
        (["--disable-hybrid-kv-cache-manager"], {"drops_beyond_window": False}),
        (
            [
                "--disable-hybrid-kv-cache-manager",
                "--no-disable-hybrid-kv-cache-manager",
            ],
            {},
        ),
        (["--enforce-eager", "--seed=1"], {}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_each_flag_changes_what_it_is_about_and_nothing_else(
    flags: list[str], difference: dict[str, Any]
) -> None:
    assert changed(*flags) == difference


@pytest.mark.parametrize(
    "flag",
    [
        "--decode-context-parallel-size=2",
        "-dcp=2",
        "--prefill-context-parallel-size=2",
        "--speculative-config={}",
        "--speculative-config.method=ngram",
        "--kv-transfer-config={}",
        "--hf-overrides.rope_scaling.factor=2",
    ],
)
def test_a_flag_that_is_not_counted_is_reported(flag: str) -> None:
    (caveat,) = engine(flag).caveats
    name = flag.lstrip("-").partition("=")[0].partition(".")[0]
    assert (
        caveat
        == f"--{'decode-context-parallel-size' if name == 'dcp' else name} changes the cache, but is not counted"
    )


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (
            ["--tensor-parallel-size=two"],
            "--tensor-parallel-size: 'two' is not a whole number; write 8192, 8k",
        ),
        (["-pp=0"], "--pipeline-parallel-size: 0 is not above 0"),
        (
            ["--data-parallel-size=1.5"],
            "--data-parallel-size: '1.5' is not a whole number; decimals go with k",
        ),
        (["--block-size="], "--block-size: '' is not a whole number"),
        (["--max-model-len=long"], "--max-model-len: 'long' is not a whole number"),
        (["--max-num-seqs=0"], "--max-num-seqs: 0 is not above 0"),
        (
            ["--max-num-batched-tokens=-5"],
            "--max-num-batched-tokens: '-5' is not a whole number",
        ),
        (
            ["--num-gpu-blocks-override=0"],
            "--num-gpu-blocks-override: 0 is not above 0",
        ),
        (
            ["--kv-cache-memory-bytes=half"],
            "--kv-cache-memory-bytes: 'half' is not an amount of memory; write for",
        ),
        (
            ["--gpu-memory-utilization=0"],
            "--gpu-memory-utilization: '0' is not above 0 and at most 1",
        ),
        (
            ["--gpu-memory-utilization=90"],
            "--gpu-memory-utilization: '90' is not above 0 and at most 1",
        ),
        (
            ["--gpu-memory-utilization=nan"],
            "--gpu-memory-utilization: 'nan' is not above 0 and at most 1",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_value_that_is_none_names_its_flag_and_what_it_takes(
    flags: list[str], named: str
) -> None:
    with pytest.raises(UnreadableValue) as problem:
        engine(*flags)
    assert str(problem.value).startswith(named)


def test_gpus_of_an_engine_are_those_of_tensor_and_pipeline() -> None:
    assert engine("-tp=4", "-pp=2", "-dp=3").gpus == 8


@pytest.mark.parametrize(
    ("gpu_bytes", "tokens"),
    [
        (None, 2048),
        (70 * GIB - 1, 2048),
        (70 * GIB, 8192),
        (160 * GIB - 1, 8192),
        (160 * GIB, 16_384),
    ],
)
def test_a_step_grows_with_the_gpu(gpu_bytes: int | None, tokens: int) -> None:
    assert default_step_tokens(gpu_bytes) == tokens
    assert engine(gpu_bytes=gpu_bytes).step_tokens == tokens
    assert (
        engine("--max-num-batched-tokens=7", gpu_bytes=gpu_bytes).step_tokens == 7
    )


@pytest.mark.parametrize(
    ("stored", "flags", "computed"),
    [
        ("bfloat16", [], "bfloat16"),
        ("float16", [], "float16"),
        ("float32", [], "bfloat16"),
        (None, [], "bfloat16"),
        ("float8_e4m3fn", [], "bfloat16"),
        ("bfloat16", ["--dtype=auto"], "bfloat16"),
        ("bfloat16", ["--dtype=float16"], "float16"),
        ("float32", ["--dtype=float32"], "float32"),
    ],
)
def test_a_model_is_computed_in_its_own_16_bits(
    stored: str | None, flags: list[str], computed: str
) -> None:
    assert (
        compute_dtype(ServeArgs.of(flags, VLLM), replace(SHAPE, dtype=stored))
        == computed
    )


@pytest.mark.parametrize(
    ("config", "dtype"),
    [
        ({"torch_dtype": "torch.float16"}, "float16"),
        ({"dtype": "float16"}, "float16"),
        ({"dtype": "float16", "torch_dtype": "bfloat16"}, "float16"),
        ({"torch_dtype": None}, None),
        ({"torch_dtype": None, "text_config": configs.LLAMA_8B}, "bfloat16"),
    ],
)
def test_the_stored_type_is_found_under_either_name(
    config: dict[str, Any], dtype: str | None
) -> None:
    assert model_shape(configs.LLAMA_8B | config).dtype == dtype


def test_the_flag_for_the_cache_holds_over_the_checkpoint_and_that_over_the_model() -> (
    None
):
    shape = replace(SHAPE, cache_dtype="fp8", dtype="float16")
    assert (
        engine_of(
            ServeArgs.of(["--kv-cache-dtype=bfloat16"], VLLM), shape
        ).cache_dtype
        == "bfloat16"
    )
    assert (
        engine_of(ServeArgs.of(["--kv-cache-dtype=auto"], VLLM), shape).cache_dtype
        == "fp8"
    )
    assert (
        engine_of(
            ServeArgs.of(["--kv-cache-dtype=auto"], VLLM),
            replace(shape, cache_dtype=None),
        ).cache_dtype
        == "float16"
    )


def test_a_limit_is_none_where_vllm_is_to_find_it() -> None:
    assert max_model_tokens(ServeArgs.of([], VLLM)) is None
    assert max_model_tokens(ServeArgs.of(["--max-model-len", "auto"], VLLM)) is None
    assert max_model_tokens(ServeArgs.of(["--max-model-len=16"], VLLM)) == 16
