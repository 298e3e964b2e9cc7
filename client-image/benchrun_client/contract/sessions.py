"""One form for every session: a graph of turns. Pure.

A session is what one user or agent does: its turns are requests, and a turn is sent once all turns
that it comes after have been answered. Files of every format are read into this form
(`benchrun_client.datasets.session_readers`), and synthetic sessions are drawn in it.
"""

import math
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

MAX_TURNS = 4096
"""Most turns of one session; the longest of published agents' traces have about 2,000."""
MAX_DELAY_SECONDS = 86_400.0
MAX_TURN_TOKENS = (
    10_000_000  # Most tokens that a turn adds, or that its answer has.
)
MAX_BLOCKS = 1_000_000  # Most blocks of one prompt.


class Said(NamedTuple):
    """A message of a conversation."""

    role: str
    text: str


class Messages(NamedTuple):
    """What a turn adds, word for word. The definitions of tools are a message of the role tools."""

    said: tuple[Said, ...]


class NewTokens(NamedTuple):
    """What a turn adds, where only its length is known."""

    tokens: int
    shared: str | None = None
    """Name of a text that other turns begin with as well, such as a system prompt; its first
    `shared_count` tokens are the same in all of them."""
    shared_count: int = 0


class Blocks(NamedTuple):
    """What a turn adds, as blocks: equal blocks are equal tokens."""

    ids: tuple[Hashable, ...]
    block_tokens: int
    tokens: int  # In all; those beyond the last block are the turn's own.


Added = Messages | NewTokens | Blocks


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a session."""

    adds: Added
    after: tuple[int, ...] = ()
    """Positions of the turns that must have been answered before, all of them earlier ones."""
    continues: int | None = None
    """Position of the turn whose prompt and answer this prompt begins with; None: a new prompt."""
    delay_seconds: float = 0.0
    """From the end of the last answer that it waits for; of a turn that waits for none, from the
    session's begin."""
    output_tokens: int | None = None  # None: as many as `answer` has.
    answer: str | None = None
    """The recorded answer, which later turns have as history; None: only its length is known."""
    agent: str = (
        ""  # Which of the session's agents sends it; empty for the main one.
    )


@dataclass(frozen=True, slots=True)
class Session:
    """The turns of a session, each behind those that it comes after."""

    name: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """Where a request stands in a session."""

    session: int  # Number of the session in its stage.
    turn: int  # How many turns one after another lead to it; the first has 1.
    after: tuple[int, ...]
    """Positions, among the requests of the stage, of the turns that must have been answered."""
    delay_seconds: float  # From the end of the last of these answers.


class Beginning(NamedTuple):
    """What a prompt of a stage has in common with an earlier one."""

    like: int  # Position of the earlier prompt; its own if it is the first of its kind.
    tokens: int  # Beyond those that all prompts begin with.


class SessionError(Exception):
    """A session is not valid; the text says what is wrong and what to do, without its contents."""


class DraftTurn(NamedTuple):
    """A turn as it was read: its own name, and the names of others, in any order."""

    name: str
    after: tuple[str, ...]
    adds: Added
    continues: str | None = None
    delay_seconds: float = 0.0
    output_tokens: int | None = None
    answer: str | None = None
    agent: str = ""


def session_of(name: str, drafts: Sequence[DraftTurn]) -> Session:
    """Put the turns in an order in which they can be sent, otherwise as they stand.

    Raises SessionError for turns without their parents, cycles, and values out of bounds.
    """
    if not drafts:
        raise SessionError("a session needs at least one turn")
    if len(drafts) > MAX_TURNS:
        raise SessionError(
            f"a session has at most {MAX_TURNS} turns, this one has {len(drafts)}: "
            "divide it, or leave it out"
        )
    if len({isinstance(draft.adds, Messages) for draft in drafts}) > 1:
        raise SessionError(
            "some turns have messages and others only lengths: give all turns of a session one"
        )
    places = {draft.name: place for place, draft in enumerate(drafts)}
    if len(places) < len(drafts):
        raise SessionError(
            "two turns have the same id: ids must differ in a session"
        )
    for number, draft in enumerate(drafts):
        _check(draft, places, number=number)
    order = _in_order([[places[name] for name in draft.after] for draft in drafts])
    moved = {old: new for new, old in enumerate(order)}
    return Session(
        name,
        tuple(_turn(drafts[old], places, moved) for old in order),
    )


