"""`agent` data: one long conversation, sent many times with date and time in front of its first user turn.

That is how agents talk to a model: a long history that hardly changes, and a clock that does. With a static prefix all requests
of a stage carry the same date, so all but the first are the same. With a dynamic one each goes a day further back, so they have
in common what stands before the date, and no more: a system turn, if there is one, of which the built-in conversation has a
line. The time of day is the stage's own: stages don't meet in the prefix cache.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from benchrun_client.contract import AgentData, DatasetFacts
from benchrun_client.datasets.files import invalid, json_type, json_value, opened
from benchrun_client.datasets.rows import Counting, Portion, Sample, common_start, repeated_by

BUILT_IN = Path(__file__).with_name("agent_conversation.json")
FIRST_DAY, DAYS = date(2015, 1, 1), 3650
"""The first request of a stage carries a date from here on: one that is the same whenever the run is."""
DAY_SECONDS = 86_400
_NAMES = {
    "system": "System", "human": "User", "user": "User", "gpt": "Assistant", "assistant": "Assistant", "tool": "Tool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation that has been read, as the text that is sent."""

    name: str
    sha256: str
    before: str  # What stands before date and time: a system turn, if there is one.
    after: str  # The rest, up to the last answer.
    answer: str  # That one; empty where the conversation ends with something else.

    def facts(self, *, part: int) -> DatasetFacts:
        """What was read: one row."""
        return DatasetFacts(part=part, source=self.name[-300:], sha256=self.sha256, rows_read=1, rows_used=1)


def read_conversation(data: AgentData) -> Conversation:
    """The conversation of a file, or the one that comes with the client.
    Raises RunFailure: `DatasetNotFound` or `DatasetInvalid`, naming the turn."""
    if data.file is None:
        content = BUILT_IN.read_bytes()
        return _conversation(content, name="built-in", sha256=hashlib.sha256(content).hexdigest(), data=data)
    with opened(data.file) as file:
        return _conversation(file.path.read_bytes(), name=file.name, sha256=file.sha256, data=data)


class Clock:
    """Times of day for the stages of one run: no two are the same."""

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def draw(self, rng: random.Random) -> str:
        """One that was not drawn before, as 14:03:27."""
        while True:
            second = rng.randrange(DAY_SECONDS)
            if second not in self._taken:
                self._taken.add(second)
                return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def agent_samples(
    conversation: Conversation, portion: Portion, data: AgentData, *, counter: Counting, clock: Clock
) -> tuple[Sample, ...]:
    """The samples of a portion: a function of its seed and number alone, but for collisions."""
    api = portion.api
    rng = random.Random(portion.seed)
    time, first = clock.draw(rng), FIRST_DAY + timedelta(days=rng.randrange(DAYS))
    variants = min(data.variants or portion.requests, portion.requests)
    dates = [str(first - timedelta(days=n)) for n in range(variants)]
    # The time before the date: that of another stage differs within the first few tokens.
    prompts = [f"{conversation.before}{time} {day}\n{conversation.after}" for day in dates]
    lengths = counter.count(prompts, api=api)
    output = data.output_tokens or counter.count([conversation.answer], api="Completions")[0]
    common = counter.shared_prefix(api=api)
    tokens_of = cache(lambda start: repeated_by(start, counter=counter, api=api))
    samples = []
    for n in range(portion.requests):
        prompt, tokens = prompts[n % variants], lengths[n % variants]
        if n >= variants:
            repeated = max(0, tokens - common)
        elif n == 0:
            repeated = tokens_of(conversation.before)
        else:
            # Of all days before, the next one has most in common with this one.
            repeated = tokens_of(f"{conversation.before}{time} {common_start(dates[n - 1], dates[n])}")
        samples.append(Sample(prompt, tokens, output, repeated))
    return tuple(samples)


def _conversation(content: bytes, *, name: str, sha256: str, data: AgentData) -> Conversation:
    turns = _turns(json_value(content, name=name, should_be="It must be JSON."), name)
    answer = turns.pop()[1] if turns[-1][0] == "Assistant" else ""
    if not answer and data.output_tokens is None:
        raise invalid(
            f"{name} does not end with an answer whose length could be requested: set outputTokens, or add an assistant's turn"
        )
    user = next((place for place, (role, _) in enumerate(turns) if role == "User"), None)
    if user is None:
        raise invalid(f"{name} has no user's turn before the last answer")
    if len(turns) == 1:
        return Conversation(name, sha256, "", turns[0][1], answer)
    before = "".join(f"{role}: {text}\n\n" for role, text in turns[:user])
    after = "\n\n".join([turns[user][1], *(f"{role}: {text}" for role, text in turns[user + 1 :])])
    return Conversation(name, sha256, f"{before}User: ", after, answer)


def _turns(parsed: Any, name: str) -> list[tuple[str, str]]:
    """Role and text of each turn, of a ShareGPT entry or of OpenAI's messages."""
    if isinstance(parsed, list):
        if len(parsed) != 1:
            raise invalid(f"{name} holds {len(parsed)} conversations; an agent dataset takes one")
        (parsed,) = parsed
    if not isinstance(parsed, dict):
        raise invalid(f"{name} holds {json_type(parsed)}; a conversation is an object")
    key = next((key for key in ("conversations", "messages") if key in parsed), None)
    if key is None:
        raise invalid(f'{name}: there is neither "conversations" nor "messages"')
    turns = parsed[key]
    if not isinstance(turns, list) or not turns:
        raise invalid(f'{name}: "{key}" must be a list of turns')
    return [_turn(turn, where=f'{name}, "{key}", turn {number}') for number, turn in enumerate(turns)]


def _turn(turn: Any, *, where: str) -> tuple[str, str]:
    if not isinstance(turn, dict):
        raise invalid(f"{where}: expected an object, got {json_type(turn)}")
    role, text = turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))
    if role not in _NAMES:
        raise invalid(f'{where}: "from" or "role" must be one of {", ".join(_NAMES)}')
    if not isinstance(text, str):
        raise invalid(f'{where}: "value" or "content" must be a text')
    return _NAMES[role], text
