"""What another tool says of an experiment, and when that is more than it says of the clean twin."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx
from truth_kit.lab import Experiment
from truth_kit.processes import Server

UP_SECONDS = 60.0
_NUMBER = re.compile(r"-?\d[\d.:,]*(?:e-?\d+)?")


@dataclass(frozen=True, slots=True)
class Said:
    """What another benchmark said of one experiment."""

    failed: int = 0
    ended: bool = False
    """Whether it ended without a result."""
    warnings: frozenset[str] = frozenset()

    def flags(self, clean: Self) -> bool:
        """Return whether it says more than of the clean twin."""
        return (
            self.failed > clean.failed
            or (self.ended and not clean.ended)
            or bool(self.warnings - clean.warnings)
        )


def can_replay(experiment: Experiment) -> bool:
    """Return whether the experiment disturbs only its servers and its load, not the client."""
    return experiment.client_cpu_share is None and len(experiment.servers) == 1


async def up(at: Server) -> None:
    """Wait until a server answers."""
    async with (
        asyncio.timeout(UP_SECONDS),
        httpx.AsyncClient(trust_env=False) as http,
    ):
        while True:
            try:
                if (await http.get(f"{at.url}/health")).is_success:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.1)


def warnings_in(log: Path) -> frozenset[str]:
    """Return the lines of a log that warn, without their numbers."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return frozenset(
        _NUMBER.sub("", line) for line in lines if "warning" in line.lower()
    )
