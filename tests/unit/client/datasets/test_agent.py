"""`agent` data: copies of one conversation that differ in their date, or don't; the same whenever
they are made."""

import json
import re
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun_client.contract import DataFile
from benchrun_client.contract.datasets import AgentData
from benchrun_client.datasets.row_pools import PromptRequest, common_start
from benchrun_client.failures import RunFailure
from unit.client.datasets.files import drawn, portion, written

HEADER = re.compile(r"(\d\d:\d\d:\d\d) (\d{4}-\d\d-\d\d)\n")
STATIC = AgentData(variants=1)
DYNAMIC = AgentData()
EXAMPLES = Path(__file__).parents[4] / "examples"


def turns(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {
        "conversations": [{"from": role, "value": text} for role, text in pairs]
    }


def conversation(folder: Path, *pairs: tuple[str, str]) -> DataFile:
    return written(folder, "talk.json", json.dumps(turns(*pairs)))


def of_the_tiny_example(folder: Path) -> DataFile:
    config_map = next(
        yaml.load_all(
            (EXAMPLES / "e3-which-optimisation-tiny.yaml").read_text(),
            yaml.CSafeLoader,
        )
    )
    return written(folder, "agent.json", config_map["data"]["agent.json"])


def headers(samples: tuple[PromptRequest, ...]) -> list[tuple[str, date]]:
    found = [HEADER.search(s.prompt) for s in samples]
    return [(match[1], date.fromisoformat(match[2])) for match in found if match]


def declared_share(samples: tuple[PromptRequest, ...]) -> float:
    return sum(s.repeated_tokens for s in samples) / sum(
        s.input_tokens for s in samples
    )


def test_a_static_prefix_makes_copies_that_are_declared_but_for_the_first() -> None:
    (samples,) = drawn(portion(STATIC))
    assert len({s.prompt for s in samples}) == 1
    assert len(headers(samples)) == 4
    first, *others = samples
    assert {s.repeated_tokens for s in others} == {first.input_tokens - 1}
    assert first.repeated_tokens < first.input_tokens / 2


def test_a_dynamic_prefix_goes_back_a_day_a_request() -> None:
    (samples,) = drawn(portion(DYNAMIC, requests=40))
    found = headers(samples)
    newest = found[0][1]
    assert [day for _, day in found] == [
        newest - timedelta(days=n) for n in range(40)
    ]
    assert len({time for time, _ in found}) == 1


def test_repeated_variants_are_declared() -> None:
    (samples,) = drawn(portion(AgentData(variants=3), requests=8))
    assert [s.prompt for s in samples] == [samples[n % 3].prompt for n in range(8)]
    assert [s.repeated_tokens > s.input_tokens / 2 for s in samples] == [
        False
    ] * 3 + [True] * 5


def test_dynamic_requests_declare_what_stands_before_the_date_and_no_more(
    tmp_path: Path,
) -> None:
    file = conversation(
        tmp_path,
        ("system", "You help."),
        ("human", "Tell me all."),
        ("gpt", "All of it."),
    )
    (samples,) = drawn(portion(AgentData(file=file)))
    # "System: You help. User:" is in front of every request of the run, the time of day in front of
    # all of this stage.
    assert [s.repeated_tokens for s in samples] == [4, 6, 6, 6]


def test_stages_share_nothing_but_what_stands_before_the_date(
    tmp_path: Path,
) -> None:
    file = conversation(tmp_path, ("human", "Tell me all."), ("gpt", "All of it."))
    stages = drawn(
        *(
            portion(AgentData(file=file, variants=1), seed=seed)
            for seed in range(60)
        )
    )
    times = [headers(samples)[0][0] for samples in stages]
    assert len(set(times)) == 60
    assert all(
        samples[0].prompt.startswith(time)
        for samples, time in zip(stages, times, strict=True)
    )


def test_equal_seeds_in_one_run_still_carry_different_times() -> None:
    one, other = drawn(portion(STATIC), portion(STATIC, workload="other"))
    assert headers(one)[0][0] != headers(other)[0][0]


def test_the_date_is_a_function_of_the_seed() -> None:
    # Written down when this was made: the clock has no part in it.
    assert headers(drawn(portion(STATIC, seed=7))[0])[0] == (
        "11:47:25",
        date(2016, 9, 9),
    )
    assert drawn(portion(DYNAMIC, seed=7)) == drawn(portion(DYNAMIC, seed=7))


def test_the_conversation_goes_up_to_its_last_answer_whose_length_is_requested(
    tmp_path: Path,
) -> None:
    pairs = [
        ("human", "One."),
        ("gpt", "Two."),
        ("tool", "Three."),
        ("assistant", "Four five six."),
    ]
    (samples,) = drawn(
        portion(AgentData(file=conversation(tmp_path, *pairs)), requests=1)
    )
    (time, day), *_ = headers(samples)
    assert (
        samples[0].prompt
        == f"User: {time} {day}\nOne.\n\nAssistant: Two.\n\nTool: Three."
    )
    assert samples[0].output_tokens == 4


def test_a_single_turn_is_sent_as_it_is(tmp_path: Path) -> None:
    file = conversation(tmp_path, ("user", "Tell me."))
    (samples,) = drawn(portion(AgentData(file=file, output_tokens=9), requests=1))
    (time, day), *_ = headers(samples)
    assert (samples[0].prompt, samples[0].output_tokens) == (
        f"{time} {day}\nTell me.",
        9,
    )


def test_openais_messages_are_a_conversation_too(tmp_path: Path) -> None:
    messages = {
        "messages": [
            {"role": "user", "content": "Tell me."},
            {"role": "assistant", "content": "No."},
        ]
    }
    file = written(tmp_path, "talk.json", json.dumps([messages]))
    assert drawn(portion(AgentData(file=file)))[0][0].prompt.endswith("\nTell me.")


def test_the_built_in_conversation_is_long_with_a_short_answer() -> None:
    (samples,) = drawn(portion(STATIC, requests=1))
    assert samples[0].input_tokens > 20 * samples[0].output_tokens


@pytest.mark.parametrize(
    "is_built_in", [True, False], ids=["built-in", "of the tiny example"]
)
def test_other_days_share_hardly_a_token_and_the_same_day_shares_all(
    tmp_path: Path, is_built_in: bool
) -> None:
    data = DYNAMIC if is_built_in else AgentData(file=of_the_tiny_example(tmp_path))
    dynamic, static = drawn(
        portion(data, requests=100),
        portion(data.model_copy(update={"variants": 1}), requests=100),
    )
    assert declared_share(dynamic) < 0.05
    assert declared_share(static) > 0.95
    # Nor is more there than is declared.
    first, *others = dynamic
    assert all(
        len(common_start(first.prompt, other.prompt)) < 0.05 * len(first.prompt)
        for other in others
    )


def test_declared_is_never_more_than_two_requests_have_in_common() -> None:
    (samples,) = drawn(portion(DYNAMIC, requests=50))
    for n, sample in enumerate(samples[1:], start=1):
        common = max(
            len(common_start(sample.prompt, earlier.prompt).split())
            for earlier in samples[:n]
        )
        assert 0 < sample.repeated_tokens <= common


def test_the_answer_follows_from_the_ratio() -> None:
    (samples,) = drawn(portion(AgentData(variants=1, input_output_ratio=100)))
    assert {s.output_tokens for s in samples} == {
        round(samples[0].input_tokens / 100)
    }
    assert 95 < samples[0].input_tokens / samples[0].output_tokens < 105
    (short,) = drawn(
        portion(AgentData(variants=1, input_output_ratio=10_000), requests=1)
    )
    assert short[0].output_tokens == 1


GROWING = AgentData(turns=4)


def by_date(samples: tuple[PromptRequest, ...]) -> dict[date, list[PromptRequest]]:
    """The conversations, each in the order of sending."""
    found: dict[date, list[PromptRequest]] = {}
    for sample, (_, day) in zip(samples, headers(samples), strict=True):
        found.setdefault(day, []).append(sample)
    return found


def test_a_context_grows_turn_by_turn_and_declares_the_turn_before() -> None:
    (samples,) = drawn(portion(GROWING, requests=40))
    ((built_in,),) = drawn(portion(DYNAMIC, requests=1))
    whole = built_in.prompt[HEADER.search(built_in.prompt).end() :]  # type: ignore[union-attr]
    conversations = by_date(samples)
    assert max(map(len, conversations.values())) == 4
    for requests in conversations.values():
        for earlier, later in pairwise(requests):
            assert later.prompt.startswith(earlier.prompt)
            assert later.repeated_tokens == earlier.input_tokens - 1
        assert requests[0].repeated_tokens < 0.2 * requests[0].input_tokens
    # The last turn is the whole conversation, and each turn asks for its own answer.
    assert all(
        requests[3].prompt.endswith(whole)
        for requests in conversations.values()
        if len(requests) == 4
    )
    assert len({s.output_tokens for s in samples}) > 1


def test_all_turns_are_in_flight_at_any_time_and_those_of_a_conversation_far_apart() -> (
    None
):
    (samples,) = drawn(portion(GROWING, requests=40))
    lengths = sorted({s.input_tokens for s in samples})
    assert len(lengths) == 4
    for start in range(0, 40, 10):
        counts = [
            sum(s.input_tokens == length for s in samples[start : start + 10])
            for length in lengths
        ]
        assert all(2 <= count <= 3 for count in counts)
    places: dict[date, list[int]] = {}
    for n, (_, day) in enumerate(headers(samples)):
        places.setdefault(day, []).append(n)
    assert {
        later - earlier
        for positions in places.values()
        for earlier, later in pairwise(positions)
    } == {10}


def test_growing_copies_declare_the_longest_that_was_sent() -> None:
    (samples,) = drawn(portion(AgentData(variants=1, turns=3), requests=12))
    assert len({day for _, day in headers(samples)}) == 1
    for n, sample in enumerate(samples[1:], start=1):
        common = max(
            len(common_start(sample.prompt, earlier.prompt).split())
            for earlier in samples[:n]
        )
        assert sample.repeated_tokens <= common + 1
    assert declared_share(samples[3:]) == pytest.approx(1, abs=0.01)


def test_more_turns_than_answers_are_rejected(tmp_path: Path) -> None:
    pairs = [
        ("human", "One."),
        ("gpt", "Two."),
        ("tool", "Three."),
        ("assistant", "Four."),
    ]
    file = conversation(tmp_path, *pairs)
    (samples,) = drawn(portion(AgentData(file=file, turns=2), requests=2))
    assert [s.prompt.count("Assistant:") for s in samples] == [0, 1]
    with pytest.raises(RunFailure, match="has 2 answers") as failure:
        drawn(portion(AgentData(file=file, turns=3), requests=2))
    assert failure.value.reason == "DatasetInvalid"


@pytest.mark.parametrize(
    ("message", "content"),
    [
        pytest.param("line 1, column 2: Expecting", "{", id="no JSON"),
        pytest.param(
            "holds 2 conversations; an agent dataset takes one",
            "[{}, {}]",
            id="two",
        ),
        pytest.param(
            "holds a number; a conversation is an object", "7", id="a number"
        ),
        pytest.param('"items"; it has "turns"', '{"turns": []}', id="another key"),
        pytest.param(
            '"messages" must be a list of turns', '{"messages": []}', id="no turns"
        ),
        pytest.param(
            '"messages", turn 0: expected an object, got a text',
            '{"messages": ["hi"]}',
            id="a text",
        ),
        pytest.param(
            'turn 0: "from" or "role" must be one of',
            '{"messages": [{"role": "boss"}]}',
            id="role",
        ),
        pytest.param(
            'turn 0: "from" or "role" must be one of',
            '{"messages": [{"role": ["user"]}]}',
            id="several roles",
        ),
        pytest.param(
            'turn 0: there is none of "value", "content"; it has "role"',
            '{"messages": [{"role": "user"}]}',
            id="no text",
        ),
        pytest.param(
            "set outputTokens",
            '{"messages": [{"role": "user", "content": "a"}]}',
            id="no answer",
        ),
        pytest.param(
            "no user's turn",
            '{"messages": [{"role": "assistant", "content": "a"}]}',
            id="an answer",
        ),
        pytest.param(
            "line 2: byte 3 of the line (0xff) is not UTF-8",
            b'[\n "\xff"]',
            id="bad UTF-8",
        ),
    ],
)
def test_a_broken_conversation_is_rejected_naming_the_turn(
    tmp_path: Path, message: str, content: str | bytes
) -> None:
    with pytest.raises(RunFailure, match=r"talk\.json") as failure:
        drawn(portion(AgentData(file=written(tmp_path, "talk.json", content))))
    assert failure.value.reason == "DatasetInvalid"
    assert message in failure.value.message
