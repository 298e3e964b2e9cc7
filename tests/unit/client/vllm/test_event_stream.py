"""Streams of completions: valid ones are read however they are spelled and cut, others are told with
their bytes."""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from benchrun_client.contract import Api
from benchrun_client.load.event_stream import (
    BrokenStreamError,
    CompletionStream,
    EventParser,
    StreamNotes,
    cached_of,
)
from hypothesis import given, settings, strategies as st

USAGE = {"prompt_tokens": 8, "completion_tokens": 3}


def token(
    text: str, *, api: Api = "Completions", end: str | None = None, **more: Any
) -> str:
    content = {"delta": {"content": text}} if api == "Chat" else {"text": text}
    return json.dumps(
        {"choices": [{"index": 0, **content, "finish_reason": end}], **more}
    )


def role() -> str:
    delta = {"role": "assistant", "content": ""}
    return json.dumps(
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    )


def read(
    *chunks: bytes,
    notes: StreamNotes | None = None,
    clock: Iterator[float] | None = None,
) -> list[Any]:
    """The payloads that vLLM's client is given, parsed."""
    ticks = clock or count(1.0)
    stream = CompletionStream(notes or StreamNotes(), clock=lambda: next(ticks))
    lines: list[bytes] = []
    for chunk in chunks:
        lines += (
            [chunk.strip()] if stream.is_one_token(chunk) else stream.feed(chunk)
        )
    lines += stream.end()
    payloads = [line.removeprefix(b"data: ") for line in lines]
    return [p if p == b"[DONE]" else json.loads(p) for p in payloads]


def texts(payloads: Sequence[Any]) -> list[str]:
    choices = [p["choices"][0] for p in payloads if p != b"[DONE]" and p["choices"]]
    return [
        choice.get("text", choice.get("delta", {}).get("content"))
        for choice in choices
    ]


def usage_of(payloads: Sequence[Any]) -> list[Any]:
    return [p["usage"] for p in payloads if p != b"[DONE]" and not p["choices"]]


# ---- the standard


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([(b"", b"a")], b"data: a\n\n"),
        ([(b"", b"a")], b"data:a\n\n"),
        ([(b"", b" a")], b"data:  a\n\n"),
        ([(b"", b"a")], b"data: a\r\n\r\n"),
        ([(b"", b"a")], b"data: a\r\r"),
        ([(b"", b"a"), (b"", b"b")], b"data: a\r\n\r\ndata: b\n\n"),
        ([(b"", b"a\nb")], b"data: a\ndata: b\n\n"),
        ([(b"", b"a\n")], b"data: a\ndata\n\n"),
        (
            [(b"message", b"a"), (b"", b"b")],
            b"event: message\ndata: a\n\ndata: b\n\n",
        ),
        ([(b"", b"a")], b": ping\n\ndata: a\nid: 7\nretry: 9\nfoo: x\n\n"),
        ([], b": ping\n\n\n\n"),
        ([(b"", b"a")], b"\xef\xbb\xbfdata: a\n\n"),
        ([], b"event: message\n\n"),
        ([(b"", b"a")], b"event: error\n\ndata: a\n\n"),
    ],
)
def test_events_are_those_of_the_standard(
    events: list[tuple[bytes, bytes]], text: bytes
) -> None:
    for chunks in ([text], [text[i : i + 1] for i in range(len(text))]):
        parser = EventParser()
        assert [event for chunk in chunks for event in parser.feed(chunk)] == events
        assert list(parser.end()) == []


def test_an_event_without_end_is_bounded() -> None:
    with pytest.raises(BrokenStreamError, match="more than"):
        read(*[b"x" * 1024 * 1024] * 6)


# ---- any spelling, any cut

