"""Readers of recorded sessions, one for each format: lines of a file -> sessions of one form.

What a file says wrongly raises RunFailure that names the line and the remedy, never what people
wrote. Readers stream: of a format with a session a line, no more is in memory than that line; of
one with a turn a line, the turns of the sessions that are wanted.
"""

import codecs
import csv
import json
import math
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from benchrun_client.contract.datasets import SessionFormat, SessionsData
from benchrun_client.contract.sessions import (
    MAX_TURN_TOKENS,
    MAX_TURNS,
    Added,
    Blocks,
    DraftTurn,
    Messages,
    NewTokens,
    Said,
    Session,
    SessionError,
    session_of,
)
from benchrun_client.datasets import files

FAILED = "FailedRequest"  # A recorded request that had failed.
NO_TURNS = "NoTurns"  # A session without a request that can be sent.
MAX_WHOLE_BYTES = 256 * 1024**2
"""Most bytes of a file that is one JSON value: it is parsed at once."""
MAX_HELD_TURNS = 500_000
"""Most turns of sessions that are read at the same time, where each line has one turn."""
MAX_NAME_CHARACTERS = 200
MOONCAKE_BLOCK_TOKENS = 512
WEKA_BLOCK_TOKENS = 64
_START_BYTES = 65_536


class Read(NamedTuple):
    """What was read next: a session, and how many of its turns were left out, by reason."""

    session: Session | None
    left_out: Mapping[str, int] = {}


Reader = Callable[[files.OpenedFile, SessionsData, int], Iterator[Read]]
"""File, dataset, and the turns that are wanted at most -> sessions in the order of their begin."""


def read_sessions(
    file: files.OpenedFile, data: SessionsData, *, wanted: int
) -> Iterator[Read]:
    """Yield the sessions of a file, in the order in which they begin.

    `wanted` bounds what is held: the sessions that so many turns can come from. Raises RunFailure
    `DatasetInvalid`.
    """
    assert data.format is not None, "a file has a format"
    return READERS[data.format](file, data, wanted)


def _session(
    name: str, drafts: Sequence[DraftTurn], *, where: str, failed: int = 0
) -> Read:
    """Return the session of these turns, of which `failed` requests were left out."""
    left_out = {FAILED: failed} if failed else {}
    if not drafts:
        return Read(None, left_out or {NO_TURNS: 1})
    try:
        return Read(session_of(name, drafts), left_out)
    except SessionError as error:
        raise files.invalid(f"{where}: {error}") from error


