"""The number of a process among the shards, the shards it starts, and how shard 0 measures."""

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchrun_client.contract import GATE_PORT, Shards, Stage
from benchrun_client.failures import TERMINATION_LOG_VARIABLE
from benchrun_client.http_session import BackgroundLoop
from benchrun_client.load.vllm_benchmark import Begun, Divided
from benchrun_client.preparation import Preparation
from benchrun_client.shards.gate_server import GateServer
from benchrun_client.shards.load_split import Shard, share_of
from benchrun_client.shards.merging import ShardedStage
from benchrun_client.stage_record import micros

INDEX_VARIABLE = "JOB_COMPLETION_INDEX"  # Which pod of an indexed Job this is; Kubernetes sets it.
LOOPBACK = "127.0.0.1"
IN_THE_POD = f"{LOOPBACK}:{GATE_PORT}"


@dataclass(frozen=True, slots=True)
class ShardSetup:
    """The place of a process among the shards.

    `processes` is the number of shards in each pod; the last pod may have fewer. `gate` is the
    host:port at which the others find shard 0.
    """

    shard: Shard
    processes: int = 1
    gate: str = IN_THE_POD

    @property
    def siblings(self) -> tuple[int, ...]:
        """Return the numbers of the shards that this process starts."""
        first = self.shard.number
        return tuple(
            range(first + 1, min(first + self.processes, self.shard.count))
        )

    @property
    def gate_address(self) -> str:
        """Return the address at which shard 0 opens the gate.

        Other pods can reach it only if they have shards.
        """
        return LOOPBACK if self.gate.startswith(f"{LOOPBACK}:") else "0.0.0.0"

    @property
    def gate_port(self) -> int:
        return int(self.gate.rpartition(":")[2])


def shard_setup(
    *,
    shards: int,
    processes: int,
    shard: int | None,
    gate: str,
    environment: Mapping[str, str] = os.environ,
) -> ShardSetup:
    """Build the setup from the arguments.

    Without `shard` this is the first process of a pod; its number follows from the pod's index.
    """
    if shard is None:
        shard = int(environment.get(INDEX_VARIABLE, "0")) * processes
    else:
        processes = 1
    return ShardSetup(Shard(shard, shards), processes=processes, gate=gate)


async def run_sibling(
    setup: ShardSetup, shard: int, *, plan: Path, preparation: Preparation
) -> int:
    """Run another shard in a process of its own, and return its exit code.

    The process writes no termination message, and its record server has any free port.
    """
    gate = f"{LOOPBACK}:{setup.gate_port}" if setup.shard.is_first else setup.gate
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "benchrun_client",
            f"--plan={plan}",
            f"--shards={setup.shard.count}",
        ),
        *(
            f"--shard={shard}",
            f"--gate={gate}",
            f"--address={LOOPBACK}",
            "--port=0",
            f"--preparation-env={','.join(preparation.names)}",
        ),
        env={**preparation.environment, TERMINATION_LOG_VARIABLE: os.devnull},
    )
    return await process.wait()


class FirstShard:
    """Requests of the measuring thread to the gate, which runs in another thread."""

    def __init__(
        self, gate: GateServer, background: BackgroundLoop, *, shards: int
    ) -> None:
        self._gate = gate
        self._background = background
        self._shard = Shard(0, shards)
        self._late = 0.0
        self._sharded: dict[int, ShardedStage] = {}
        self.unix_minus_perf = gate.unix_minus_perf

    def divided(
        self, sequence: int, stage: Stage, *, user_gap_seconds: float | None = None
    ) -> Divided:
        """Return shard 0's part of a stage, which begins when all shards are ready.

        Users of a closed loop begin `user_gap_seconds` apart, whichever shard they belong to.
        """

        async def begin() -> Begun:
            self._opened = await self._background.call(
                self._gate.open(
                    sequence, stage.id, user_gap_seconds=user_gap_seconds
                )
            )
            start = self._opened.at - self.unix_minus_perf
            await asyncio.sleep(start - time.perf_counter())
            self._late = time.perf_counter() - start
            return Begun(start, user_gap_seconds)

        return Divided(
            self._shard,
            share_of(stage.load, requests=stage.requests, shard=self._shard),
            begin,
        )

    async def others_result(self, sequence: int, stage: Stage) -> tuple[int, float]:
        """Wait until the other shards have ended a stage.

        Returns how many of their requests succeeded, and the instant of the last answer by this
        process's clock (0 if they had no requests).
        """
        ended = (
            await self._background.call(self._gate.all_ended(sequence))
        ).values()
        late = [self._late, *(each.began_late_seconds for each in ended)]
        self._sharded[sequence] = ShardedStage(
            shards=Shards(
                count=self._shard.count,
                start_skew_us=micros(max(late) - min(late)),
                clock_error_us=micros(self._opened.error_seconds),
            ),
            began_unix_us=micros(self._opened.at),
        )
        answered = [
            each.answered_at - self.unix_minus_perf
            for each in ended
            if each.answered_at is not None
        ]
        return sum(each.succeeded for each in ended), max(answered, default=0.0)

    async def parts(self, sequence: int) -> tuple[tuple[bytes, ...], ShardedStage]:
        """Wait for the other shards' packed parts of a stage; return them and how it was sent.

        Call this in the background's event loop.
        """
        return await self._gate.parts(sequence), self._sharded.pop(sequence)