LINE_ENDS = ("\n", "\r\n", "\r")
COMMENTS = ("", ": keep-alive\n\n", ":\n", "event: message\n")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Api, list[str], bytes]:
    """An endpoint, its texts, and the bytes of a valid stream of them."""
    api: Api = draw(st.sampled_from(["Completions", "Chat"]))
    words = draw(st.lists(TEXTS, min_size=1, max_size=5))
    words[0] = words[0] or "a"
    payloads = [role()] if api == "Chat" and draw(st.booleans()) else []
    ends = [None] * (len(words) - 1) + ["stop"]
    beside = draw(st.booleans())
    payloads += [
        token(
            word,
            api=api,
            end=end,
            **({"usage": USAGE} if beside and (end or word) else {}),
        )
        for word, end in zip(words, ends, strict=True)
    ]
    if beside and not words[-1]:
        words = words[:-1]  # what only ends an answer is no token
    payloads += [] if beside else [json.dumps({"choices": [], "usage": USAGE})]
    payloads += ["[DONE]"] if draw(st.booleans()) or not beside else []
    space = draw(st.sampled_from(["", " ", "  ", "\t"]))
    text = "".join(
        f"{draw(st.sampled_from(COMMENTS))}data:{space}{payload}\n\n"
        for payload in payloads
    )
    return api, words, text.replace("\n", draw(st.sampled_from(LINE_ENDS))).encode()


def cut(data: bytes, places: set[float]) -> list[bytes]:
    """The bytes in pieces, cut at these shares of their length."""
    at = sorted(round(share * len(data)) for share in places)
    return [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]


@given(streams(), st.sets(st.floats(0, 1), max_size=12))
@settings(max_examples=120, deadline=None)
def test_any_cut_of_any_valid_stream_gives_the_same_tokens_and_counts(
    stream: tuple[Api, list[str], bytes], places: set[float]
) -> None:
    _, words, text = stream
    notes = StreamNotes()
    payloads = read(*cut(text, places), notes=notes)
    assert texts(payloads) == words
    assert usage_of(payloads) == [USAGE]
    assert notes.is_closed


def words_about(*chunks: bytes) -> str:
    """What is wrong with a stream; empty where nothing is."""
    try:
        read(*chunks)
    except BrokenStreamError as error:
        return str(error)
    return ""


@given(st.lists(st.binary(max_size=80), max_size=8))
@settings(max_examples=120, deadline=None)
def test_any_bytes_are_read_or_told(chunks: list[bytes]) -> None:
    words = words_about(*chunks)
    assert words.isprintable()
    assert len(words) < 400


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "delta",
                        "text",
                        "usage",
                        "error",
                        "finish_reason",
                        "role",
                        "content",
                    ]
                ),
                inner,
            )
        ),
        max_leaves=12,
    )
)
@settings(max_examples=120, deadline=None)
def test_any_json_is_read_or_told(body: Any) -> None:
    words = words_about(f"data: {json.dumps(body)}\n\ndata: [DONE]\n\n".encode())
    assert len(words) < 400


VLLMS = b'data: {"id":"x","choices":[{"index":0,"text":" a\\n","finish_reason":null,"stop_reason":null}]}\n\n'


@pytest.mark.parametrize(
    ("is_plain", "before", "chunk"),
    [
        (True, VLLMS, VLLMS),
        (False, b"", VLLMS),
        (False, VLLMS + b"da", VLLMS),
        (False, VLLMS + b"event: error\n", VLLMS),
        (False, VLLMS, VLLMS + VLLMS),
        (False, VLLMS, VLLMS[:-1]),
        (False, VLLMS, VLLMS.replace(b"null,", b'"stop",', 1)),
        (
            False,
            VLLMS,
            VLLMS.replace(b"}]}", b'}],"usage":{"completion_tokens":1}}'),
        ),
    ],
)
def test_what_is_passed_on_as_it_is(
    is_plain: bool, before: bytes, chunk: bytes
) -> None:
    stream = CompletionStream(StreamNotes())
    list(stream.feed(before))
    assert stream.is_one_token(chunk) is is_plain


# ---- what counts as a token, and when


def test_the_first_token_of_a_chat_is_its_first_content() -> None:
    notes = StreamNotes()
    chunks = [f"data: {p}\n\n".encode() for p in (role(), token(" a", api="Chat"))]
    assert texts(
        read(*chunks, b"data: [DONE]\n\n", notes=notes, clock=iter([7.0, 8.0]))
    ) == [" a"]
    assert (notes.first_chunk_at, notes.first_answer_at) == (7.0, 8.0)


