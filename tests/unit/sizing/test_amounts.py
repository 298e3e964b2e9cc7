"""Amounts, as people and vLLM write them."""

from __future__ import annotations

import pytest
from benchrun.sizing.serve_args import bytes_of, memory, tokens_of


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


@pytest.mark.parametrize("text", ["", "many", "-1", "8.5", "1.5K", "8kk"])
def test_what_is_no_number_of_tokens_is_refused(text: str) -> None:
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
def test_memory_is_binary_with_an_i_and_decimal_without(text: str, number: int) -> None:
    assert bytes_of(text) == number


@pytest.mark.parametrize("text", ["", "lots", "-1GiB", "48 GPUs"])
def test_what_is_no_memory_is_refused(text: str) -> None:
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
def test_memory_is_told_in_the_largest_unit(amount: float, text: str) -> None:
    assert memory(amount) == text
