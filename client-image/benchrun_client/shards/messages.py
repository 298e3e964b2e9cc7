"""Messages between the shards and the gate, and the offset between their clocks.

The gate is shard 0's server, by which it coordinates the other shards. Messages are JSON over one
WebSocket a shard. To connect, a shard must give its run, plan and number, and the digest of the
run's token, which can't be guessed; other connections are refused.
"""

from typing import Annotated, Literal, NamedTuple

from aiohttp import ClientWebSocketResponse, WSMsgType, web
from pydantic import ConfigDict, Field, TypeAdapter

from benchrun_client.contract import MAX_PACKED_BYTES, Failure
from benchrun_client.contract.base import Count, Finite, LongText, Message

GATE_PATH = "/gate"
MAX_MESSAGE_BYTES = 2 * MAX_PACKED_BYTES
"""Largest message: it has room for the largest record in base64."""
BEAT_SECONDS = 1.0
SILENT_SECONDS = 5.0  # Once stages are measured, a shard is lost after this time without a message.
PREPARING_SILENT_SECONDS = 90.0
"""Before the first stage a shard may be silent for longer: importing vLLM holds the interpreter."""


class ClockQuestion(Message):
    """A shard asks for the gate's time; `left` is when it asks, by the shard's own clock."""

    kind: Literal["ClockQuestion"] = "ClockQuestion"
    left: Finite


class ClockAnswer(Message):
    """The answer to a `ClockQuestion`: the gate's Unix time, and the question's `left`."""

    kind: Literal["ClockAnswer"] = "ClockAnswer"
    left: Finite
    gate_time: Finite


class Beat(Message):
    """A shard's sign of life, with how many of its requests in the stage are answered."""

    kind: Literal["Beat"] = "Beat"
    answered: Count = 0


class ShardTarget(Message):
    kind: Literal["ShardTarget"] = "ShardTarget"
    urls: tuple[LongText, ...] = Field(max_length=1024)


class Ready(Message):
    """A shard is ready for the first request of a stage."""

    kind: Literal["Ready"] = "Ready"
    sequence: Count
    error_seconds: Finite = Field(ge=0)
    """Largest error of this shard's estimate of the gate's clock."""


class Go(Message):
    """The stage begins at this instant, Unix seconds by the gate's clock."""

    kind: Literal["Go"] = "Go"
    sequence: Count
    at: Finite
    user_gap_seconds: Finite | None = Field(None, ge=0)
    """Time between the starts of two successive users of the closed loop, over all shards; None:
    the shortest gap."""


class Ended(Message):
    """All requests of a shard in the stage have ended."""

    kind: Literal["Ended"] = "Ended"
    sequence: Count
    requests: Count
    succeeded: Count
    began_late_seconds: (
        Finite  # How long after the agreed instant this shard began.
    )
    answered_at: Finite | None
    """Instant of its last answer, Unix seconds by the gate's clock; None if it had no request."""


class ShardPart(Message):
    """A shard's part of a stage; `packed` is a packed record, None if the shard had no request."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    kind: Literal["ShardPart"] = "ShardPart"
    sequence: Count
    packed: Annotated[bytes, Field(max_length=MAX_PACKED_BYTES)] | None


class Over(Message):
    """All stages are measured and all parts collected: shards may end."""

    kind: Literal["Over"] = "Over"


class Trouble(Message):
    kind: Literal["Trouble"] = "Trouble"
    failure: Failure


GateMessage = Annotated[
    ClockQuestion
    | ClockAnswer
    | Beat
    | ShardTarget
    | Ready
    | Go
    | Ended
    | ShardPart
    | Over
    | Trouble,
    Field(discriminator="kind"),
]
_MESSAGE: TypeAdapter[GateMessage] = TypeAdapter(GateMessage)


async def receive(
    connection: ClientWebSocketResponse | web.WebSocketResponse, *, begun: bool
) -> GateMessage:
    """Wait for the next message; `begun` says whether the first stage has begun.

    Raises ConnectionError if no message will come, ValueError if the message is not valid.
    """
    seconds = SILENT_SECONDS if begun else PREPARING_SILENT_SECONDS
    try:
        received = await connection.receive(timeout=seconds)
    except TimeoutError:
        raise ConnectionError(f"no message for {seconds:.0f} s") from None
    if received.type is not WSMsgType.TEXT:
        raise ConnectionError("the connection was closed")
    return _MESSAGE.validate_json(received.data)


class Offset(NamedTuple):
    """The gate's clock minus this process's clock, and the largest error of that, in seconds."""

    seconds: float
    error: float


def offset_of(answer: ClockAnswer, *, came: float) -> Offset:
    """Compute the offset from an answer that arrived at `came`, by this process's clock.

    The largest error is half the time from question to answer.
    """
    return Offset(
        answer.gate_time - (answer.left + came) / 2, (came - answer.left) / 2
    )
