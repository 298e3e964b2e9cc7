"""Rows of a ShareGPT file: each used once, over-long ones dropped and counted, a broken file
refused by entry."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import DataFile
from benchrun_client.contract.datasets import ShareGPTData
from benchrun_client.datasets.row_pools import PromptRequest
from benchrun_client.datasets.run_datasets import RunDatasets
from benchrun_client.failures import RunFailure
from unit.client.datasets.files import drawn, portion, written
from unit.client.words import WordCounter


def text(name: str, tokens: int) -> str:
    return f"{name} " * tokens


def entry(
    name: str, *, prompt_tokens: int = 10, answer_tokens: int = 20
) -> dict[str, Any]:
    turns = {
        "human": text(name, prompt_tokens),
        "gpt": text("answer", answer_tokens),
    }
    return {
        "id": name,
        "conversations": [
            {"from": role, "value": value} for role, value in turns.items()
        ],
    }


def talks(folder: Path, *entries: dict[str, Any], **changes: Any) -> ShareGPTData:
    return ShareGPTData(
        file=written(folder, "rows.json", json.dumps(entries)), **changes
    )


def names(samples: tuple[PromptRequest, ...]) -> list[str]:
    return [s.prompt.split()[0] for s in samples]


def plain(*datasets: ShareGPTData, **changes: Any) -> RunDatasets:
    """A supply that counts no special tokens."""
    return RunDatasets(
        [portion(data) for data in datasets],
        counter=WordCounter(),
        **{"context_tokens": None, **changes},
    )


def test_each_row_is_used_once_in_a_run(tmp_path: Path) -> None:
    data = talks(tmp_path, *(entry(f"row{n}") for n in range(12)))
    found = [
        name
        for samples in drawn(*(portion(data, seed=seed) for seed in range(3)))
        for name in names(samples)
    ]
    assert sorted(found) == sorted(f"row{n}" for n in range(12))


def test_equal_plans_draw_equal_rows_and_another_seed_others(
    tmp_path: Path,
) -> None:
    data = talks(tmp_path, *(entry(f"row{n}") for n in range(100)))
    assert drawn(portion(data, seed=1)) == drawn(portion(data, seed=1))
    assert drawn(portion(data, seed=1)) != drawn(portion(data, seed=2))


def test_lengths_are_those_of_the_row_unless_the_output_is_forced(
    tmp_path: Path,
) -> None:
    own = talks(
        tmp_path,
        *(entry(f"row{n}", prompt_tokens=7, answer_tokens=9) for n in range(8)),
    )
    forced = own.model_copy(update={"output_tokens": 100})
    supply = plain(own, forced)
    assert {
        (s.input_tokens, s.output_tokens) for s in supply.draw(portion(own))
    } == {(7, 9)}
    assert {
        (s.input_tokens, s.output_tokens) for s in supply.draw(portion(forced))
    } == {(7, 100)}


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
        pytest.param(
            1024, 4, 1025, True, id="a-forced-output-is-not-limited-by-vllms-2048"
        ),
        pytest.param(
            1024, 4, 3072, True, id="a-forced-output-that-just-fits-the-model"
        ),
        pytest.param(1024, 4, 3073, False, id="a-forced-output-that-does-not"),
    ],
)
def test_rows_are_usable_as_in_vllm_but_for_forced_lengths(
    tmp_path: Path,
    prompt_tokens: int,
    answer_tokens: int,
    forced: int | None,
    usable: bool,
) -> None:
    data = talks(
        tmp_path,
        entry("a", prompt_tokens=prompt_tokens, answer_tokens=answer_tokens),
        output_tokens=forced,
    )
    supply = plain(data, context_tokens=4096)
    one = portion(data, requests=1)
    if usable:
        assert names(supply.draw(one)) == ["a"]
    else:
        with pytest.raises(RunFailure, match=", 0 of them usable"):
            supply.draw(one)


def test_a_forced_length_of_2048_drops_the_rows_that_do_not_fit_and_counts_them(
    tmp_path: Path,
) -> None:
    entries = [entry(f"row{n}") for n in range(4)] + [
        entry(f"long{n}", prompt_tokens=1000) for n in range(3)
    ]
    data = talks(tmp_path, *entries, output_tokens=2048)
    supply = plain(data, context_tokens=3000)
    whole = portion(data)
    assert sorted(names(supply.draw(whole))) == [f"row{n}" for n in range(4)]
    with pytest.raises(RunFailure, match="3 TooLongForModel"):
        supply.draw(portion(data, requests=1))
    assert supply.facts([whole])[0].rows_dropped == {"TooLongForModel": 3}


def test_limits_can_be_set(tmp_path: Path) -> None:
    entries = [entry("long", prompt_tokens=3000, answer_tokens=500)]
    wide = talks(tmp_path, *entries, max_prompt_tokens=4000, max_total_tokens=3500)
    narrow = wide.model_copy(update={"max_total_tokens": 3499})
    assert names(plain(wide).draw(portion(wide, requests=1))) == ["long"]
    with pytest.raises(RunFailure, match="1 BeyondTokenLimits"):
        plain(narrow).draw(portion(narrow, requests=1))


def test_a_chat_is_measured_with_its_template(tmp_path: Path) -> None:
    data = talks(tmp_path, entry("a"))
    supply = RunDatasets(
        [portion(data)], counter=WordCounter(template=6), context_tokens=None
    )
    (sample,) = supply.draw(portion(data, requests=1, api="Chat"))
    assert sample.input_tokens == 16


def test_a_row_too_long_for_one_stage_is_kept_for_another(tmp_path: Path) -> None:
    own = talks(tmp_path, entry("long", prompt_tokens=1000), entry("short"))
    forced = own.model_copy(update={"output_tokens": 2000})
    supply = plain(own, forced, context_tokens=2500)
    assert names(supply.draw(portion(forced, requests=1))) == ["short"]
    assert names(supply.draw(portion(own, requests=1))) == ["long"]
    assert supply.facts([portion(own)])[0].rows_dropped == {}


def test_a_file_too_small_is_rejected_with_the_numbers(tmp_path: Path) -> None:
    single = {"conversations": [{"from": "human", "value": "alone"}]}
    entries = [
        entry("a"),
        entry("a"),
        entry("b"),
        entry("c", prompt_tokens=2000),
        single,
        {"id": "empty", "conversations": []},
    ]
    data = talks(tmp_path, *entries)
    with pytest.raises(RunFailure) as failure:
        drawn(portion(data, requests=40))
    assert failure.value.reason == "DatasetTooSmall"
    for part in (
        "6 rows, 2 of",
        "1 BeyondTokenLimits, 2 FewerThanTwoTurns, 1 RepeatsEarlierRow",
        "needs 40",
    ):
        assert part in failure.value.message


def test_rows_taken_by_earlier_stages_count_as_usable(tmp_path: Path) -> None:
    data = talks(tmp_path, *(entry(f"row{n}") for n in range(6)))
    with pytest.raises(RunFailure, match="6 of them usable; the run needs 8"):
        drawn(portion(data), portion(data, seed=2))


@pytest.mark.parametrize(
    ("expected", "content"),
    [
        pytest.param("line 2, column 1", "[\n", id="cut-short"),
        pytest.param(
            'line 2: there is none of "conversations", "conversation", "messages", "items"; it has '
            '"id", "turns"',
            '{"messages": []}\n{"id": 2, "turns": []}',
            id="json-lines-another-key",
        ),
        pytest.param(
            'entry 1: there is more than one of "conversations", "conversation", "messages", '
            '"items"; it has "items", "messages"',
            '[{"messages": []}, {"items": [], "messages": []}]',
            id="two-keys",
        ),
        pytest.param(
            "line 2, column 2: Expecting",
            '{"messages": []}\n{',
            id="json-lines-cut",
        ),
        pytest.param("holds a number", "7", id="no-list"),
        pytest.param(
            'there is none of "value", "content"; it has "human", "assistant"',
            '[{"conversation": [{"human": "a", "assistant": "b"}]}]',
            id="both-speakers-in-one-turn",
        ),
        pytest.param(
            "a text has half of a surrogate pair",
            '[{"conversations": [{"value": "a \\ud83d"}, {"value": "b"}]}]',
            id="half-a-character",
        ),
        pytest.param(
            'has the key "value" more than once',
            '[{"conversations": [{"value": "a", "value": "b"}, {"value": "b"}]}]',
            id="a-key-twice",
        ),
        pytest.param(
            "entry 1: expected an object",
            '[{"conversations": []}, 7]',
            id="entry-no-object",
        ),
        pytest.param(
            'entry 0: "conversations" must be a list',
            '[{"conversations": "x"}]',
            id="turns-no-list",
        ),
        pytest.param(
            'entry 0, "conversations": "value" must be a text, but is a number',
            '[{"conversations": [{"value": 1}, {"value": "x"}]}]',
            id="no-text",
        ),
        pytest.param(
            'entry 0, "conversations": expected an object, got a text',
            '[{"conversations": ["a", "b"]}]',
            id="turns-no-objects",
        ),
        pytest.param(
            'entry 0, "messages": there is none of "value", "content"; it has "role", "text"',
            '[{"messages": [{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}]}]',
            id="words-under-another-key",
        ),
        pytest.param(
            'entry 0, "messages": "content" must be a text, but is a list',
            '[{"messages": [{"role": "user", "content": []}, {"role": "user", "content": ""}]}]',
            id="words-in-parts",
        ),
        pytest.param(
            "is packed (zip)",
            b"PK\x03\x04\xff\xfe\xfd",
            id="an-archive",
        ),
        pytest.param(
            "line 3: byte 4 of the line (0xe9)",
            b'[{},\n{"a": "b"},\n{"x\xe9": 1}]',
            id="latin-1",
        ),
    ],
)
def test_a_broken_file_is_rejected_naming_the_place(
    tmp_path: Path, expected: str, content: str | bytes
) -> None:
    with pytest.raises(RunFailure, match=r"rows\.json") as failure:
        plain(ShareGPTData(file=written(tmp_path, "rows.json", content)))
    assert failure.value.reason == "DatasetInvalid"
    assert expected in failure.value.message


@pytest.mark.parametrize("name", ["none.json", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(RunFailure, match=f"cannot read {path}") as failure:
        plain(ShareGPTData(file=DataFile(path=path)))
    assert failure.value.reason == "DatasetNotFound"


# As vLLM's sampler: `tests/client/test_sharegpt_order.py` asks it itself.

MIXED = [
    entry(
        f"row{n}",
        prompt_tokens=2 + n * 7 % 1100,
        answer_tokens=1 + n * 11 % 1200,
    )
    for n in range(300)
]
"""Of which some are too short and some too long."""


def test_with_a_seed_rows_come_in_the_order_of_vllms_sampler(
    tmp_path: Path,
) -> None:
    alone = {"id": "alone", "conversations": [{"from": "human", "value": "alone"}]}
    data = talks(tmp_path, alone, *MIXED, alone, seed=42)
    stage = portion(data, requests=100)
    supply = plain(data, context_tokens=12_000)
    samples = supply.draw(stage)
    assert names(samples)[:8] == [
        "row106",
        "row239",
        "row37",
        "row89",
        "row32",
        "row250",
        "row192",
        "row120",
    ]
    assert sum(s.input_tokens for s in samples) == 53_974
    assert sum(s.output_tokens for s in samples) == 56_602
    assert supply.draw(portion(data, requests=40, seed=9)) == samples[:40]
    assert supply.facts([stage])[0].rows_used == 100


def test_a_warm_up_takes_no_row_from_the_sampler_and_sends_none(
    tmp_path: Path,
) -> None:
    data = talks(tmp_path, *(entry(f"row{n} of") for n in range(20)), seed=0)
    stage = portion(data, requests=20)
    warm_up = portion(data, warms_up=True)
    measured, unmeasured = drawn(stage, warm_up)
    assert len(unmeasured) == 4
    assert not {s.prompt for s in measured} & {s.prompt for s in unmeasured}
    assert {s.input_tokens for s in unmeasured} == {
        s.input_tokens for s in measured
    }


# An agent's first turn a hundred times, with a date in front: one file has the same in each, the
# other goes a day further back.


def agent_file(folder: Path, *, is_dynamic: bool) -> ShareGPTData:
    """A hundred rows of 53 words, date and time among them, and answers of 244."""
    first = datetime(2025, 5, 14, 12, 30)
    rows = []
    for n in range(1, 101):
        date = first - timedelta(days=n if is_dynamic else 0)
        row = entry("question", prompt_tokens=51, answer_tokens=244)
        row["conversations"][0]["value"] = (
            f"{date} {row['conversations'][0]['value']}"
        )
        row["conversations"] += entry("more")["conversations"]
        rows.append({**row, "id": f"copy_{n}"})
    return ShareGPTData(
        file=written(folder, "agent.json", json.dumps(rows, indent=2))
    )


@pytest.mark.parametrize("seed", [None, 42])
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_hundred_copies_are_sent_as_they_are_under_share(
    tmp_path: Path, is_dynamic: bool, seed: int | None
) -> None:
    data = agent_file(tmp_path, is_dynamic=is_dynamic).model_copy(
        update={"seed": seed}
    )
    stage = portion(data, requests=100)
    warm_up = portion(data, requests=16, warms_up=True)
    supply = RunDatasets(
        [stage, warm_up], counter=WordCounter(), context_tokens=12_000, shared=True
    )
    samples = supply.draw(stage)
    assert len(supply.draw(warm_up)) == 16
    assert sum(s.input_tokens for s in samples) == 5300
    assert sum(s.output_tokens for s in samples) == 24_400
    assert len({s.prompt for s in samples}) == (100 if is_dynamic else 1)
    # Each copy but the first is found again on purpose; of other dates nothing is.
    assert sum(s.repeated_tokens for s in samples) == (0 if is_dynamic else 99 * 53)
    (facts,) = supply.facts([stage])
    assert (facts.rows_read, facts.rows_used, facts.rows_dropped) == (100, 100, {})


def test_without_share_equal_rows_are_dropped_and_the_policy_is_named(
    tmp_path: Path,
) -> None:
    with pytest.raises(RunFailure, match="cachePolicy Share") as failure:
        drawn(portion(agent_file(tmp_path, is_dynamic=False), requests=100))
    assert failure.value.reason == "DatasetTooSmall"
    assert "99 RepeatsEarlierRow" in failure.value.message


SPELLINGS = [("from", "value"), ("role", "content")]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("is_lines", [False, True])
@pytest.mark.parametrize("keys", SPELLINGS)
@pytest.mark.parametrize(
    "key", ["conversations", "conversation", "messages", "items"]
)
def test_conversations_are_read_by_any_known_key(
    tmp_path: Path, key: str, keys: tuple[str, str], is_lines: bool, end: str
) -> None:
    role, words = keys
    told = [
        {role: "user", words: text("ask", 10)},
        {role: "assistant", words: text("reply", 20)},
    ]
    row = json.dumps({"id": 1, key: told})
    content = f"{row}{end}{end}" if is_lines else f"[{row}]{end}"
    data = ShareGPTData(file=written(tmp_path, "rows.json", "\ufeff" + content))
    samples = plain(data).draw(portion(data, requests=1))
    assert (names(samples), samples[0].output_tokens) == (["ask"], 20)


@pytest.mark.parametrize(
    ("first", "key", "role"),
    [
        pytest.param(
            "ask", "messages", "system", id="an instruction is not the question"
        ),
        pytest.param("ask", "messages", "developer", id="nor is a developer's"),
        pytest.param(
            "rules",
            "conversations",
            "system",
            id="vLLM's reader takes the first turn",
        ),
    ],
)
def test_which_turn_is_the_prompt(
    tmp_path: Path, first: str, key: str, role: str
) -> None:
    told = [(role, "rules"), ("user", "ask"), ("assistant", "reply")]
    turns = [{"role": who, "content": text(words, 10)} for who, words in told]
    data = ShareGPTData(
        file=written(tmp_path, "rows.json", json.dumps([{key: turns}]))
    )
    (samples,) = drawn(portion(data, requests=1))
    assert names(samples) == [first]
