"""What must hold of every size, whatever the model and the flags."""

from dataclasses import replace
from typing import Any

from benchrun.sizing import (
    Fit,
    ServeArgs,
    Sizing,
    engine_of,
    model_shape,
    sizing_of,
)
from benchrun_client.engines import ENGINES
from hypothesis import given, strategies as st
from unit.sizing import configs, published

VLLM = ENGINES["VLLM"]

MODELS = st.sampled_from(
    [
        configs.LLAMA_8B,
        configs.GEMMA_3_4B,
        configs.MISTRAL_7B,
        configs.DEEPSEEK_V3,
        configs.DEEPSEEK_V3 | {"index_head_dim": 128},
        published.GPT_OSS_120B,
        published.COMMAND_R_7B,
        published.JAMBA_MINI,
    ]
)
POWERS = st.sampled_from([1, 2, 4, 8, 16])
FLAGS = st.fixed_dictionaries(
    {},
    optional={
        "tensor-parallel-size": POWERS,
        "pipeline-parallel-size": POWERS,
        "block-size": st.sampled_from([16, 32, 64, 128]),
        "kv-cache-dtype": st.sampled_from(["auto", "fp8", "bfloat16", "float32"]),
        "max-num-batched-tokens": st.integers(1, 20_000),
    },
)
TOKENS = st.integers(1, 200_000)
BLOCKS = st.integers(0, 100_000)


def sizing(config: dict[str, Any], flags: dict[str, Any], **others: Any) -> Sizing:
    shape = model_shape(config)
    given_flags = {
        **flags,
        **{name.replace("_", "-"): value for name, value in others.items()},
    }
    args = ServeArgs.of(
        (f"--{name}={value}" for name, value in given_flags.items()), VLLM
    )
    return sizing_of(shape, engine_of(args, shape), lengths=(1,))


@given(MODELS, FLAGS, TOKENS, st.integers(1, 1000))
def test_a_longer_sequence_never_takes_less(
    config: dict[str, Any], flags: dict[str, Any], tokens: int, more: int
) -> None:
    pool = sizing(config, flags).pool
    assert pool.sequence_bytes(tokens) <= pool.sequence_bytes(tokens + more)


@given(MODELS, FLAGS, TOKENS)
def test_a_larger_type_never_takes_less(
    config: dict[str, Any], flags: dict[str, Any], tokens: int
) -> None:
    sizes = [
        sizing(config, flags, kv_cache_dtype=dtype).pool.sequence_bytes(tokens)
        for dtype in ("nvfp4", "fp8", "fp8_per_token_head", "bfloat16", "float32")
    ]
    assert sizes == sorted(sizes)


@given(MODELS, FLAGS, st.sampled_from([1, 2, 4, 8]), TOKENS)
def test_more_gpus_never_take_more_each_nor_less_together(
    config: dict[str, Any], flags: dict[str, Any], gpus: int, tokens: int
) -> None:
    few, many = (
        sizing(config, flags, tensor_parallel_size=n) for n in (gpus, 2 * gpus)
    )
    assert many.pool.sequence_bytes(tokens) <= few.pool.sequence_bytes(tokens)
    assert many.token_bytes >= few.token_bytes
    assert many.token_bytes <= 2 * few.token_bytes


@given(MODELS, FLAGS, TOKENS)
def test_a_sequence_takes_no_less_than_its_tokens_beyond_the_windows(
    config: dict[str, Any], flags: dict[str, Any], tokens: int
) -> None:
    found = sizing(config, flags)
    gpus = found.engine.gpus
    assert (
        found.pool.sequence_bytes(tokens) * gpus >= found.far_token_bytes * tokens
    )
    assert found.far_token_bytes <= found.token_bytes


@given(MODELS, FLAGS, BLOCKS)
def test_the_longest_sequence_fits_and_one_token_more_does_not(
    config: dict[str, Any], flags: dict[str, Any], blocks: int
) -> None:
    fit = Fit(sizing(config, flags).pool, blocks)
    limit = 1_000_000
    longest = fit.longest(limit)
    assert 0 <= longest <= limit
    assert longest == 0 or fit.sequences(longest) >= 1
    assert longest == limit or fit.sequences(longest + 1) == 0


@given(MODELS, FLAGS, BLOCKS, TOKENS, st.integers(1, 1000))
def test_more_blocks_hold_no_less(
    config: dict[str, Any],
    flags: dict[str, Any],
    blocks: int,
    tokens: int,
    more: int,
) -> None:
    pool = sizing(config, flags).pool
    few = Fit(pool, blocks)
    many = Fit(pool, blocks + more)
    assert few.sequences(tokens) <= many.sequences(tokens)
    assert few.tokens(tokens) <= many.tokens(tokens)
    assert few.longest(10**6) <= many.longest(10**6)


@given(MODELS, FLAGS, BLOCKS, TOKENS)
def test_sequences_never_take_more_blocks_than_there_are(
    config: dict[str, Any], flags: dict[str, Any], blocks: int, tokens: int
) -> None:
    pool = sizing(config, flags).pool
    assert Fit(pool, blocks).sequences(tokens) * pool.blocks_for(tokens) <= max(
        0, blocks - 1
    )


@given(MODELS, FLAGS)
def test_windows_only_ever_save(
    config: dict[str, Any], flags: dict[str, Any]
) -> None:
    """On one stage: over many, layers of a table are rounded up on each."""
    found = sizing(config, flags, pipeline_parallel_size=1)
    all_kept = replace(found.engine, drops_beyond_window=False)
    without = sizing_of(found.shape, all_kept, lengths=(1,))
    assert not without.drops
    assert without.token_bytes == found.token_bytes
    long = 1_000_000
    assert not found.drops or found.pool.sequence_bytes(
        long
    ) < without.pool.sequence_bytes(long)
