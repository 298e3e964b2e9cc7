"""`timedTrace` data: lengths and instants as recorded, in common what was in common; a trace that
can't be is refused by line."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract.datasets import TimedTraceData
from benchrun_client.datasets.random_words import WordWriter
from benchrun_client.datasets.row_pools import PromptRequest
from benchrun_client.datasets.timed_trace import (
    RecordedTrace,
    read_trace,
    write_trace,
)
from benchrun_client.failures import RunFailure
from unit.client.datasets.files import json_lines, portion, written
from unit.client.words import WORDS, WordCounter
from unit.golden_messages import golden

COUNTER = WordCounter(special=1)


def trace(folder: Path, *lines: dict[str, Any], **changes: Any) -> TimedTraceData:
    rows = [
        {"timestamp": 0, "input_length": 20, "output_length": 5, **line}
        for line in lines
    ]
    return TimedTraceData(
        **{
            "file": json_lines(folder, rows, "trace.jsonl"),
            "unit": "Milliseconds",
            "block_tokens": 8,
            **changes,
        }
    )


def sent(
    data: TimedTraceData, *, seed: int = 1, writer: WordWriter | None = None
) -> tuple[PromptRequest, ...]:
    read = read_trace(data, context_tokens=None)
    sent_portion = portion(data, requests=len(read.rows), seed=seed)
    used = writer or WordWriter(words=WORDS, counter=COUNTER)
    return write_trace(
        used, sent_portion, read.rows, block_tokens=data.block_tokens
    )


def start(sample: PromptRequest, words: int) -> list[str]:
    return sample.prompt.split()[:words]


def test_lengths_and_instants_are_the_recorded_ones_from_the_first_on(
    tmp_path: Path,
) -> None:
    lines = (
        {"timestamp": 500},
        {"timestamp": 750, "input_length": 33},
        {"timestamp": 750, "output_length": 9},
    )
    samples = sent(trace(tmp_path, *lines))
    found = [(s.input_tokens, s.output_tokens, s.at_seconds) for s in samples]
    assert found == [(20, 5, 0), (33, 5, 0.25), (20, 9, 0.25)]
    assert COUNTER.count([s.prompt for s in samples], api="Completions") == [
        20,
        33,
        20,
    ]


def test_instants_may_be_seconds_and_fields_be_named_otherwise(
    tmp_path: Path,
) -> None:
    rows = [{"at": 10.5, "in": 12, "out": 2}, {"at": 12, "in": 13, "out": 3}]
    names = {
        "timestamp_field": "at",
        "input_tokens_field": "in",
        "output_tokens_field": "out",
    }
    file = json_lines(tmp_path, rows)
    samples = sent(
        TimedTraceData(file=file, unit="Seconds", block_tokens=8, **names)
    )
    assert [(s.input_tokens, s.output_tokens, s.at_seconds) for s in samples] == [
        (12, 2, 0),
        (13, 3, 1.5),
    ]


def test_equal_blocks_in_front_are_equal_words_and_declared(tmp_path: Path) -> None:
    a, b, c, d = sent(
        trace(
            tmp_path,
            *({"hash_ids": ids} for ids in ([1, 2, 3], [1, 2, 4], [1, 5], [6, 2])),
        )
    )
    assert start(a, 16) == start(b, 16) != start(c, 16)
    assert start(a, 8) == start(c, 8) != start(d, 8)
    assert [s.repeated_tokens for s in (a, b, c, d)] == [0, 16, 8, 0]


def test_a_repeated_prompt_is_declared_as_far_as_it_goes(tmp_path: Path) -> None:
    _, repeated = sent(trace(tmp_path, *[{"hash_ids": [1, 2, 3]}] * 2))
    assert repeated.repeated_tokens == 19


def test_a_request_without_blocks_is_like_no_other(tmp_path: Path) -> None:
    samples = sent(trace(tmp_path, *[{}] * 50))
    assert len({tuple(start(s, 8)) for s in samples}) == 50
    assert {s.repeated_tokens for s in samples} == {0}


def test_stages_that_replay_the_same_trace_share_nothing(tmp_path: Path) -> None:
    data = trace(tmp_path, {"hash_ids": [1, 2]}, {"hash_ids": [1, 3]})
    writer = WordWriter(words=WORDS, counter=COUNTER)
    first = sent(data, seed=1, writer=writer)
    second = sent(data, seed=2, writer=writer)
    assert start(first[0], 8) != start(second[0], 8)
    assert sent(data, seed=1) == first


def test_what_the_model_cannot_take_is_left_out_and_counted(tmp_path: Path) -> None:
    read = read_trace(
        trace(tmp_path, {}, {"input_length": 96}, {"timestamp": 9}),
        context_tokens=100,
    )
    assert [entry.at_seconds for entry in read.rows] == [0, 0.009]
    facts = read.facts(0, used=1)
    assert (facts.rows_read, facts.rows_used, facts.rows_dropped) == (
        3,
        1,
        {"TooLongForModel": 1},
    )
    with pytest.raises(RunFailure) as failure:
        read.first(3)
    golden(str(failure.value))
    assert failure.value.reason == "DatasetTooSmall"


def test_a_prompt_shorter_than_the_template_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(RunFailure) as raised:
        sent(trace(tmp_path, {"input_length": 1}))
    golden(str(raised.value))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param({"timestamp": 999}, id="back in time"),
        pytest.param({"timestamp": ...}, id="no instant"),
        pytest.param({"timestamp": "12"}, id="an instant in quotes"),
        pytest.param({"timestamp": -1}, id="before the start"),
        pytest.param({"timestamp": float("inf")}, id="never"),
        pytest.param({"timestamp": float("nan")}, id="not a number"),
        pytest.param({"timestamp": 10**400}, id="an instant that no float holds"),
        pytest.param({"input_length": 0}, id="no prompt"),
        pytest.param({"output_length": 2.5}, id="half"),
        pytest.param({"hash_ids": [[1]]}, id="nested blocks"),
        pytest.param({"hash_ids": 7}, id="a block"),
    ],
)
def test_a_line_that_cannot_be_is_named(
    tmp_path: Path, line: dict[str, Any]
) -> None:
    good = {"timestamp": 1000, "input_length": 20, "output_length": 5}
    bad = {
        name: value for name, value in {**good, **line}.items() if value is not ...
    }
    file = written(
        tmp_path, "trace.jsonl", f"{json.dumps(good)}\n{json.dumps(bad)}\n"
    )
    with pytest.raises(RunFailure, match=r"trace\.jsonl, line 2: ") as failure:
        read_trace(
            TimedTraceData(file=file, unit="Milliseconds", block_tokens=8),
            context_tokens=None,
        )
    assert failure.value.reason == "DatasetInvalid"
    golden(failure.value.message)


def test_an_empty_trace_is_too_small() -> None:
    with pytest.raises(RunFailure) as raised:
        RecordedTrace("t", "0" * 64, ()).first(1)
    golden(str(raised.value))
