"""Bytes of JSON and CSV: what stands for what, and what is refused."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from benchrun.report.export.csv_parquet import (
    replica_table,
    request_table,
    server_table,
    stage_table,
)
from benchrun.report.export.encoders import (
    ExportColumn,
    ExportTable,
    Value,
    as_csv,
    as_json,
    as_json_lines,
    without_unknown,
)
from benchrun.report.export.formats import FORMATS, TABLES
from hypothesis import given, strategies as st
from unit.report.export.runs import CAPPED, CHAT, measured, run


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_non_finite_numbers_are_not_valid_json(number: float) -> None:
    for write in (as_json, as_json_lines):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write([{"x": number}])


def test_json_is_indented_and_ends_its_last_line() -> None:
    assert as_json({"name": "größe"}) == '{\n  "name": "größe"\n}\n'.encode()
    assert (
        as_json_lines([{"a": 1}, {"ü": None}]) == '{"a": 1}\n{"ü": null}\n'.encode()
    )
    assert as_json_lines([]) == b""


def test_what_is_unknown_is_left_out_at_every_depth_and_nothing_else_is() -> None:
    value = {
        "a": None,
        "b": {"c": None, "d": 0},
        "e": {"f": None},
        "g": "",
        "h": [None],
        "i": False,
    }
    assert without_unknown(value) == {
        "b": {"d": 0},
        "e": {},
        "g": "",
        "h": [None],
        "i": False,
    }
    assert value["b"] == {"c": None, "d": 0}, "what was given is as it was"


def line(value: Value) -> str:
    """The field of one value, as a reader of CSV gets it."""
    text = as_csv(
        ExportTable(
            (ExportColumn("x", "text", str), ExportColumn("y", "text", str)),
            [(value, "end")],
        )
    ).decode()
    (_, row) = csv.reader(io.StringIO(text, newline=""))
    assert row[1] == "end"
    return row[0]


NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("", None),
        ("", ""),
        ("true", True),
        ("false", False),
        ("1", 1),
        ("0", 0),
        ("0.1", 0.1),
        ("1e-07", 1e-7),
        ("2026-01-01T12:00:00Z", NOON),
        ("2026-01-01T12:00:00.000001Z", NOON + timedelta(microseconds=1)),
        (
            "2026-01-01T12:00:00+02:00",
            NOON.replace(tzinfo=timezone(timedelta(hours=2))),
        ),
        ("a;b", ("a", "b")),
        ("", ()),
        ('says "no", twice', 'says "no", twice'),
        ("two\nlines", "two\nlines"),
    ],
)
def test_a_field_of_each_kind(field: str, value: Value) -> None:
    assert line(value) == field


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00")))
def test_any_text_comes_back_and_none_is_a_formula(text: str) -> None:
    assert line(text) in (text, f"'{text}")
    assert not line(text).startswith(("=", "@", "\t"))


def test_csv_lines_end_with_crlf() -> None:
    assert (
        as_csv(ExportTable((ExportColumn("x", "integer", str),), [(1,), (2,)]))
        == b"x\r\n1\r\n2\r\n"
    )


# ---- formats
# ---------------------------------------------------------------------------------------------------------


def test_the_formats_that_there_are() -> None:
    assert sorted(FORMATS) == ["csv", "llm-d", "parquet", "result", "vllm"]
    assert [name for name, each in FORMATS.items() if not each.is_text] == [
        "parquet"
    ]
    assert TABLES == ("stages", "servers", "replicas", "requests")


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("stages", stage_table),
        ("servers", server_table),
        ("replicas", replica_table),
        ("requests", request_table),
    ],
)
def test_one_file_holds_the_table_requested_and_a_folder_all(
    name: Any, table: Any
) -> None:
    assert FORMATS["csv"].document(run(), name) == as_csv(table(run()))
    assert FORMATS["csv"].files(run())[f"{name}.csv"] == as_csv(table(run()))


def test_a_document_holds_what_the_folder_does() -> None:
    (report,) = FORMATS["llm-d"].files(run(measured(CHAT))).values()
    assert FORMATS["llm-d"].document(run(measured(CHAT)), "stages") == report
    lines = [
        json.loads(each)
        for each in FORMATS["vllm"].document(run(), "stages").splitlines()
    ]
    files = FORMATS["vllm"].files(run())
    whole = [json.loads(text) for name, text in files.items() if "run=" in name]
    assert sorted(map(str, lines)) == sorted(map(str, whole))


def test_columns_of_the_tables_say_their_units_and_are_reported_once() -> None:
    for table in (
        stage_table(run(measured(CAPPED))),
        replica_table(run()),
        request_table(run()),
    ):
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names)
        assert all(len(values) == len(names) for values in table.rows)


@pytest.mark.parametrize(
    ("value", "load_point"),
    [
        ('=HYPERLINK("http://x","y")', '\'=HYPERLINK("http://x","y")'),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        ("-1.5", "-1.5"),
        ("+2e-3", "+2e-3"),
        ("chat/rate=4", "chat/rate=4"),
        (("=a", "b"), "'=a;b"),
        (-1.5, "-1.5"),
        (-3, "-3"),
    ],
)
def test_no_load_point_is_a_formula(value: Value, load_point: str) -> None:
    table = ExportTable(
        (ExportColumn("a", "text", str), ExportColumn("b", "text", str)),
        [("x", value)],
    )
    (row,) = csv.DictReader(io.StringIO(as_csv(table).decode(), newline=""))
    assert row["b"] == load_point
