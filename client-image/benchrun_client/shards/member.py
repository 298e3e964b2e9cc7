"""A shard's connection to the gate.

Everything but construction happens in one event loop, and not in the one that measures.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import NoReturn

import aiohttp

from benchrun_client.contract import Plan
from benchrun_client.failures import RunFailure
from benchrun_client.shards.messages import (
    BEAT_SECONDS,
    GATE_PATH,
    MAX_MESSAGE_BYTES,
    PREPARING_SILENT_SECONDS,
    SILENT_SECONDS,
    Answer,
    Asked,
    Beat,
    Ended,
    Go,
    Offset,
    Over,
    Part,
    Question,
    Ready,
    Said,
    Target,
    Trouble,
    offset_of,
    understood,
)
from benchrun_client.target import Servers

KNOCK_AGAIN_SECONDS = 0.1
QUESTIONS = 8
"""Of the time at the gate, before each stage: the quickest counts."""


class Member:
    """One shard's end. `answered`: how many requests of the stage have been answered so far."""

    def __init__(self, plan: Plan, *, shard: int, address: str, answered: Callable[[], int]) -> None:
        self._plan, self._shard = plan, shard
        self._address = address
        self._answered = answered
        self._session: aiohttp.ClientSession | None = None
        self._gate: aiohttp.ClientWebSocketResponse | None = None
        self._target: asyncio.Future[Target] | None = None
        self._instants: asyncio.Queue[Go] = asyncio.Queue()
        self._asked: deque[Asked] = deque(maxlen=QUESTIONS)
        self._answer_came = asyncio.Event()
        self._begun = False

    async def join(self) -> None:
        """Knock until the gate opens: shard 0 may come later, and its name with it.

        Raises:
            RunFailure: it refused us, so this is another run's gate.
        """
        self._target = asyncio.get_running_loop().create_future()
        # Never by a proxy: the gate is one of our own pods.
        self._session = aiohttp.ClientSession(trust_env=False)
        asked = {"run": self._plan.run_uid, "plan": self._plan.digest(), "shard": str(self._shard)}
        while True:
            try:
                self._gate = await self._session.ws_connect(
                    f"http://{self._address}{GATE_PATH}",
                    params=asked,
                    headers={"Authorization": f"Bearer {self._plan.token_digest}"},
                    max_msg_size=MAX_MESSAGE_BYTES,
                )
                return
            except aiohttp.WSServerHandshakeError as error:
                if error.status in (403, 409):
                    raise RunFailure("ClientError", f"shard 0 does not know this shard: {error.message}") from error
            except (aiohttp.ClientError, OSError, TimeoutError):
                pass
            await asyncio.sleep(KNOCK_AGAIN_SECONDS)

    async def listen(self) -> None:
        """Hear the gate until all is over.

        Raises:
            RunFailure: `ShardLost`, when it is not heard any more.
        """
        assert self._gate is not None
        beating = asyncio.create_task(self._beat())
        try:
            while True:
                seconds = SILENT_SECONDS if self._begun else PREPARING_SILENT_SECONDS
                try:
                    heard = await self._gate.receive(timeout=seconds)
                except TimeoutError:
                    self._fail(f"nothing was heard of it for {seconds:.0f} s")
                if heard.type is not aiohttp.WSMsgType.TEXT:
                    self._fail("its connection closed")
                said = understood(heard.data)
                if isinstance(said, Over):
                    return
                self._note(said)
        finally:
            beating.cancel()

    async def target(self) -> Servers:
        """The servers, once shard 0 has found them. Their pages are its business."""
        assert self._target is not None
        found = await asyncio.shield(self._target)
        return Servers(found.urls, ())

    async def offset(self) -> Offset:
        """What to add to `time.perf_counter` for Unix time by the gate's clock, asked anew."""
        for _ in range(QUESTIONS):
            self._answer_came.clear()
            await self._say(Question(left=time.perf_counter()))
            await self._answer_came.wait()
        return offset_of(self._asked)

    async def ready(self, sequence: int, *, error_seconds: float) -> float:
        """Stand before a stage until it begins; the instant, Unix seconds by the gate's clock."""
        await self._say(Ready(sequence=sequence, error_seconds=error_seconds))
        go = await self._instants.get()
        if go.sequence != sequence:
            raise RunFailure("ClientError", f"stage {go.sequence} begins, and this shard stands before {sequence}")
        self._begun = True
        return go.at

    async def ended(self, word: Ended) -> None:
        """Every request of ours has ended."""
        await self._say(word)

    async def hand_in(self, sequence: int, packed: bytes | None) -> None:
        """Our part of a stage."""
        await self._say(Part(sequence=sequence, packed=packed))

    async def tell(self, failure: RunFailure) -> None:
        """Why we can't go on; nobody may be there to hear it."""
        if self._gate is not None:
            with contextlib.suppress(RunFailure):
                await self._say(Trouble(failure=failure.to_message()))

    async def close(self) -> None:
        """Leave."""
        if self._gate is not None:
            await self._gate.close()
        if self._session is not None:
            await self._session.close()

    def _note(self, said: Said) -> None:
        match said:
            case Target():
                assert self._target is not None
                if not self._target.done():
                    self._target.set_result(said)
            case Go():
                self._instants.put_nowait(said)
            case Answer(left=left, said=instant):
                self._asked.append(Asked(left=left, came=time.perf_counter(), said=instant))
                self._answer_came.set()

    async def _say(self, said: Said) -> None:
        assert self._gate is not None
        try:
            await self._gate.send_str(said.model_dump_json())
        except ConnectionError:
            self._fail("its connection closed")

    async def _beat(self) -> None:
        with contextlib.suppress(RunFailure):
            while True:
                await asyncio.sleep(BEAT_SECONDS)
                await self._say(Beat(answered=self._answered()))

    def _fail(self, why: str) -> NoReturn:
        raise RunFailure("ShardLost", f"shard 0 was lost: {why}")
