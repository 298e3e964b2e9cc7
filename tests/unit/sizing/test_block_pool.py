"""Blocks of vLLM's pool, counted by hand: one table or several, windows, padding, stages of a
pipeline."""

from dataclasses import replace

import pytest
from benchrun.sizing import (
    UNLIMITED_TOKENS,
    Fit,
    GpuMemory,
    Group,
    Layer,
    ModelShape,
    Pool,
    ServeArgs,
    SizedEngine,
    Sizing,
    engine_of,
    model_shape,
    pool_of,
    sizing_of,
)
from benchrun_client.engines import ENGINES
from unit.sizing import configs, published

VLLM = ENGINES["VLLM"]

KEEPS_ALL = Group(layers=1, block_tokens=16, window_tokens=None)
KEEPS_100 = Group(layers=1, block_tokens=16, window_tokens=100)


def full(heads: int = 1, values: int = 32) -> Layer:
    return Layer(kind="Full", heads=heads, values=values)


def sliding(window: int = 100, heads: int = 1, values: int = 32) -> Layer:
    return Layer(kind="Sliding", heads=heads, values=values, window_tokens=window)


def shape_of(*layers: Layer) -> ModelShape:
    return replace(model_shape(configs.LLAMA_8B), layers=layers)


def engine(*flags: str) -> SizedEngine:
    """Of 16 tokens a block, 2 bytes a number, 1024 tokens a step, one step at a time; unless the
    flags say otherwise."""
    defaults = ("--max-num-batched-tokens=1024", "--no-async-scheduling")
    return engine_of(
        ServeArgs.of((*defaults, *flags), VLLM), model_shape(configs.LLAMA_8B)
    )


@pytest.mark.parametrize(
    ("tokens", "blocks"),
    [(1, 1), (15, 1), (16, 1), (17, 2), (32, 2), (33, 3), (1600, 100), (1601, 101)],
)
def test_a_table_that_keeps_all_takes_a_block_for_each_begun(
    tokens: int, blocks: int
) -> None:
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
def test_a_table_with_a_window_keeps_that_and_what_is_in_flight(
    tokens: int, in_flight: int, blocks: int
) -> None:
    assert KEEPS_100.blocks(tokens, in_flight_tokens=in_flight) == blocks


def test_a_sequence_takes_blocks_of_every_table() -> None:
    pool = Pool(
        (KEEPS_ALL, KEEPS_100, KEEPS_100), block_bytes=1, in_flight_tokens=0
    )
    assert pool.blocks_for(1600) == 100 + 8 + 8


@pytest.mark.parametrize(
    ("flags", "bytes_of_a_block"),
    [
        pytest.param((), 3 * 8 * 32 * 2 * 16, id="one GPU"),
        pytest.param(
            ("--block-size=128",), 3 * 8 * 32 * 2 * 128, id="larger blocks"
        ),
        pytest.param(("-tp=4",), 3 * 2 * 32 * 2 * 16, id="a quarter of the heads"),
        pytest.param(("-tp=16",), 3 * 1 * 32 * 2 * 16, id="one head at least"),
        pytest.param(("-pp=3",), 8 * 32 * 2 * 16, id="a layer a stage"),
        pytest.param(
            ("-pp=2",),
            2 * 8 * 32 * 2 * 16,
            id="two layers on the first stage, one on the second",
        ),
        pytest.param(("--kv-cache-dtype=fp8",), 3 * 8 * 32 * 16, id="FP8"),
        pytest.param(
            ("-dp=2",),
            3 * 8 * 32 * 2 * 16,
            id="engines side by side have each their own",
        ),
    ],
)
def test_layers_that_keep_the_same_make_one_table(
    flags: tuple[str, ...], bytes_of_a_block: int
) -> None:
    pool = pool_of(shape_of(full(8), full(8), full(8)), engine(*flags))
    assert pool.block_bytes == bytes_of_a_block
    assert [group.layers for group in pool.groups] == [3]


