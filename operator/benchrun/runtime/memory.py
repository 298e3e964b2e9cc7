"""What memory holds of runs and sweeps that go on: what was collected, and what the runtime itself has to remember.

All of it can be lost: a restarted operator finds it again in the cluster and at the client. What is stored is let go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

from benchrun.api import names
from benchrun.api.status import BenchmarkRunStatus
from benchrun.decide.collected import Collected
from benchrun.decide.sweep.decision import NotCreated, SweepCollected, TableMade
from benchrun.observe.identity import Key
from benchrun.observe.swept_runs import SweptRun
from benchrun.observe.views import Child, Children


@dataclass(slots=True)
class Memory:
    """Of one object, told from its namesakes by its uid."""

    uid: str

    def leave(self) -> None:
        """Nobody will ask for it again: end what goes on for it."""


@dataclass(slots=True)
class RunMemory(Memory):
    """One run's part."""

    collected: Collected = field(default_factory=Collected)
    acknowledged: int = 0
    """Records below this the client knows to be stored."""
    written_at: float = -inf
    """When the status was written last, in the loop's time."""
    outdated_since: float | None = None
    """Since when the status in the cluster lacks something, in the loop's time."""

    def let_go_of_stored(self, children: Children) -> None:
        """Forget the records that are in the cluster."""
        arrivals = self.collected.arrivals
        for child in children.objects:
            arrival = arrivals.get(child.sequence) if child.sequence is not None else None
            if arrival is not None and self._holds(child, arrival.digest):
                del arrivals[arrival.sequence]

    def _holds(self, child: Child, digest: str) -> bool:
        return child.owner_uid == self.uid and child.role == names.ROLE_STAGE and child.record_digest == digest


@dataclass(slots=True)
class SweepMemory(Memory):
    """One sweep's part."""

    measured: dict[str, BenchmarkRunStatus] = field(default_factory=dict)
    """A few figures of each run that was measured to its end, by uid. A restarted operator reads them back."""
    conflict: str | None = None
    not_created: NotCreated | None = None
    table: TableMade | None = None
    """The table that was made last."""
    making: asyncio.Task[None] | None = None
    """The table that is being made."""
    settled: tuple[str, Mapping[str, SweptRun]] | None = None
    """Version of the sweep and its runs, as a pass left them that had nothing more to do. Most news of runs are live figures."""

    def collected(self) -> SweepCollected:
        """What a decision reads."""
        return SweepCollected(
            measured=dict(self.measured), table=self.table, conflict=self.conflict, not_created=self.not_created
        )

    def leave(self) -> None:
        """Nobody will ask for its table."""
        if self.making is not None:
            self.making.cancel()


M = TypeVar("M", bound=Memory)


class Memories(Generic[M]):
    """The memory of every object of a kind that goes on."""

    def __init__(self, kind: type[M]) -> None:
        self._kind = kind
        self._by_key: dict[Key, M] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, key: Key, uid: str) -> M:
        """The object's memory; one of the same name but another uid starts with none."""
        memory = self._by_key.get(key)
        if memory is None or memory.uid != uid:
            self.drop(key)
            memory = self._by_key[key] = self._kind(uid)
        return memory

    def drop(self, key: Key) -> None:
        """Forget the object."""
        memory = self._by_key.pop(key, None)
        if memory is not None:
            memory.leave()
