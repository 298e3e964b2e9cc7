"""How figures, lengths of time and sparklines are written."""

import re

import pytest
from benchrun.api import Change
from benchrun.report.comparison_rows import interval, signed
from benchrun.report.html.sections.verdict import evidence_text
from benchrun.report.tables import (
    ABSENT,
    BARS,
    age,
    clock,
    figure,
    format_seconds,
    parse_seconds,
    sparkline,
)
from hypothesis import given, strategies as st


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
def test_duration_as_words_column_and_clock(
    seconds: float, words: str, column: str, hands: str
) -> None:
    assert (format_seconds(seconds), age(seconds), clock(seconds)) == (
        words,
        column,
        hands,
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86_400),
        ("0.5h", 1800),
        (" 5s ", 5),
    ],
)
def test_written(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0", "0m", "-5s", "5 s", "5w", "1h30m", "inf", "nan", "1e3"]
)
def test_an_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(
        ValueError, match="is not a length of time; write 90s, 10m or 2h"
    ):
        parse_seconds(text)


SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "m": 60}
LENGTHS = st.floats(min_value=0, max_value=1e8, allow_nan=False)


def parsed_seconds(text: str) -> int:
    """Seconds of `2 h 5 min`."""
    return sum(
        int(number) * SECONDS[unit]
        for number, unit in re.findall(r"(\d+) ?([a-z]+)", text)
    )


@given(LENGTHS)
def test_a_duration_is_short_by_less_than_its_smallest_unit(seconds: float) -> None:
    text = format_seconds(seconds)
    assert re.fullmatch(r"\d+ s|\d+ min( \d+ s)?|\d+ h( \d+ min)?|\d+ d", text), (
        text
    )
    smallest = 1 if seconds < 3599 else 60 if seconds < 86_399 else 86_400
    assert -0.5 <= seconds - parsed_seconds(text) < smallest + 0.5


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
    assert sum(
        part * 60**place for place, part in enumerate(reversed(hands))
    ) == int(seconds)
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
    assert (format_seconds(seconds), age(seconds), clock(seconds)) == (
        words,
        column,
        hands,
    )


@given(st.integers(1, 999_999_999), st.sampled_from(["", "s", "m", "h", "d"]))
def test_a_written_duration_is_parsed(number: int, unit: str) -> None:
    factor = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}[unit]
    assert parse_seconds(f"{number}{unit}") == number * factor


@pytest.mark.parametrize(
    "text",
    [
        "1234567890",
        "1.2345s",
        ".5s",
        "5.s",
        "5S",
        "5 min",
        "+5s",
        "٣s",
        "0.0s",
        "5s5",
        "1_0s",
        "5ms",
    ],
)
def test_an_almost_valid_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="write 90s, 10m or 2h") as refused:
        parse_seconds(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0.001s", 0.001), ("999999999.999d", 86_399_999_999_913.6), ("\t5m\n", 300)],
)
def test_the_least_and_the_most_that_can_be_written(
    text: str, seconds: float
) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("values", "top", "drawn"),
    [
        pytest.param([0, 50, 100], 100.0, "▁▅█", id="from nothing to the top"),
        pytest.param(
            [0, 1, 2], None, "▁▅█", id="to the largest where no top is given"
        ),
        pytest.param([1, None, 1], 1.0, "█ █", id="a gap is no low bar"),
        pytest.param([0, 0, 0], None, "▁▁▁", id="nothing at all"),
        pytest.param([200, -5, 1], 100.0, "█▁▁", id="beyond the scale"),
        pytest.param([1, 2, 3, 4], 4.0, "▅▇█", id="the last ones"),
        pytest.param([4], 4.0, "█  ", id="room to grow"),
        pytest.param([], None, "   ", id="no values"),
    ],
)
def test_drawn(values: list[float | None], top: float | None, drawn: str) -> None:
    assert sparkline(values, top=top, width=3) == drawn


def test_every_eighth_has_its_bar() -> None:
    assert sparkline([n + 0.5 for n in range(8)], top=8.0, width=8) == BARS


def test_no_room_is_no_bar() -> None:
    assert sparkline([1, 2], width=0) == ""


FINITE = st.floats(
    allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15
)