def _turn(
    draft: DraftTurn, places: Mapping[str, int], moved: Mapping[int, int]
) -> Turn:
    of = draft.continues
    return Turn(
        adds=draft.adds,
        after=tuple(sorted({moved[places[name]] for name in draft.after})),
        continues=None if of is None else moved[places[of]],
        delay_seconds=draft.delay_seconds,
        output_tokens=draft.output_tokens,
        answer=draft.answer,
        agent=draft.agent,
    )


def _check(draft: DraftTurn, places: Mapping[str, int], *, number: int) -> None:
    where = f"turn {number}"
    if any(name not in places for name in draft.after):
        raise SessionError(
            f"{where} comes after a turn that the session does not have: add that turn, or take "
            "it out of the parents"
        )
    if draft.continues is not None and draft.continues not in draft.after:
        raise SessionError(
            f"{where} continues a turn that it does not come after: name it among the parents too"
        )
    if not 0 <= draft.delay_seconds <= MAX_DELAY_SECONDS:
        raise SessionError(
            f"{where} has a delay below 0 or above {MAX_DELAY_SECONDS:.0f} s: clocks must not run "
            "back, and a session lasts a day at most"
        )
    if draft.output_tokens is None and draft.answer is None:
        raise SessionError(
            f"{where} has neither the length of its answer nor the answer: one is needed"
        )
    if (tokens := draft.output_tokens) is not None and not _is_length(tokens):
        raise SessionError(
            f"{where} asks for an answer of less than 1 or more than {MAX_TURN_TOKENS} tokens"
        )
    _check_added(draft.adds, where=where)


def _is_length(tokens: int) -> bool:
    return 1 <= tokens <= MAX_TURN_TOKENS


def _check_added(adds: Added, *, where: str) -> None:
    if isinstance(adds, Messages):
        if not any(each.text.strip() for each in adds.said):
            raise SessionError(
                f"{where} adds no text: a turn needs at least one message that is not empty"
            )
        return
    if not _is_length(adds.tokens):
        raise SessionError(
            f"{where} adds less than 1 or more than {MAX_TURN_TOKENS} tokens"
        )
    if isinstance(adds, NewTokens):
        return
    if adds.block_tokens < 1 or len(adds.ids) > MAX_BLOCKS:
        raise SessionError(
            f"{where} has more than {MAX_BLOCKS} blocks, or blocks without tokens"
        )
    most = math.ceil(adds.tokens / adds.block_tokens)
    if len(adds.ids) > most:
        raise SessionError(
            f"{where} has {len(adds.ids)} blocks of {adds.block_tokens} tokens, but "
            f"{adds.tokens} tokens fill at most {most}: which block belongs to no token is not "
            "known; check the size of a block"
        )


def _in_order(parents: Sequence[Sequence[int]]) -> list[int]:
    """Return the turns, each behind its parents, otherwise in their own order.

    Raises SessionError for a cycle.
    """
    children: list[list[int]] = [[] for _ in parents]
    missing = [len(set(of)) for of in parents]
    for place, of in enumerate(parents):
        for parent in set(of):
            children[parent].append(place)
    if all(parent < place for place, of in enumerate(parents) for parent in of):
        return list(range(len(parents)))
    ready = deque(place for place, count in enumerate(missing) if not count)
    order: list[int] = []
    while ready:
        place = ready.popleft()
        order.append(place)
        for child in children[place]:
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    if len(order) < len(parents):
        raise SessionError(
            f"{len(parents) - len(order)} turns wait for each other in a circle: a turn must not "
            "come after itself, not even by others"
        )
    return order
