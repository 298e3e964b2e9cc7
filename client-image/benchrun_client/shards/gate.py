"""Where shard 0 waits for the others before every stage, and takes their parts after it.

Everything but construction happens in one event loop, and not in the one that measures.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, get_args

from aiohttp import WSMsgType, web

from benchrun_client.contract import Plan
from benchrun_client.failures import Reason, RunFailure
from benchrun_client.shards.messages import (
    BEAT_SECONDS,
    GATE_PATH,
    MAX_MESSAGE_BYTES,
    PREPARING_SILENT_SECONDS,
    SILENT_SECONDS,
    Answer,
    Beat,
    Ended,
    Go,
    Over,
    Part,
    Question,
    Ready,
    Said,
    Target,
    Trouble,
    understood,
)
from benchrun_client.target import Servers

LEAD_SECONDS = 0.05
"""From the decision that a stage begins to its beginning: time for the word to reach every shard."""


@dataclass(slots=True)
class _Stage:
    """What the others have said of one stage."""

    ready: dict[int, Ready] = field(default_factory=dict)
    ended: dict[int, Ended] = field(default_factory=dict)
    parts: dict[int, bytes | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Opened:
    """When a stage begins, Unix seconds by the gate's clock, and how far off another shard's idea of that clock may be."""

    at: float
    error_seconds: float


class Gate:
    """Of one run, for so many shards, this one among them. `on_answers` hears how many requests of the stage the others have
    seen answered."""

    def __init__(self, plan: Plan, *, shards: int, on_answers: Callable[[int], None]) -> None:
        self._plan, self._digest = plan, plan.digest()
        self._others = range(1, shards)
        self._on_answers = on_answers
        # One offset for the whole run: a wall clock that is set in between would tear a stage apart.
        self.unix_minus_perf = time.time() - time.perf_counter()
        self._connections: dict[int, web.WebSocketResponse] = {}
        self._stages: dict[int, _Stage] = {}
        self._answered: dict[int, int] = {}
        self._target: Target | None = None
        self._measuring = ""
        self._begun = self._over = False
        self._changed = asyncio.Condition()
        self._lost: asyncio.Future[RunFailure] | None = None
        self._runner: web.AppRunner | None = None
        self._beating: asyncio.Task[None] | None = None

    async def start(self, *, address: str, port: int) -> int:
        """Listen, and return the port (of use when `port` is 0)."""
        self._lost = asyncio.get_running_loop().create_future()
        app = web.Application()
        app.add_routes([web.get(GATE_PATH, self._receive)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, address, port).start()
        self._beating = asyncio.create_task(self._beat())
        bound: int = self._runner.addresses[0][1]
        return bound

    async def watch(self) -> NoReturn:
        """Wait until a shard is lost or in trouble.

        Raises:
            RunFailure: `ShardLost`, or what the shard said.
        """
        assert self._lost is not None
        raise await asyncio.shield(self._lost)

    async def tell_target(self, servers: Servers) -> None:
        """What all are to send to."""
        self._target = Target(urls=servers.urls)
        await self._tell_all(self._target)

    async def open(self, sequence: int, stage: str) -> Opened:
        """Wait until all stand before the stage, and let them go. When it begins."""
        self._measuring = stage
        self._answered.clear()
        said = self._stage(sequence).ready
        await self._until(lambda: len(said) == len(self._others))
        error = max((ready.error_seconds for ready in said.values()), default=0.0)
        at = time.perf_counter() + self.unix_minus_perf + LEAD_SECONDS + 4 * error
        await self._tell_all(Go(sequence=sequence, at=at))
        self._begun = True
        return Opened(at=at, error_seconds=error)

    async def all_ended(self, sequence: int) -> Mapping[int, Ended]:
        """Wait until every other shard has seen its last request end; what they said, by shard."""
        said = self._stage(sequence).ended
        await self._until(lambda: len(said) == len(self._others))
        return said

    async def parts(self, sequence: int) -> tuple[bytes, ...]:
        """Wait for every other shard's part of a stage; those that there are, and forget them."""
        said = self._stage(sequence).parts
        await self._until(lambda: len(said) == len(self._others))
        del self._stages[sequence]
        return tuple(part for _, part in sorted(said.items()) if part is not None)

    async def close(self) -> None:
        """Everything has been measured and taken: send the others home."""
        self._over = True
        await self._tell_all(Over())
        if self._beating:
            self._beating.cancel()
        if self._runner:
            await self._runner.cleanup()

    def lose(self, shard: int, why: str) -> None:
        """A shard is gone, as was seen from outside."""
        self._lose("ShardLost", f"{self._told(shard)}: {why}")

    def _stage(self, sequence: int) -> _Stage:
        return self._stages.setdefault(sequence, _Stage())

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(holds)

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        shard = self._admitted(request)
        if isinstance(shard, web.Response):
            return shard
        connection = web.WebSocketResponse(max_msg_size=MAX_MESSAGE_BYTES)
        await connection.prepare(request)
        self._connections[shard] = connection
        if self._target is not None:
            await connection.send_str(self._target.model_dump_json())
        try:
            why = await self._listen(shard, connection)
        except (ConnectionError, RuntimeError) as error:
            why = str(error) or type(error).__name__
        if not self._over:
            self.lose(shard, why)
        return connection

    def _admitted(self, request: web.Request) -> int | web.Response:
        """Which shard this is, or why it is refused."""
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(errors="replace"), self._plan.token_digest.encode()):
            return web.Response(status=403, text="not of this run\n")
        if request.query.get("run") != self._plan.run_uid or request.query.get("plan") != self._digest:
            return web.Response(status=409, text="another run or another plan\n")
        word = request.query.get("shard", "")
        if not word.isdecimal() or int(word) not in self._others or int(word) in self._connections:
            return web.Response(status=409, text="no such shard, or it is here already\n")
        return int(word)

    async def _listen(self, shard: int, connection: web.WebSocketResponse) -> str:
        """Until nothing is to be heard any more; why."""
        while True:
            seconds = SILENT_SECONDS if self._begun else PREPARING_SILENT_SECONDS
            try:
                heard = await connection.receive(timeout=seconds)
            except TimeoutError:
                return f"nothing was heard of it for {seconds:.0f} s"
            if heard.type is not WSMsgType.TEXT:
                return "its connection closed"
            try:
                said = understood(heard.data)
            except ValueError:
                return "it said what nobody understands"
            if isinstance(said, Question):
                now = time.perf_counter() + self.unix_minus_perf
                await connection.send_str(Answer(left=said.left, said=now).model_dump_json())
            elif isinstance(said, Trouble):
                # The first word counts, not that the connection closes after it.
                self._lose(_known(said.failure.reason), f"shard {shard}: {said.failure.message}")
                return "it failed"
            else:
                await self._note(shard, said)

    async def _note(self, shard: int, said: Said) -> None:
        match said:
            case Beat(answered=answered):
                self._answered[shard] = answered
                self._on_answers(sum(self._answered.values()))
                return
            case Ready(sequence=sequence):
                self._stage(sequence).ready[shard] = said
            case Ended(sequence=sequence):
                self._stage(sequence).ended[shard] = said
            case Part(sequence=sequence, packed=packed):
                self._stage(sequence).parts[shard] = packed
        async with self._changed:
            self._changed.notify_all()

    def _told(self, shard: int) -> str:
        where = f"in stage {self._measuring}" if self._measuring else "before the first stage"
        return f"shard {shard} of {len(self._others) + 1} was lost {where}"

    def _lose(self, reason: Reason, message: str) -> None:
        assert self._lost is not None
        if not self._lost.done():
            self._lost.set_result(RunFailure(reason, message))

    async def _tell_all(self, said: Said) -> None:
        text = said.model_dump_json()
        for connection in tuple(self._connections.values()):
            # Whoever listens to one that is closing finds out that it is lost.
            with contextlib.suppress(ConnectionError):
                await connection.send_str(text)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            await self._tell_all(Beat())


def _known(reason: str) -> Reason:
    return next((known for known in get_args(Reason) if known == reason), "ClientError")
