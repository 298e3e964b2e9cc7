"""The arguments of a server, read as vLLM reads them."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from benchrun.sizing import (
    ServeArgs,
    UnreadableValue,
    beyond_context,
    bytes_of,
    is_flag,
    memory,
    model_shape,
    share_of,
    tokens_of,
)
from benchrun_client.engines import ENGINES
from hypothesis import given, strategies as st
from unit.golden_messages import golden
from unit.sizing import configs

VLLM = ENGINES["VLLM"]


@pytest.mark.parametrize(
    "words",
    [
        ("--max-model-len=8k",),
        ("--max-model-len", "8k"),
        ("--max_model_len=8000",),
        ("--max-model-len=1", "--enforce-eager", "--max-model-len", "8000"),
    ],
)
def test_a_number_is_found_however_it_is_written(words: tuple[str, ...]) -> None:
    assert ServeArgs.of(words, VLLM).whole("max-model-len") == 8000


def test_short_names_are_the_long_ones() -> None:
    args = ServeArgs.of(["-tp", "4", "-pp=2"], VLLM)
    assert args.whole("tensor-parallel-size") == 4
    assert args.whole("pipeline-parallel-size") == 2


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("2", 2), ("1k", 1000)])
def test_a_number_above_0_is_taken(text: str, number: int) -> None:
    assert (
        ServeArgs.of([f"--block-size={text}"], VLLM).whole("block-size") == number
    )


def test_an_omitted_option_has_its_default() -> None:
    args = ServeArgs.of([], VLLM)
    assert args.whole("max-num-seqs") is None
    assert args.value("gpu-memory-utilization", share_of) is None


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ([], True),
        (["--no-async-scheduling"], False),
        (["--no-async-scheduling", "--async-scheduling"], True),
        (["--no-async-scheduling", "--enforce-eager"], False),
        (["--async-scheduling", "--enforce-eager"], True),
        (
            ["--async-scheduling", "--no-async-scheduling", "--async-scheduling"],
            True,
        ),
        (
            [
                "--no-async-scheduling",
                "--async-scheduling",
                "--no-async-scheduling",
            ],
            False,
        ),
    ],
)
def test_the_last_of_a_switch_and_its_opposite_holds(
    words: list[str], value: bool
) -> None:
    assert (
        ServeArgs.of(words, VLLM).switched("async-scheduling", default=True)
        is value
    )


@pytest.mark.parametrize("value", ["0", "many", "-4"])
def test_a_number_that_is_none_names_its_flag(value: str) -> None:
    with pytest.raises(UnreadableValue, match="--block-size"):
        ServeArgs.of([f"--block-size={value}"], VLLM).whole("block-size")


@pytest.mark.parametrize("value", ["0", "1.1", "most"])
def test_a_share_is_above_0_and_at_most_1(value: str) -> None:
    with pytest.raises(UnreadableValue, match="--gpu-memory-utilization"):
        ServeArgs.of([f"--gpu-memory-utilization={value}"], VLLM).value(
            "gpu-memory-utilization", share_of
        )


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("--x", True),
        ("--x=1", True),
        ("-tp", True),
        ("-O", True),
        ("-O3", True),
        ("-", False),
        ("x", False),
        ("", False),
        ("-1", False),
        ("-.5", False),
        ("-0.5", False),
    ],
)
def test_a_flag_begins_with_a_dash_and_is_no_negative_number(
    word: str, flag: bool
) -> None:
    assert is_flag(word) is flag


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], {}),
        (["model", "--a", "1"], {"a": "1"}),
        (["--a", "1", "2"], {"a": "1"}),
        (["--a=1", "2"], {"a": "1"}),
        (["--a", "--b"], {"a": None, "b": None}),
        (["--a="], {"a": ""}),
        (["--a=b=c"], {"a": "b=c"}),
        (["--a", "-1"], {"a": "-1"}),
        (["--a=1", "--a"], {"a": None}),
        (["--a_b=1", "--a-b=2"], {"a-b": "2"}),
        (
            ["-dcp=2", "-dp=3"],
            {"decode-context-parallel-size": "2", "data-parallel-size": "3"},
        ),
    ],
    ids=" ".join,
)
def test_words_become_flags_with_values(
    words: list[str], given: dict[str, str | None]
) -> None:
    assert ServeArgs.of(words, VLLM).given == given


@pytest.mark.parametrize(
    ("words", "is_given"),
    [
        (["--c"], True),
        (["--c=1"], True),
        (["--c.k=1"], True),
        (["--cc"], False),
        (["--no-c"], False),
        ([], False),
    ],
)
def test_a_flag_may_be_given_by_parts(words: list[str], is_given: bool) -> None:
    assert ServeArgs.of(words, VLLM).is_given("c") is is_given


def test_a_flag_without_a_value_has_no_text_and_no_number() -> None:
    args = ServeArgs.of(["--block-size"], VLLM)
    assert args.is_given("block-size")
    assert args.text("block-size") is None
    assert args.whole("block-size") is None


@pytest.mark.parametrize(
    ("text", "value"), [("0.5", 0.5), ("1", 1.0), ("1e-3", 0.001)]
)
def test_a_share_is_read_as_a_number(text: str, value: float) -> None:
    assert (
        ServeArgs.of([f"--gpu-memory-utilization={text}"], VLLM).value(
            "gpu-memory-utilization", share_of
        )
        == value
    )


@given(st.lists(st.text(alphabet="-=.ab1_ ", max_size=6), max_size=8))
def test_any_words_can_be_read_and_the_last_of_a_flag_holds(
    words: list[str],
) -> None:
    given_flags = ServeArgs.of(words, VLLM).given
    flags = [word for word in words if is_flag(word)]
    assert len(given_flags) <= len(flags)
    if flags:
        name, equals, value = flags[-1].partition("=")
        assert list(given_flags)[-1] == name.lstrip("-").replace("_", "-")
        if equals:
            assert given_flags[name.lstrip("-").replace("_", "-")] == value


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8192", 8192),
        ("8k", 8000),
        ("8K", 8192),
        ("25.6k", 25_600),
        ("1M", 2**20),
        ("1m", 10**6),
        (" 32k ", 32_000),
        ("0", 0),
        ("1g", 10**9),
        ("1G", 2**30),
        ("1t", 10**12),
        ("1T", 2**40),
        ("0.5m", 500_000),
    ],
)
def test_tokens_are_read_as_vllm_reads_them(text: str, number: int) -> None:
    assert tokens_of(text) == number


@pytest.mark.parametrize("read", [tokens_of, bytes_of])
@pytest.mark.parametrize("text", ["9" * 400, "9" * 19])
def test_more_than_any_machine_has_is_a_number(
    read: Callable[[str], int], text: str
) -> None:
    assert read(text) == 2**63


@pytest.mark.parametrize("text", ["", "many", "-1", "8.5", "1.5K", "8kk"])
def test_an_invalid_token_count_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        tokens_of(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("48GiB", 48 * 2**30),
        ("48Gi", 48 * 2**30),
        ("48GB", 48 * 10**9),
        ("48G", 48 * 10**9),
        ("1.5 TiB", 3 * 2**39),
        ("100000000", 10**8),
        ("512mib", 2**29),
        ("1KiB", 1024),
        ("1kB", 1000),
        ("1K", 1000),
        ("1TB", 10**12),
        ("7B", 7),
        ("0", 0),
    ],
)
def test_memory_is_binary_with_an_i_and_decimal_without(
    text: str, number: int
) -> None:
    assert bytes_of(text) == number


@pytest.mark.parametrize("text", ["", "lots", "-1GiB", "48 GPUs"])
def test_an_invalid_memory_size_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="amount of memory"):
        bytes_of(text)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (640, "640 B"),
        (2**18, "256 KiB"),
        (34_359_738_368, "32 GiB"),
        (17.6 * 2**30, "17.6 GiB"),
        (-(2**31), "-2 GiB"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (2**20 - 1, "1024 KiB"),
        (2**20, "1 MiB"),
        (2**40, "1 TiB"),
        (1.5 * 2**40, "1.5 TiB"),
        (123_456 * 2**40, "123,500 TiB"),
    ],
)
def test_memory_is_reported_in_the_largest_unit(amount: float, text: str) -> None:
    assert memory(amount) == text


# A --max-model-len against what the model is made for.

SHAPE = replace(model_shape(configs.LLAMA_8B), context_tokens=8192)


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--max-model-len=8192"],
        ["--max-model-len=100"],
        ["--max-model-len=auto"],
    ],
)
def test_a_length_within_the_context_has_no_remark(flags: list[str]) -> None:
    assert (
        beyond_context(ServeArgs.of(flags, VLLM), SHAPE, is_allowed=False) is None
    )


def test_where_the_model_has_no_limit_nothing_is_beyond_it() -> None:
    shape = replace(SHAPE, context_tokens=None)
    assert (
        beyond_context(
            ServeArgs.of(["--max-model-len=1m"], VLLM), shape, is_allowed=False
        )
        is None
    )


def test_beyond_it_vllm_will_not_start_and_the_ways_out_are_reported() -> None:
    found = beyond_context(
        ServeArgs.of(["--max-model-len=8193"], VLLM), SHAPE, is_allowed=False
    )
    assert found is not None
    is_meant, sentence = found
    assert not is_meant
    golden(sentence)


@pytest.mark.parametrize(
    ("flags", "is_allowed"),
    [
        ([], True),
        (["--hf-overrides={}"], False),
        (["--hf-overrides.rope_scaling.factor=4"], False),
    ],
)
def test_allowing_a_longer_context_gives_a_warning(
    flags: list[str], is_allowed: bool
) -> None:
    found = beyond_context(
        ServeArgs.of(["--max-model-len=16384", *flags], VLLM),
        SHAPE,
        is_allowed=is_allowed,
    )
    assert found is not None
    is_meant, sentence = found
    assert is_meant
    golden(sentence)
