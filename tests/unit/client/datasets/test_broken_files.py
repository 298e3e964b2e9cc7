"""What every reader of a data file says of a broken one: a failure with the place, never a crash and
never a number."""

from collections.abc import Callable
from pathlib import Path

import pytest
from benchrun_client.contract import DataFile
from benchrun_client.contract.datasets import (
    AgentData,
    CustomData,
    ShareGPTData,
    TextsData,
    TimedTraceData,
)
from benchrun_client.datasets.agent import read_conversation
from benchrun_client.datasets.text_datasets import (
    read_custom,
    read_sharegpt,
    read_texts,
)
from benchrun_client.datasets.timed_trace import read_trace
from benchrun_client.failures import RunFailure, as_failure
from unit.client.datasets.files import written

Reader = Callable[[DataFile], object]


def trace_of(file: DataFile) -> object:
    return read_trace(TimedTraceData(file=file), context_tokens=None)


READERS: dict[str, tuple[Reader, str]] = {  # With a row that it takes.
    "custom": (
        lambda file: read_custom(CustomData(file=file)),
        '{"prompt": "a", "output_tokens": 1}',
    ),
    "shareGPT": (
        lambda file: read_sharegpt(ShareGPTData(file=file)),
        '{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}',
    ),
    "texts": (
        lambda file: read_texts(TextsData(file=file, column="t", format="JSONL")),
        '{"t": "a"}',
    ),
    "timedTrace": (
        trace_of,
        '{"timestamp": 1, "input_length": 2, "output_length": 3}',
    ),
    "agent": (
        lambda file: read_conversation(AgentData(file=file)),
        '{"messages": [{"role": "user", "content": "a"}, {"role": "gpt", "content": "b"}]}',
    ),
}
BROKEN: dict[str, Callable[[str], str | bytes]] = {
    "empty": lambda row: "",
    "blank": lambda row: " \r\n\n",
    "truncated": lambda row: row[:-3],
    "binary": lambda row: b"\x1f\x8b\x08\x00\xff\xfe\x00",
    "UTF-8 cut in a character": lambda row: row.encode() + b"\xe2\x82",
    "a NUL byte": lambda row: row.replace('"a"', '"a\0"').replace(": 1", ": \0"),
    "half a character": lambda row: row.replace('"a"', '"\\ud83d"').replace(
        "{", '{"\\ud83d": 1, ', 1
    ),
    "a key twice": lambda row: row.replace("{", '{"x": 1, "x": 2, ', 1),
    "a number of 5000 digits": lambda row: row.replace(
        "{", f'{{"x": {"9" * 5000}, ', 1
    ),
    "nested deeply": lambda row: row.replace(
        "{", f'{{"x": {"[" * 90_000}{"]" * 90_000}, ', 1
    ),
    "a list of numbers": lambda row: "[1, 2]",
    "other keys": lambda row: '{"nothing": 1}',
    "keys with wrong types": lambda row: row.replace('"a"', "[7]").replace(
        ": 2", ": {}"
    ),
    "a web page": lambda row: "<!DOCTYPE html><html></html>",
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_is_refused_with_its_name(
    tmp_path: Path, name: str, how: str
) -> None:
    read, row = READERS[name]
    with pytest.raises(RunFailure) as failure:
        read(written(tmp_path, "rows.data", BROKEN[how](row)))
    assert as_failure(failure.value).reason == "DatasetInvalid"
    assert "rows.data" in failure.value.message


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("change", ["\ufeff{}", "{}\r\n", "\r\n{}\r\n\r\n"])
def test_marks_and_line_ends_of_other_systems_are_read(
    tmp_path: Path, name: str, change: str
) -> None:
    read, row = READERS[name]
    read(written(tmp_path, "rows.data", change.replace("{}", row)))


@pytest.mark.parametrize(
    "number", ["1e400", "-1", "NaN", "Infinity", "9" * 400, "true", '"1"']
)
@pytest.mark.parametrize("name", ["custom", "timedTrace"])
def test_a_number_that_is_none_is_refused_at_its_line(
    tmp_path: Path, name: str, number: str
) -> None:
    read, row = READERS[name]
    one = ": 2" if name == "timedTrace" else ": 1"  # a count of tokens
    content = f"{row}\n{row.replace(one, f': {number}')}\n"
    with pytest.raises(RunFailure) as failure:
        read(written(tmp_path, "rows.data", content))
    assert "rows.data, line 2" in failure.value.message


def test_turns_that_are_none_are_not_called_too_few(tmp_path: Path) -> None:
    """As in a file by columns, whose one list holds whole conversations."""
    content = '{"conversations": [[{"from": "human", "value": "a"}]]}'
    with pytest.raises(RunFailure) as failure:
        read_sharegpt(ShareGPTData(file=written(tmp_path, "rows.data", content)))
    assert failure.value.reason == "DatasetInvalid"
    assert "rows.data, line 1" in failure.value.message


@pytest.mark.parametrize(
    ("content", "place"),
    [
        pytest.param("t,t\na,b\n", "line 1", id="a column twice"),
        pytest.param("t\tu\na\tb\n", "line 1", id="tabs"),
        pytest.param("t,u\na\n", "line 2", id="a short row"),
        pytest.param('t\n"a\n', "line 2", id="cut in a quoted text"),
        pytest.param(b"t\n\xff\n", "line 2", id="no UTF-8"),
        pytest.param("u\n", "line 1", id="another column"),
    ],
)
def test_a_broken_table_is_refused_at_its_line(
    tmp_path: Path, content: str | bytes, place: str
) -> None:
    with pytest.raises(RunFailure) as failure:
        read_texts(
            TextsData(
                file=written(tmp_path, "rows.csv", content),
                column="t",
                format="CSV",
            )
        )
    assert f"rows.csv, {place}" in failure.value.message
