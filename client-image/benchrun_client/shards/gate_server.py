"""The gate: a server in shard 0 that starts each stage in all shards and collects their parts.

Before a stage it waits until every shard is ready. Only its construction may happen outside its
event loop, which is not the one that measures.
"""

import asyncio
import contextlib
import hmac
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar, get_args

from aiohttp import web

from benchrun_client.contract import Plan
from benchrun_client.failures import Reason, RunFailure
from benchrun_client.http_session import listen
from benchrun_client.server.readiness import Servers
from benchrun_client.shards import messages

T = TypeVar("T")
LEAD_SECONDS = 0.05
"""Time between the message that a stage begins and its beginning, so that the message can reach
every shard."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The instant at which a stage begins, in Unix seconds by the gate's clock.

    `error_seconds` is the largest error of another shard's estimate of that clock.
    """

    at: float
    error_seconds: float


class GateServer:
    """The gate of one run.

    `on_answers` is called with how many of the other shards' requests in the stage are answered.
    """

    def __init__(
        self, plan: Plan, *, shards: int, on_answers: Callable[[int], None]
    ) -> None:
        self._plan = plan
        self._digest = plan.digest()
        self._others = range(1, shards)
        self._on_answers = on_answers
        # One offset for the whole run: a wall clock that is set in between would tear a stage
        # apart.
        self.unix_minus_perf = time.time() - time.perf_counter()
        self._connections: dict[int, web.WebSocketResponse] = {}
        self._received: defaultdict[int, defaultdict[type, dict[int, Any]]] = (
            defaultdict(lambda: defaultdict(dict))
        )
        """Messages received about each stage: stage -> kind of message -> shard -> message."""
        self._answered: dict[int, int] = {}
        self._target: messages.ShardTarget | None = None
        self._measuring = ""
        self._begun = self._over = False
        self._changed = asyncio.Condition()

    async def start(self, *, address: str, port: int) -> int:
        self._lost: asyncio.Future[RunFailure] = (
            asyncio.get_running_loop().create_future()
        )
        app = web.Application()
        app.add_routes([web.get(messages.GATE_PATH, self._receive)])
        self._runner, bound = await listen(
            app, address=address, port=port, shutdown_timeout=1.0
        )
        self._beating = asyncio.create_task(self._beat())
        return bound

    async def watch(self) -> NoReturn:
        """Wait until a shard is lost or reports a failure.

        Raises RunFailure `ShardLost`, or the shard's own failure.
        """
        raise await asyncio.shield(self._lost)

    async def send_target(self, servers: Servers) -> None:
        self._target = messages.ShardTarget(urls=servers.urls)
        await self._send_all(self._target)

    async def open(
        self, sequence: int, stage: str, *, user_gap_seconds: float | None = None
    ) -> Opened:
        """Wait until all shards are ready for the stage, start them, and return when it begins.

        Users of a closed loop begin `user_gap_seconds` apart.
        """
        self._measuring = stage
        self._answered.clear()
        ready = await self._from_all(messages.Ready, sequence)
        error = max((each.error_seconds for each in ready.values()), default=0.0)
        at = time.perf_counter() + self.unix_minus_perf + LEAD_SECONDS + 4 * error
        await self._send_all(
            messages.Go(sequence=sequence, at=at, user_gap_seconds=user_gap_seconds)
        )
        self._begun = True
        return Opened(at=at, error_seconds=error)

    async def all_ended(self, sequence: int) -> Mapping[int, messages.Ended]:
        """Wait until every other shard's last request has ended; return their messages by shard."""
        return await self._from_all(messages.Ended, sequence)

    async def parts(self, sequence: int) -> tuple[bytes, ...]:
        """Wait until every other shard has delivered its part of the stage's record.

        Return the parts, and forget them. A shard that sent no request delivers an empty one.
        """
        parts = await self._from_all(messages.ShardPart, sequence)
        del self._received[sequence]
        return tuple(
            part.packed
            for _, part in sorted(parts.items())
            if part.packed is not None
        )

    async def close(self) -> None:
        """Tell the other shards to end: all stages are measured and all parts collected."""
        self._over = True
        await self._send_all(messages.Over())
        self._beating.cancel()
        await self._runner.cleanup()

    def lose(self, shard: int, why: str) -> None:
        where = (
            f"in stage {self._measuring}"
            if self._measuring
            else "before the first stage"
        )
        self._fail(
            "ShardLost",
            f"shard {shard} of {len(self._others) + 1} was lost {where}: {why}",
        )

    def _fail(self, reason: Reason, message: str) -> None:
        if not self._lost.done():
            self._lost.set_result(RunFailure(reason, message))

    async def _from_all(self, kind: type[T], sequence: int) -> Mapping[int, T]:
        received = self._received[sequence][kind]
        async with self._changed:
            await self._changed.wait_for(lambda: len(received) == len(self._others))
        return received

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        shard = self._admitted(request)
        connection = web.WebSocketResponse(max_msg_size=messages.MAX_MESSAGE_BYTES)
        await connection.prepare(request)
        self._connections[shard] = connection
        if self._target is not None:
            await connection.send_str(self._target.model_dump_json())
        try:
            while True:
                await self._note(
                    shard, await messages.receive(connection, begun=self._begun)
                )
        except ValueError:
            why = "the shard sent a message that is not valid"
        except (ConnectionError, RuntimeError) as error:
            why = str(error) or type(error).__name__
        if not self._over:
            self.lose(shard, why)
        return connection

    def _admitted(self, request: web.Request) -> int:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(
            given.encode(errors="replace"), self._plan.token_digest.encode()
        ):
            raise web.HTTPForbidden(text="the token is not the token of this run\n")
        if (
            request.query.get("run") != self._plan.run_uid
            or request.query.get("plan") != self._digest
        ):
            raise web.HTTPConflict(
                text="this shard is of another run, or has another plan than shard 0\n"
            )
        number = request.query.get("shard", "")
        if (
            not number.isdecimal()
            or int(number) not in self._others
            or int(number) in self._connections
        ):
            raise web.HTTPConflict(
                text="there is no shard with this number, or it is already connected\n"
            )
        return int(number)

    async def _note(self, shard: int, message: messages.GateMessage) -> None:
        """Handle a shard's message; raise ConnectionError if it will send no more."""
        match message:
            case messages.ClockQuestion(left=left):
                now = time.perf_counter() + self.unix_minus_perf
                await self._connections[shard].send_str(
                    messages.ClockAnswer(left=left, gate_time=now).model_dump_json()
                )
            case messages.Trouble(failure=failure):
                # The first message counts, not that the connection closes after it.
                known: Reason = next(
                    (each for each in get_args(Reason) if each == failure.reason),
                    "ClientError",
                )
                self._fail(known, f"shard {shard}: {failure.message}")
                raise ConnectionError("the shard failed")
            case messages.Beat(answered=answered):
                self._answered[shard] = answered
                self._on_answers(sum(self._answered.values()))
            case messages.Ready() | messages.Ended() | messages.ShardPart():
                self._received[message.sequence][type(message)][shard] = message
                async with self._changed:
                    self._changed.notify_all()

    async def _send_all(self, message: messages.GateMessage) -> None:
        text = message.model_dump_json()
        for connection in tuple(self._connections.values()):
            # The listener of a closing connection finds out that it is lost.
            with contextlib.suppress(ConnectionError):
                await connection.send_str(text)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(messages.BEAT_SECONDS)
            await self._send_all(messages.Beat())
