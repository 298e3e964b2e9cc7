"""Each format of recorded sessions, read into the one form; what is wrong is refused by line, and no
message says what people wrote."""

import copy
import json
import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import DataFile
from benchrun_client.contract.datasets import SessionFormat, SessionsData
from benchrun_client.contract.sessions import Blocks, Messages, Said, Session, Turn
from benchrun_client.datasets.files import opened
from benchrun_client.datasets.session_readers import READERS, Read, read_sessions
from benchrun_client.failures import RunFailure
from hypothesis import given, settings, strategies as st
from unit.client.datasets.files import written
from unit.client.datasets.session_samples import (
    BURST_GPT,
    MOONCAKE,
    OPEN_TELEMETRY,
    SAMPLES,
    SHARE_GPT,
    TURNS,
    WEKA,
    lines,
    said,
    span,
)

ASKED: Mapping[str, dict[str, Any]] = {
    "Mooncake": {"lengths": "Whole"},
    "BurstGPT": {"lengths": "Whole"},
}


def every(
    folder: Path, form: SessionFormat, content: str | bytes, **changes: Any
) -> list[Read]:
    file = written(folder, "sessions", content)
    data = SessionsData(
        file=file, format=form, **{**ASKED.get(form, {}), **changes}
    )
    with opened(file) as ready:
        return list(read_sessions(ready, data, wanted=1000))


def sessions(
    folder: Path, form: SessionFormat, content: str | None = None, **changes: Any
) -> list[Session]:
    found = every(folder, form, content or SAMPLES[form], **changes)
    return [read.session for read in found if read.session is not None]


def only(folder: Path, form: SessionFormat, content: str | None = None) -> Session:
    (session,) = sessions(folder, form, content)
    return session


def graph(session: Session) -> list[tuple[tuple[int, ...], int | None, float]]:
    return [
        (turn.after, turn.continues, turn.delay_seconds) for turn in session.turns
    ]


def counts(session: Session) -> list[tuple[int, int | None]]:
    return [
        (turn.adds.tokens, turn.output_tokens)
        for turn in session.turns
        if not isinstance(turn.adds, Messages)
    ]


def test_every_format_has_a_reader_and_a_sample() -> None:
    assert set(READERS) == set(SAMPLES)


def test_benchruns_own_format_has_all_that_the_form_has(tmp_path: Path) -> None:
    session = only(tmp_path, "Turns")
    assert graph(session) == [((), None, 0), ((0,), None, 0), ((0, 1), 0, 1.5)]
    assert counts(session) == [(40, 8), (30, 4), (10, 6)]
    assert [turn.agent for turn in session.turns] == ["", "reader", ""]


def test_turns_may_stand_in_any_order(tmp_path: Path) -> None:
    mixed = {"id": "x", "turns": list(reversed(TURNS["turns"]))}
    assert counts(only(tmp_path, "Turns", lines(mixed))) == [
        (40, 8),
        (30, 4),
        (10, 6),
    ]


def test_a_whole_conversation_is_read_with_its_answers(tmp_path: Path) -> None:
    session = only(tmp_path, "ShareGPT")
    first, second = session.turns
    assert first.adds == Messages(
        (Said("system", "be brief"), Said("human", "what is a river"))
    )
    assert second == Turn(
        Messages((Said("human", "and a lake"),)),
        after=(0,),
        continues=0,
        answer="water that stands",
    )


def test_rows_are_whole_prompts_or_what_is_added_as_is_asked(
    tmp_path: Path,
) -> None:
    whole = sessions(tmp_path, "Mooncake", lengths="Whole")
    added = sessions(tmp_path, "Mooncake", lengths="Added")
    # 100 and 10 of the first turn are part of the second one's 150.
    assert counts(whole[0]) == [(100, 10), (40, 20)]
    assert counts(added[0]) == [(100, 10), (150, 20)]
    assert graph(whole[0]) == [((), None, 0), ((0,), 0, 3)]
    assert graph(whole[1]) == [((), None, 0), ((0,), 0, 2)]


def test_a_prompt_that_shrank_was_made_anew(tmp_path: Path) -> None:
    rows = [MOONCAKE[0], {**MOONCAKE[2], "input_length": 60}]
    session = only(tmp_path, "Mooncake", lines(*rows))
    assert graph(session)[1] == ((0,), None, 3)
    assert counts(session)[1] == (60, 20)


def test_rows_without_a_session_are_sessions_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"timestamp": n, "input_length": 9, "output_length": 1} for n in range(3)
    ]
    assert [
        len(each.turns) for each in sessions(tmp_path, "Mooncake", lines(*rows))
    ] == [1] * 3


