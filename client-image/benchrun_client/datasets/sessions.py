"""`sessions` data: the turns of recorded or drawn sessions, each with all that came before it.

Every turn's prompt is one text. Its history has the recorded answers, so that what is sent depends
on the plan alone and compared servers get the same. Behind words that no other stage begins with,
every stage sends the same sessions. Where only lengths or blocks are known the words are random, in
every prompt of a stage the same for the same block, prompt or answer.
"""

import random
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, islice
from typing import NamedTuple

from benchrun_client.contract import Api, DatasetFacts, WarmupPlan
from benchrun_client.contract.datasets import Pause, SessionsData, SyntheticSessions
from benchrun_client.contract.sessions import (
    Beginning,
    Blocks,
    Messages,
    NewTokens,
    Said,
    Session,
    Turn,
    TurnPlace,
)
from benchrun_client.datasets import files
from benchrun_client.datasets.random_words import (
    DISTINCT_WORDS,
    WRITTEN_KINDS,
    WordWriter,
    WrittenKind,
    drawn,
)
from benchrun_client.datasets.row_pools import (
    TOO_LONG,
    Portion,
    PromptRequest,
    Slot,
    repeated_by,
)
from benchrun_client.datasets.session_readers import read_sessions
from benchrun_client.failures import RunFailure
from benchrun_client.tokenizer import TokenCounter

MAX_PROMPT_CHARACTERS = 16 * 1024**2  # No model takes a longer one.
MAX_STAGE_CHARACTERS = 2 * 1024**3
"""Most characters of all prompts of a stage, which are in memory together."""
DRAWN_A_TURN = 4
"""Most sessions that are drawn for each turn of a stage: some begin with one that is too long."""
SPARE_SESSIONS = 100  # And so many more, for stages of few turns.
CHARACTERS_A_TOKEN = 6  # About as many as a random word has, with its space.
_ROLES = {
    "human": "User",
    "gpt": "Assistant",
    "chatgpt": "Assistant",
    "model": "Assistant",
}
_BETWEEN = "\n\n"

Piece = tuple[Hashable, int]
"""A part of a prompt of random words: what tells it from others, and its tokens."""


@dataclass(frozen=True, slots=True)
class TurnOutline:
    """A turn that a stage sends, before its words are written."""

    session: int  # Position among the sessions of the stage.
    turn: Turn
    place: int  # Position in its session.
    depth: int  # How many turns one after another lead to it; the first has 1.
    input_tokens: int  # Without the words before it of a stage.
    output_tokens: int
    said: tuple[Said, ...] = ()  # Its whole prompt, if it has words.


