"""`texts` data: so many texts of a column to a prompt, an instruction behind them, each prompt sent
once or more."""

from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import DataFile, TextsData
from benchrun_client.datasets.run_datasets import RunDatasets
from benchrun_client.failures import RunFailure
from unit.client.datasets.files import drawn, json_lines, portion, written
from unit.client.words import WordCounter
from unit.golden_messages import golden


def reviews(folder: Path, count: int) -> DataFile:
    rows = "".join(f'"review{n}, a ""fine"" film",positive\n' for n in range(count))
    return written(folder, "reviews.csv", f"review,sentiment\n{rows}")


def texts(file: DataFile, **changes: Any) -> TextsData:
    return TextsData(**{"file": file, "column": "review", **changes})


def test_texts_are_packed_a_line_each_with_the_instruction_behind(tmp_path: Path) -> None:
    data = texts(reviews(tmp_path, 12), texts_per_prompt=3, instruction="positive or negative?")
    (samples,) = drawn(portion(data))
    lines = [s.prompt.splitlines() for s in samples]
    assert {(len(of_one), of_one[-1]) for of_one in lines} == {(4, "positive or negative?")}
    assert sorted(line for of_one in lines for line in of_one[:-1]) == sorted(
        f'review{n}, a "fine" film' for n in range(12)
    )


@pytest.mark.parametrize(("a_text", "in_all"), [(1, 5), (20, 100)])
def test_as_many_tokens_are_requested_as_all_texts_need(
    tmp_path: Path, a_text: int, in_all: int
) -> None:
    data = texts(reviews(tmp_path, 20), texts_per_prompt=5, output_tokens_per_text=a_text)
    assert {s.output_tokens for s in drawn(portion(data))[0]} == {in_all}


def test_packed_and_single_texts_of_one_file_are_never_the_same_in_a_run(tmp_path: Path) -> None:
    file = reviews(tmp_path, 16)
    found = drawn(portion(texts(file, texts_per_prompt=3)), portion(texts(file), workload="single"))
    used = [line for samples in found for s in samples for line in s.prompt.splitlines()]
    assert len(used) == len(set(used)) == 16


def test_the_same_content_in_two_places_is_never_sent_twice_either(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    one = texts(reviews(tmp_path, 8))
    copy = texts(reviews(tmp_path / "copy", 8))
    first = portion(one)
    second = portion(copy, workload="single", seed=2)
    supply = RunDatasets([first, second], counter=WordCounter(), context_tokens=None)
    assert len({s.prompt for each in (first, second) for s in supply.draw(each)}) == 8
    (facts,) = supply.facts([second])
    assert (facts.rows_used, facts.source) == (4, str(tmp_path / "copy" / "reviews.csv"))
    with pytest.raises(RunFailure) as raised:
        drawn(first, portion(copy, workload="single", requests=8))
    golden(str(raised.value))


def test_duplicates_follow_each_other_and_all_but_the_first_are_declared(tmp_path: Path) -> None:
    (samples,) = drawn(portion(texts(reviews(tmp_path, 3), duplicate=3), requests=7))
    assert [s.prompt for s in samples] == [samples[n // 3 * 3].prompt for n in range(7)]
    assert len({s.prompt for s in samples}) == 3
    assert [s.repeated_tokens for s in samples] == [0, 4, 4, 0, 4, 4, 0]


def test_a_json_field_will_do_as_well(tmp_path: Path) -> None:
    file = json_lines(tmp_path, [{"review": f"review{n}\n of two lines"} for n in range(4)])
    (samples,) = drawn(portion(texts(file, format="JSONL")))
    assert sorted(s.prompt for s in samples) == [f"review{n} of two lines" for n in range(4)]


def test_empty_and_repeated_texts_are_left_out_and_counted(tmp_path: Path) -> None:
    file = written(tmp_path, "r.csv", 'review\n"a b"\n" "\n"a  b"\n\n"c"\n')
    whole = portion(texts(file), requests=2)
    supply = RunDatasets([whole], counter=WordCounter(), context_tokens=None)
    supply.draw(whole)
    (facts,) = supply.facts([whole])
    assert (facts.rows_read, facts.rows_used, facts.rows_dropped) == (
        4,
        2,
        {"EmptyText": 1, "RepeatsEarlierRow": 1},
    )


def test_prompts_too_long_for_the_model_are_left_out(tmp_path: Path) -> None:
    file = written(tmp_path, "r.csv", "review\n" + "word " * 100 + "\nshort one\nshort two\n")
    (samples,) = drawn(portion(texts(file), requests=2), context_tokens=50)
    assert sorted(s.prompt for s in samples) == ["short one", "short two"]


def test_too_few_texts_are_reported_in_texts(tmp_path: Path) -> None:
    with pytest.raises(RunFailure) as failure:
        drawn(portion(texts(reviews(tmp_path, 11), texts_per_prompt=3)))
    golden(str(failure.value))
    assert failure.value.reason == "DatasetTooSmall"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"text,label\na,b\n", id="column"),
        pytest.param(b"review,review\na,b\n", id="the column twice"),
        pytest.param(b"review,label\na,b\na,b,c\n", id="comma"),
        pytest.param(b'review,label\na,b\n"open,b\nc,d', id="a quote never closed"),
        pytest.param(b"review\nca\xe9\n", id="Latin-1"),
    ],
)
def test_a_broken_file_is_rejected_naming_file_line_and_column(
    tmp_path: Path, content: bytes
) -> None:
    with pytest.raises(RunFailure, match=r"r\.csv") as failure:
        drawn(portion(texts(written(tmp_path, "r.csv", content))))
    assert failure.value.reason == "DatasetInvalid"
    golden(failure.value.message)


def test_a_header_alone_is_a_file_too_small(tmp_path: Path) -> None:
    with pytest.raises(RunFailure, match="has 0 rows") as failure:
        drawn(portion(texts(written(tmp_path, "r.csv", "review,label\n"))))
    assert failure.value.reason == "DatasetTooSmall"
