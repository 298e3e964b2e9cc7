"""Where a process stands among all that send: which shard it is, who else is in its pod, and where the gate is."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchrun_client.contract import GATE_PORT
from benchrun_client.failures import TERMINATION_LOG_VARIABLE
from benchrun_client.shards.sharing import Place

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
