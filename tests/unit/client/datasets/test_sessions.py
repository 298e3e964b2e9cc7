"""`sessions` data as it is sent: prompts that grow by what was recorded, in common what was in common,
as long as recorded, and the same for every server."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import Adapter, Api, RequestFields, Stage, WarmupPlan
from benchrun_client.contract.datasets import SessionsData
from benchrun_client.contract.sessions import Said
from benchrun_client.datasets.random_words import WordWriter
from benchrun_client.datasets.row_pools import PromptRequest, portions_of
from benchrun_client.datasets.sessions import (
    RecordedSessions,
    in_words,
    record_sessions,
    write_sessions,
)
from benchrun_client.failures import RunFailure
from unit.client.datasets.files import json_lines, written
from unit.client.datasets.session_samples import (
    MOONCAKE,
    SAMPLES,
    SHARE_GPT,
    TURNS,
    WEKA,
    lines,
)
from unit.client.plans import stage, warmup
from unit.client.words import WORDS, WordCounter

COUNTER = WordCounter(special=1, template=3)
LENGTHS = {"mean": 3, "stdev": 1, "min": 2, "max": 5}
SYNTHETIC = {
    "turns": LENGTHS,
    "system_tokens": 20,
    "first_tokens": {"mean": 30, "stdev": 5, "min": 20, "max": 50},
    "turn_tokens": {"mean": 12, "stdev": 4, "min": 8, "max": 20},
    "output_tokens": {"mean": 6, "stdev": 2, "min": 2, "max": 9},
    "pause_seconds": {"mean": "0.5"},
}


def recorded(
    data: SessionsData,
    *,
    context_tokens: int | None = None,
    wanted: int = 100,
    api: Api = "Completions",
) -> RecordedSessions:
    return record_sessions(
        data,
        context_tokens=context_tokens,
        counter=COUNTER,
        wanted=wanted,
        apis=(api,),
    )


def sent_by(
    slot: Stage | WarmupPlan, *, context_tokens: int | None = None
) -> tuple[PromptRequest, ...]:
    assert isinstance(slot.data, SessionsData)
    (portion,) = portions_of(slot)
    outlines = recorded(
        slot.data,
        context_tokens=context_tokens,
        wanted=slot.requests,
        api=slot.api,
    ).outlines(slot)
    writer = WordWriter(words=WORDS, counter=COUNTER)
    return write_sessions(writer, portion, outlines)


def sent(
    data: SessionsData,
    requests: int,
    *,
    seed: int = 1,
    api: Api = "Completions",
    **changes: Any,
) -> tuple[PromptRequest, ...]:
    slot = stage(data=data, requests=requests, seed=seed, api=api)
    return sent_by(slot, **changes)


def turns(folder: Path, **changes: Any) -> SessionsData:
    file = json_lines(folder, [TURNS])
    return SessionsData(file=file, format="Turns", **changes)


def counted(
    samples: tuple[PromptRequest, ...], api: Api = "Completions"
) -> list[int]:
    return COUNTER.count([each.prompt for each in samples], api=api)


@pytest.mark.parametrize("api", ["Completions", "Chat"])
def test_prompts_grow_by_answers_and_what_turns_add(
    tmp_path: Path, api: Api
) -> None:
    samples = sent(turns(tmp_path), 3, api=api)
    assert [each.input_tokens for each in samples] == [40, 30, 40 + 8 + 10]
    assert counted(samples, api) == [40, 30, 58]
    assert [each.output_tokens for each in samples] == [8, 4, 6]
    overhead = 1 if api == "Completions" else 3
    first, other, last = (each.prompt.split() for each in samples)
    assert last[: 40 - overhead] == first
    assert other[0] != first[0]


def test_what_a_prompt_shares_with_earlier_ones_is_told(tmp_path: Path) -> None:
    """The recorded answer is new to the server: what it answered itself has other words."""
    assert [each.repeated_tokens for each in sent(turns(tmp_path), 3)] == [0, 0, 40]


def test_a_request_knows_what_it_waits_for(tmp_path: Path) -> None:
    places = [each.place for each in sent(turns(tmp_path), 3)]
    assert [
        place and (place.session, place.turn, place.after) for place in places
    ] == [
        (0, 1, ()),
        (0, 2, (0,)),
        (0, 3, (0, 1)),
    ]
    assert places[2] is not None
    assert places[2].delay_seconds == 1.5


def test_stages_send_the_same_sessions_behind_other_words(tmp_path: Path) -> None:
    one, other = (sent(turns(tmp_path), 3, seed=seed) for seed in (1, 2))
    assert [each.input_tokens for each in one] == [
        each.input_tokens for each in other
    ]
    assert {a.prompt.split()[0] for a in one}.isdisjoint(
        b.prompt.split()[0] for b in other
    )
    assert one == sent(turns(tmp_path), 3, seed=1)


def test_words_are_sent_as_they_are_behind_a_beginning_of_the_stage(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, "talk.json", SAMPLES["ShareGPT"])
    data = SessionsData(file=file, format="ShareGPT")
    first, second = sent(data, 2)
    begin, _, rest = first.prompt.partition("\n\n")
    assert len(begin.split()) == 8
    assert rest == "System: be brief\n\nUser: what is a river"
    assert second.prompt == (
        f"{first.prompt}\n\nAssistant: water that runs\n\nUser: and a lake"
    )
    assert [first.output_tokens, second.output_tokens] == [
        4,
        4,
    ]  # With a special one.
    assert [first.input_tokens, second.input_tokens] == counted((first, second))
    assert [first.repeated_tokens, second.repeated_tokens] == [
        0,
        8 + len(rest.split()),
    ]
    assert sent(data, 2, seed=2)[0].prompt.endswith(rest)


def test_sessions_that_begin_alike_share_what_they_begin_with(
    tmp_path: Path,
) -> None:
    talks = [
        {
            "conversations": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": f"question {n}"},
                {"role": "assistant", "content": "yes"},
            ]
        }
        for n in range(2)
    ]
    data = SessionsData(file=json_lines(tmp_path, talks), format="ShareGPT")
    first, second = sent(data, 2)
    assert (first.repeated_tokens, second.repeated_tokens) == (0, 8 + 3)


def test_equal_blocks_are_equal_words(tmp_path: Path) -> None:
    data = SessionsData(file=json_lines(tmp_path, [WEKA]), format="Weka")
    main, agent, again, last = sent(data, 4)
    assert [each.input_tokens for each in (main, agent, again, last)] == [
        *(128, 70, 70, 200)
    ]
    assert last.prompt.split()[:127] == main.prompt.split()
    assert again.prompt == agent.prompt
    assert [each.repeated_tokens for each in (agent, again, last)] == [0, 70, 128]


def test_blocks_of_another_session_are_other_words(tmp_path: Path) -> None:
    two = [WEKA, {**WEKA, "id": "trace-2"}]
    data = SessionsData(file=json_lines(tmp_path, two), format="Weka")
    samples = sent(data, 8)
    assert samples[0].prompt != samples[4].prompt
    assert samples[4].repeated_tokens == 0


def test_the_answers_may_all_have_one_length(tmp_path: Path) -> None:
    samples = sent(turns(tmp_path, output_tokens=3), 3)
    assert [each.output_tokens for each in samples] == [3, 3, 3]
    assert samples[2].input_tokens == 40 + 3 + 10


def test_what_is_too_long_is_left_out_with_what_comes_after_it(
    tmp_path: Path,
) -> None:
    two = [TURNS, {**TURNS, "id": "y"}]
    data = SessionsData(file=json_lines(tmp_path, two), format="Turns")
    # The third turns take 58 and 6.
    found = recorded(data, context_tokens=60)
    slot = stage(data=data, requests=4)
    assert [each.session for each in found.outlines(slot)] == [0, 0, 1, 1]
    facts = found.facts_of(portions_of(slot))
    assert facts is not None
    assert (facts.rows_read, facts.rows_used) == (6, 4)
    assert facts.rows_dropped == {"TooLongForModel": 2}


@pytest.mark.parametrize("api", ["Completions", "Chat"])
def test_sessions_are_read_until_enough_of_their_turns_fit(
    tmp_path: Path, api: Api
) -> None:
    talks = [
        {
            "id": str(n),
            "turns": [
                {
                    "id": "a",
                    "messages": [
                        {
                            "role": "user",
                            "content": "word " * (500 if n % 2 else 5),
                        }
                    ],
                    "answer": "yes",
                },
                {
                    "id": "b",
                    "parents": ["a"],
                    "continues": None,
                    "messages": [{"role": "user", "content": "word"}],
                    "answer": "yes",
                },
            ],
        }
        for n in range(40)
    ]
    data = SessionsData(file=json_lines(tmp_path, talks), format="Turns")
    samples = sent(data, 20, api=api, context_tokens=200)
    assert [each.place and each.place.turn for each in samples] == [1, 2] * 10


def test_drawn_sessions_go_on_where_some_turns_are_too_long() -> None:
    data = SessionsData.model_validate({"synthetic": SYNTHETIC})
    samples = sent(data, 50, context_tokens=95)
    assert len(samples) == 50
    assert max(each.input_tokens + each.output_tokens for each in samples) <= 95


def test_drawn_sessions_of_which_none_fits_are_refused_with_their_fields() -> None:
    data = SessionsData.model_validate({"synthetic": SYNTHETIC})
    with pytest.raises(RunFailure, match=r"30 tokens.*firstTokens") as refused:
        sent(data, 5, context_tokens=30)
    assert refused.value.reason == "DatasetTooSmall"


def test_too_few_turns_are_told_with_what_was_dropped(tmp_path: Path) -> None:
    with pytest.raises(RunFailure) as refused:
        sent(turns(tmp_path), 4, context_tokens=60)
    assert refused.value.reason == "DatasetTooSmall"
    assert "2 usable turns in 1 sessions (dropped: 1 TooLongForModel)" in str(
        refused.value
    )


def test_the_last_session_may_be_cut_short_and_a_warm_up_begins_again(
    tmp_path: Path,
) -> None:
    assert len(sent(turns(tmp_path), 2)) == 2
    again = sent_by(warmup(data=turns(tmp_path), requests=5))
    assert [each.place and each.place.session for each in again] == [0, 0, 0, 1, 1]


def test_two_sessions_of_one_id_are_refused(tmp_path: Path) -> None:
    data = SessionsData(file=json_lines(tmp_path, [TURNS, TURNS]), format="Turns")
    with pytest.raises(RunFailure, match="two sessions have the same id"):
        recorded(data)


def test_only_the_sessions_that_are_wanted_are_read(tmp_path: Path) -> None:
    content = lines(TURNS) + "broken\n"
    data = SessionsData(file=written(tmp_path, "s", content), format="Turns")
    assert len(recorded(data, wanted=3).sessions) == 1
    with pytest.raises(RunFailure, match="line 2"):
        recorded(data, wanted=4)


def test_prompts_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    huge = {
        "id": "x",
        "turns": [{"id": "a", "tokens": 9_000_000, "output_tokens": 1}],
    }
    rows = [{**huge, "id": str(n)} for n in range(50)]
    data = SessionsData(file=json_lines(tmp_path, rows), format="Turns")
    with pytest.raises(RunFailure, match=r"Ask for fewer requests") as refused:
        recorded(data).outlines(stage(data=data, requests=50))
    assert refused.value.reason == "DatasetInvalid"


def test_synthetic_sessions_keep_their_bounds_and_share_the_system_prompt() -> None:
    data = SessionsData.model_validate({"synthetic": SYNTHETIC})
    samples = sent(data, 60)
    by_session: dict[int, list[PromptRequest]] = {}
    for each in samples:
        assert each.place is not None
        by_session.setdefault(each.place.session, []).append(each)
    assert all(len(of) <= 5 for of in by_session.values())
    assert all(len(of) >= 2 for of in list(by_session.values())[:-1])
    system = samples[0].prompt.split()[:20]
    for of in by_session.values():
        assert of[0].prompt.split()[:20] == system
        assert 40 <= of[0].input_tokens <= 70
        for before, turn in pairwise(of):
            added = turn.input_tokens - before.input_tokens - before.output_tokens
            assert 8 <= added <= 20
            assert turn.repeated_tokens == before.input_tokens
            assert turn.place is not None
            assert turn.place.delay_seconds > 0
    assert samples[0].repeated_tokens == 0
    assert by_session[1][0].repeated_tokens == 20


def test_a_prompt_names_the_one_that_it_begins_like(tmp_path: Path) -> None:
    drawn = sent(SessionsData.model_validate({"synthetic": SYNTHETIC}), 60)
    for position, each in enumerate(drawn):
        assert each.place is not None
        # A turn continues the one before, a session the system prompt of the first.
        is_first = each.place.turn == 1
        assert each.begins_like == (0 if is_first else position - 1)
    # The second has nothing in common with the first, and names it for no token.
    told = sent(turns(tmp_path), 3)
    assert [each.begins_like for each in told] == [0, 0, 0]


def test_what_another_adapter_has_computed_is_not_found() -> None:
    half = RequestFields(adapters=(Adapter(name="a", percent=50),))
    data = SessionsData.model_validate({"synthetic": SYNTHETIC})
    slot = stage(data=data, requests=60, fields=half)
    samples = sent_by(slot)
    places = [each.place for each in samples if each.place is not None]
    models = half.models_of_sessions("m", places, seed=slot.seed)
    for position, each in enumerate(samples):
        assert each.begins_like is not None
        assert models[each.begins_like] == models[position]
    own = [n for n, each in enumerate(samples) if each.begins_like == n]
    assert {models[n] for n in own} == {"a", "m"}
    assert [samples[n].repeated_tokens for n in own] == [0, 0]


def test_synthetic_sessions_are_those_of_their_seed() -> None:
    data = SessionsData.model_validate({"synthetic": SYNTHETIC})
    assert sent(data, 20) == sent(data, 20)
    assert sent(data, 20) != sent(data, 20, seed=2)
    # A longer stage begins with a shorter one.
    assert [each.place for each in sent(data, 30)[:20]] == [
        each.place for each in sent(data, 20)
    ]


def test_messages_of_any_role_are_one_text() -> None:
    said = [Said("human", "a"), Said("gpt", "b"), Said("tool", "c"), Said("", "d")]
    assert in_words(said) == "User: a\n\nAssistant: b\n\nTool: c\n\n: d"


def test_a_conversation_without_an_answer_has_no_turn(tmp_path: Path) -> None:
    talk = {"conversations": SHARE_GPT["conversations"][:2]}
    data = SessionsData(
        file=json_lines(tmp_path, [talk, SHARE_GPT]), format="ShareGPT"
    )
    found = recorded(data)
    assert (len(found.sessions), found.left_out) == (1, {"NoTurns": 1})


def test_a_row_of_a_session_that_began_late_counts_by_its_begin(
    tmp_path: Path,
) -> None:
    rows = [MOONCAKE[0], MOONCAKE[1], MOONCAKE[2]]
    data = SessionsData(
        file=json_lines(tmp_path, rows), format="Mooncake", lengths="Added"
    )
    places = [each.place for each in sent(data, 3)]
    assert [place and (place.session, place.turn) for place in places] == [
        (0, 1),
        (0, 2),
        (1, 1),
    ]
