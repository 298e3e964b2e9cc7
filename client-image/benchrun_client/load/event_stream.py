"""A parser of the Server-Sent Events of a completion, wherever the transport cuts them.

Lines end with LF, CR LF or CR; comments and unknown fields are skipped; an event ends with an empty
line (https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.6). Each event is
rewritten in the form of vLLM's own server, because vLLM's client, which measures, reads no other
form. That client would also take the role at the beginning of a chat for the first token.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from benchrun_client.failures import shorten

MAX_EVENT_BYTES = 4 * 1024 * 1024
MAX_SHOWN_BYTES = 120
DONE = b"[DONE]"
_SPACE = b" \t\r\n"  # What JSON allows around a value.
_NAMES = (b"", b"message", b"error")
"""Names of events that must be of the API; others may be a gateway's pings."""
_FAILED = ("error", "abort")
"""Finish reasons of an answer that its server did not finish; vLLM and SGLang say abort."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_REASONING = re.compile(rb'"reasoning(?:_content)?": ?"(?!")')
"""Found in a chunk of a chat that shows reasoning: vLLM calls it `reasoning`; its older releases,
SGLang and llama.cpp `reasoning_content`. Within a text, a quote has a backslash before it."""
_ANSWER = re.compile(
    rb'"(?:content|refusal)": ?"(?!")|"tool_calls": ?\[(?!\])|"audio": ?\{(?!\})'
)
CONTENT_KEYS = (
    "content",
    "reasoning_content",
    "reasoning",
    "tool_calls",
    "refusal",
    "audio",
)
"""Keys of a chat's delta that show a token."""


class BrokenStreamError(Exception):
    """An answer is not a stream of this API's events; the message shows its bytes."""


class EventParser:
    """A parser that splits the bytes of a stream into server-sent events."""

    def __init__(self) -> None:
        self._rest = b""
        """The last line, if it is unfinished."""
        self._after_cr = False
        """Whether the last line ended with CR; an LF after it belongs to the same line end."""
        self._data: list[bytes] = []
        self._event = b""
        self._is_first = True

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield name and data of each event that these bytes complete.

        Raises BrokenStreamError for an event that is too long.
        """
        for line in self._lines(chunk):
            if line:
                self._take(line)
                continue
            event = self._taken()
            if event is not None:
                yield event
        if len(self._rest) + sum(map(len, self._data)) > MAX_EVENT_BYTES:
            raise BrokenStreamError(
                f"an event of more than {MAX_EVENT_BYTES} bytes"
            )

    def end(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the event at the end that lacks its empty line, if there is one."""
        if self._rest:
            self._take(self._rest)
            self._rest = b""
        if (event := self._taken()) is not None:
            yield event

    @property
    def is_between_events(self) -> bool:
        """Return whether the last event is complete and no byte of the next has arrived."""
        return not (
            self._rest
            or self._data
            or self._after_cr
            or self._event
            or self._is_first
        )

    def _lines(self, chunk: bytes) -> list[bytes]:
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        text = self._rest + chunk
        if self._is_first:
            if BYTE_ORDER_MARK.startswith(text):
                self._rest = text
                return []
            text = text.removeprefix(BYTE_ORDER_MARK)
            self._is_first = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        *lines, self._rest = _LINE_END.split(text)
        return lines

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value

    def _taken(self) -> tuple[bytes, bytes] | None:
        """Return the event that the current line ends, and begin the next.

        Return None if the event has no data.
        """
        event = (self._event, b"\n".join(self._data)) if self._data else None
        self._data = []
        self._event = b""
        return event


@dataclass(slots=True)
class StreamNotes:
    """What is noted about one answer in addition to what vLLM's client notes."""

    first_chunk_at: float | None = None
    """Instant of the first event that belongs to the answer (`time.perf_counter`), even without
    content."""
    is_closed: bool = False
    """Whether the stream was closed, by [DONE] or by a finish reason."""
    reconnects: int = 0
    """How often the request was sent again because a connection was closed before the first byte of
    an answer."""
    usage: dict[str, Any] | None = field(default=None, repr=False)
    """The server's token counts, if they came in an event that also has text of the answer."""
    is_reused: bool = False
    """Whether the request was sent on a connection that had answered before."""
    problem: str | None = None
    """Reason why the answer is not a stream; None if it is a stream."""
    cached: tuple[int, int] | None = None
    """Tokens of the prompt, and those of them that were found in a cache, by the server's own
    counts; None if it does not tell both."""
    first_reasoning_at: float | None = None
    """Instant of the first chunk that shows reasoning (`time.perf_counter`), None if none came."""
    first_answer_at: float | None = None
    """Instant of the first chunk of a chat that shows a text or a call of a tool. What comes before
    the reasoning is not the answer."""
    reasoning_chunks: int = 0
    chunks: int = 0  # Chunks of a chat that show a token.
    reasoning_tokens: int | None = None
    """Tokens of reasoning by the server's count; None if it has none."""
    finish_reason: str | None = None


