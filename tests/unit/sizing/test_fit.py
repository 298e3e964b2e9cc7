"""What fits into how much memory: blocks, tokens, sequences, the longest one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchrun.sizing.config_json import model_shape
from benchrun.sizing.engine import engine_of
from benchrun.sizing.layers import ModelShape
from benchrun.sizing.pool import UNLIMITED_TOKENS, Fit, Group, Memory, Pool, fit_of, sequence_bytes
from benchrun.sizing.serve_args import ServeArgs
from benchrun.sizing.sizing import Sizing, sizing_of
from unit.sizing import configs

GIB = 2**30
POOL = Pool((Group(1, 16, None),), block_bytes=1000, in_flight_tokens=0)
WINDOWED = Pool((Group(1, 16, 100),), block_bytes=1000, in_flight_tokens=0)
SHAPE: ModelShape = model_shape(configs.LLAMA_8B)
ENGINE = engine_of(ServeArgs.of([]), SHAPE)


def fit(blocks: int) -> Fit:
    return Fit(POOL, blocks)


@pytest.mark.parametrize(("blocks", "usable"), [(0, 0), (1, 0), (2, 1), (101, 100)])
def test_one_block_is_kept_back(blocks: int, usable: int) -> None:
    assert fit(blocks).usable_blocks == usable


@pytest.mark.parametrize(
    ("tokens", "sequences"), [(1, 100), (16, 100), (17, 50), (48, 33), (800, 2), (801, 1), (1600, 1), (1601, 0)]
)
def test_whole_sequences_are_counted(tokens: int, sequences: int) -> None:
    assert fit(101).sequences(tokens) == sequences


@pytest.mark.parametrize(
    ("blocks", "limit", "longest"),
    [
        pytest.param(101, None, 1600, id="all that fits"),
        pytest.param(101, 1600, 1600, id="up to a limit that just fits"),
        pytest.param(101, 1599, 1599, id="up to a limit below"),
        pytest.param(2, None, 16, id="one block"),
        pytest.param(1, None, 0, id="none"),
        pytest.param(0, 100, 0, id="nothing at all"),
    ],
)
def test_the_longest_that_fits_alone(blocks: int, limit: int | None, longest: int) -> None:
    assert (fit(blocks).longest() if limit is None else fit(blocks).longest(limit)) == longest


def test_where_only_windows_are_kept_any_length_fits() -> None:
    assert Fit(WINDOWED, 9).longest() == UNLIMITED_TOKENS
    assert Fit(WINDOWED, 8).longest() == 96


def test_tokens_are_told_in_sequences_of_the_models_limit() -> None:
    """vLLM divides all its blocks, the one that it keeps back among them."""
    assert fit(150).tokens(1000) == int(150 / 63 * 1000) == 2380


@pytest.mark.parametrize(("cache_bytes", "blocks"), [(-1, 0), (0, 0), (999, 0), (1000, 1), (100_999, 100)])
def test_blocks_are_whole(cache_bytes: int, blocks: int) -> None:
    assert fit_of(POOL, ENGINE, cache_bytes).blocks == blocks


def test_a_number_of_blocks_that_is_given_holds_whatever_the_memory() -> None:
    assert fit_of(POOL, replace(ENGINE, blocks=7), 10**9).blocks == 7
    assert fit_of(POOL, replace(ENGINE, blocks=7), 0).blocks == 7


@pytest.mark.parametrize(("tokens", "size"), [(1, 1000), (16, 1000), (17, 2000), (1600, 100_000)])
def test_a_sequence_is_told_in_whole_blocks(tokens: int, size: int) -> None:
    assert sequence_bytes(POOL, tokens) == size


def test_memory_is_what_is_used_less_weights_and_overhead() -> None:
    memory = Memory(total=80 * GIB, utilization=0.9, weights=15 * GIB, overhead=2 * GIB)
    assert memory.usable == 72 * GIB
    assert memory.cache == 55 * GIB
    assert replace(memory, weights=72 * GIB).cache == -2 * GIB


def sizing(*flags: str, memory: Memory | None = None, lengths: tuple[int, ...] = ()) -> Sizing:
    return sizing_of(SHAPE, engine_of(ServeArgs.of(flags), SHAPE), memory=memory, lengths=lengths)


SMALL = Memory(total=20 * GIB, utilization=1.0, weights=15 * GIB, overhead=GIB)


def test_without_memory_nothing_is_said_to_fit() -> None:
    found = sizing(lengths=(1000,))
    assert (found.fit, found.tokens, found.memory) == (None, None, None)
    assert [row.sequences for row in found.lengths] == [None]


def test_with_memory_everything_is() -> None:
    """4 GiB: 2048 blocks of 16 tokens and 128 KiB a token."""
    found = sizing("--max-model-len=8192", memory=SMALL, lengths=(1000, 8192))
    assert found.fit is not None
    assert (found.fit.blocks, found.tokens, found.memory) == (2048, 32_768, SMALL)
    assert [(row.tokens, row.bytes_per_gpu, row.sequences) for row in found.lengths] == [
        (1000, 63 * 2**21, 2047 // 63),
        (8192, 2**30, 3),
    ]


def test_a_size_among_the_flags_takes_the_place_of_the_memory() -> None:
    found = sizing("--kv-cache-memory-bytes=1GiB", "--max-model-len=1024", memory=SMALL)
    assert found.fit is not None
    assert (found.fit.blocks, found.memory) == (512, None)


def test_a_number_of_blocks_among_the_flags_needs_no_memory() -> None:
    found = sizing("--num-gpu-blocks-override=65", "--max-model-len=1024")
    assert found.tokens == int(65 / 64 * 1024)


def test_a_cache_of_no_bytes_holds_nothing() -> None:
    found = sizing("--kv-cache-memory-bytes=0", "--max-model-len=1024")
    assert found.fit is not None
    assert (found.fit.blocks, found.tokens, found.fit.longest()) == (0, 0, 0)


def test_tokens_are_not_told_where_no_limit_of_a_sequence_is_known() -> None:
    shape = replace(SHAPE, context_tokens=None)
    found = sizing_of(shape, engine_of(ServeArgs.of([]), shape), memory=SMALL)
    assert found.fit is not None
    assert found.tokens is None


@pytest.mark.parametrize(
    ("longest", "lengths"),
    [
        (512, [512]),
        (1024, [1024]),
        (1025, [1024, 1025]),
        (16_384, [1024, 4096, 16_384]),
        (131_072, [1024, 4096, 16_384, 65_536, 131_072]),
    ],
)
def test_common_lengths_end_with_the_longest(longest: int, lengths: list[int]) -> None:
    assert [row.tokens for row in sizing(f"--max-model-len={longest}").lengths] == lengths


def test_rows_hold_layers_that_keep_the_same() -> None:
    found = sizing_of(model_shape(configs.GPT_OSS_20B), ENGINE)
    assert [(row.layer.kind, row.count, row.token_bytes) for row in found.rows] == [
        ("Full", 12, 8 * 2 * 64 * 2),
        ("Sliding", 12, 8 * 2 * 64 * 2),
    ]
