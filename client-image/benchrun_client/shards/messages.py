"""What shards say to each other at the gate, as JSON over one WebSocket a shard.

Whoever knocks shows the run's nonce as a bearer token, and which run, plan and shard it is; a stranger is refused before
anything of it is read.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from benchrun_client.contract import Envelope, Failure
from benchrun_client.contract_data import Message

GATE_PATH = "/gate"
MAX_MESSAGE_BYTES = 12 * 1024 * 1024
"""An envelope of the largest record there may be."""
BEAT_SECONDS = 1.0
SILENT_SECONDS = 5.0
"""After so long without a word a shard is lost, once stages are measured."""
PREPARING_SILENT_SECONDS = 90.0
"""Before that importing vLLM may hold the interpreter for long."""


class Question(Message):
    """What time is it at the gate?"""

    kind: Literal["Question"] = "Question"
    left: float


class Answer(Message):
    """It was so late, Unix seconds by the gate's clock."""

    kind: Literal["Answer"] = "Answer"
    left: float
    said: float


class Beat(Message):
    """I am here, and so many requests of the stage have been answered."""

    kind: Literal["Beat"] = "Beat"
    answered: int = Field(default=0, ge=0)


class Target(Message):
    """The servers that were found."""

    kind: Literal["Target"] = "Target"
    urls: tuple[str, ...]


class Ready(Message):
    """I stand before the first request of a stage."""

    kind: Literal["Ready"] = "Ready"
    sequence: int = Field(ge=0)
    error_seconds: float = Field(ge=0)
    """How far off the gate's clock may be for this shard."""


class Go(Message):
    """The stage begins at this instant, Unix seconds by the gate's clock."""

    kind: Literal["Go"] = "Go"
    sequence: int = Field(ge=0)
    at: float


class Ended(Message):
    """All my requests of the stage have ended."""

    kind: Literal["Ended"] = "Ended"
    sequence: int = Field(ge=0)
    requests: int = Field(ge=0)
    succeeded: int = Field(ge=0)
    began_late_seconds: float
    """How long after the agreed instant this shard began."""
    answered_at: float | None
    """Its last answer, Unix seconds by the gate's clock; None: it had no request."""


class Part(Message):
    """My part of a stage as a record; none where I had no request."""

    kind: Literal["Part"] = "Part"
    sequence: int = Field(ge=0)
    envelope: Envelope | None


class Over(Message):
    """Everything has been measured and taken."""

    kind: Literal["Over"] = "Over"


class Trouble(Message):
    """The run can't go on."""

    kind: Literal["Trouble"] = "Trouble"
    failure: Failure


Said = Annotated[
    Question | Answer | Beat | Target | Ready | Go | Ended | Part | Over | Trouble, Field(discriminator="kind")
]
_SAID: TypeAdapter[Said] = TypeAdapter(Said)


def understood(text: str) -> Said:
    """A message; ValueError for anything else."""
    return _SAID.validate_json(text)