@pytest.mark.parametrize(
    "delta",
    [
        {"role": "assistant", "content": " a"},
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"tool_calls": [{"index": 0}]},
        {"content": ""},
    ],
)
def test_these_are_content(delta: dict[str, Any]) -> None:
    """Text may be empty: half a character is a token."""
    payload = json.dumps({"choices": [{"delta": delta, "finish_reason": None}]})
    assert len(read(f"data: {payload}\n\n".encode())) == 1


def test_counts_beside_every_token_are_given_once_at_the_end() -> None:
    events = [
        token(" a", usage={**USAGE, "completion_tokens": 1}),
        token(" b", usage=USAGE, end="length"),
    ]
    payloads = read(*(f"data: {each}\n\n".encode() for each in events))
    assert (texts(payloads), usage_of(payloads)) == ([" a", " b"], [USAGE])


def test_counts_of_a_stream_that_broke_off_are_not_believed() -> None:
    notes = StreamNotes()
    payloads = read(f"data: {token(' a', usage=USAGE)}\n\n".encode(), notes=notes)
    assert (usage_of(payloads), notes.is_closed) == ([], False)


def test_an_event_that_lacks_its_empty_line_at_the_end_is_read_where_it_is_whole() -> (
    None
):
    first = f"data: {token(' a')}\n\n".encode()
    assert read(first, b"data: [DONE]")[-1] == b"[DONE]"
    assert texts(read(first, f"data: {token(' b')}".encode())) == [" a", " b"]
    assert texts(read(first, f"data: {token(' b')}".encode()[:-4])) == [" a"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("expected an event of a stream, got an empty body", b""),
        ("expected an event of a stream, got '<html>", b"<html>hello</html>"),
        (
            'expected an event of a stream, got \'{"text"',
            b'{"text": 1}\n{"text": 2}\n',
        ),
        ("not a JSON object: 'hello'", b"data: hello\n\n"),
        ("not JSON: '{7}'", b"data: {7}\n\n"),
        ('error: \'{"error"', b'data: {"error": {"message": "dead"}}\n\n'),
        ('error: \'{"message"', b'event: error\ndata: {"message": "dead"}\n\n'),
        ("choice is not an object", b'data: {"choices": [7]}\n\n'),
        (
            'not a string: \'{"content"',
            b'data: {"choices": [{"delta": {"content": [{"type": "text"}]}}]}\n\n',
        ),
        ("expected an event of a stream, got 'data:", b"data:\n\n"),
        (
            "expected an event of a stream, got 'event: ping",
            b"event: ping\ndata: hi\n\n",
        ),
    ],
)
def test_what_is_no_stream_is_told_with_its_bytes(words: str, text: bytes) -> None:
    with pytest.raises(BrokenStreamError) as raised:
        read(text)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "more", [{"error": {"code": 502}}, {"end": "error"}, {"end": "abort"}]
)
def test_an_answer_that_its_server_gave_up_is_no_answer(
    more: dict[str, Any],
) -> None:
    """As gateways tell it, in an event of the answer itself."""
    first = f"data: {token(' a', api='Chat')}\n\n".encode()
    last = f"data: {token('', api='Chat', **more)}\n\n".encode()
    with pytest.raises(BrokenStreamError, match="with an error"):
        read(first, last)
    assert len(read(first, first.replace(b"]}", b'], "error": null}'))) == 2


@pytest.mark.parametrize(
    "ping",
    [
        b"data:\n\n",
        b"data: \n\n",
        b"event: ping\ndata: 12:00\n\n",
        b"event: ping\ndata: {}\n\n",
    ],
)
def test_pings_are_passed_over(ping: bytes) -> None:
    first = f"data: {token(' a')}\n\n".encode()
    assert texts(read(ping, first, ping, first)) == [" a", " a"]


@pytest.mark.parametrize(
    "choice",
    [
        # What Azure's filter says of texts that it has seen by then.
        {"content_filter_results": {}, "finish_reason": None},
        {"delta": None, "finish_reason": None},
        {"text": None, "finish_reason": None},
    ],
)
@pytest.mark.parametrize("api", ["Chat", "Completions"])
def test_a_choice_without_a_text_is_no_token(
    api: Api, choice: dict[str, Any]
) -> None:
    event = (
        f"data: {json.dumps({'choices': [{'index': 0, **choice}]})}\n\n".encode()
    )
    words = f"data: {token(' a', api=api)}\n\n".encode()
    assert texts(read(event, words, event, words)) == [" a", " a"]