class CompletionStream:
    """The events of one answer, in the form that vLLM's client reads."""

    def __init__(
        self, notes: StreamNotes, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.notes = notes
        self._clock = clock
        self._events = EventParser()
        self._beginning = b""
        self._is_chat_without_content = True
        self._is_chat = False
        self._is_reasoning = False
        self._has_events = False
        self._has_counts = False

    def is_one_token(self, chunk: bytes) -> bool:
        """Return whether these bytes are exactly one event of one token, in vLLM's form.

        Nearly all chunks are; they need not be parsed.
        """
        return (
            chunk.startswith(b'data: {"')
            and chunk.endswith(b"}]}\n\n")
            and chunk.find(b"\n") == len(chunk) - 2
            and b'"choices":[{' in chunk
            and not self._is_chat_without_content
            and not _says_more(chunk)
            and b"\r" not in chunk
            and self._events.is_between_events
        )

    def note_token(self, data: bytes) -> None:
        """Note whether the token of an event belongs to the reasoning or to the answer.

        A token without text (half a character) belongs to the same part as the token before it.
        """
        if not self._is_chat:
            return
        notes = self.notes
        has_answer = _ANSWER.search(data) is not None
        if _REASONING.search(data):
            self._is_reasoning = True
            if notes.first_reasoning_at is None:
                notes.first_reasoning_at = self._clock()
                notes.first_answer_at = None
        elif has_answer:
            self._is_reasoning = False
        notes.chunks += 1
        notes.reasoning_chunks += self._is_reasoning
        if has_answer and notes.first_answer_at is None:
            notes.first_answer_at = self._clock()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield each event that these bytes complete, as a line of `data: ` without its end.

        Raises BrokenStreamError for a broken stream, and for an error that the server sends in it.
        """
        if not self._has_events and len(self._beginning) < MAX_SHOWN_BYTES:
            self._beginning += chunk[:MAX_SHOWN_BYTES]
        for name, data in self._events.feed(chunk):
            yield from self._spelled(name, data)

    def end(self) -> Iterator[bytes]:
        """Yield the last lines at the end of the body; raise BrokenStreamError if no event came."""
        for name, data in self._events.end():
            if data.strip(_SPACE) == DONE or _is_json(data):
                yield from self._spelled(name, data)
        if not self._has_events:
            raise BrokenStreamError(
                f"expected an event of a stream, got {shown(self._beginning)}"
            )
        if not self.notes.is_closed or self._has_counts or self.notes.usage is None:
            return
        yield self._counts()

    def _spelled(self, name: bytes, data: bytes) -> Iterator[bytes]:
        data = data.strip(_SPACE)
        is_object = data[:1] == b"{" and data[-1:] == b"}"
        if not data or (name not in _NAMES and not is_object):
            return  # A ping.
        self._has_events = True
        if data == DONE:
            self.notes.is_closed = True
            yield b"data: [DONE]"
            return
        if data[:1] != b"{" or data[-1:] != b"}":
            raise BrokenStreamError(
                f"an event that is not a JSON object: {shown(data)}"
            )
        if name == b"error" or b'"choices"' not in data:
            yield from self._without_choices(name, data)
            return
        if self._is_chat_without_content or _says_more(data):
            yield from self._looked_at(data)
            return
        self.note_token(data)
        yield b"data: " + data.replace(b"\n", b" ")

    def _without_choices(self, name: bytes, data: bytes) -> Iterator[bytes]:
        body = _parsed(data)
        if name == b"error" or body.get("error"):
            raise _ended_with_error(data)
        if (usage := counts_of(body)) is not None:
            yield self._counted(body, usage)

    def _counted(self, body: dict[str, Any], usage: dict[str, Any]) -> bytes:
        """Note the counts of an event without text, and return the line that gives them on."""
        self._has_counts = True
        self._note_counts(body, usage)
        return b"data: " + json.dumps({"choices": [], "usage": usage}).encode()

    def _note_counts(self, body: dict[str, Any], usage: dict[str, Any]) -> None:
        self.notes.cached = cached_of({**body, "usage": usage})
        self.notes.reasoning_tokens = _reasoning_tokens(usage)

    def _looked_at(self, data: bytes) -> Iterator[bytes]:
        """Yield an event with choices if it shows a token; note token counts and finish reason."""
        body = _parsed(data)
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if choices and not isinstance(choice, dict):
            raise BrokenStreamError(
                f"an event whose choice is not an object: {shown(data)}"
            )
        reason = choice.get("finish_reason") if choice is not None else None
        # Some gateways tell in an event of the answer that its server has failed.
        if body.get("error") or reason in _FAILED:
            raise _ended_with_error(data)
        usage = counts_of(body)
        if choice is None:
            if usage is not None:
                yield self._counted(body, usage)
            return
        if self.notes.first_chunk_at is None:
            self.notes.first_chunk_at = self._clock()
        if usage is not None:
            self.notes.usage = usage
            self._note_counts(body, usage)
        if reason:  # Some servers write an empty text for null.
            self.notes.is_closed = True
            self.notes.finish_reason = str(reason)
        if self._is_token(choice, has_counts=usage is not None):
            self.note_token(data)
            yield b"data: " + data.replace(b"\n", b" ")

    def _is_token(self, choice: dict[str, Any], *, has_counts: bool) -> bool:
        """Return whether a choice shows a token.

        A token's text may be empty: half a character is a token. A chunk with only the role that
        begins a chat is not a token, nor is a chunk that ends an answer with only its counts, nor
        a choice with neither a text nor a delta.
        """
        only_ends = has_counts and bool(choice.get("finish_reason"))
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            if choice.get("text") is None:
                return False
            self._is_chat_without_content = False
            return bool(choice.get("text")) or not only_ends
        if not isinstance(delta.get("content") or "", str):
            raise BrokenStreamError(
                f"a text that is not a string: {shown(json.dumps(delta).encode())}"
            )
        has_content = any(delta.get(key) for key in CONTENT_KEYS)
        if self._is_chat_without_content and not has_content and "role" in delta:
            return False
        self._is_chat_without_content = False
        self._is_chat = True
        return has_content or not only_ends

    def _counts(self) -> bytes:
        self._has_counts = True
        return (
            b"data: "
            + json.dumps({"choices": [], "usage": self.notes.usage}).encode()
        )


MOST_TOKENS = 10**7


def counts_of(body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the server's token counts, wherever an event has them; None if it has none.

    Most servers have them in the event itself, some in its choice (Moonshot), others in an object
    of their own (Groq). Counts that are not numbers of tokens are none.
    """
    choices = body.get("choices")
    beside = [*body.values(), *(choices if isinstance(choices, list) else ())]
    found = (
        each.get("usage") for each in (body, *beside) if isinstance(each, dict)
    )
    return next((usage for usage in found if _are_counts(usage)), None)


def _are_counts(usage: object) -> TypeGuard[dict[str, Any]]:
    if not isinstance(usage, dict):
        return False
    prompt = usage.get("prompt_tokens")
    return _is_count(usage.get("completion_tokens")) and (
        prompt is None or _is_count(prompt)
    )


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def cached_of(body: dict[str, Any]) -> tuple[int, int] | None:
    """Return the tokens of the prompt and those found in a cache, by an answer's counts, or None.

    They are in `usage` (vLLM with --enable-prompt-tokens-details, SGLang with
    --enable-cache-report, llama.cpp), else in llama.cpp's `timings`.
    """
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    timings = body.get("timings")
    prompt = usage.get("prompt_tokens")
    found = [
        each.get(name)
        for each, name in ((details, "cached_tokens"), (timings, "cache_n"))
        if isinstance(each, dict)
    ]
    cached = next((each for each in found if type(each) is int), None)
    if type(prompt) is not int or cached is None:
        return None
    is_possible = 0 <= cached <= prompt <= MOST_TOKENS
    return (prompt, cached) if is_possible else None


def shown(data: bytes) -> str:
    """Return bytes as a short text for a message."""
    text = repr(data[:MAX_SHOWN_BYTES])[1:]
    return shorten(text, 2 * MAX_SHOWN_BYTES) if data else "an empty body"


_SHOWS = (b'"delta"', b'"text"')
_SHOWS_NONE = (b'"delta":null', b'"delta": null', b'"text":null', b'"text": null')
_NO_END = (b'"finish_reason":null', b'"finish_reason": null')
_NO_COUNTS = (b'"usage":null', b'"usage": null')
_NO_ERROR = (b'"error":null', b'"error": null')


def _says_more(data: bytes) -> bool:
    """Return whether an event may hold more than a token: counts, a finish reason or an error.

    Or less: a choice without text, such as a filter's (Azure). Searching the bytes for keys is
    safe: a quote within a text has a backslash before it.
    """
    return (
        not any(each in data for each in _SHOWS)
        or any(each in data for each in _SHOWS_NONE)
        or (
            b'"finish_reason"' in data and not any(each in data for each in _NO_END)
        )
        or (b'"usage"' in data and not any(each in data for each in _NO_COUNTS))
        or (b'"error"' in data and not any(each in data for each in _NO_ERROR))
    )


def _ended_with_error(data: bytes) -> BrokenStreamError:
    return BrokenStreamError(
        f"the server ended its stream with an error: {shown(data)}"
    )


def _reasoning_tokens(usage: dict[str, Any]) -> int | None:
    """Return the server's count of reasoning tokens; None if it has none.

    vLLM and the OpenAI API count them among details, SGLang also beside the other counts. Both
    have releases that always say 0, so 0 is not a count.
    """
    details = usage.get("completion_tokens_details")
    counts = (details if isinstance(details, dict) else {}, usage)
    return next(
        (
            count
            for each in counts
            if type(count := each.get("reasoning_tokens")) is int and count > 0
        ),
        None,
    )


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BrokenStreamError(
            f"an event that is not JSON: {shown(data)}"
        ) from error
    return body if isinstance(body, dict) else {}
