"""The stages of a search, and the prompts of the probes to come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from decimal import Decimal

from benchrun_client.contract import LoadPoint, Search, Stage, open_stage_id
from benchrun_client.datasets.samples import Sample, prompts_digest
from benchrun_client.search.bisection import Position, may_follow, spelled
from benchrun_client.search.prompt_writer import opened


def stage_at(search: Search, here: Position) -> Stage:
    return _stage(search, here.number, here.repeat, spelled(here.value))


def every_stage(search: Search) -> tuple[Stage, ...]:
    """Every possible stage, with as many requests as it may have: the first at the lowest load, others at the highest."""
    return tuple(
        _stage(search, number, repeat, search.lowest if number == 1 else search.highest)
        for number in range(1, search.most_probes + 1)
        for repeat in range(1, search.max_repeats + 1)
    )


def _stage(search: Search, number: int, repeat: int, value: str) -> Stage:
    concurrency = search.axis == "concurrency"
    return Stage(
        id=open_stage_id(search.workload, number, repeat),
        workload=search.workload,
        repeat=repeat,
        load=LoadPoint(max_concurrency=int(value)) if concurrency else LoadPoint(request_rate=value),
        data=search.data,
        requests=search.requests_at(Decimal(value)),
        seed=search.seeds[(number - 1) * search.max_repeats + repeat - 1],
        api=search.api,
        ignore_eos=search.ignore_eos,
        sampling=search.sampling,
    )


Write = Callable[[Stage, Sequence[int]], Future[bytes]]
"""Begin to write the prompts of a stage, for any of these numbers of requests."""


@dataclass(frozen=True, slots=True)
class StagePrompts:
    """What a stage sends, and the digest of it."""

    samples: Sequence[Sample]
    digest: str


class SearchPrompts:
    """The prompts of searches. Rows of a file and the first stage are given; others are written while measuring."""

    def __init__(self, drawn: Mapping[str, Sequence[Sample]], write: Write | None) -> None:
        self._drawn, self._write = drawn, write
        self._writing: dict[str, Future[bytes]] = {}

    def write_ahead(self, search: Search, here: Position) -> None:
        """Have the prompts written of everything that may follow. Those that can't any more are let go: they may be large."""
        following: dict[str, list[Stage]] = {}
        for position in may_follow(search, here):
            stage = stage_at(search, position)
            following.setdefault(stage.id, []).append(stage)
        for stage_id in [s for s in self._writing if s.startswith(f"{search.workload}/") and s not in following]:
            del self._writing[stage_id]
        for stage_id, stages in following.items():
            if self._write is not None and stage_id not in self._drawn and stage_id not in self._writing:
                lengths = sorted({stage.requests for stage in stages})
                self._writing[stage_id] = self._write(stages[0], lengths)

    async def take(self, stage: Stage) -> StagePrompts:
        """What the stage sends. Raises RunFailure: it could not be written."""
        if stage.id not in self._writing:
            samples = self._drawn[stage.id][: stage.requests]
            return StagePrompts(samples, prompts_digest(samples))
        written = opened(await asyncio.wrap_future(self._writing.pop(stage.id)))
        assert written is not None
        samples, digests = written
        return StagePrompts(samples[: stage.requests], digests[stage.requests])
