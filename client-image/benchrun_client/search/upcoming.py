"""Prompts of the probes to come: asked for before it is known which of them will be needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from benchrun_client.contract import Search, Stage
from benchrun_client.datasets.samples import Sample, prompts_digest
from benchrun_client.search.course import Position, may_follow
from benchrun_client.search.probes import stage_at
from benchrun_client.search.scribe import opened

Write = Callable[[Stage, Sequence[int]], Future[bytes]]
"""Begin to write the prompts of a stage, for any of these numbers of requests."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What a stage sends, and the digest of it."""

    samples: Sequence[Sample]
    digest: str


class Upcoming:
    """Of one run. Rows of a file and the first stage are there from the start; other random prompts are written while something
    else is measured."""

    def __init__(self, drawn: Mapping[str, Sequence[Sample]], write: Write | None) -> None:
        self._drawn = drawn
        self._write = write
        self._writing: dict[str, Future[bytes]] = {}

    def foresee(self, search: Search, here: Position) -> None:
        """Have the prompts written of everything that may follow. Those that can't any more are let go: they may be large."""
        following = may_follow(search, here)
        wanted = {stage_at(search, position).id for position in following}
        for stage_id in [s for s in self._writing if s.startswith(f"{search.workload}/") and s not in wanted]:
            del self._writing[stage_id]
        self._foresee(search, following)

    async def ready(self, stage: Stage) -> Ready:
        """What the stage sends.

        Raises:
            RunFailure: it could not be written.
        """
        if stage.id not in self._writing:
            samples = self._drawn[stage.id][: stage.requests]
            return Ready(samples, prompts_digest(samples))
        written = opened(await asyncio.wrap_future(self._writing.pop(stage.id)))
        return Ready(written.samples[: stage.requests], written.digests[stage.requests])

    def _foresee(self, search: Search, positions: Sequence[Position]) -> None:
        foreseen: dict[str, list[Stage]] = {}
        for position in positions:
            stage = stage_at(search, position)
            foreseen.setdefault(stage.id, []).append(stage)
        for stage_id, stages in foreseen.items():
            if self._write is not None and stage_id not in self._drawn and stage_id not in self._writing:
                lengths = sorted({stage.requests for stage in stages})
                self._writing[stage_id] = self._write(stages[0], lengths)
