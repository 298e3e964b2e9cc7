"""The arguments of a server, read as vLLM reads them."""

from __future__ import annotations

import pytest
from benchrun.sizing.serve_args import ServeArgs, UnreadableValue


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
    assert ServeArgs.of(words).whole("max-model-len", 1) == 8000


def test_short_names_are_the_long_ones() -> None:
    args = ServeArgs.of(["-tp", "4", "-pp=2"])
    assert args.whole("tensor-parallel-size", 1) == 4
    assert args.whole("pipeline-parallel-size", 1) == 2


def test_what_is_not_given_is_the_default() -> None:
    args = ServeArgs.of([])
    assert args.whole("block-size", 16) == 16
    assert args.whole_if_given("max-num-seqs") is None
    assert args.share("gpu-memory-utilization", 0.92) == 0.92


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ([], True),
        (["--no-async-scheduling"], False),
        (["--no-async-scheduling", "--async-scheduling"], True),
    ],
)
def test_of_a_switch_and_its_opposite_the_last_holds(words: list[str], value: bool) -> None:
    assert ServeArgs.of(words).switched("async-scheduling", default=True) is value


@pytest.mark.parametrize("value", ["0", "many", "-4"])
def test_a_number_that_is_none_names_its_flag(value: str) -> None:
    with pytest.raises(UnreadableValue, match="--block-size"):
        ServeArgs.of([f"--block-size={value}"]).whole("block-size", 16)


@pytest.mark.parametrize("value", ["0", "1.1", "most"])
def test_a_share_is_above_0_and_at_most_1(value: str) -> None:
    with pytest.raises(UnreadableValue, match="--gpu-memory-utilization"):
        ServeArgs.of([f"--gpu-memory-utilization={value}"]).share("gpu-memory-utilization", 0.9)
