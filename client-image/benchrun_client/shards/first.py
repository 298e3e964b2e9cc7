"""Where a process stands among all that send, and shard 0 as it measures."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchrun_client.contract import GATE_PORT, Stage
from benchrun_client.engine import Divided
from benchrun_client.failures import TERMINATION_LOG_VARIABLE
from benchrun_client.http_session import BackgroundLoop
from benchrun_client.records import micros
from benchrun_client.shards.gate import Gate, Opened
from benchrun_client.shards.merging import Together
from benchrun_client.shards.messages import Ended
from benchrun_client.shards.sharing import Place, share_of

# ---- company ----------------------------------------------------------------------------------------------------------
# Where a process stands among all that send: which shard it is, who else is in its pod, and where the gate is.

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
"""Which pod of an indexed Job this is; Kubernetes sets it."""
LOOPBACK = "127.0.0.1"
IN_THE_POD = f"{LOOPBACK}:{GATE_PORT}"


@dataclass(frozen=True, slots=True)
class Company:
    """`processes`: shards of one pod, as long as there are enough. `gate`: host:port by which the others find shard 0."""

    place: Place
    processes: int = 1
    gate: str = IN_THE_POD

    @property
    def siblings(self) -> tuple[int, ...]:
        """Shards that this process is to start."""
        first = self.place.shard
        return tuple(range(first + 1, min(first + self.processes, self.place.shards)))

    @property
    def listens_on(self) -> str:
        """Where shard 0 opens the gate: to other pods only where there are any."""
        return LOOPBACK if self.gate.startswith(f"{LOOPBACK}:") else "0.0.0.0"

    @property
    def port(self) -> int:
        """The gate's."""
        return int(self.gate.rpartition(":")[2])


def company_of(
    *, shards: int, processes: int, shard: int | None, gate: str, environment: Mapping[str, str] = os.environ
) -> Company:
    """As arguments and, for the first process of a pod, its index say it."""
    if shard is None:
        shard = int(environment.get(INDEX_VARIABLE, "0")) * processes
    else:
        processes = 1
    return Company(Place(shard=shard, shards=shards), processes=processes, gate=gate)


async def run_sibling(company: Company, shard: int, *, plan: Path) -> int:
    """Run another shard in a process of its own; its exit code. It leaves the pod's last word to this process, and
    nobody asks for its port."""
    gate = f"{LOOPBACK}:{company.port}" if company.place.is_first else company.gate
    words = [
        *(f"--plan={plan}", f"--shards={company.place.shards}", f"--shard={shard}", f"--gate={gate}"),
        *(f"--address={LOOPBACK}", "--port=0"),
    ]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchrun_client", *words),
        env={**os.environ, TERMINATION_LOG_VARIABLE: os.devnull},
    )
    return await process.wait()


# ---- first ------------------------------------------------------------------------------------------------------------
# Shard 0 as it measures: it sends its share, and knows what the others tell of theirs.


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