@pytest.mark.parametrize(
    ("near", "far", "tables"),
    [
        pytest.param(
            5, 1, [1, 1, 1, 1, 1, 1], id="five to one: six tables of one layer"
        ),
        pytest.param(10, 2, [2, 2, 2, 2, 2, 2], id="ten to two: six tables of two"),
        pytest.param(2, 2, [2, 2], id="as many: one each"),
        pytest.param(3, 2, [2, 2, 2], id="half as many again: cut to the smaller"),
        pytest.param(7, 5, [5, 7], id="less than that: padded to the larger"),
        pytest.param(
            1, 4, [1, 1, 1, 1, 1], id="mostly full layers: they are dealt out, too"
        ),
        pytest.param(
            7, 3, [3, 3, 3, 3], id="what does not fit evenly: the last one is short"
        ),
    ],
)
def test_layers_are_dealt_out_to_tables(
    near: int, far: int, tables: list[int]
) -> None:
    pool = pool_of(shape_of(*[sliding()] * near, *[full()] * far), engine())
    assert sorted(group.layers for group in pool.groups) == tables
    assert {group.window_tokens for group in pool.groups} == {None, 100}
    # A block is as large as the layers of the largest table: 2 bytes x 32 numbers x 16 tokens each.
    assert pool.block_bytes == max(tables) * 1024


@pytest.mark.parametrize(
    ("small", "large", "tokens"),
    [
        pytest.param(32, 96, 48, id="more tokens where that fits evenly"),
        pytest.param(64, 160, 16, id="padding where not"),
    ],
)
def test_small_pages_take_more_tokens_or_padding(
    small: int, large: int, tokens: int
) -> None:
    pool = pool_of(shape_of(sliding(values=small), full(values=large)), engine())
    assert {(g.window_tokens, g.block_tokens) for g in pool.groups} == {
        (100, tokens),
        (None, 16),
    }
    assert pool.block_bytes == large * 2 * 16


def test_windows_of_two_lengths_have_tables_of_their_own() -> None:
    pool = pool_of(shape_of(sliding(100), sliding(200)), engine())
    assert sorted(group.window_tokens or 0 for group in pool.groups) == [100, 200]


def test_beside_latent_vectors_windows_gain_nothing() -> None:
    pool = pool_of(
        shape_of(Layer(kind="Latent", heads=1, values=32), sliding()), engine()
    )
    assert [group.window_tokens for group in pool.groups] == [None]
    assert pool.block_bytes == 2 * 1024


