"""Shard 0 as it measures: it sends its share, and knows what the others tell of theirs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass

from benchrun_client.background import BackgroundLoop
from benchrun_client.contract import Stage
from benchrun_client.engine import Divided
from benchrun_client.records import micros
from benchrun_client.shards.gate import Gate, Opened
from benchrun_client.shards.merging import Together
from benchrun_client.shards.messages import Ended
from benchrun_client.shards.sharing import Place, share_of


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What became of the requests of a stage that others sent."""

    succeeded: int
    last_answer: float
    """By our `time.perf_counter`; 0: none of them had a request."""


class FirstShard:
    """The measuring thread's side of the gate."""

    def __init__(self, gate: Gate, background: BackgroundLoop, *, shards: int) -> None:
        self._gate, self._background = gate, background
        self._place = Place(shard=0, shards=shards)
        self._opened: dict[int, Opened] = {}
        self._late: dict[int, list[float]] = {}
        self._caps: dict[int, int | None] = {}

    @property
    def unix_minus_perf(self) -> float:
        """Of the gate's clock."""
        return self._gate.unix_minus_perf

    def divided(self, sequence: int, stage: Stage) -> Divided:
        """Our part of a stage, which begins when all stand before it."""
        self._caps[sequence] = stage.load.max_concurrency

        async def begin() -> float:
            opened = await asyncio.wrap_future(self._background.start(self._gate.open(sequence, stage.id)))
            start = opened.at - self.unix_minus_perf
            await asyncio.sleep(start - time.perf_counter())
            self._opened[sequence], self._late[sequence] = opened, [time.perf_counter() - start]
            return start

        share = share_of(stage.load, requests=stage.requests, place=self._place)
        return Divided(place=self._place, share=share, begin=begin)

    async def elsewhere(self, sequence: int) -> Elsewhere:
        """Wait until the others' requests have ended, too."""
        said = await asyncio.wrap_future(self._background.start(self._gate.all_ended(sequence)))
        ended: Collection[Ended] = said.values()
        self._late[sequence] += [word.began_late_seconds for word in ended]
        return Elsewhere(
            succeeded=sum(word.succeeded for word in ended),
            last_answer=max(
                (word.answered_at - self.unix_minus_perf for word in ended if word.answered_at is not None), default=0.0
            ),
        )

    async def parts(self, sequence: int) -> tuple[tuple[bytes, ...], Together]:
        """The others' packed parts of a stage, once all are in, and how it went. In the background's event loop."""
        parts = await self._gate.parts(sequence)
        opened, late = self._opened.pop(sequence), self._late.pop(sequence)
        return parts, Together(
            shards=self._place.shards,
            began_unix_us=micros(opened.at),
            start_skew_us=micros(max(late) - min(late)),
            clock_error_us=micros(opened.error_seconds),
            max_concurrency=self._caps.pop(sequence),
        )