def test_blocks_of_a_row_are_its_whole_prompt_or_its_addition(
    tmp_path: Path,
) -> None:
    rows = [
        {**MOONCAKE[0], "hash_ids": [7], "input_length": 500},
        {**MOONCAKE[2], "hash_ids": [7, 8], "input_length": 1000},
    ]
    (whole,) = sessions(tmp_path, "Mooncake", lines(*rows))
    (added,) = sessions(tmp_path, "Mooncake", lines(*rows), lengths="Added")
    assert whole.turns[1].adds == Blocks((7, 8), 512, 1000)
    assert (whole.turns[1].continues, added.turns[1].continues) == (None, 0)


def test_an_agents_turns_begin_after_the_one_that_starts_it_and_end_before_the_next(
    tmp_path: Path,
) -> None:
    session = only(tmp_path, "Weka")
    assert graph(session) == [
        ((), None, 0),
        ((0,), None, 1),  # From the end at 2 s to 3 s.
        ((1,), None, 1),
        ((0, 2), None, 2),  # The agent ends at 7 s.
    ]
    assert [turn.agent for turn in session.turns] == ["", "explore", "explore", ""]
    assert session.turns[3].adds == Blocks(
        tuple(("trace-1", n) for n in (1, 2, 3, 4)), 64, 200
    )


def test_a_recorded_think_time_is_the_pause_up_to_the_longest_allowed(
    tmp_path: Path,
) -> None:
    trace = copy.deepcopy(WEKA)
    trace["requests"][2]["think_time"] = 400
    (session,) = sessions(tmp_path, "Weka", lines(trace), max_pause_seconds=30)
    assert session.turns[3].delay_seconds == 30


def test_spans_of_a_trace_continue_what_was_said(tmp_path: Path) -> None:
    session = only(tmp_path, "OpenTelemetry")
    assert graph(session) == [((), None, 0), ((0,), 0, 3)]
    assert session.turns[1].adds == Messages((Said("user", "and a lake"),))
    assert [turn.output_tokens for turn in session.turns] == [3, 3]


def test_old_names_counts_and_an_export_are_read_too(tmp_path: Path) -> None:
    attributes = {
        "gen_ai.operation.name": {"stringValue": "chat"},
        "gen_ai.usage.prompt_tokens": {"intValue": "40"},
        "gen_ai.usage.completion_tokens": {"intValue": "8"},
    }
    first = {
        "traceId": "t",
        "spanId": "a",
        "startTimeUnixNano": "1772013600000000000",
        "endTimeUnixNano": "1772013601000000000",
        "attributes": [{"key": k, "value": v} for k, v in attributes.items()],
    }
    second = {
        **first,
        "startTimeUnixNano": "1772013602500000000",
        "endTimeUnixNano": "1772013603000000000",
    }
    longer = {**attributes, list(attributes)[1]: {"intValue": "60"}}
    second["attributes"] = [{"key": k, "value": v} for k, v in longer.items()]
    export = {"resourceSpans": [{"scopeSpans": [{"spans": [first, second]}]}]}
    session = only(tmp_path, "OpenTelemetry", json.dumps(export))
    assert graph(session) == [((), None, 0), ((0,), 0, 1.5)]
    assert counts(session) == [(40, 8), (12, 8)]


def test_numbered_attributes_are_messages(tmp_path: Path) -> None:
    one = span(1, 0, 1)
    one["attributes"] |= {
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "be brief",
        "gen_ai.prompt.1.content": "what is a river",
        "gen_ai.completion.0.content": "water",
        "gen_ai.tool.definitions": "[1]",
    }
    (turn,) = only(tmp_path, "OpenTelemetry", lines(one)).turns
    assert turn.adds == Messages(
        (
            Said("tools", "[1]"),
            Said("system", "be brief"),
            Said("user", "what is a river"),
        )
    )
    assert turn.answer == "water"


def test_half_a_character_within_recorded_json_is_sent_as_it_is_written(
    tmp_path: Path,
) -> None:
    """The line is valid: the halves come of the text's own escapes, and nothing could send them."""
    said = json.dumps([{"role": "user", "content": "\ud800"}])
    attributes = {"gen_ai__input__messages": said, "gen_ai__completion": said}
    (turn,) = only(
        tmp_path, "OpenTelemetry", lines(span(1, 0, 1, **attributes))
    ).turns
    assert turn.adds == Messages((Said("user", said),))
    assert turn.answer == said


def test_spans_side_by_side_are_joined_by_the_one_after_them(
    tmp_path: Path,
) -> None:
    usage = {"gen_ai__usage__input_tokens": 9, "gen_ai__usage__output_tokens": 2}
    times = [(0, 1), (2, 5), (3, 4), (6, 7)]
    spans = [span(n, *at, **usage) for n, at in enumerate(times)]
    session = only(tmp_path, "OpenTelemetry", lines(*spans))
    assert [turn.after for turn in session.turns] == [(), (0,), (0,), (1, 2)]