def test_an_empty_finish_reason_is_none() -> None:
    notes = StreamNotes()
    read(f"data: {token(' a', end='')}\n\n".encode(), notes=notes)
    assert (notes.is_closed, notes.finish_reason) == (False, None)


@pytest.mark.parametrize(
    ("more", "beside"),
    [
        ({"usage": USAGE}, {}),
        ({"x_groq": {"usage": USAGE}}, {}),
        ({}, {"usage": USAGE}),
    ],
)
@pytest.mark.parametrize("choices", [True, False])
def test_counts_are_read_wherever_they_stand(
    more: dict[str, Any], beside: dict[str, Any], choices: bool
) -> None:
    choice = {"index": 0, "text": " b", "finish_reason": "stop", **beside}
    last = json.dumps({"choices": [choice] if choices or beside else [], **more})
    payloads = read(
        *(f"data: {each}\n\n".encode() for each in (token(" a"), last, "[DONE]"))
    )
    assert usage_of(payloads) == [USAGE]


@pytest.mark.parametrize(
    "counts",
    [
        {"completion_tokens": "3"},
        {"completion_tokens": True},
        {"completion_tokens": -1},
        {"completion_tokens": 10**9},
        {"completion_tokens": None},
        {"completion_tokens": 3, "prompt_tokens": "8"},
        [3],
        {},
    ],
)
@pytest.mark.parametrize("choices", [True, False])
def test_what_is_no_number_of_tokens_is_no_count(
    counts: Any, choices: bool
) -> None:
    last = token(" b", end="stop", usage=counts)
    last = last if choices else json.dumps({"choices": [], "usage": counts})
    assert usage_of(read(f"data: {last}\n\n".encode(), b"data: [DONE]\n\n")) == []


# ---- what an answer tells of the prefix cache


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "prompt_tokens_details": {"cached_tokens": 8},
                }
            },
            (9, 8),
        ),
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "prompt_tokens_details": {"cached_tokens": 0},
                }
            },
            (9, 0),
        ),
        ({"usage": {"prompt_tokens": 9}, "timings": {"cache_n": 3}}, (9, 3)),
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": None}}, None),
        ({"usage": {"prompt_tokens": 9, "prompt_tokens_details": {}}}, None),
        ({"usage": {"prompt_tokens_details": {"cached_tokens": 1}}}, None),
        ({"timings": {"cache_n": 3}}, None),
        ({}, None),
        # What no server can have counted.
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "prompt_tokens_details": {"cached_tokens": 10},
                }
            },
            None,
        ),
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "prompt_tokens_details": {"cached_tokens": -1},
                }
            },
            None,
        ),
        (
            {
                "usage": {
                    "prompt_tokens": 9,
                    "prompt_tokens_details": {"cached_tokens": True},
                }
            },
            None,
        ),
        (
            {
                "usage": {
                    "prompt_tokens": 10**9,
                    "prompt_tokens_details": {"cached_tokens": 1},
                }
            },
            None,
        ),
        ({"usage": [1], "timings": "x"}, None),
    ],
)
def test_cached_tokens_are_those_that_an_answer_tells(
    body: dict[str, Any], told: tuple[int, int] | None
) -> None:
    assert cached_of(body) == told


@pytest.mark.parametrize("beside", [False, True])
def test_cached_tokens_are_noted_wherever_the_counts_are(beside: bool) -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    last = (
        token("b", end="length", usage=usage)
        if beside
        else json.dumps({"choices": [], "usage": usage})
    )
    notes = StreamNotes()
    text = "".join(f"data: {each}\n\n" for each in (token("a"), last, "[DONE]"))
    read(text.encode(), notes=notes)
    assert notes.cached == (9, 8)


def test_a_real_answer_of_llamacpp_tells_its_cached_tokens() -> None:
    page = Path(__file__).parents[1] / "llamacpp/pages/completion.sse"
    notes = StreamNotes()
    read(page.read_bytes(), notes=notes)
    assert notes.cached == (41, 40)
