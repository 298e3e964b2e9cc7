"""Lengths of time, whatever they are: what is said is as long as what was meant, to the unit that is shown."""

from __future__ import annotations

import re

import pytest
from benchrun.report.rows import age, clock, format_seconds, parse_seconds
from hypothesis import given
from hypothesis import strategies as st

SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "m": 60}
LENGTHS = st.floats(min_value=0, max_value=1e8, allow_nan=False)


def said(text: str) -> int:
    """Seconds of `2 h 5 min`."""
    return sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"(\d+) ?([a-z]+)", text))


@given(LENGTHS)
def test_what_is_told_is_short_by_less_than_its_smallest_unit(seconds: float) -> None:
    text = format_seconds(seconds)
    assert re.fullmatch(r"\d+ s|\d+ min( \d+ s)?|\d+ h( \d+ min)?|\d+ d", text), text
    smallest = 1 if seconds < 3599 else 60 if seconds < 86_399 else 86_400
    assert -0.5 <= seconds - said(text) < smallest + 0.5


@given(LENGTHS)
def test_parts_below_the_first_unit_never_reach_the_next(seconds: float) -> None:
    parts = [int(number) for number in re.findall(r"\d+", format_seconds(seconds))]
    assert all(part < 60 for part in parts[1:])
    assert all(part > 0 for part in parts[1:]), "a part of nothing is left out"


@given(LENGTHS)
def test_an_age_is_one_unit_and_rounded_down(seconds: float) -> None:
    text = age(seconds)
    unit = SECONDS[text[-1]]
    assert int(text[:-1]) == int(seconds) // unit
    assert seconds < 60 if unit == 1 else int(text[:-1]) >= 1


@given(LENGTHS)
def test_a_clock_counts_every_second(seconds: float) -> None:
    hands = [int(part) for part in clock(seconds).split(":")]
    assert sum(part * 60**place for place, part in enumerate(reversed(hands))) == int(seconds)
    assert len(clock(seconds).split(":")[-1]) == 2
    assert (len(hands) == 3) is (int(seconds) >= 3600)


@pytest.mark.parametrize(
    ("seconds", "words", "column", "hands"),
    [
        (0.49, "0 s", "0s", "00:00"),
        (0.51, "1 s", "0s", "00:00"),
        (59, "59 s", "59s", "00:59"),
        (61, "1 min 1 s", "1m", "01:01"),
        (119, "1 min 59 s", "1m", "01:59"),
        (3599, "59 min 59 s", "59m", "59:59"),
        (3599.6, "1 h", "59m", "59:59"),
        (3601, "1 h", "1h", "1:00:01"),
        (3660, "1 h 1 min", "1h", "1:01:00"),
        (86_399, "23 h 59 min", "23h", "23:59:59"),
        (86_399.6, "1 d", "23h", "23:59:59"),
        (172_799, "1 d", "1d", "47:59:59"),
        (172_800, "2 d", "2d", "48:00:00"),
        (-1e9, "0 s", "0s", "00:00"),
    ],
)
def test_edges(seconds: float, words: str, column: str, hands: str) -> None:
    assert (format_seconds(seconds), age(seconds), clock(seconds)) == (words, column, hands)


@given(st.integers(1, 999_999_999), st.sampled_from(["", "s", "m", "h", "d"]))
def test_what_is_written_is_read(number: int, unit: str) -> None:
    factor = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}[unit]
    assert parse_seconds(f"{number}{unit}") == number * factor


@pytest.mark.parametrize(
    "text", ["1234567890", "1.2345s", ".5s", "5.s", "5S", "5 min", "+5s", "٣s", "0.0s", "5s5", "1_0s", "5ms"]
)
def test_what_is_nearly_a_length_of_time_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="write 90s, 10m or 2h") as refused:
        parse_seconds(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0.001s", 0.001), ("999999999.999d", 86_399_999_999_913.6), ("\t5m\n", 300)]
)
def test_the_least_and_the_most_that_can_be_written(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)