@dataclass(frozen=True)
class RecordedSessions:
    """The sessions of a file, or those that are drawn for a stage."""

    data: SessionsData
    context_tokens: int | None
    counter: TokenCounter
    name: str = ""
    sha256: str = ""
    sessions: tuple[Session, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    found: dict[tuple[Hashable, Api], list[TurnOutline]] = field(
        default_factory=dict
    )
    """Turns of the sessions that were asked for already, those that are too long left out."""

    def outlines(self, slot: Slot) -> Sequence[TurnOutline]:
        """Return the turns that a stage or warm-up sends, session by session.

        Raises RunFailure `DatasetTooSmall` for a stage that sends more than there are, and
        `DatasetInvalid` for one whose prompts would take too much memory.
        """
        made = list(islice(self._turns(slot), slot.requests))
        if len(made) < slot.requests and not isinstance(slot, WarmupPlan):
            raise RunFailure("DatasetTooSmall", self._too_small(len(made), slot))
        if not made:
            raise RunFailure("DatasetTooSmall", self._too_small(0, slot))
        letters = sum(
            CHARACTERS_A_TOKEN * each.input_tokens
            if not each.said
            else sum(len(message.text) for message in each.said)
            for each in made
        )
        if letters > MAX_STAGE_CHARACTERS:
            raise files.invalid(
                f"the prompts of {slot.requests} turns of {slot.workload} have some {letters:,} "
                f"characters; at most {MAX_STAGE_CHARACTERS:,} are held for a stage. Ask for fewer "
                "requests, or give shorter sessions."
            )
        return made

    def _turns(self, slot: Slot) -> Iterator[TurnOutline]:
        """Yield the turns of a slot; a warm-up may need the sessions more than once."""
        number = 0
        while True:
            before = number
            for session in self._sessions(slot):
                turns = self._fitting(session, slot.api)
                for each in turns:
                    yield TurnOutline(
                        number,
                        each.turn,
                        each.place,
                        each.depth,
                        each.input_tokens,
                        each.output_tokens,
                        each.said,
                    )
                number += bool(turns)
            if number == before or not isinstance(slot, WarmupPlan):
                return

    def _sessions(self, slot: Slot) -> Iterator[Session]:
        if self.data.synthetic is None:
            return iter(self.sessions)
        return drawn_sessions(
            self.data,
            seed=slot.seed,
            most=SPARE_SESSIONS + DRAWN_A_TURN * slot.requests,
        )

    def usable(self, session: Session, apis: Collection[Api]) -> int:
        """Return how many turns of a recorded session every one of these APIs can send."""
        return min(len(self._fitting(session, api)) for api in apis)

    def _fitting(self, session: Session, api: Api) -> list[TurnOutline]:
        if self.data.synthetic is not None:
            return self._measured(session, api)
        key = session.name, api
        if key not in self.found:
            self.found[key] = self._measured(session, api)
        return self.found[key]

    def _measured(self, session: Session, api: Api) -> list[TurnOutline]:
        """Return the turns with their lengths, without those too long and those after them."""
        kept: dict[int, TurnOutline] = {}
        for place, turn in enumerate(session.turns):
            if any(parent not in kept for parent in turn.after):
                continue
            said = _said_before(turn, kept)
            output = self._output_tokens(turn)
            tokens = self._input_tokens(turn, kept, said, api)
            most = self.context_tokens
            if tokens is None or (most is not None and tokens + output > most):
                continue
            depth = 1 + max(
                (kept[parent].depth for parent in turn.after), default=0
            )
            kept[place] = TurnOutline(0, turn, place, depth, tokens, output, said)
        return list(kept.values())

    def _input_tokens(
        self,
        turn: Turn,
        kept: Mapping[int, TurnOutline],
        said: tuple[Said, ...],
        api: Api,
    ) -> int | None:
        """Return the tokens of a prompt; None if it is longer than any model takes."""
        if not isinstance(turn.adds, Messages):
            before = None if turn.continues is None else kept[turn.continues]
            history = (
                0 if before is None else before.input_tokens + before.output_tokens
            )
            return turn.adds.tokens + history
        text = in_words(said)
        if len(text) > MAX_PROMPT_CHARACTERS:
            return None
        return self.counter.count([text], api=api)[0]

    def _output_tokens(self, turn: Turn) -> int:
        if self.data.output_tokens is not None:
            return self.data.output_tokens
        if turn.output_tokens is not None:
            return turn.output_tokens
        return max(self.counter.count([turn.answer or ""], api="Completions")[0], 1)

    @property
    def _all_turns(self) -> int:
        return sum(len(session.turns) for session in self.sessions)

    def _dropped(self) -> dict[str, int]:
        dropped = Counter(self.left_out)
        by_name = {session.name: session for session in self.sessions}
        # Of a session that was asked for by both APIs, the one that drops more counts.
        shorter: dict[Hashable, int] = {}
        for (name, _), turns in self.found.items():
            lost = len(by_name[str(name)].turns) - len(turns)
            shorter[name] = max(lost, shorter.get(name, 0))
        dropped[TOO_LONG] += sum(shorter.values())
        return dict(+dropped)

    def _too_small(self, turns: int, slot: Slot) -> str:
        dropped = ", ".join(
            f"{n} {reason}" for reason, n in self._dropped().items()
        )
        if self.data.synthetic is not None:
            return (
                f"workload {slot.workload}: most sessions that dataset.sessions.synthetic draws "
                f"begin with a turn that the model's {self.context_tokens} tokens can't hold with "
                "its answer. Lower systemTokens, firstTokens or outputTokens, or raise "
                "--max-model-len."
            )
        return (
            f"{self.name}: {turns} usable turns in {len(self.sessions)} sessions"
            f"{f' (dropped: {dropped})' if dropped else ''}; a stage of {slot.workload} sends "
            f"{slot.requests}. Ask for fewer requests, or give more or shorter sessions."
        )

    def facts_of(self, portions: Sequence[Portion]) -> DatasetFacts | None:
        """Describe what was read for portions of one workload, which all use the first turns."""
        if self.data.synthetic is not None:
            return None
        most = max(portion.requests for portion in portions)
        dropped = self._dropped()
        return DatasetFacts(
            part=portions[0].part,
            source=self.name[-300:],
            sha256=self.sha256,
            rows_read=self._all_turns + sum(self.left_out.values()),
            rows_used=min(most, self._all_turns),
            rows_dropped=dropped,
        )


def record_sessions(
    data: SessionsData,
    *,
    context_tokens: int | None,
    counter: TokenCounter,
    wanted: int,
    apis: Collection[Api],
) -> RecordedSessions:
    """Read as many sessions as `wanted` turns come from; synthetic ones are drawn later.

    Turns that are too long for the model, by any of these APIs, do not count. Raises RunFailure
    that names line and remedy.
    """
    recorded = RecordedSessions(data, context_tokens, counter)
    if data.file is None:
        return recorded
    sessions: list[Session] = []
    left_out: Counter[str] = Counter()
    turns = 0
    with files.opened(data.file) as file:
        for read in read_sessions(file, data, wanted=wanted):
            left_out.update(read.left_out)
            if read.session is None:
                continue
            sessions.append(read.session)
            turns += recorded.usable(read.session, apis)
            if turns >= wanted:
                break
        _refuse_equal_names(sessions, file.name)
        return replace(
            recorded,
            name=file.name,
            sha256=file.sha256,
            sessions=tuple(sessions),
            left_out=dict(left_out),
        )


def _refuse_equal_names(sessions: Sequence[Session], name: str) -> None:
    if len({session.name for session in sessions}) < len(sessions):
        raise files.invalid(
            f"{name}: two sessions have the same id. Give each its own, or write all turns of a "
            "session together."
        )


def _said_before(turn: Turn, kept: Mapping[int, TurnOutline]) -> tuple[Said, ...]:
    """Return the whole prompt of a turn in words; empty if only lengths are known."""
    if not isinstance(turn.adds, Messages):
        return ()
    if turn.continues is None:
        return turn.adds.said
    before = kept[turn.continues]
    answer = Said("assistant", before.turn.answer or "")
    return (*before.said, answer, *turn.adds.said)


def in_words(said: Sequence[Said]) -> str:
    """Return messages as one text."""
    return _BETWEEN.join(
        f"{_ROLES.get(role, role[:1].upper() + role[1:])}: {text}"
        for role, text in said
    )


def drawn_sessions(
    data: SessionsData, *, seed: int, most: int
) -> Iterator[Session]:
    """Draw at most so many sessions; they depend on their seed alone."""
    of = data.synthetic
    assert of is not None, "only synthetic sessions are drawn"
    for number in range(most):
        rng = random.Random(f"sessions {seed} {number}")
        yield _drawn_session(of, data, rng, name=str(number))


def _drawn_session(
    of: SyntheticSessions, data: SessionsData, rng: random.Random, *, name: str
) -> Session:
    turns: list[Turn] = []
    for place in range(drawn(of.turns, rng)):
        first = place == 0
        system = of.system_tokens if first else 0
        added = drawn(of.first_tokens if first else of.turn_tokens, rng)
        pause = 0.0 if first else _drawn_pause(of.pause_seconds, rng)
        turns.append(
            Turn(
                NewTokens(
                    system + added,
                    shared="system" if system else None,
                    shared_count=system,
                ),
                after=() if first else (place - 1,),
                continues=None if first else place - 1,
                delay_seconds=min(pause, float(data.max_pause_seconds)),
                output_tokens=drawn(of.output_tokens, rng),
            )
        )
    return Session(name, tuple(turns))


def _drawn_pause(pause: Pause | None, rng: random.Random) -> float:
    if pause is None or not float(pause.mean):
        return 0.0
    mean = float(pause.mean)
    return mean if pause.distribution == "Constant" else rng.expovariate(1 / mean)


def write_sessions(
    writer: WordWriter, portion: Portion, turns: Sequence[TurnOutline]
) -> tuple[PromptRequest, ...]:
    """Write the prompts of a portion's turns from its seed.

    Raises RunFailure `InvalidPlan` or `TokenizerUnusable`.
    """
    of_words = all(each.said for each in turns)
    write = _of_messages if of_words else _of_lengths
    places = _places(turns)
    models = portion.asked.models_of_sessions("", places, seed=portion.seed)
    return write(writer, portion, turns, places, _Tree(models))


def _places(turns: Sequence[TurnOutline]) -> list[TurnPlace]:
    """Return which requests each turn waits for, as positions among all."""
    at = {(each.session, each.place): n for n, each in enumerate(turns)}
    return [
        TurnPlace(
            session=each.session,
            turn=each.depth,
            after=tuple(at[each.session, parent] for parent in each.turn.after),
            delay_seconds=each.turn.delay_seconds,
        )
        for each in turns
    ]


class _Known(NamedTuple):
    """What of a prompt the stage had before."""

    parts: int  # How many of the parts that were added.
    end: int  # Node with which the whole prompt ends.
    like: int  # The request that first began so; the prompt's own if none did.


class _Tree:
    """What the prompts of a stage begin with, part by part.

    A server finds only what was sent to the same model: each adapter has a root of its own.
    """

    def __init__(self, models: Sequence[str]) -> None:
        self._nodes: dict[tuple[int, Hashable], int] = {}
        self._first: list[int] = []  # Of each node: the request that first had it.
        self._models = models

    def root_of(self, request: int) -> int:
        return self._found(-1, self._models[request], request=request)

    def add(self, node: int, parts: Sequence[Hashable], *, request: int) -> _Known:
        """Add the rest of a prompt that goes on from a node."""
        known = 0
        like = self._first[node]
        for part in parts:
            node = self._found(node, part, request=request)
            if self._first[node] != request:
                known += 1
                like = self._first[node]
        return _Known(known, node, like)

    def _found(self, node: int, part: Hashable, *, request: int) -> int:
        new = len(self._first)
        found = self._nodes.setdefault((node, part), new)
        if found == new:
            self._first.append(request)
        return found


def _of_messages(
    writer: WordWriter,
    portion: Portion,
    turns: Sequence[TurnOutline],
    places: Sequence[TurnPlace],
    tree: _Tree,
) -> tuple[PromptRequest, ...]:
    counter = writer.counter
    api = portion.api
    rng = random.Random(f"{portion.seed}/begin")
    begin = " ".join(writer.distinct(rng, DISTINCT_WORDS)) + _BETWEEN
    prompts = [begin + in_words(each.said) for each in turns]
    lengths = counter.count(prompts, api=api)
    again: Callable[[tuple[Said, ...]], int] = cache(
        lambda said: repeated_by(begin + in_words(said), counter=counter, api=api)
    )
    made: list[PromptRequest] = []
    for each, prompt, tokens, place in zip(
        turns, prompts, lengths, places, strict=True
    ):
        request = len(made)
        root = tree.root_of(request)
        known, _, like = tree.add(root, each.said, request=request)
        repeated = again(each.said[:known]) if like != request else 0
        made.append(
            PromptRequest(
                prompt,
                tokens,
                each.output_tokens,
                min(repeated, tokens),
                place=place,
                begins_like=like,
            )
        )
    return tuple(made)


def _of_lengths(
    writer: WordWriter,
    portion: Portion,
    turns: Sequence[TurnOutline],
    places: Sequence[TurnPlace],
    tree: _Tree,
) -> tuple[PromptRequest, ...]:
    api = portion.api
    seed = portion.seed
    rng = random.Random(seed)

    # Only what a prompt begins with must differ from all others.
    @cache
    def words_of(piece: Piece, first: bool) -> list[str]:
        own = random.Random(f"{seed}/{piece!r}")
        return (writer.distinct if first else writer.any)(own, piece[1])

    by_key = {(each.session, each.place): each for each in turns}
    whole: dict[tuple[int, int], list[Piece]] = {}
    ends: dict[tuple[int, int], tuple[int, int]] = {}
    known: list[Beginning] = []
    for request, each in enumerate(turns):
        key = each.session, each.place
        before = (
            None
            if each.turn.continues is None
            else (each.session, each.turn.continues)
        )
        new = _pieces(each, answer_of=None if before is None else by_key[before])
        node, had = (tree.root_of(request), 0) if before is None else ends[before]
        parts, node, like = tree.add(node, new, request=request)
        again = had + sum(tokens for _, tokens in new[:parts])
        known.append(Beginning(like, again))
        whole[key] = [*(() if before is None else whole[before]), *new]
        ends[key] = node, each.input_tokens

    def drafts() -> Iterator[tuple[list[str], int]]:
        for each in turns:
            room = writer.words_that_fit(
                each.input_tokens, api=api, whose="a turn's length of"
            )
            pieces = whole[each.session, each.place]
            words = chain.from_iterable(
                words_of(piece, number == 0) for number, piece in enumerate(pieces)
            )
            yield list(islice(words, room)), each.input_tokens

    return tuple(
        PromptRequest(
            prompt,
            each.input_tokens,
            each.output_tokens,
            min(again.tokens, each.input_tokens),
            place=place,
            begins_like=again.like,
        )
        for prompt, each, again, place in zip(
            writer.exact(rng, drafts(), api=api),
            turns,
            known,
            places,
            strict=True,
        )
    )


def _pieces(each: TurnOutline, *, answer_of: TurnOutline | None) -> list[Piece]:
    """Return what a prompt adds to the one that it continues, whose answer comes first."""
    own = each.session, each.place
    adds = each.turn.adds
    answer: list[Piece] = (
        []
        if answer_of is None
        else [(("answer", each.session, answer_of.place), answer_of.output_tokens)]
    )
    if isinstance(adds, Blocks):
        blocks = [
            (("block", name), min(adds.block_tokens, adds.tokens - at))
            for at, name in zip(
                range(0, adds.tokens, adds.block_tokens), adds.ids, strict=False
            )
        ]
        rest = adds.tokens - sum(tokens for _, tokens in blocks)
        return [*answer, *blocks, *([(own, rest)] if rest else [])]
    assert isinstance(adds, NewTokens), "messages are written as they are"
    shared: list[Piece] = (
        [(("shared", adds.shared), adds.shared_count)] if adds.shared_count else []
    )
    rest = adds.tokens - adds.shared_count
    return [*answer, *shared, *([(own, rest)] if rest else [])]


WRITTEN_KINDS[SessionsData] = WrittenKind(
    write=lambda writer, portion, _, turns: write_sessions(writer, portion, turns),
    record=lambda data, context_tokens, counter, wanted, apis: record_sessions(
        data,
        context_tokens=context_tokens,
        counter=counter,
        wanted=wanted,
        apis=apis,
    ),
)
