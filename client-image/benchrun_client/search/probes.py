"""The stages of a search, and the prompts of the probes to come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from decimal import Decimal

from benchrun_client.contract import LoadPoint, Search, Stage, open_stage_id
from benchrun_client.datasets.samples import Sample, prompts_digest
from benchrun_client.search.course import Position, may_follow, spelled
from benchrun_client.search.scribe import opened


def stage_at(search: Search, here: Position) -> Stage:
    """The stage to measure there."""
    return _stage(search, here.number, here.repeat, spelled(here.value))


def every_stage(search: Search) -> tuple[Stage, ...]:
    """One stage for each that there may be, with as many requests as it may have: what its data must suffice for. The load of
    the first probe is known, that of others at most."""
    return tuple(
        _stage(search, number, repeat, search.lowest if number == 1 else search.highest)
        for number in range(1, search.max_probes + 1)
        for repeat in range(1, search.max_repeats + 1)
    )


def index_of(search: Search, number: int, repeat: int) -> int:
    """The place of a stage among `every_stage`."""
    return (number - 1) * search.max_repeats + repeat - 1


def _stage(search: Search, number: int, repeat: int, value: str) -> Stage:
    return Stage(
        id=open_stage_id(search.workload, number, repeat),
        workload=search.workload,
        repeat=repeat,
        load=_load_point(search, value),
        data=search.data,
        requests=search.requests_at(Decimal(value)),
        seed=search.seeds[index_of(search, number, repeat)],
        api=search.api,
        ignore_eos=search.ignore_eos,
    )


def _load_point(search: Search, value: str) -> LoadPoint:
    if search.axis == "concurrency":
        return LoadPoint(max_concurrency=int(value))
    return LoadPoint(request_rate=value)


# ---- upcoming ---------------------------------------------------------------------------------------------------------
# Prompts of the probes to come: asked for before it is known which of them will be needed.

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
