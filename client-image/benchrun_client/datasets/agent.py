"""`agent` data: one long conversation, sent many times with another date or time.

Date and time stand before the first user turn. With a static prefix all requests of a stage have
the same date. With a dynamic prefix each new conversation is dated one day earlier than the one
before, and all share the system turn. Each stage has its own time of day, so that stages do not
share entries of the prefix cache. With several turns each request repeats the previous request of
its conversation, followed by the recorded answer, and is sent long after it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchrun_client.contract import DataFile, DatasetFacts, DatasetFields
from benchrun_client.contract.datasets import AgentData
from benchrun_client.datasets.files import (
    invalid,
    json_type,
    json_value,
    listed,
    opened,
    role_of,
    turns_of,
    words_of,
)
from benchrun_client.datasets.row_pools import (
    Portion,
    PromptRequest,
    common_start,
    repeated_by,
)
from benchrun_client.tokenizer import TokenCounter

BUILT_IN = Path(__file__).with_name("agent_conversation.json")
FIRST_DAY = date(2015, 1, 1)
DAYS = 3650
"""Number of days, from FIRST_DAY on, from which the date of a stage's first request is drawn; it
does not depend on when the run takes place."""
DAY_SECONDS = 86_400
_NAMES = {
    "system": "System",
    "human": "User",
    "user": "User",
    "gpt": "Assistant",
    "assistant": "Assistant",
    "tool": "Tool",
}


class ConversationTurn(NamedTuple):
    """The part of a conversation that one request contains."""

    after: str  # Rest of the prompt, up to an answer.
    answer: str  # The answer; empty if the conversation ends with something else.


@dataclass(frozen=True, slots=True)
class Conversation:
    """The conversation of an agent dataset, split into the texts that its requests are made of."""

    name: str
    sha256: str
    before: str  # Text before date and time: a system turn, if there is one.
    turns: tuple[ConversationTurn, ...]
    """Turns in order; each continues the one before."""

    def facts(self, part: int) -> DatasetFacts:
        return DatasetFacts(
            part=part,
            source=self.name[-300:],
            sha256=self.sha256,
            rows_read=1,
            rows_used=1,
        )


def read_conversation(data: AgentData) -> Conversation:
    """Read the conversation of the file, or the built-in one if the dataset names no file.

    Raises RunFailure that names the turn.
    """
    with opened(data.file or DataFile(path=str(BUILT_IN))) as file:
        content = file.path.read_bytes()
        name = file.name if data.file is not None else "built-in"
    turns = _turns(
        json_value(content, name=name, should_be="It must be JSON."), name
    )
    if turns[-1][0] != "Assistant" and not (
        data.output_tokens or data.input_output_ratio
    ):
        problem = f"{name} has no answer at its end, so the length to request is not known"
        raise invalid(
            f"{problem}: set outputTokens or inputOutputRatio, or add an assistant's turn"
        )
    # Where a prompt may end: before each answer, and behind a last turn that is none.
    ends = [place for place, (role, _) in enumerate(turns) if role == "Assistant"]
    ends += [len(turns)] if turns[-1][0] != "Assistant" else []
    user = next(
        (
            place
            for place, (role, _) in enumerate(turns[: ends[-1]])
            if role == "User"
        ),
        None,
    )
    if user is None:
        raise invalid(f"{name} has no user's turn before the last answer")
    ends = [end for end in ends if end > user]
    if len(ends) < data.turns:
        raise invalid(
            f"{name} has {len(ends)} answers after the first user turn, but turns is "
            f"{data.turns}: lower it, or give a longer conversation"
        )
    kept = [ends[(n + 1) * len(ends) // data.turns - 1] for n in range(data.turns)]
    before = "".join(f"{role}: {text}\n\n" for role, text in turns[:user])
    named = ends[-1] > 1
    parts = [
        turns[user][1],
        *(f"{role}: {text}" for role, text in turns[user + 1 :]),
    ]
    made = (
        ConversationTurn(
            "\n\n".join(parts[: end - user]),
            turns[end][1] if end < len(turns) else "",
        )
        for end in kept
    )
    return Conversation(
        name, file.sha256, f"{before}User: " if named else "", tuple(made)
    )


def _time_of_day(rng: random.Random, taken: set[int]) -> str:
    """Draw a time of day that no other stage of the run has, such as 14:03:27."""
    while (second := rng.randrange(DAY_SECONDS)) in taken:
        pass
    taken.add(second)
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def agent_samples(
    conversation: Conversation,
    portion: Portion,
    data: AgentData,
    *,
    counter: TokenCounter,
    times: set[int],
) -> tuple[PromptRequest, ...]:
    """Build the requests of a portion from its seed and number of requests.

    `times` holds the times of day that other stages use; this one's is added.
    """
    api = portion.api
    rng = random.Random(portion.seed)
    time = _time_of_day(rng, times)
    first = FIRST_DAY + timedelta(days=rng.randrange(DAYS))
    schedule = _schedule(
        portion.requests,
        turns=data.turns,
        variants=data.variants or portion.requests,
    )
    dates = [
        str(first - timedelta(days=n))
        for n in range(1 + max(day for day, _ in schedule))
    ]
    # The time before the date: that of another stage differs within the first few tokens.
    texts = {
        (
            day,
            turn,
        ): f"{conversation.before}{time} {dates[day]}\n{conversation.turns[turn].after}"
        for day, turn in dict.fromkeys(schedule)
    }
    lengths = dict(
        zip(texts, counter.count(list(texts.values()), api=api), strict=True)
    )
    answers = counter.count(
        [turn.answer for turn in conversation.turns], api="Completions"
    )
    common = counter.shared_prefix(api=api)
    tokens_of = cache(lambda start: repeated_by(start, counter=counter, api=api))
    samples = []
    longest: dict[int, int] = {}  # Day -> the last turn that was sent.
    for n, (day, turn) in enumerate(schedule):
        tokens = lengths[day, turn]
        if day in longest:
            repeated = max(0, lengths[day, min(turn, longest[day])] - common)
        elif n == 0:
            repeated = tokens_of(conversation.before)
        else:
            # Of all days before, the next one has most in common with this one.
            repeated = tokens_of(
                f"{conversation.before}{time} {common_start(dates[day - 1], dates[day])}"
            )
        longest[day] = max(turn, longest.get(day, 0))
        ratio = data.input_output_ratio
        output = data.output_tokens or (
            answers[turn] if ratio is None else max(1, round(tokens / ratio))
        )
        samples.append(PromptRequest(texts[day, turn], tokens, output, repeated))
    return tuple(samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationKind:
    """A kind of dataset whose requests are all parts of one conversation."""

    read: Callable[[Any], Conversation]
    draw: Callable[
        [Conversation, Portion, Any, TokenCounter, set[int]],
        tuple[PromptRequest, ...],
    ]
    """Build the requests of a portion; the set holds the times of day that others use."""


CONVERSATION_KINDS: dict[type[DatasetFields], ConversationKind] = {
    AgentData: ConversationKind(
        read=read_conversation,
        draw=lambda conversation, portion, data, counter, times: agent_samples(
            conversation, portion, data, counter=counter, times=times
        ),
    )
}
"""Type of a dataset's model -> how its conversation is read and sent."""


