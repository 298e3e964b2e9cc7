"""A shard's connection to the gate, the server by which shard 0 coordinates the others.

Only the construction may happen outside its event loop, which is not the one that measures.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import NoReturn

import aiohttp

from benchrun_client.contract import Plan
from benchrun_client.engines import ENGINES
from benchrun_client.failures import RunFailure
from benchrun_client.server.readiness import Servers
from benchrun_client.shards import messages

CONNECT_AGAIN_SECONDS = 0.1
QUESTIONS = 8
"""How often a shard asks for the gate's time before each stage; the quickest answer counts."""


class GateClient:
    """A shard's end of the connection to the gate.

    `answered` must return how many of its requests in the stage have been answered so far.
    """

    def __init__(
        self, plan: Plan, *, shard: int, address: str, answered: Callable[[], int]
    ) -> None:
        self._plan = plan
        self._shard = shard
        self._address = address
        self._answered = answered
        self._session: aiohttp.ClientSession | None = None
        self._gate: aiohttp.ClientWebSocketResponse | None = None
        self._instants: asyncio.Queue[messages.Go] = asyncio.Queue()
        self._offsets: asyncio.Queue[messages.Offset] = asyncio.Queue()
        self._begun = False

    async def join(self) -> None:
        """Connect; retry until the gate is open, because shard 0 may start later.

        Raises RunFailure `ClientError` if it is the gate of another run.
        """
        self._target: asyncio.Future[messages.ShardTarget] = (
            asyncio.get_running_loop().create_future()
        )
        # Never by a proxy: the gate is one of our own pods.
        self._session = aiohttp.ClientSession(trust_env=False)
        params = {
            "run": self._plan.run_uid,
            "plan": self._plan.digest(),
            "shard": str(self._shard),
        }
        while True:
            try:
                self._gate = await self._session.ws_connect(
                    f"http://{self._address}{messages.GATE_PATH}",
                    params=params,
                    headers={"Authorization": f"Bearer {self._plan.token_digest}"},
                    max_msg_size=messages.MAX_MESSAGE_BYTES,
                )
                return
            except aiohttp.WSServerHandshakeError as error:
                if error.status in (403, 409):
                    raise RunFailure(
                        "ClientError",
                        f"shard 0 does not know this shard: {error.message}",
                    ) from error
            except (aiohttp.ClientError, OSError, TimeoutError):
                pass
            await asyncio.sleep(CONNECT_AGAIN_SECONDS)

    async def listen(self) -> None:
        """Receive the gate's messages until the run is over.

        Raises RunFailure `ShardLost` if the connection ends before that.
        """
        assert self._gate is not None
        beating = asyncio.create_task(self._beat())
        try:
            while not isinstance(
                message := await messages.receive(self._gate, begun=self._begun),
                messages.Over,
            ):
                self._note(message)
        except ConnectionError as error:
            self._fail(str(error))
        finally:
            beating.cancel()

    async def target(self) -> Servers:
        """Wait until shard 0 has found the servers, and return them without metrics endpoints."""
        return Servers(
            ENGINES[self._plan.target.engine],
            (await asyncio.shield(self._target)).urls,
            (),
        )

    async def offset(self) -> messages.Offset:
        """Ask for the gate's time; return its Unix time minus this process's `perf_counter`.

        The quickest of several answers counts.
        """
        offsets = []
        for _ in range(QUESTIONS):
            await self.send(messages.ClockQuestion(left=time.perf_counter()))
            offsets.append(await self._offsets.get())
        return min(offsets, key=lambda offset: offset.error)

    async def ready(self, sequence: int, *, error_seconds: float) -> messages.Go:
        """Report that this shard is ready; return when the stage begins, and its user gap.

        Raises RunFailure if another stage begins.
        """
        await self.send(
            messages.Ready(sequence=sequence, error_seconds=error_seconds)
        )
        go = await self._instants.get()
        if go.sequence != sequence:
            raise RunFailure(
                "ClientError",
                f"stage {go.sequence} begins, but this shard is ready for stage {sequence}",
            )
        self._begun = True
        return go

    async def report(self, failure: RunFailure) -> None:
        """Tell the gate why this shard cannot continue, if the gate is still open."""
        if self._gate is not None:
            with contextlib.suppress(RunFailure):
                await self.send(messages.Trouble(failure=failure.to_message()))

    async def close(self) -> None:
        if self._gate is not None:
            await self._gate.close()
        if self._session is not None:
            await self._session.close()

    def _note(self, message: messages.GateMessage) -> None:
        match message:
            case messages.ShardTarget():
                if not self._target.done():
                    self._target.set_result(message)
            case messages.Go():
                self._instants.put_nowait(message)
            case messages.ClockAnswer():
                self._offsets.put_nowait(
                    messages.offset_of(message, came=time.perf_counter())
                )

    async def send(self, message: messages.GateMessage) -> None:
        """Send a message; raise RunFailure `ShardLost` if the connection is closed."""
        assert self._gate is not None
        try:
            await self._gate.send_str(message.model_dump_json())
        except ConnectionError:
            self._fail("the connection was closed")

    async def _beat(self) -> None:
        with contextlib.suppress(RunFailure):
            while True:
                await asyncio.sleep(messages.BEAT_SECONDS)
                await self.send(messages.Beat(answered=self._answered()))

    def _fail(self, why: str) -> NoReturn:
        raise RunFailure("ShardLost", f"shard 0 was lost: {why}")