@pytest.mark.parametrize(
    ("text", "value", "digits"),
    [
        pytest.param("99.9", 99.94, 3, id="below-100"),
        pytest.param("100", 99.96, 3, id="rounded-up-to-100"),
        pytest.param("9.99", 9.994, 3, id="below-10"),
        pytest.param("10", 9.996, 3, id="rounded-up-to-10"),
        pytest.param("1000", 999.6, 3, id="rounded-up-to-1000"),
        pytest.param("1230", 1234.0, 3, id="beyond-its-digits"),
        pytest.param("1234", 1234.4, 4, id="as-many-as-its-digits"),
        pytest.param("12350", 12_345.6, 4, id="one-more"),
        pytest.param("0.5", 0.5, 3, id="no-trailing-zeros"),
        pytest.param("8", 8.0, 3, id="whole"),
        pytest.param("8", 8, 3, id="integer"),
        pytest.param("0.00000123", 1.2345e-6, 3, id="tiny"),
        pytest.param("0.0001", 1e-4, 3, id="where-python-still-writes-it-out"),
        pytest.param("0.00001", 1e-5, 3, id="where-python-does-not"),
        pytest.param("123000000000000000000", 1.234e20, 3, id="huge"),
        pytest.param("-3.14", -3.14159, 3, id="negative"),
        pytest.param("-0.00001", -1e-5, 3, id="negative-tiny"),
        pytest.param("0", -0.0, 3, id="negative-zero"),
    ],
)
def test_digits(text: str, value: float, digits: int) -> None:
    assert figure(value, digits=digits) == text


@pytest.mark.parametrize(
    ("unit", "text"), [("", "8"), ("%", "8%"), (" ms", "8 ms"), ("?", "8?")]
)
def test_a_unit_follows_a_number(unit: str, text: str) -> None:
    assert figure(8.0, unit=unit) == text
    assert figure(None, unit=unit) == ABSENT, "there is no unit of nothing"


@given(FINITE, st.integers(1, 6))
def test_a_figure_is_a_plain_number_as_near_as_its_digits_allow(
    value: float, digits: int
) -> None:
    text = figure(value, digits=digits)
    assert re.fullmatch(r"-?\d+(\.\d+)?", text), text
    assert float(text) == float(f"{value:.{digits}g}")
    assert len(text.lstrip("-").replace(".", "").strip("0")) <= digits


@given(FINITE)
def test_the_sign_of_a_figure_is_that_of_its_value(value: float) -> None:
    assert figure(value).startswith("-") is (value < 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3.0),
        ("3", 3),
        ("123456", 123_456.0),
        ("1234567", 1_234_567),
        ("-3", -3.0),
        ("0", 0.0),
        ("3.14", 3.14159),
        ("0.0123", 0.012345),
        ("word", "word"),
        ("", ""),
        ("None", None),
        ("1", True),
    ],
)
def test_evidence_has_counts_whole_and_measures_to_three_digits(
    text: str, value: float | str | None
) -> None:
    assert evidence_text(value) == text


# ---- changes
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        (ABSENT, None),
        ("+0.0", 0.0),
        ("+0.1", 0.05001),
        ("+5.3", 5.25001),
        ("-5.3", -5.25001),
        ("+99.9", 99.94),
        ("+100", 99.95),
        ("-100", -99.95),
        ("-99.9", -99.94),
        ("+100", 100.4),
        ("+1234", 1234.4),
        ("-100", -100.0),
    ],
)
def test_a_change_has_its_sign_and_one_decimal_until_it_doubles(
    text: str, percent: float | None
) -> None:
    assert signed(percent) == text
    assert signed(percent, unit=" %") == (text if percent is None else f"{text} %")


@given(FINITE)
def test_a_change_is_as_near_as_its_decimals_allow(percent: float) -> None:
    text = signed(percent)
    assert text[0] == "+-"[percent < 0 or str(percent) == "-0.0"]
    assert abs(float(text) - percent) <= (
        0.0501 if abs(percent) < 99.95 else 0.5001
    )


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("-1.7 to +1.8", -1.7, 1.8),
        ("-50.0 to +120", -50.0, 120.0),
        ("-99.9 to +1000", -99.9, 1000.0),
        ("-99.9 to over +1000", -99.9, 1000.1),
        (ABSENT, None, 1.8),
        (ABSENT, -1.7, None),
        (ABSENT, None, None),
        ("+0.0 to +0.0", 0.0, 0.0),
    ],
)
def test_an_interval_has_two_ends_or_is_none(
    text: str, low: float | None, high: float | None
) -> None:
    assert (
        interval(
            Change(
                metric="MeanTTFT",
                low_percent=low,
                high_percent=high,
                word="Unknown",
            )
        )
        == text
    )