def entries(file: files.OpenedFile) -> Iterator[tuple[str, Any]]:
    """Yield each object of JSON Lines, a JSON list, or a file that is one object.

    With each comes where it is.
    """
    with file.path.open("rb") as content:
        start = content.read(_START_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
    first, *more = start.split(b"\n", 1)
    is_object = start.startswith(b"{")
    # An object over several lines; a line that is longer than what was looked at is a whole one.
    is_spread = is_object and bool(more) and not first.rstrip().endswith(b"}")
    if is_object and not is_spread:
        yield from files.json_lines(file)
        return
    should_be = (
        "It must be one JSON list, one JSON object, or one JSON object a line."
    )
    if (size := file.path.stat().st_size) > MAX_WHOLE_BYTES:
        raise files.invalid(
            f"{file.name} is one JSON value of {size:,} bytes; at most "
            f"{MAX_WHOLE_BYTES // 1024**2} MiB are read so. Write one object a line."
        )
    value = files.json_value(
        file.path.read_bytes(), name=file.name, should_be=should_be
    )
    found = value if isinstance(value, list) else [value]
    for number, entry in enumerate(found):
        yield f"{file.name}, entry {number}", entry


def _object(value: Any, *, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise files.invalid(
            f"{where}: expected an object, got {files.json_type(value)}"
        )
    return value


def _list(of: Mapping[str, Any], name: str, *, where: str) -> list[Any]:
    value = files.field_of(of, name, where=where)
    if not isinstance(value, list):
        raise files.invalid(
            f'{where}: "{name}" must be a list, but is {files.json_type(value)}'
        )
    return value


def _name(value: Any, name: str, *, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise files.invalid(
            f'{where}: "{name}" must be a text or a whole number, but is '
            f"{files.json_type(value)}"
        )
    text = str(value)
    if not 1 <= len(text) <= MAX_NAME_CHARACTERS:
        raise files.invalid(
            f'{where}: "{name}" must have 1 to {MAX_NAME_CHARACTERS} characters'
        )
    return text


def _number(
    of: Mapping[str, Any], name: str, *, where: str, least: float = 0
) -> float:
    value = files.field_of(of, name, where=where)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise files.invalid(
            f'{where}: "{name}" must be a number, but is {files.json_type(value)}'
        )
    # Also refuses NaN, and what no float holds.
    if not least <= value <= 1e15:
        raise files.invalid(
            f'{where}: "{name}" must be from {least:g} to 1e15: clocks must not run back'
        )
    return float(value)


def _tokens(of: Mapping[str, Any], name: str, *, where: str) -> int:
    value = _number(of, name, where=where)
    if value != int(value) or value > MAX_TURN_TOKENS:
        raise files.invalid(
            f'{where}: "{name}" must be a whole number from 0 to {MAX_TURN_TOKENS}'
        )
    return int(value)


def _block_ids(
    of: Mapping[str, Any], name: str, *, where: str
) -> tuple[int | str, ...]:
    ids = of.get(name)
    if ids is None:
        return ()
    if not isinstance(ids, list) or not all(
        isinstance(each, int | str) and not isinstance(each, bool) for each in ids
    ):
        raise files.invalid(
            f'{where}: "{name}" must be a list of blocks, each a whole number or a text'
        )
    return tuple(ids)


def _content(
    ids: tuple[Any, ...], tokens: int, *, block_tokens: int
) -> Blocks | NewTokens:
    return Blocks(ids, block_tokens, tokens) if ids else NewTokens(tokens)


# Turns: benchrun's own format, one session a line, which has all that the form has.


def _turns_format(
    file: files.OpenedFile, data: SessionsData, wanted: int
) -> Iterator[Read]:
    for where, entry in entries(file):
        of = _object(entry, where=where)
        name = _name(files.field_of(of, "id", where=where), "id", where=where)
        yield _session(
            name,
            [
                _own_turn(turn, where=f"{where}, turn {number}")
                for number, turn in enumerate(_bounded(of, "turns", where=where))
            ],
            where=where,
        )


def _bounded(of: Mapping[str, Any], name: str, *, where: str) -> list[Any]:
    found = _list(of, name, where=where)
    if len(found) > MAX_TURNS:
        raise files.invalid(
            f"{where}: a session has at most {MAX_TURNS} turns, this one has {len(found)}: divide "
            "it, or leave it out"
        )
    return found


_OWN_FIELDS = {
    *("id", "parents", "continues", "delay_seconds", "messages", "tools", "tokens"),
    *("blocks", "block_tokens", "output_tokens", "answer", "agent"),
}


def _own_turn(value: Any, *, where: str) -> DraftTurn:
    of = _object(value, where=where)
    if unknown := set(of) - _OWN_FIELDS:
        raise files.invalid(
            f"{where}: a turn has no {files.listed(sorted(unknown))}; it may have "
            f"{files.listed(sorted(_OWN_FIELDS))}"
        )
    parents = tuple(
        _name(each, "parents", where=where)
        for each in (_list(of, "parents", where=where) if "parents" in of else ())
    )
    given = of.get("continues", parents[0] if parents else None)
    return DraftTurn(
        name=_name(files.field_of(of, "id", where=where), "id", where=where),
        after=parents,
        adds=_own_content(of, where=where),
        continues=None if given is None else _name(given, "continues", where=where),
        delay_seconds=_number(of, "delay_seconds", where=where)
        if "delay_seconds" in of
        else 0.0,
        output_tokens=_tokens(of, "output_tokens", where=where)
        if "output_tokens" in of
        else None,
        answer=files.text_field(of, "answer", where=where)
        if "answer" in of
        else None,
        agent=_name(of["agent"], "agent", where=where) if "agent" in of else "",
    )


def _own_content(of: Mapping[str, Any], *, where: str) -> Added:
    if "messages" in of:
        tools = of.get("tools")
        said = [] if tools is None else [Said("tools", json.dumps(tools))]
        return Messages((*said, *_said(of, "messages", where=where)))
    if "tokens" not in of:
        raise files.invalid(
            f'{where}: "messages" or "tokens" is needed, which say what the turn adds'
        )
    tokens = _tokens(of, "tokens", where=where)
    ids = _block_ids(of, "blocks", where=where)
    size = _tokens(of, "block_tokens", where=where) if ids else 1
    return _content(ids, tokens, block_tokens=size)


def _said(of: Mapping[str, Any], name: str, *, where: str) -> list[Said]:
    return [
        _message(each, where=f'{where}, "{name}" {number}')
        for number, each in enumerate(_list(of, name, where=where))
    ]


def _message(value: Any, *, where: str) -> Said:
    of = _object(value, where=where)
    role = files.role_of(of)
    if not isinstance(role, str) or len(role) > MAX_NAME_CHARACTERS:
        raise files.invalid(
            f'{where}: "role" must be a text of at most {MAX_NAME_CHARACTERS} characters'
        )
    return Said(role, _text_of(of, where=where))


def _text_of(message: Mapping[str, Any], *, where: str) -> str:
    """Return the text of a message of OpenAI's, ShareGPT's or OpenTelemetry's form.

    Calls of tools and their results are part of it, as JSON.
    """
    parts = next(
        (message[key] for key in ("content", "value", "parts") if message.get(key)),
        "",
    )
    if isinstance(parts, str):
        texts = [parts]
    elif isinstance(parts, list):
        texts = [_part_text(part, where=where) for part in parts]
    else:
        raise files.invalid(
            f"{where}: its content must be a text or a list, but is {files.json_type(parts)}"
        )
    if calls := message.get("tool_calls"):
        texts.append(json.dumps(calls))
    return "\n".join(texts)


def _part_text(part: Any, *, where: str) -> str:
    if isinstance(part, str):
        return part
    of = _object(part, where=where)
    text = next((of[key] for key in ("text", "content") if key in of), None)
    return text if isinstance(text, str) else json.dumps(of)


# ShareGPT: whole conversations, word for word.

_ANSWERING = ("gpt", "assistant", "chatgpt", "bing", "bard")


def _share_gpt(
    file: files.OpenedFile, data: SessionsData, wanted: int
) -> Iterator[Read]:
    for number, (where, entry) in enumerate(entries(file)):
        of = _object(entry, where=where)
        key, turns = files.turns_of(of, where=where)
        said = [
            _message(turn, where=f'{where}, "{key}", turn {place}')
            for place, turn in enumerate(turns[: 2 * MAX_TURNS])
        ]
        yield _session(str(number), _answered(said), where=where)


def _answered(said: Iterable[Said]) -> list[DraftTurn]:
    """Return a turn for each answer that follows something that is not empty."""
    drafts: list[DraftTurn] = []
    before: list[Said] = []
    for each in said:
        if each.role not in _ANSWERING:
            before.append(each)
            continue
        if not any(other.text.strip() for other in before) or not each.text.strip():
            continue
        parents = (drafts[-1].name,) if drafts else ()
        drafts.append(
            DraftTurn(
                str(len(drafts)),
                parents,
                Messages(tuple(before)),
                continues=parents[0] if parents else None,
                answer=each.text,
            )
        )
        before = []
    return drafts


# Formats with a turn a line: sessions are put together by their names.


@dataclass(slots=True)
class _Open:
    """A session whose turns are being read."""

    where: str
    drafts: list[DraftTurn] = field(default_factory=list)
    failed: int = 0
    at_seconds: float = -math.inf  # Begin of the turn before.
    ended_seconds: float | None = None  # Its end, if it is known.
    prompt_tokens: int = 0  # Its prompt and its answer.


class _Row(NamedTuple):
    session: str
    at_seconds: float | None
    delay_seconds: float | None  # As the file says it; None: from the instants.
    took_seconds: float | None
    input_tokens: int
    output_tokens: int
    ids: tuple[Any, ...]


def _grouped(
    rows: Iterable[tuple[str, _Row]],
    data: SessionsData,
    *,
    wanted: int,
    block_tokens: int,
) -> Iterator[Read]:
    """Put rows together to sessions, of which only those are kept that can be wanted."""
    found: dict[str, _Open] = {}
    held = 0
    for where, row in rows:
        opened = found.get(row.session)
        if opened is None:
            if held >= 2 * wanted + MAX_TURNS:
                continue
            opened = found[row.session] = _Open(where)
        if row.at_seconds is not None and row.at_seconds < opened.at_seconds:
            raise files.invalid(
                f"{where}: the clock runs back within a session. Sort the file by time."
            )
        held += _add(opened, row, data, where=where, block_tokens=block_tokens)
        if held > MAX_HELD_TURNS or len(opened.drafts) > MAX_TURNS:
            raise files.invalid(
                f"{where}: a session has at most {MAX_TURNS} turns, and at most {MAX_HELD_TURNS} "
                "turns are read of sessions that overlap. Divide long sessions, or sort the file "
                "by session."
            )
    for name, opened in found.items():
        yield _session(
            name, opened.drafts, where=opened.where, failed=opened.failed
        )


def _add(
    opened: _Open, row: _Row, data: SessionsData, *, where: str, block_tokens: int
) -> int:
    """Add a row to its session; return how many turns it made."""
    if row.output_tokens < 1:
        opened.failed += 1
        return 0
    first = not opened.drafts
    parents = [] if first else [opened.drafts[-1].name]
    new = row.input_tokens
    continues = not first
    if data.lengths == "Whole" and not first:
        added = row.input_tokens - opened.prompt_tokens
        # A prompt that is not longer than the one before and its answer was made anew.
        continues = added >= 1 and not row.ids
        new = added if continues else row.input_tokens
    if new < 1:
        raise files.invalid(
            f"{where}: the turn adds no token; it needs at least one"
        )
    pause = _pause(opened, row)
    opened.drafts.append(
        DraftTurn(
            str(len(opened.drafts)),
            tuple(parents),
            _content(row.ids, new, block_tokens=block_tokens),
            continues=parents[0] if continues else None,
            delay_seconds=min(pause, float(data.max_pause_seconds)),
            output_tokens=row.output_tokens,
        )
    )
    before = opened.prompt_tokens if continues else 0
    opened.prompt_tokens = before + new + row.output_tokens
    if row.at_seconds is not None:
        opened.at_seconds = row.at_seconds
        opened.ended_seconds = row.at_seconds + (row.took_seconds or 0.0)
    return 1


def _pause(opened: _Open, row: _Row) -> float:
    """Return the time from the end of the turn before to this one's begin.

    Where the file does not tell how long an answer took, its begin counts as its end.
    """
    if not opened.drafts:
        return 0.0
    if row.delay_seconds is not None:
        return row.delay_seconds
    if row.at_seconds is None or opened.ended_seconds is None:
        return 0.0
    return max(row.at_seconds - opened.ended_seconds, 0.0)


def _mooncake(
    file: files.OpenedFile, data: SessionsData, wanted: int
) -> Iterator[Read]:
    def rows() -> Iterator[tuple[str, _Row]]:
        for number, (where, of) in enumerate(files.json_lines(file)):
            has_session = "session_id" in of
            has_delay = "delay" in of
            yield (
                where,
                _Row(
                    # A row of its own is a session of one turn.
                    f"of {_name(of['session_id'], 'session_id', where=where)}"
                    if has_session
                    else f"row {number}",
                    _number(of, "timestamp", where=where) / 1000
                    if "timestamp" in of
                    else None,
                    _number(of, "delay", where=where) / 1000 if has_delay else None,
                    None,
                    _tokens(of, "input_length", where=where),
                    _tokens(of, "output_length", where=where),
                    _block_ids(of, "hash_ids", where=where),
                ),
            )

    size = data.block_tokens or MOONCAKE_BLOCK_TOKENS
    return _grouped(rows(), data, wanted=wanted, block_tokens=size)


_SESSION_COLUMNS = ("Session ID", "SessionID", "Session id", "session_id")


def _burst_gpt(
    file: files.OpenedFile, data: SessionsData, wanted: int
) -> Iterator[Read]:
    def rows() -> Iterator[tuple[str, _Row]]:
        csv.field_size_limit(files.MAX_LINE_BYTES)
        table = csv.DictReader((text for _, text in files.lines(file)), strict=True)
        names = table.fieldnames or ()
        column = next((each for each in _SESSION_COLUMNS if each in names), None)
        if column is None:
            raise files.invalid(
                f"{file.name}, line 1: there is no column {files.listed(_SESSION_COLUMNS)}, so "
                "which rows are a session's is not known. Take a release of the trace that has "
                "one, or convert its rows to the dataset timedTrace."
            )
        for cells in table:
            where = f"{file.name}, line {table.line_num}"
            of = {key: _figure(value) for key, value in cells.items() if key}
            session = cells[column]
            if not session:
                # Requests by the API have no session.
                continue
            yield (
                where,
                _Row(
                    _name(session, column, where=where),
                    _number(of, "Timestamp", where=where),
                    None,
                    _number(of, "Elapsed time", where=where)
                    if of.get("Elapsed time") is not None
                    else None,
                    _tokens(of, "Request tokens", where=where),
                    _tokens(of, "Response tokens", where=where),
                    (),
                ),
            )

    def checked() -> Iterator[Read]:
        try:
            yield from _grouped(rows(), data, wanted=wanted, block_tokens=1)
        except csv.Error as error:
            raise files.invalid(f"{file.name}: {error}") from error

    return checked()


def _figure(text: Any) -> Any:
    try:
        return float(text)
    except (TypeError, ValueError):
        return text if text else None


# Weka: one session a line, its prompts as blocks that are the session's own.


def _weka(
    file: files.OpenedFile, data: SessionsData, wanted: int
) -> Iterator[Read]:
    for where, entry in entries(file):
        of = _object(entry, where=where)
        name = _name(files.field_of(of, "id", where=where), "id", where=where)
        size = (
            _tokens(of, "block_size", where=where) if "block_size" in of else None
        )
        if data.block_tokens is not None and size not in (None, data.block_tokens):
            raise files.invalid(
                f'{where}: "block_size" differs from blockTokens {data.block_tokens}; leave '
                "blockTokens out"
            )
        tree = _WekaTree(
            name, size or data.block_tokens or WEKA_BLOCK_TOKENS, data, where
        )
        tree.add(_bounded(of, "requests", where=where))
        yield _session(name, tree.drafts, where=where, failed=tree.failed)


class _WekaTree:
    """The turns of one session, with those of its agents."""

    def __init__(
        self, name: str, block_tokens: int, data: SessionsData, where: str
    ) -> None:
        self.drafts: list[DraftTurn] = []
        self.failed = 0
        self._name = name
        self._size = max(block_tokens, 1)
        self._data = data
        self._where = where

    def add(self, requests: Sequence[Any]) -> None:
        """Add the main agent's turns; what it starts ends before its next turn."""
        last: str | None = None
        waits: list[str] = []
        ended = clock = 0.0
        for number, value in enumerate(requests):
            where = f'{self._where}, "requests" {number}'
            of = _object(value, where=where)
            at = _number(of, "t", where=where)
            if at < clock:
                raise files.invalid(
                    f'{where}: "t" goes back. Sort the requests of a session by it.'
                )
            clock = at
            if of.get("type") == "subagent":
                made = self._agent(of, at, last, ended, where=where)
                if made is not None:
                    waits.append(made[0])
                    ended = max(ended, made[1])
                continue
            parents = (*(() if last is None else (last,)), *waits)
            begun = ended if parents else at
            draft = self._turn(of, parents, max(at - begun, 0.0), where=where)
            ended = max(ended, at + _seconds(of, "api_time", where=where))
            if draft is not None:
                last = draft.name
                waits = []

    def _agent(
        self,
        of: Mapping[str, Any],
        at: float,
        parent: str | None,
        parent_ended: float,
        *,
        where: str,
    ) -> tuple[str, float] | None:
        """Add the turns of an agent; return the last one's name and end, None if it has none."""
        agent = _name(of.get("agent_id", "agent"), "agent_id", where=where)
        last = parent
        ended = parent_ended if parent is not None else at
        found: tuple[str, float] | None = None
        before = -math.inf
        for number, value in enumerate(_bounded(of, "requests", where=where)):
            here = f'{where}, "requests" {number}'
            turn = _object(value, where=here)
            own = _number(turn, "t", where=here)
            if own < before:
                raise files.invalid(
                    f'{here}: "t" goes back. Sort the requests by it.'
                )
            before = own
            # Instants of an agent are the session's, or from its own begin.
            begun = own if own + 1e-6 >= at else at + own
            delay = max(begun - ended, 0.0)
            parents = () if last is None else (last,)
            draft = self._turn(turn, parents, delay, where=here, agent=agent)
            ended = begun + _seconds(turn, "api_time", where=here)
            if draft is not None:
                last = draft.name
                found = last, ended
        return found

    def _turn(
        self,
        of: Mapping[str, Any],
        parents: tuple[str, ...],
        delay: float,
        *,
        where: str,
        agent: str = "",
    ) -> DraftTurn | None:
        if len(self.drafts) >= MAX_TURNS:
            raise files.invalid(
                f"{where}: a session has at most {MAX_TURNS} turns, with those of its agents"
            )
        asked, answered = (_tokens(of, key, where=where) for key in ("in", "out"))
        if not asked or not answered:
            self.failed += 1
            return None
        ids = _block_ids(of, "hash_ids", where=where)
        fitting = ids[: math.ceil(asked / self._size)]
        if len(fitting) < len(ids):
            raise files.invalid(
                f'{where}: "hash_ids" has more blocks of {self._size} tokens than "in" has tokens: '
                "what the others belong to is not known. Set blockTokens to the trace's block size."
            )
        if of.get("think_time") is not None:
            delay = _number(of, "think_time", where=where)
        draft = DraftTurn(
            str(len(self.drafts)),
            parents,
            _content(
                # Blocks are numbered anew in every session.
                tuple((self._name, each) for each in ids),
                asked,
                block_tokens=self._size,
            ),
            delay_seconds=min(delay, float(self._data.max_pause_seconds)),
            output_tokens=answered,
            agent=agent,
        )
        self.drafts.append(draft)
        return draft


def _seconds(of: Mapping[str, Any], name: str, *, where: str) -> float:
    return 0.0 if of.get(name) is None else _number(of, name, where=where)


# OpenTelemetry: spans of the semantic conventions for generative AI, by their old and new names.

_OPERATIONS = (
    "chat",
    "generate_content",
    "generate",
    "text_completion",
    "completion",
)
_NAMES = {
    "operation": ("gen_ai.operation.name", "llm.request.type"),
    "input": (
        *("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        "llm.usage.prompt_tokens",
    ),
    "output": (
        *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        "llm.usage.completion_tokens",
    ),
    "messages": ("gen_ai.input.messages", "gen_ai.prompt"),
    "instructions": ("gen_ai.system_instructions",),
    "answer": ("gen_ai.output.messages", "gen_ai.output.text", "gen_ai.completion"),
    "tools": ("gen_ai.tool.definitions", "gen_ai.request.tools"),
    "session": (
        *("gen_ai.conversation.id", "session.id"),
        "exgentic.session.id",
    ),
    "agent": ("gen_ai.agent.name", "gen_ai.agent.id"),
}
_FAILED_STATUS = (2, "2", "ERROR", "STATUS_CODE_ERROR", "Error")


class _Span(NamedTuple):
    name: str
    begun: float
    ended: float
    input_tokens: int | None
    output_tokens: int | None
    messages: tuple[Said, ...]
    answer: str | None
    agent: str


@dataclass(slots=True)
class _Trace:
    where: str
    spans: list[_Span] = field(default_factory=list)
    failed: int = 0


def _open_telemetry(
    file: files.OpenedFile, data: SessionsData, wanted: int
) -> Iterator[Read]:
    """Put the spans of a trace, or of a conversation, together to a session.

    A line, or the whole file, is a span, an object with `spans`, or an export (`resourceSpans`).
    Spans of one trace may stand in several lines.
    """
    found: dict[str, _Trace] = {}
    held = 0
    for where, entry in entries(file):
        of = _object(entry, where=where)
        # A whole trace needs no more lines.
        is_whole = "spans" in of
        traces: dict[str, _Trace] = {} if is_whole else found
        is_full = not is_whole and held >= 2 * wanted + MAX_TURNS
        held += _gather(traces, of, where=where, is_full=is_full)
        if is_whole:
            yield from _sessions_of(traces, data)
            held = 0
        elif held > MAX_HELD_TURNS:
            raise files.invalid(
                f"{where}: at most {MAX_HELD_TURNS} requests are read of traces that stand in "
                "several lines. Write a whole trace a line, under spans."
            )
    yield from _sessions_of(found, data)


def _gather(
    traces: dict[str, _Trace],
    entry: Mapping[str, Any],
    *,
    where: str,
    is_full: bool,
) -> int:
    """Add the spans of an entry to their traces, new ones unless it is full; return how many."""
    added = 0
    for number, span in enumerate(_spans(entry, where=where)):
        here = f"{where}, span {number}"
        values = _attributes(span, where=here)
        if _value(values, "operation") not in _OPERATIONS:
            continue
        name = _trace_name(span, values, where=here)
        if is_full and name not in traces:
            continue
        trace = traces.setdefault(name, _Trace(here))
        if _has_failed(span):
            trace.failed += 1
            continue
        trace.spans.append(_span(span, values, where=here))
        added += 1
        if len(trace.spans) > MAX_TURNS:
            raise files.invalid(
                f"{here}: a session has at most {MAX_TURNS} requests. Divide its trace."
            )
    return added


def _sessions_of(
    traces: Mapping[str, _Trace], data: SessionsData
) -> Iterator[Read]:
    for name, trace in traces.items():
        drafts = _linked(trace.spans, data, where=trace.where)
        yield _session(name, drafts, where=trace.where, failed=trace.failed)


def _spans(entry: Mapping[str, Any], *, where: str) -> Iterator[Mapping[str, Any]]:
    if "resourceSpans" in entry:
        for resource in _list(entry, "resourceSpans", where=where):
            of = _object(resource, where=where)
            for scope in _list(of, "scopeSpans", where=where):
                inner = _object(scope, where=where)
                for span in _list(inner, "spans", where=where):
                    yield _object(span, where=where)
    elif "spans" in entry:
        for span in _list(entry, "spans", where=where):
            yield _object(span, where=where)
    else:
        yield entry


def _attributes(span: Mapping[str, Any], *, where: str) -> Mapping[str, Any]:
    """Return the attributes by name; an export has them as a list of keys and typed values."""
    found = files.field_of(span, "attributes", where=where)
    if isinstance(found, dict):
        return found
    if not isinstance(found, list):
        raise files.invalid(
            f'{where}: "attributes" must be an object or a list, but is {files.json_type(found)}'
        )
    values: dict[str, Any] = {}
    for each in found:
        of = _object(each, where=where)
        key = _name(files.field_of(of, "key", where=where), "key", where=where)
        values[key] = _plain(of.get("value"))
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        ((kind, inner),) = value.items()
        # 64-bit numbers are texts in JSON.
        return _whole(inner) if kind == "intValue" else inner
    return value


def _whole(value: Any) -> Any:
    is_digits = isinstance(value, str) and value.isascii() and value.isdigit()
    return int(value) if is_digits and len(value) <= 20 else value


def _value(values: Mapping[str, Any], what: str) -> Any:
    return next((values[key] for key in _NAMES[what] if key in values), None)


def _trace_name(
    span: Mapping[str, Any], values: Mapping[str, Any], *, where: str
) -> str:
    own = _value(values, "session")
    trace = span.get("trace_id", span.get("traceId"))
    if own is None and trace is None:
        raise files.invalid(
            f'{where}: there is no "trace_id", so the span\'s session is not known'
        )
    name = _name(own if own is not None else trace, "trace_id", where=where)
    return (
        name if trace is None else f"{name} {_name(trace, 'trace_id', where=where)}"
    )


def _has_failed(span: Mapping[str, Any]) -> bool:
    status = span.get("status")
    code = status.get("code") if isinstance(status, dict) else status
    return isinstance(code, int | str) and code in _FAILED_STATUS


def _span(
    span: Mapping[str, Any], values: Mapping[str, Any], *, where: str
) -> _Span:
    begun = _instant(span, ("start_time", "startTimeUnixNano"), where=where)
    ended = _instant(span, ("end_time", "endTimeUnixNano"), where=where)
    if ended < begun:
        raise files.invalid(f"{where}: the span ends before it begins")
    messages = _messages(values, where=where)
    answer = _answer(values, where=where)
    counted = _counted(values, "output", where=where)
    asked = _counted(values, "input", where=where)
    if counted is None and not answer:
        raise files.invalid(
            f"{where}: neither {files.listed(_NAMES['output'][:1])} nor an answer is recorded, so "
            "the length to request is not known"
        )
    if asked is None and not messages:
        raise files.invalid(
            f"{where}: neither {files.listed(_NAMES['input'][:1])} nor messages are recorded, so "
            "what was asked is not known"
        )
    agent = _value(values, "agent")
    return _Span(
        _name(
            span.get("span_id", span.get("spanId", "span")), "span_id", where=where
        ),
        begun,
        ended,
        asked,
        counted,
        messages,
        answer or None,
        "" if agent is None else _name(agent, "gen_ai.agent.name", where=where),
    )


def _counted(values: Mapping[str, Any], what: str, *, where: str) -> int | None:
    found = _whole(_value(values, what))
    if found is None:
        return None
    key = next(key for key in _NAMES[what] if key in values)
    tokens = _tokens({key: found}, key, where=where)
    if tokens < 1:
        raise files.invalid(f'{where}: "{key}" must be at least 1')
    return tokens


def _instant(
    span: Mapping[str, Any], names: tuple[str, str], *, where: str
) -> float:
    """Return an instant in seconds, from a text of ISO 8601, seconds, or nanoseconds."""
    name = next((each for each in names if each in span), names[0])
    value = _whole(files.field_of(span, name, where=where))
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError) as error:
            raise files.invalid(
                f'{where}: "{name}" is not an instant of ISO 8601'
            ) from error
    if isinstance(value, int) and not isinstance(value, bool) and value > 10**14:
        if value > 10**20:
            raise files.invalid(f'{where}: "{name}" is no instant in nanoseconds')
        return value / 1e9
    return _number({name: value}, name, where=where)


def _json_of(value: Any) -> Any:
    """Return what a text says as JSON, the text itself if it says nothing that can be sent."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        found = json.loads(value)
        # Its escapes may make halves of characters, which UTF-8 cannot encode.
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return value
    return found


def _messages(values: Mapping[str, Any], *, where: str) -> tuple[Said, ...]:
    """Return what was asked, with tools and instructions; empty if it is not recorded."""
    given = _json_of(_value(values, "messages"))
    if isinstance(given, dict):
        given = given.get("messages", [given])
    if isinstance(given, str):
        said = [Said("user", given)] if given.strip() else []
    elif isinstance(given, list):
        said = [
            _message(each, where=f"{where}, message {number}")
            for number, each in enumerate(given)
        ]
    else:
        said = _numbered(values, "gen_ai.prompt", where=where)
    if not any(each.text.strip() for each in said):
        return ()
    for what, role in (("instructions", "system"), ("tools", "tools")):
        if (more := _value(values, what)) is not None:
            said.insert(
                0, Said(role, more if isinstance(more, str) else json.dumps(more))
            )
    return tuple(said)


def _numbered(values: Mapping[str, Any], prefix: str, *, where: str) -> list[Said]:
    """Return messages that stand in attributes such as `gen_ai.prompt.0.content`."""
    said: list[Said] = []
    while (content := values.get(f"{prefix}.{len(said)}.content")) is not None:
        role = values.get(f"{prefix}.{len(said)}.role", "user")
        said.append(_message({"role": role, "content": content}, where=where))
    return said


def _answer(values: Mapping[str, Any], *, where: str) -> str:
    given = _json_of(_value(values, "answer"))
    if isinstance(given, dict):
        given = [given]
    if isinstance(given, list):
        texts = [
            _text_of(_object(each, where=where), where=f"{where}, answer")
            for each in given
        ]
        return "\n".join(texts)
    if isinstance(given, str):
        return given
    return "\n".join(
        each.text for each in _numbered(values, "gen_ai.completion", where=where)
    )


def _linked(
    spans: Sequence[_Span], data: SessionsData, *, where: str
) -> list[DraftTurn]:
    """Return the turns of a trace: each comes after the spans that had ended when it began.

    Of these only the last ones of every branch are its parents. A turn continues the parent whose
    prompt and answer its own begins with.
    """
    ordered = sorted(spans, key=lambda span: (span.begun, span.ended))
    in_words = all(span.messages and span.answer is not None for span in ordered)
    if not in_words and any(
        span.input_tokens is None or span.output_tokens is None for span in ordered
    ):
        raise files.invalid(
            f"{where}: some spans of the trace have words and others only lengths. Record the "
            "tokens of every request, or the messages and the answer of every one."
        )
    leaves: list[int] = []
    ends: list[tuple[float, int]] = []
    drafts: list[DraftTurn] = []
    for number, span in enumerate(ordered):
        parents = [leaf for leaf in leaves if ordered[leaf].ended <= span.begun]
        if not parents and (
            ended := bisect_right(ends, (span.begun, len(ordered)))
        ):
            parents = [ends[ended - 1][1]]
        leaves = [leaf for leaf in leaves if leaf not in set(parents)] + [number]
        insort(ends, (span.ended, number))
        pause = span.begun - max(
            (ordered[p].ended for p in parents), default=span.begun
        )
        made = _continued(ordered, parents, span, in_words=in_words)
        drafts.append(
            DraftTurn(
                str(number),
                tuple(map(str, parents)),
                made[0],
                continues=None if made[1] is None else str(made[1]),
                delay_seconds=min(pause, float(data.max_pause_seconds)),
                output_tokens=span.output_tokens,
                answer=span.answer if in_words else None,
                agent=span.agent,
            )
        )
    return drafts


def _continued(
    spans: Sequence[_Span], parents: Sequence[int], span: _Span, *, in_words: bool
) -> tuple[Added, int | None]:
    """Return what a turn adds, and the parent that it continues; None: it begins anew."""
    for parent in reversed(parents):
        before = spans[parent]
        if in_words:
            known = len(before.messages)
            answered = span.messages[known : known + 1]
            if (
                span.messages[:known] == before.messages
                and [each.text for each in answered] == [before.answer]
                and any(each.text.strip() for each in span.messages[known + 1 :])
            ):
                return Messages(span.messages[known + 1 :]), parent
        elif span.input_tokens and before.input_tokens and before.output_tokens:
            added = span.input_tokens - before.input_tokens - before.output_tokens
            if added >= 1:
                return NewTokens(added), parent
    if in_words:
        return Messages(span.messages), None
    assert span.input_tokens is not None, "checked where the trace is read"
    return NewTokens(span.input_tokens), None


READERS: Mapping[SessionFormat, Reader] = {
    "Turns": _turns_format,
    "ShareGPT": _share_gpt,
    "Mooncake": _mooncake,
    "Weka": _weka,
    "OpenTelemetry": _open_telemetry,
    "BurstGPT": _burst_gpt,
}
