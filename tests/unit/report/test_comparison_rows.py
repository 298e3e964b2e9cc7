"""The table of a comparison, cell by cell, and the sentences that go with it."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from benchrun.api import Change, ComparedCell, Gate, Word
from benchrun.report.comparison_rows import GATES, comparison_rows, reasons, unpaired


def change(**fields: Any) -> Change:
    values: dict[str, Any] = {
        "metric": "MeanTTFT",
        "baseline": 43.0,
        "value": 60.0,
        "change_percent": 39.53,
        "low_percent": 36.9,
        "high_percent": 42.2,
        "word": "Worse",
    }
    return Change(**(values | fields))


def cell(name: str = "chat/rate=4", *changes: Change, **fields: Any) -> ComparedCell:
    return ComparedCell(cell=name, changes=list(changes), **fields)


def test_every_column_of_a_figure() -> None:
    rows = comparison_rows([cell("chat/rate=4", change())])
    assert dict(zip(rows.headers, rows.rows[0], strict=True)) == {
        "load point": "chat/rate=4",
        "figure": "MeanTTFT",
        "baseline": "43",
        "value": "60",
        "change": "+39.5 %",
        "interval": "+36.9 to +42.2",
        "word": "Worse",
    }


def test_figures_of_a_comparison_have_four_digits() -> None:
    row = comparison_rows([cell("c", change(baseline=1234.56, value=0.123456))]).rows[0]
    assert row[2:4] == ("1235", "0.1235")


def test_what_nobody_knows_is_a_dash_in_its_column() -> None:
    nothing = {"baseline": None, "value": None, "change_percent": None, "low_percent": None, "high_percent": None}
    assert comparison_rows([cell("c", change(**nothing, word="Unknown"))]).rows == (
        ("c", "MeanTTFT", "-", "-", "-", "-", "Unknown"),
    )


@pytest.mark.parametrize("word", get_args(Word))
def test_only_one_word_is_shortened(word: Word) -> None:
    shown = comparison_rows([cell("c", change(word=word))]).rows[0][-1]
    assert shown == ("no difference" if word == "NoDetectableDifference" else word)


def test_a_row_a_figure_in_order_and_one_for_a_cell_that_can_not_be_compared() -> None:
    rows = comparison_rows(
        [
            cell("b", change(metric="MeanTTFT"), change(metric="MeanTPOT")),
            cell("a", change(), reason="another GPU"),
            cell("c"),
        ]
    ).rows
    assert [row[:2] for row in rows] == [("b", "MeanTTFT"), ("b", "MeanTPOT"), ("a", "-")]
    assert rows[2] == ("a", "-", "-", "-", "-", "-", "NotComparable")


def test_reasons_are_told_once_and_those_of_cells_first() -> None:
    told = reasons(
        [
            cell("a", change(reason="one repeat"), change(reason="one repeat"), change()),
            cell("b", change(reason="too few")),
            cell("c", reason="another GPU"),
            cell("d", reason="another GPU"),
        ]
    )
    assert told == ["c: another GPU", "d: another GPU", "one repeat", "too few"]
    assert reasons([cell("a", change())]) == []


def test_equal_traffic_is_asked_of_cells_that_were_compared() -> None:
    cells = [cell("paired", paired=True), cell("not"), cell("left-out", reason="another GPU")]
    assert unpaired(cells) == ["not"]


def test_every_gate_has_its_sentence() -> None:
    assert set(GATES) == set(get_args(Gate))
