"""Reasoning in streams: when it came, when the answer after it began, and how many tokens it had."""

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from benchrun_client.load.event_stream import CompletionStream, StreamNotes
from benchrun_client.load.vllm_benchmark import thought_of
from benchrun_client.stage_record import Thought, record_of
from unit.client.plans import raw_stage

Json = dict[str, Any]


def chunk(delta: Json, end: str | None = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": end}
    return {
        "id": "x",
        "object": "chat.completion.chunk",
        "choices": [choice],
        **more,
    }


def noted(events: Sequence[Json], *, whole: bool) -> StreamNotes:
    """Return the notes about a stream whose events arrive one by one, or all at once."""
    ticks = count(1.0)
    notes = StreamNotes()
    stream = CompletionStream(notes, clock=lambda: next(ticks))
    texts = [
        b"data: " + json.dumps(each, separators=(",", ":")).encode() + b"\n\n"
        for each in events
    ]
    for text in [b"".join(texts)] if whole else texts:
        if stream.is_one_token(text):
            stream.note_token(text)
            continue
        list(stream.feed(text))
    list(stream.end())
    return notes


ROLE = chunk({"role": "assistant", "content": ""})
VLLM = [
    ROLE,
    chunk({"reasoning": "I"}),
    chunk({"reasoning": ' "content":"x'}),
    chunk({"content": '{"reasoning":"no"}'}),
    chunk({"content": ""}, "stop"),
    {"choices": [], "usage": {"completion_tokens": 6, "prompt_tokens": 1}},
]
"""As vLLM 0.32 sends it; the tokens that end reasoning and answer have no text."""
SGLANG = [
    chunk({"role": "assistant", "content": "", "reasoning_content": None}),
    chunk({"content": None, "reasoning_content": "I"}),
    chunk({"content": None, "reasoning_content": " see"}),
    chunk({"content": "Yes", "reasoning_content": None}),
    chunk({"content": None, "reasoning_content": None}, "stop"),
    {"choices": [], "usage": {"completion_tokens": 4, "reasoning_tokens": 0}},
]
LLAMACPP = [
    chunk({"role": "assistant", "content": None}),
    chunk({"reasoning_content": "I"}),
    chunk({"reasoning_content": " see"}),
    chunk({"tool_calls": [{"index": 0, "function": {"name": "f"}}]}),
    chunk({}, "tool_calls"),
    {"choices": [], "usage": {"completion_tokens": 4}},
]


@pytest.mark.parametrize("whole", [False, True], ids=["one by one", "at once"])
@pytest.mark.parametrize(
    "events", [VLLM, SGLANG, LLAMACPP], ids=["vLLM", "SGLang", "llama.cpp"]
)
def test_reasoning_and_answer_are_told_apart(
    events: Sequence[Json], whole: bool
) -> None:
    notes = noted(events, whole=whole)
    assert notes.reasoning_chunks == 2
    assert notes.first_reasoning_at is not None
    assert notes.first_answer_at is not None
    assert notes.first_reasoning_at < notes.first_answer_at


def test_a_stream_without_reasoning_has_none() -> None:
    notes = noted([ROLE, chunk({"content": "a"}), chunk({}, "stop")], whole=False)
    assert (notes.first_reasoning_at, notes.reasoning_chunks) == (None, 0)
    assert thought_of(notes, 1) is None


def test_half_a_character_is_of_the_kind_before_it() -> None:
    events = [
        ROLE,
        chunk({"reasoning": "I"}),
        chunk({"reasoning": ""}),
        chunk({"content": "a"}),
        chunk({"content": ""}),
        chunk({"content": "b"}, "stop"),
    ]
    notes = noted(events, whole=False)
    assert (notes.chunks, notes.reasoning_chunks) == (5, 2)


def test_text_before_the_reasoning_is_not_the_answer() -> None:
    events = [
        ROLE,
        chunk({"content": "\n"}),
        chunk({"reasoning": "I"}),
        chunk({"reasoning": "x"}, "length"),
    ]
    notes = noted(events, whole=False)
    assert notes.first_reasoning_at is not None
    assert (notes.first_answer_at, notes.finish_reason) == (None, "length")


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        pytest.param({"completion_tokens": 6}, 2, id="chunks"),
        pytest.param({"completion_tokens": 60}, None, id="several a chunk"),
        pytest.param(
            {
                "completion_tokens": 60,
                "completion_tokens_details": {"reasoning_tokens": 40},
            },
            40,
            id="vLLM's count",
        ),
        pytest.param(
            {"completion_tokens": 60, "reasoning_tokens": 41},
            41,
            id="SGLang's count",
        ),
        pytest.param(
            {"completion_tokens": 6, "reasoning_tokens": 0}, 2, id="SGLang always 0"
        ),
        pytest.param(
            {"completion_tokens": 60, "reasoning_tokens": 61},
            None,
            id="more than all tokens",
        ),
        pytest.param(
            {"completion_tokens": 6, "reasoning_tokens": 10**30}, 2, id="absurd"
        ),
        pytest.param({"reasoning_tokens": 10**30}, None, id="no other count"),
    ],
)
def test_tokens_are_the_servers_count_or_one_a_chunk(
    usage: Json, tokens: int | None
) -> None:
    events = [*VLLM[:-1], {"choices": [], "usage": usage}]
    thought = thought_of(noted(events, whole=False), usage.get("completion_tokens"))
    assert thought is not None
    assert thought.tokens == tokens


def recorded(thoughts: dict[int, Thought]) -> Any:
    raw = raw_stage()
    raw.instants.thoughts.update(thoughts)
    return record_of(raw).requests


def test_a_record_has_the_times_of_both() -> None:
    sent = raw_stage().instants.sent[0]
    found = recorded({0: Thought(sent + 0.1004, sent + 0.15, 3)})
    # The first content is TTFT (100 ms), though another clock was read for the reasoning.
    assert found.reasoning_us == (100_000, 0)
    assert found.answer_us == (150_000, 0)
    assert found.reasoning_tokens == (3, 0)


def test_an_answer_that_never_began_and_unknown_tokens() -> None:
    sent = raw_stage().instants.sent[0]
    found = recorded({0: Thought(sent + 0.1, None, None)})
    assert (found.answer_us, found.reasoning_tokens) == ((0, 0), ())


def test_without_reasoning_a_record_says_nothing_of_it() -> None:
    found = recorded({})
    assert (found.reasoning_us, found.answer_us) == ((), ())
    assert "reasoning_us" not in found.model_dump()