def _schedule(requests: int, *, turns: int, variants: int) -> list[tuple[int, int]]:
    """Return the day and the turn of each request.

    A fixed number of conversations are sent in turn. Each grows by one turn a request, and then
    starts over with a new day. They begin at different turns, so that requests of all lengths are
    in flight at any time: a steady load.
    """
    places = -(-requests // turns)
    days: dict[tuple[int, int], int] = {}
    found = []
    for n in range(requests):
        place = n % places
        turn = n // places + n % places
        day = days.setdefault((place, turn // turns), len(days))
        found.append((day % variants, turn % turns))
    return found


def _turns(parsed: Any, name: str) -> list[tuple[str, str]]:
    if isinstance(parsed, list):
        if len(parsed) != 1:
            raise invalid(
                f"{name} holds {len(parsed)} conversations; an agent dataset takes one"
            )
        (parsed,) = parsed
    if not isinstance(parsed, dict):
        raise invalid(
            f"{name} holds {json_type(parsed)}; a conversation is an object"
        )
    key, turns = turns_of(parsed, where=name)
    if not turns:
        raise invalid(f'{name}: "{key}" must be a list of turns, but is empty')
    return [
        _turn(turn, where=f'{name}, "{key}", turn {number}')
        for number, turn in enumerate(turns)
    ]


def _turn(turn: Any, *, where: str) -> tuple[str, str]:
    if not isinstance(turn, dict):
        raise invalid(f"{where}: expected an object, got {json_type(turn)}")
    role = role_of(turn)
    if not isinstance(role, str) or role not in _NAMES:
        raise invalid(
            f'{where}: "from" or "role" must be one of {", ".join(_NAMES)}; it has {listed(turn)}'
        )
    return _NAMES[role], words_of(turn, where=where)
