"""Lengths of time in words, columns and clocks, and as they are written."""

from __future__ import annotations

import pytest
from benchrun.report.rows import age, clock, format_seconds, parse_seconds


@pytest.mark.parametrize(
    ("seconds", "words", "column", "hands"),
    [
        (0, "0 s", "0s", "00:00"),
        (-3, "0 s", "0s", "00:00"),
        (59.4, "59 s", "59s", "00:59"),
        (59.6, "1 min", "59s", "00:59"),
        (60, "1 min", "1m", "01:00"),
        (192, "3 min 12 s", "3m", "03:12"),
        (3600, "1 h", "1h", "1:00:00"),
        (7_530, "2 h 5 min", "2h", "2:05:30"),
        (86_400, "1 d", "1d", "24:00:00"),
        (200_000, "2 d", "2d", "55:33:20"),
    ],
)
def test_told(seconds: float, words: str, column: str, hands: str) -> None:
    assert (format_seconds(seconds), age(seconds), clock(seconds)) == (words, column, hands)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("0.5h", 1800), (" 5s ", 5)],
)
def test_written(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0m", "-5s", "5 s", "5w", "1h30m", "inf", "nan", "1e3"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a length of time; write 90s, 10m or 2h"):
        parse_seconds(text)
