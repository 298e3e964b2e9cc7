"""How a number becomes the text of a column: its digits, its unit, its sign, and what stands for none."""

from __future__ import annotations

import re

import pytest
from benchrun.api import Change
from benchrun.report.comparison_rows import interval, signed
from benchrun.report.rows import ABSENT, evidence_text, figure
from hypothesis import given
from hypothesis import strategies as st

FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15)


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


@pytest.mark.parametrize(("unit", "text"), [("", "8"), ("%", "8%"), (" ms", "8 ms"), ("?", "8?")])
def test_a_unit_follows_a_number(unit: str, text: str) -> None:
    assert figure(8.0, unit=unit) == text
    assert figure(None, unit=unit) == ABSENT, "there is no unit of nothing"


@given(FINITE, st.integers(1, 6))
def test_a_figure_is_a_plain_number_as_near_as_its_digits_allow(value: float, digits: int) -> None:
    text = figure(value, digits=digits)
    assert re.fullmatch(r"-?\d+(\.\d+)?", text), text
    assert float(text) == float(f"{value:.{digits}g}")
    significant = text.lstrip("-").replace(".", "").strip("0")
    assert len(significant) <= digits


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
def test_evidence_has_counts_whole_and_measures_to_three_digits(text: str, value: float | str | None) -> None:
    assert evidence_text(value) == text


# ---- changes ---------------------------------------------------------------------------------------------------------


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
def test_a_change_has_its_sign_and_one_decimal_until_it_doubles(text: str, percent: float | None) -> None:
    assert signed(percent) == text
    assert signed(percent, unit=" %") == (text if percent is None else f"{text} %")


@given(FINITE)
def test_a_change_is_as_near_as_its_decimals_allow(percent: float) -> None:
    text = signed(percent)
    assert text[0] == "+-"[percent < 0 or str(percent) == "-0.0"]
    assert abs(float(text) - percent) <= (0.0501 if abs(percent) < 99.95 else 0.5001)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("-1.7 to +1.8", -1.7, 1.8),
        ("-50.0 to +120", -50.0, 120.0),
        (ABSENT, None, 1.8),
        (ABSENT, -1.7, None),
        (ABSENT, None, None),
        ("+0.0 to +0.0", 0.0, 0.0),
    ],
)
def test_an_interval_has_two_ends_or_is_none(text: str, low: float | None, high: float | None) -> None:
    assert interval(Change(metric="MeanTTFT", low_percent=low, high_percent=high, word="Unknown")) == text