def test_a_latent_vector_with_an_index_key_is_one_table() -> None:
    pool = pool_of(
        shape_of(
            Layer(kind="Latent", heads=1, values=576),
            Layer(kind="Index", heads=1, values=132),
        ),
        engine(),
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
def test_what_is_in_flight_is_a_step_for_each_that_runs_at_once(
    flags: tuple[str, ...], in_flight: int
) -> None:
    assert (
        pool_of(shape_of(full(), sliding()), engine(*flags)).in_flight_tokens
        == in_flight
    )


def test_layers_of_a_state_take_no_block() -> None:
    state = Layer(kind="State", heads=0, values=0)
    assert pool_of(shape_of(full(), state), engine()) == pool_of(
        shape_of(full()), engine()
    )


def test_gemma_3_by_hand() -> None:
    """10 full layers in one table; 52 sliding ones in six of up to nine."""
    pool = pool_of(model_shape(published.GEMMA_3_27B), engine())
    assert sorted((g.window_tokens or 0, g.layers) for g in pool.groups) == [
        (0, 10),
        *[(1024, 9)] * 6,
    ]
    assert pool.block_bytes == 10 * 16 * (16 * 2 * 128 * 2)
    assert pool.blocks_for(32_768) == 2048 + 6 * (-(-(1023 + 1024) // 16) + 1)


GIB = 2**30
POOL = Pool((Group(1, 16, None),), block_bytes=1000, in_flight_tokens=0)
WINDOWED = Pool((Group(1, 16, 100),), block_bytes=1000, in_flight_tokens=0)
SHAPE: ModelShape = model_shape(configs.LLAMA_8B)
ENGINE = engine_of(ServeArgs.of([], VLLM), SHAPE)


def fit(blocks: int) -> Fit:
    return Fit(POOL, blocks)


@pytest.mark.parametrize(("blocks", "usable"), [(0, 0), (1, 0), (2, 1), (101, 100)])
def test_one_block_is_kept_back(blocks: int, usable: int) -> None:
    assert fit(blocks).usable_blocks == usable


@pytest.mark.parametrize(
    ("tokens", "sequences"),
    [
        (1, 100),
        (16, 100),
        (17, 50),
        (48, 33),
        (800, 2),
        (801, 1),
        (1600, 1),
        (1601, 0),
    ],
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
def test_the_longest_that_fits_alone(
    blocks: int, limit: int | None, longest: int
) -> None:
    assert (
        fit(blocks).longest() if limit is None else fit(blocks).longest(limit)
    ) == longest


def test_where_only_windows_are_kept_any_length_fits() -> None:
    assert Fit(WINDOWED, 9).longest() == UNLIMITED_TOKENS
    assert Fit(WINDOWED, 8).longest() == 96


def test_tokens_are_reported_in_sequences_of_the_models_limit() -> None:
    """vLLM divides all its blocks, the one that it keeps back among them."""
    assert fit(150).tokens(1000) == int(150 / 63 * 1000) == 2380


@pytest.mark.parametrize(
    ("cache_bytes", "blocks"),
    [(-1, 0), (0, 0), (2**21 - 1, 0), (2**21, 1), (101 * 2**21 - 1, 100)],
)
def test_blocks_are_whole(cache_bytes: int, blocks: int) -> None:
    found = sizing(
        memory=GpuMemory(total=cache_bytes, utilization=1.0, weights=0, overhead=0)
    ).fit
    assert found is not None
    assert found.blocks == blocks


def test_a_number_of_blocks_that_is_given_holds_whatever_the_memory() -> None:
    for flags in ((), ("--kv-cache-memory-bytes=0",)):
        found = sizing("--num-gpu-blocks-override=7", *flags, memory=SMALL).fit
        assert found is not None
        assert found.blocks == 7


@pytest.mark.parametrize(
    ("tokens", "size"), [(1, 1000), (16, 1000), (17, 2000), (1600, 100_000)]
)
def test_a_sequence_is_reported_in_whole_blocks(tokens: int, size: int) -> None:
    assert POOL.sequence_bytes(tokens) == size


def test_memory_is_what_is_used_less_weights_and_overhead() -> None:
    memory = GpuMemory(
        total=80 * GIB, utilization=0.9, weights=15 * GIB, overhead=2 * GIB
    )
    assert (memory.usable, memory.cache) == (72 * GIB, 55 * GIB)
    assert replace(memory, weights=72 * GIB).cache == -2 * GIB


def sizing(
    *flags: str, memory: GpuMemory | None = None, lengths: tuple[int, ...] = ()
) -> Sizing:
    return sizing_of(
        SHAPE,
        engine_of(ServeArgs.of(flags, VLLM), SHAPE),
        memory=memory,
        lengths=lengths,
    )


SMALL = GpuMemory(total=20 * GIB, utilization=1.0, weights=15 * GIB, overhead=GIB)


def test_without_memory_nothing_is_said_to_fit() -> None:
    found = sizing(lengths=(1000,))
    assert (found.fit, found.tokens, found.memory) == (None, None, None)


def test_with_memory_every_figure_is_known() -> None:
    """4 GiB: 2048 blocks of 16 tokens and 128 KiB a token."""
    found = sizing("--max-model-len=8192", memory=SMALL, lengths=(1000, 8192))
    assert found.fit is not None
    assert (found.fit.blocks, found.tokens, found.memory) == (2048, 32_768, SMALL)
    assert [
        (n, found.pool.sequence_bytes(n), found.fit.sequences(n))
        for n in found.lengths
    ] == [
        (1000, 63 * 2**21, 2047 // 63),
        (8192, 2**30, 3),
    ]


def test_a_size_among_the_flags_takes_the_place_of_the_memory() -> None:
    found = sizing(
        "--kv-cache-memory-bytes=1GiB", "--max-model-len=1024", memory=SMALL
    )
    assert found.fit is not None
    assert (found.fit.blocks, found.memory) == (512, None)


def test_a_number_of_blocks_among_the_flags_needs_no_memory() -> None:
    assert sizing(
        "--num-gpu-blocks-override=65", "--max-model-len=1024"
    ).tokens == int(65 / 64 * 1024)


def test_a_cache_of_no_bytes_holds_nothing() -> None:
    found = sizing("--kv-cache-memory-bytes=0", "--max-model-len=1024")
    assert found.fit is not None
    assert (found.fit.blocks, found.tokens, found.fit.longest()) == (0, 0, 0)


def test_tokens_are_left_out_where_no_limit_of_a_sequence_is_known() -> None:
    shape = replace(SHAPE, context_tokens=None, default_tokens=None)
    found = sizing_of(shape, engine_of(ServeArgs.of([], VLLM), shape), memory=SMALL)
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
def test_common_lengths_end_with_the_longest(
    longest: int, lengths: list[int]
) -> None:
    assert list(sizing(f"--max-model-len={longest}").lengths) == lengths


def test_rows_hold_layers_that_keep_the_same() -> None:
    found = sizing_of(model_shape(configs.GPT_OSS_20B), ENGINE)
    assert [(row.layer.kind, row.count, row.token_bytes) for row in found.rows] == [
        ("Full", 12, 8 * 2 * 64 * 2),
        ("Sliding", 12, 8 * 2 * 64 * 2),
    ]
