"""Blocks of vLLM's pool, counted by hand: one table or several, windows, padding, stages of a pipeline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchrun.sizing.config_json import model_shape
from benchrun.sizing.engine import Engine, engine_of
from benchrun.sizing.layers import Layer, ModelShape
from benchrun.sizing.pool import Group, Pool, pool_of
from benchrun.sizing.serve_args import ServeArgs
from unit.sizing import configs, published

KEEPS_ALL = Group(layers=1, block_tokens=16, window_tokens=None)
KEEPS_100 = Group(layers=1, block_tokens=16, window_tokens=100)


def full(heads: int = 1, values: int = 32) -> Layer:
    return Layer(kind="Full", heads=heads, values=values)


def sliding(window: int = 100, heads: int = 1, values: int = 32) -> Layer:
    return Layer(kind="Sliding", heads=heads, values=values, window_tokens=window)


def shape_of(*layers: Layer) -> ModelShape:
    return replace(model_shape(configs.LLAMA_8B), layers=layers)


def engine(*flags: str) -> Engine:
    """Of 16 tokens a block, 2 bytes a number, 1024 tokens a step, one step at a time; unless the flags say otherwise."""
    defaults = ("--max-num-batched-tokens=1024", "--no-async-scheduling")
    return engine_of(ServeArgs.of((*defaults, *flags)), model_shape(configs.LLAMA_8B))


@pytest.mark.parametrize(
    ("tokens", "blocks"), [(1, 1), (15, 1), (16, 1), (17, 2), (32, 2), (33, 3), (1600, 100), (1601, 101)]
)
def test_a_table_that_keeps_all_takes_a_block_for_each_begun(tokens: int, blocks: int) -> None:
    assert KEEPS_ALL.blocks(tokens, in_flight_tokens=0) == blocks


@pytest.mark.parametrize(
    ("tokens", "in_flight", "blocks"),
    [
        pytest.param(16, 0, 2, id="one full, and one that may be begun"),
        pytest.param(17, 0, 3, id="two begun"),
        pytest.param(99, 0, 8, id="the last token within"),
        pytest.param(100, 0, 8, id="as many as the window: it looks back 99"),
        pytest.param(5000, 0, 8, id="however long"),
        pytest.param(5000, 13, 8, id="13 in flight end the seventh block"),
        pytest.param(5000, 14, 9, id="one more begins the eighth"),
        pytest.param(64, 1000, 5, id="no more than there are"),
    ],
)
def test_a_table_with_a_window_keeps_that_and_what_is_in_flight(tokens: int, in_flight: int, blocks: int) -> None:
    assert KEEPS_100.blocks(tokens, in_flight_tokens=in_flight) == blocks


def test_a_sequence_takes_blocks_of_every_table() -> None:
    pool = Pool((KEEPS_ALL, KEEPS_100, KEEPS_100), block_bytes=1, in_flight_tokens=0)
    assert pool.blocks_for(1600) == 100 + 8 + 8


@pytest.mark.parametrize(
    ("flags", "bytes_of_a_block"),
    [
        pytest.param((), 3 * 8 * 32 * 2 * 16, id="one GPU"),
        pytest.param(("--block-size=128",), 3 * 8 * 32 * 2 * 128, id="larger blocks"),
        pytest.param(("-tp=4",), 3 * 2 * 32 * 2 * 16, id="a quarter of the heads"),
        pytest.param(("-tp=16",), 3 * 1 * 32 * 2 * 16, id="one head at least"),
        pytest.param(("-pp=3",), 8 * 32 * 2 * 16, id="a layer a stage"),
        pytest.param(("-pp=2",), 2 * 8 * 32 * 2 * 16, id="two layers on the first stage, one on the second"),
        pytest.param(("--kv-cache-dtype=fp8",), 3 * 8 * 32 * 16, id="FP8"),
        pytest.param(("-dp=2",), 3 * 8 * 32 * 2 * 16, id="engines side by side have each their own"),
    ],
)
def test_layers_that_keep_the_same_make_one_table(flags: tuple[str, ...], bytes_of_a_block: int) -> None:
    pool = pool_of(shape_of(full(8), full(8), full(8)), engine(*flags))
    assert pool.block_bytes == bytes_of_a_block
    assert [group.layers for group in pool.groups] == [3]


@pytest.mark.parametrize(
    ("near", "far", "tables"),
    [
        pytest.param(5, 1, [1, 1, 1, 1, 1, 1], id="five to one: six tables of one layer"),
        pytest.param(10, 2, [2, 2, 2, 2, 2, 2], id="ten to two: six tables of two"),
        pytest.param(2, 2, [2, 2], id="as many: one each"),
        pytest.param(3, 2, [2, 2, 2], id="half as many again: cut to the smaller"),
        pytest.param(7, 5, [5, 7], id="less than that: padded to the larger"),
        pytest.param(1, 4, [1, 1, 1, 1, 1], id="mostly full layers: they are dealt out, too"),
        pytest.param(7, 3, [3, 3, 3, 3], id="what does not fit evenly: the last one is short"),
    ],
)
def test_layers_are_dealt_out_to_tables(near: int, far: int, tables: list[int]) -> None:
    pool = pool_of(shape_of(*[sliding()] * near, *[full()] * far), engine())
    assert sorted(group.layers for group in pool.groups) == tables
    assert {group.window_tokens for group in pool.groups} == {None, 100}
    # A block is as large as the layers of the largest table: 2 bytes x 32 numbers x 16 tokens each.
    assert pool.block_bytes == max(tables) * 1024


def test_small_pages_take_more_tokens_where_that_fits_evenly() -> None:
    pool = pool_of(shape_of(sliding(values=32), full(values=96)), engine())
    assert {(g.window_tokens, g.block_tokens) for g in pool.groups} == {(100, 48), (None, 16)}
    assert pool.block_bytes == 96 * 2 * 16


def test_small_pages_are_padded_where_it_does_not() -> None:
    pool = pool_of(shape_of(sliding(values=64), full(values=160)), engine())
    assert {(g.window_tokens, g.block_tokens) for g in pool.groups} == {(100, 16), (None, 16)}
    assert pool.block_bytes == 160 * 2 * 16


def test_windows_of_two_lengths_have_tables_of_their_own() -> None:
    pool = pool_of(shape_of(sliding(100), sliding(200)), engine())
    assert sorted(group.window_tokens or 0 for group in pool.groups) == [100, 200]


def test_beside_latent_vectors_windows_gain_nothing() -> None:
    latent = Layer(kind="Latent", heads=1, values=32)
    pool = pool_of(shape_of(latent, sliding()), engine())
    assert [group.window_tokens for group in pool.groups] == [None]
    assert pool.block_bytes == 2 * 1024


def test_a_latent_vector_with_an_index_key_is_one_table() -> None:
    pool = pool_of(
        shape_of(Layer(kind="Latent", heads=1, values=576), Layer(kind="Index", heads=1, values=132)), engine()
    )
    assert [group.layers for group in pool.groups] == [2]
    assert pool.block_bytes == 16 * (576 * 2 + 132)


@pytest.mark.parametrize(
    ("flags", "in_flight"),
    [
        ((), 1024),
        (("--async-scheduling",), 2 * 1024),
        (("-pp=4",), 4 * 1024),
        (("-pp=4", "--async-scheduling"), 5 * 1024),
        (("--max-num-batched-tokens=8k",), 8000),
    ],
)
def test_what_is_in_flight_is_a_step_for_each_that_runs_at_once(flags: tuple[str, ...], in_flight: int) -> None:
    assert pool_of(shape_of(full(), sliding()), engine(*flags)).in_flight_tokens == in_flight


def test_layers_of_a_state_take_no_block() -> None:
    state = Layer(kind="State", heads=0, values=0)
    assert pool_of(shape_of(full(), state), engine()) == pool_of(shape_of(full()), engine())


def test_gemma_3_by_hand() -> None:
    """10 full layers in one table; 52 sliding ones in six of up to nine."""
    pool = pool_of(model_shape(published.GEMMA_3_27B), engine())
    assert sorted((g.window_tokens or 0, g.layers) for g in pool.groups) == [(0, 10), *[(1024, 9)] * 6]
    assert pool.block_bytes == 10 * 16 * (16 * 2 * 128 * 2)
    assert pool.blocks_for(32_768) == 2048 + 6 * (-(-(1023 + 1024) // 16) + 1)
