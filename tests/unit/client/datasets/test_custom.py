"""`custom` data: a prompt a line; a line that can't be one is named with its field."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import DataFile
from benchrun_client.contract.datasets import CustomData
from benchrun_client.datasets.run_datasets import RunDatasets
from benchrun_client.failures import RunFailure
from unit.client.datasets.files import drawn, json_lines, portion, written
from unit.client.words import WordCounter
from unit.golden_messages import golden


def prompts(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [
        {"prompt": f"word{n} and so on", "output_tokens": n + 1, **fields}
        for n in range(count)
    ]


def test_each_line_is_a_request_with_its_own_length(tmp_path: Path) -> None:
    ((first, *_, last),) = drawn(
        portion(CustomData(file=json_lines(tmp_path, prompts(4))))
    )
    assert {first.input_tokens, last.input_tokens} == {5}
    by_prompt = {s.prompt: s.output_tokens for s in (first, last)}
    assert all(tokens == int(prompt[4]) + 1 for prompt, tokens in by_prompt.items())


def test_one_length_for_all_needs_none_in_the_file(tmp_path: Path) -> None:
    file = json_lines(tmp_path, [{"text": f"word{n}"} for n in range(4)])
    (samples,) = drawn(
        portion(CustomData(file=file, prompt_field="text", output_tokens=7))
    )
    assert {s.output_tokens for s in samples} == {7}


def test_each_line_is_used_once_in_a_run_whatever_its_stages_ask_for(
    tmp_path: Path,
) -> None:
    file = json_lines(tmp_path, prompts(10))
    forced = portion(
        CustomData(file=file, output_tokens=3), requests=6, workload="forced"
    )
    found = drawn(forced, portion(CustomData(file=file)))
    assert len({s.prompt for samples in found for s in samples}) == 10


def test_what_all_prompts_begin_with_is_declared(tmp_path: Path) -> None:
    file = json_lines(
        tmp_path,
        [
            {"prompt": f"Answer in one word. word{n}", "output_tokens": 1}
            for n in range(4)
        ],
    )
    (samples,) = drawn(portion(CustomData(file=file)))
    assert {s.repeated_tokens for s in samples} == {4}


def test_prompts_that_came_before_and_those_too_long_are_left_out_and_counted(
    tmp_path: Path,
) -> None:
    rows = [
        *prompts(5),
        *prompts(2),
        {"prompt": "long " * 50, "output_tokens": 1},
        {"prompt": "s", "output_tokens": 60},
    ]
    data = CustomData(file=json_lines(tmp_path, rows))
    everything = portion(data, requests=5)
    supply = RunDatasets([everything], counter=WordCounter(), context_tokens=40)
    supply.draw(everything)
    with pytest.raises(RunFailure) as failure:
        supply.draw(portion(data, requests=1))
    assert failure.value.reason == "DatasetTooSmall"
    golden(failure.value.message)
    (facts,) = supply.facts([everything])
    assert (facts.rows_read, facts.rows_used) == (9, 5)
    assert facts.rows_dropped == {"RepeatsEarlierRow": 2, "TooLongForModel": 2}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(
            '{"prompt": "a", "output_tokens": 1}\n{"prompt": a}\n',
            id="a broken line",
        ),
        pytest.param('"prompt"\n', id="no object"),
        pytest.param('\n{"text": "a"}\n', id="another field"),
        pytest.param('{"prompt": [1]}\n', id="no text"),
        pytest.param('{"prompt": " "}\n', id="nothing in it"),
        pytest.param('{"prompt": "a"}\n', id="no length"),
        pytest.param('{"prompt": "a", "output_tokens": 0}', id="length 0"),
        pytest.param('{"prompt": "a", "output_tokens": 1.5}', id="half a token"),
        pytest.param('{"prompt": "a", "output_tokens": "9"}', id="in quotes"),
        pytest.param(
            b'{"prompt": "a", "output_tokens": 1}\n{"prompt": "\xff"}', id="bytes"
        ),
        pytest.param("[" * 100_000, id="a bomb of brackets"),
        pytest.param("\n \n", id="empty"),
        pytest.param("\n<!DOCTYPE html><html>login", id="a page that was saved"),
        pytest.param(
            '{"prompt": "a", "n": ' + "9" * 5000 + "}",
            id="more digits than are read",
        ),
        pytest.param(
            '{"prompt": "\\ud800", "output_tokens": 1}', id="half a character"
        ),
        pytest.param(
            '{"\\ud800": 1, "prompt": "a"}', id="half a character in a name"
        ),
    ],
)
def test_a_broken_file_is_rejected_naming_file_line_and_field(
    tmp_path: Path, content: str | bytes
) -> None:
    file = written(tmp_path, "rows.jsonl", content)
    with pytest.raises(RunFailure, match=r"rows\.jsonl") as failure:
        drawn(portion(CustomData(file=file)))
    assert failure.value.reason == "DatasetInvalid"
    golden(failure.value.message)


@pytest.mark.parametrize(
    ("word", "content"),
    [
        (
            "gzip",
            gzip.compress(mtime=0, data=b'{"prompt": "a", "output_tokens": 1}'),
        ),
        ("Parquet", b"PAR1\x15\x04"),
        ("zip", b"PK\x03\x04\x14\x00"),
        ("zstd", b"\x28\xb5\x2f\xfd\x24"),
        (
            "Git LFS",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n",
        ),
    ],
)
def test_a_file_that_holds_no_text_is_told_by_its_form(
    tmp_path: Path, word: str, content: bytes
) -> None:
    file = written(tmp_path, "rows.jsonl", content)
    with pytest.raises(RunFailure, match=word) as failure:
        drawn(portion(CustomData(file=file)))
    assert failure.value.reason == "DatasetInvalid"


def test_a_byte_order_mark_is_no_part_of_the_data(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + b'{"prompt": "a", "output_tokens": 1}'
    (samples,) = drawn(
        portion(
            CustomData(file=written(tmp_path, "rows.jsonl", content)), requests=1
        )
    )
    assert samples[0].prompt == "a"


def test_a_file_of_5_gb_is_rejected_by_its_size(tmp_path: Path) -> None:
    huge = tmp_path / "huge.jsonl"
    with huge.open("wb") as file:
        file.truncate(5 * 10**9)
    with pytest.raises(RunFailure) as failure:
        drawn(portion(CustomData(file=DataFile(path=str(huge)))))
    golden(str(failure.value))
    assert failure.value.reason == "DatasetInvalid"


def test_a_line_without_end_is_not_read_whole(tmp_path: Path) -> None:
    endless = tmp_path / "endless.jsonl"
    with endless.open("wb") as file:
        file.write(b"{")
        file.truncate(100 * 1024**2)
    with pytest.raises(RunFailure) as raised:
        drawn(portion(CustomData(file=DataFile(path=str(endless)))))
    golden(str(raised.value))


@pytest.mark.parametrize("name", ["absent.jsonl", ".", "/dev/zero"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunFailure) as failure:
        drawn(portion(CustomData(file=DataFile(path=str(tmp_path / name)))))
    golden(str(failure.value))
    assert failure.value.reason == "DatasetNotFound"