def test_failed_spans_are_left_out_and_counted(tmp_path: Path) -> None:
    trace = copy.deepcopy(OPEN_TELEMETRY)
    trace["spans"][0]["status"]["code"] = 2
    (read,) = every(tmp_path, "OpenTelemetry", json.dumps(trace))
    assert read.session is not None
    assert (len(read.session.turns), read.left_out) == (1, {"FailedRequest": 1})


def test_rows_of_a_table_are_put_together_by_their_session(tmp_path: Path) -> None:
    first, second = every(tmp_path, "BurstGPT", BURST_GPT)
    assert first.session is not None
    assert second.session is not None
    assert counts(first.session) == [(40, 10), (20, 12)]
    # From 7.5 s, when the answer came.
    assert graph(first.session)[1] == ((0,), 0, 12.5)
    assert (len(second.session.turns), second.left_out) == (1, {"FailedRequest": 1})


SECRET = "SECRET"


def _own(**changes: Any) -> str:
    whole = copy.deepcopy(TURNS)
    whole["turns"][2] |= changes
    return lines(whole)


def _weka(number: int = 2, **changes: Any) -> str:
    whole = copy.deepcopy(WEKA)
    whole["requests"][number] |= changes
    return lines(whole)


REFUSED: dict[str, tuple[SessionFormat, str, str]] = {
    "a turn without its parent": (
        "Turns",
        _own(parents=["plan", SECRET], continues="plan"),
        r"line 1: turn 2 comes after a turn that the session does not have: add",
    ),
    "a circle": (
        "Turns",
        lines(
            {
                "id": "x",
                "turns": [
                    {"id": "a", "parents": ["b"], "tokens": 9, "output_tokens": 1},
                    {"id": "b", "parents": ["a"], "tokens": 9, "output_tokens": 1},
                ],
            }
        ),
        r"line 1: 2 turns wait for each other in a circle",
    ),
    "a turn after itself": (
        "Turns",
        _own(parents=["done"]),
        r"line 1: 1 turns wait for each other",
    ),
    "a pause below 0": (
        "Turns",
        _own(delay_seconds=-1),
        r"turn 2: .*must be from 0",
    ),
    "two turns of one id": ("Turns", _own(id="plan"), r"same id"),
    "an unknown field": ("Turns", _own(think=1), r'turn 2: a turn has no "think"'),
    "no content": ("Turns", _own(tokens=0), r"turn 2 adds less than 1"),
    "words and lengths": (
        "Turns",
        _own(messages=[{"role": "user", "content": SECRET}]),
        r"line 1: some turns have messages and others only lengths",
    ),
    "no answer": (
        "Turns",
        _own(output_tokens=0),
        r"turn 2 asks for an answer of less",
    ),
    "text where blocks are said": (
        "Turns",
        _own(blocks=SECRET, block_tokens=4),
        r'"blocks" must be a list of blocks',
    ),
    "blocks of no tokens": (
        "Turns",
        _own(blocks=[1, 2, 3, 4], block_tokens=8),
        r"turn 2 has 4 blocks of 8 tokens, but 10 tokens fill at most 2",
    ),
    "a clock that runs back": (
        "Mooncake",
        lines(MOONCAKE[2], MOONCAKE[0]),
        r"line 2: the clock runs back within a session\. Sort",
    ),
    "a clock of the agent that runs back": (
        "Weka",
        _weka(t=1),
        r'"requests" 2: "t" goes back',
    ),
    "more blocks than tokens": (
        "Weka",
        _weka(hash_ids=[1, 2, 3, 4, 5]),
        r'"hash_ids" has more blocks of 64 tokens than "in" has tokens',
    ),
    "blocks that are texts in lists": (
        "Weka",
        _weka(hash_ids=[[SECRET]]),
        r'"hash_ids" must be a list of blocks',
    ),
    "a span that ends before it begins": (
        "OpenTelemetry",
        lines(span(1, 9, 3, gen_ai__usage__input_tokens=1)),
        r"line 1, span 0: the span ends before it begins",
    ),
    "a span without lengths": (
        "OpenTelemetry",
        lines(span(1, 0, 1, gen_ai__input__messages=said(SECRET))),
        r'neither "gen_ai.usage.input_tokens"|neither "gen_ai.usage.output_tokens"',
    ),
    "some spans with words": (
        "OpenTelemetry",
        lines(
            span(
                1,
                0,
                1,
                gen_ai__input__messages=said(SECRET),
                gen_ai__output__text="x",
            ),
            span(
                2,
                2,
                3,
                gen_ai__usage__input_tokens=4,
                gen_ai__usage__output_tokens=4,
            ),
        ),
        r"some spans of the trace have words and others only lengths",
    ),
    "a table without sessions": (
        "BurstGPT",
        BURST_GPT.replace("Session ID", "Number"),
        r"line 1: there is no column .*timedTrace",
    ),
    "a table of words": (
        "BurstGPT",
        BURST_GPT.replace("40", SECRET),
        r'line 2: "Request tokens" must be a number',
    ),
    "no conversation": (
        "ShareGPT",
        json.dumps([3]),
        r"entry 0: expected an object",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_by_line_and_remedy(
    what: str, tmp_path: Path
) -> None:
    form, content, message = REFUSED[what]
    with pytest.raises(RunFailure, match=message) as refused:
        every(tmp_path, form, content)
    assert refused.value.reason == "DatasetInvalid"
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("form", READERS)
def test_a_line_without_end_is_not_read(
    form: SessionFormat, tmp_path: Path
) -> None:
    path = tmp_path / "long"
    with path.open("wb") as file:
        file.write(b'{"id": "')
        file.truncate(17 * 1024**2)
    data = SessionsData(
        file=DataFile(path=str(path)), format=form, **ASKED.get(form, {})
    )
    assert data.file is not None
    with (
        opened(data.file) as ready,
        pytest.raises(RunFailure, match="is longer than 16 MiB"),
    ):
        list(read_sessions(ready, data, wanted=10))


def mutated(text: str) -> st.SearchStrategy[bytes]:
    """Return a strategy for a sample with bytes exchanged, taken out or put in."""

    def applied(edits: list[tuple[int, int, bytes]]) -> bytes:
        content = bytearray(text.encode())
        for at, length, put in edits:
            start = at % (len(content) + 1)
            content[start : start + length] = put
        return bytes(content)

    pieces = st.sampled_from(
        [
            b"",
            b"0",
            b"-1",
            b"null",
            b"[]",
            b"{}",
            b'"',
            b",",
            b"1e999",
            b"\xff",
            b"\n",
        ]
    ) | st.binary(max_size=4)
    edit = st.tuples(st.integers(0, 10_000), st.integers(0, 12), pieces)
    return st.lists(edit, max_size=4).map(applied)


@pytest.mark.parametrize("form", READERS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_a_file_holds_it_is_read_or_refused(
    form: SessionFormat,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("fuzzed")
    found: list[Read] = []
    # Anything else that it raises is a defect.
    with suppress(RunFailure):
        found = every(folder, form, data.draw(mutated(SAMPLES[form])))
    for read in found:
        if read.session is None:
            continue
        for place, turn in enumerate(read.session.turns):
            assert all(parent < place for parent in turn.after)
            assert turn.continues is None or turn.continues in turn.after
            assert 0 <= turn.delay_seconds <= 86_400


MANY: dict[SessionFormat, Callable[[int], str]] = {
    "Turns": lambda n: lines({**TURNS, "id": str(n)}),
    "ShareGPT": lambda n: lines({**SHARE_GPT, "id": str(n)}),
    "Weka": lambda n: lines({**WEKA, "id": str(n)}),
    "OpenTelemetry": lambda n: lines(OPEN_TELEMETRY),
    "Mooncake": lambda n: lines(
        *({**row, "session_id": f"{n} {row['session_id']}"} for row in MOONCAKE)
    ),
}


@pytest.mark.parametrize("form", MANY)
def test_the_memory_that_is_taken_does_not_grow_with_the_file(
    form: SessionFormat, tmp_path: Path
) -> None:
    """What is wanted is held; the rest goes by."""

    def peak(repeats: int) -> int:
        path = tmp_path / f"many-{repeats}"
        with path.open("w") as file:
            for number in range(repeats):
                file.write(MANY[form](number))
        data = SessionsData(
            file=DataFile(path=str(path)), format=form, **ASKED.get(form, {})
        )
        assert data.file is not None
        with opened(data.file) as ready:
            tracemalloc.start()
            found = read_sessions(ready, data, wanted=10)
            # As a stage takes them: what went by is not kept.
            turns = sum(len(each.session.turns) for each in found if each.session)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert turns >= 10
        return most

    few, many = peak(1500), peak(4500)
    assert many < 1.3 * few + 200_000


def test_what_is_not_wanted_is_not_read(tmp_path: Path) -> None:
    content = lines(TURNS, {**TURNS, "id": "y"}) + "broken\n"
    file = written(tmp_path, "sessions", content)
    data = SessionsData(file=file, format="Turns")
    with opened(file) as ready:
        assert len(list(islice(read_sessions(ready, data, wanted=3), 2))) == 2
