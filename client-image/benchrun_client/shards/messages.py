"""Messages between the shards and the gate, as JSON over one WebSocket a shard, and the offset
between their clocks.

A connection shows the plan's token digest, which can't be guessed, and its run, plan and shard; any
other is refused unread."""

from typing import Annotated, Literal, NamedTuple

from aiohttp import ClientWebSocketResponse, WSMsgType, web
from pydantic import ConfigDict, Field, TypeAdapter

from benchrun_client.contract import MAX_PACKED_BYTES, Failure
from benchrun_client.contract.base import Count, Finite, LongText, Message

GATE_PATH = "/gate"
MAX_MESSAGE_BYTES = 2 * MAX_PACKED_BYTES  # The largest record there may be in base64, and more.
BEAT_SECONDS = 1.0
SILENT_SECONDS = 5.0  # After so long without a message a shard is lost, once stages are measured.
PREPARING_SILENT_SECONDS = 90.0  # Before that importing vLLM may hold the interpreter for long.


class Question(Message):
    """What time is it at the gate?"""

    kind: Literal["Question"] = "Question"
    left: Finite


class Answer(Message):
    """The gate's time, Unix seconds by its clock, for the question that was sent at `left`."""

    kind: Literal["Answer"] = "Answer"
    left: Finite
    gate_time: Finite


class Beat(Message):
    """I am here, and so many requests of the stage have been answered."""

    kind: Literal["Beat"] = "Beat"
    answered: Count = 0


class Target(Message):
    kind: Literal["Target"] = "Target"
    urls: tuple[LongText, ...] = Field(max_length=1024)


class Ready(Message):
    """I am ready for the first request of a stage."""

    kind: Literal["Ready"] = "Ready"
    sequence: Count
    error_seconds: Finite = Field(ge=0)  # How far off the gate's clock may be for this shard.


class Go(Message):
    """The stage begins at this instant, Unix seconds by the gate's clock."""

    kind: Literal["Go"] = "Go"
    sequence: Count
    at: Finite
    user_gap_seconds: Finite | None = Field(None, ge=0)
    """From one user of the closed loop to the next, counted over all shards; None: the
    shortest."""


class Ended(Message):
    """All my requests of the stage have ended."""

    kind: Literal["Ended"] = "Ended"
    sequence: Count
    requests: Count
    succeeded: Count
    began_late_seconds: Finite  # How long after the agreed instant this shard began.
    answered_at: (
        Finite | None
    )  # Its last answer, Unix seconds by the gate's clock; None: it had no request.


class Part(Message):
    """My part of a stage as a packed record; none where I had no request."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    kind: Literal["Part"] = "Part"
    sequence: Count
    packed: Annotated[bytes, Field(max_length=MAX_PACKED_BYTES)] | None


class Over(Message):
    """Everything has been measured and taken."""

    kind: Literal["Over"] = "Over"


class Trouble(Message):
    kind: Literal["Trouble"] = "Trouble"
    failure: Failure


GateMessage = Annotated[
    Question | Answer | Beat | Target | Ready | Go | Ended | Part | Over | Trouble,
    Field(discriminator="kind"),
]
_MESSAGE: TypeAdapter[GateMessage] = TypeAdapter(GateMessage)


async def receive(
    connection: ClientWebSocketResponse | web.WebSocketResponse, *, begun: bool
) -> GateMessage:
    """The next message. Raises ConnectionError: there will be none; ValueError: it is not valid.
    `begun`: stages are measured."""
    seconds = SILENT_SECONDS if begun else PREPARING_SILENT_SECONDS
    try:
        received = await connection.receive(timeout=seconds)
    except TimeoutError:
        raise ConnectionError(f"no message for {seconds:.0f} s") from None
    if received.type is not WSMsgType.TEXT:
        raise ConnectionError("its connection closed")
    return _MESSAGE.validate_json(received.data)


class Offset(NamedTuple):
    """Added to our clock it gives the gate's; off by at most `error`. Seconds."""

    seconds: float
    error: float


def offset_of(answer: Answer, *, came: float) -> Offset:
    """By an answer that came at this instant of our clock: in error by half of what it took, at
    most."""
    return Offset(answer.gate_time - (answer.left + came) / 2, (came - answer.left) / 2)
