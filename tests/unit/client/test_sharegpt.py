"""Rows of a ShareGPT file: each used once, over-long ones dropped, a broken file refused by entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import ShareGPTData
from benchrun_client.datasets.samples import Sample, Slot
from benchrun_client.datasets.sharegpt import RowAssignment, read_sharegpt, rows_needed
from benchrun_client.failures import RunFailure
from unit.client.plans import sharegpt_stage, stage


def count_words(text: str) -> int:
    return len(text.split())


def text(name: str, tokens: int) -> str:
    return f"{name} " * tokens


def entry(name: str, *, prompt_tokens: int = 10, answer_tokens: int = 20) -> dict[str, Any]:
    return {
        "id": name,
        "conversations": [
            {"from": "human", "value": text(name, prompt_tokens)},
            {"from": "gpt", "value": text("answer", answer_tokens)},
        ],
    }


def written(tmp_path: Path, content: object) -> Path:
    file = tmp_path / "rows.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def assignment(tmp_path: Path, *entries: dict[str, Any]) -> RowAssignment:
    file = read_sharegpt(written(tmp_path, list(entries)), name="rows.json")
    return RowAssignment(file, count_tokens=count_words)


def draw(rows: RowAssignment, slot: Slot) -> tuple[Sample, ...]:
    assert isinstance(slot.data, ShareGPTData)
    return rows.draw(slot, slot.data, needed_by_run=slot.requests)


def names(samples: tuple[Sample, ...]) -> list[str]:
    return [s.prompt.split()[0] for s in samples]


def test_each_row_is_used_once_in_a_run(tmp_path: Path) -> None:
    rows = assignment(tmp_path, *(entry(f"row{n}") for n in range(12)))
    drawn = [name for seed in range(3) for name in names(draw(rows, sharegpt_stage("rows.json", seed=seed)))]
    assert sorted(drawn) == sorted(f"row{n}" for n in range(12))


def test_equal_plans_draw_equal_rows_and_another_seed_others(tmp_path: Path) -> None:
    entries = [entry(f"row{n}") for n in range(100)]

    def drawn(seed: int) -> list[str]:
        return names(draw(assignment(tmp_path, *entries), sharegpt_stage("rows.json", seed=seed)))

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_lengths_are_those_of_the_row_unless_the_output_is_forced(tmp_path: Path) -> None:
    rows = assignment(tmp_path, *(entry(f"row{n}", prompt_tokens=7, answer_tokens=9) for n in range(8)))
    own = draw(rows, sharegpt_stage("rows.json"))
    forced = draw(rows, stage(data=ShareGPTData(path="rows.json", output_tokens=100)))
    assert {(s.input_tokens, s.output_tokens) for s in own} == {(7, 9)}
    assert {(s.input_tokens, s.output_tokens) for s in forced} == {(7, 100)}


@pytest.mark.parametrize(
    ("prompt_tokens", "answer_tokens", "forced", "usable"),
    [
        pytest.param(4, 4, None, True, id="shortest"),
        pytest.param(3, 4, None, False, id="prompt-too-short"),
        pytest.param(4, 3, None, False, id="answer-too-short"),
        pytest.param(4, 3, 1, True, id="forced-output-may-be-short"),
        pytest.param(1024, 1024, None, True, id="longest"),
        pytest.param(1025, 4, None, False, id="prompt-too-long"),
        pytest.param(1024, 1025, None, False, id="total-too-long"),
        pytest.param(1024, 4, 1025, False, id="total-too-long-with-forced-output"),
    ],
)
def test_rows_are_usable_as_in_vllm(
    tmp_path: Path, prompt_tokens: int, answer_tokens: int, forced: int | None, usable: bool
) -> None:
    rows = assignment(tmp_path, entry("a", prompt_tokens=prompt_tokens, answer_tokens=answer_tokens))
    slot = stage(requests=1, data=ShareGPTData(path="rows.json", output_tokens=forced))
    if usable:
        assert names(draw(rows, slot)) == ["a"]
    else:
        with pytest.raises(RunFailure, match="0 usable"):
            draw(rows, slot)


def test_a_row_too_long_for_one_stage_is_kept_for_another(tmp_path: Path) -> None:
    rows = assignment(tmp_path, entry("long", prompt_tokens=1000), entry("short"))
    forced = stage(requests=1, data=ShareGPTData(path="rows.json", output_tokens=2000))
    assert names(draw(rows, forced)) == ["short"]
    assert names(draw(rows, sharegpt_stage("rows.json", requests=1))) == ["long"]


def test_a_file_too_small_is_refused_with_the_numbers(tmp_path: Path) -> None:
    single = {"conversations": [{"from": "human", "value": "alone"}]}
    again = entry("a")
    rows = assignment(tmp_path, entry("a"), again, entry("b"), entry("c", prompt_tokens=2000), single, {"id": "empty"})
    with pytest.raises(RunFailure) as failure:
        rows.draw(sharegpt_stage("rows.json"), ShareGPTData(path="rows.json"), needed_by_run=40)
    assert failure.value.reason == "DatasetTooSmall"
    assert (
        "rows.json has 6 entries, 3 of them with two turns and a prompt of its own, 2 usable" in failure.value.message
    )
    assert "needs 40" in failure.value.message


def test_rows_taken_by_earlier_stages_count_as_usable(tmp_path: Path) -> None:
    rows = assignment(tmp_path, *(entry(f"row{n}") for n in range(6)))
    draw(rows, sharegpt_stage("rows.json"))
    with pytest.raises(RunFailure, match="6 usable"):
        draw(rows, sharegpt_stage("rows.json", seed=2))


@pytest.mark.parametrize(
    ("expected", "content"),
    [
        pytest.param("line 2, column 1", "[\n", id="cut-short"),
        pytest.param("line 2, column 1: Extra data", '{"a": 1}\n{"a": 2}', id="json-lines"),
        pytest.param("holds a JSON dict", "{}", id="no-list"),
        pytest.param("entry 1: expected an object", '[{"conversations": []}, 7]', id="entry-no-object"),
        pytest.param('entry 0: "conversations" must be a list', '[{"conversations": "x"}]', id="turns-no-list"),
        pytest.param(
            "entry 0: the first two turns", '[{"conversations": [{"value": 1}, {"value": "x"}]}]', id="no-text"
        ),
        pytest.param("entry 0: the first two turns", '[{"conversations": ["a", "b"]}]', id="turns-no-objects"),
    ],
)
def test_a_broken_file_is_refused_naming_the_place(tmp_path: Path, expected: str, content: str) -> None:
    with pytest.raises(RunFailure, match=r"rows\.json") as failure:
        read_sharegpt(written(tmp_path, content), name="rows.json")
    assert failure.value.reason == "DatasetInvalid"
    assert expected in failure.value.message


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_bytes(b"PK\x03\x04\xff\xfe\xfd")
    with pytest.raises(RunFailure) as failure:
        read_sharegpt(file, name="rows.json")
    assert failure.value.reason == "DatasetInvalid"


@pytest.mark.parametrize("name", ["none.json", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunFailure, match="cannot read /data/x") as failure:
        read_sharegpt(tmp_path / name, name="/data/x")
    assert failure.value.reason == "DatasetNotFound"


def test_rows_needed_counts_all_stages_of_the_same_file() -> None:
    slots = [sharegpt_stage("a", requests=3), sharegpt_stage("b", requests=5), stage(), sharegpt_stage("a", requests=4)]
    assert rows_needed(slots, ("a", None)) == 7
