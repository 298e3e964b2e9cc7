"""Requests of other clients on the same server: in all its metrics, in no client's report."""

import asyncio

from benchrun_simulator.engine import Engine
from benchrun_simulator.engine_metrics import Served
from benchrun_simulator.sequence import Sequence
from benchrun_simulator.settings import Foreign


class ForeignTraffic:
    """A sender of requests of its own, one every 1 / rate seconds from its start on."""

    def __init__(
        self, foreign: Foreign, *, engine: Engine, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._foreign = foreign
        self._engine = engine
        self._loop = loop
        self._started_at = 0.0

    def start(self) -> None:
        """Send the first request one interval from now, and so on for ever."""
        self._started_at = self._loop.time()
        self._plan_next(1)

    def _plan_next(self, number: int) -> None:
        due = self._started_at + number / self._foreign.requests_per_second
        self._loop.call_at(due, self._send, number, due)

    def _send(self, number: int, due: float) -> None:
        foreign = self._foreign
        # No two prompts share a block, and none shares one with a client's: token ids are never
        # negative there.
        sequence = Sequence(
            prompt=[-number] * foreign.prompt_tokens,
            output=[0] * foreign.output_tokens,
            arrived_at=due,
        )
        self._engine.run(
            sequence,
            max_tokens=foreign.output_tokens,
            reason="length",
            on_token=_unread,
        )
        self._plan_next(number + 1)


def _unread(_served: Served) -> None:
    """Ignore a token: no client reads it."""
