"""What memory holds of sweeps that go on. A restarted operator reads the figures of ended runs back, and learns the rest anew."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchrun.api.status import BenchmarkRunStatus
from benchrun.decide.sweep.decision import NotCreated, SweepCollected, TableMade
from benchrun.observe.swept_runs import SweptRun
from benchrun.runtime.indexes import SweepKey


@dataclass(slots=True)
class SweepMemory:
    """One sweep's part."""

    uid: str
    measured: dict[str, BenchmarkRunStatus] = field(default_factory=dict)
    """A few figures of each run that was measured to its end, by uid."""
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


class SweepMemories:
    """The memory of every sweep that goes on."""

    def __init__(self) -> None:
        self._by_sweep: dict[SweepKey, SweepMemory] = {}

    def __len__(self) -> int:
        return len(self._by_sweep)

    def of(self, key: SweepKey, uid: str) -> SweepMemory:
        """The sweep's memory; a sweep of the same name but another uid starts with none."""
        memory = self._by_sweep.get(key)
        if memory is None or memory.uid != uid:
            self.drop(key)
            memory = self._by_sweep[key] = SweepMemory(uid=uid)
        return memory

    def drop(self, key: SweepKey) -> None:
        """Forget the sweep."""
        memory = self._by_sweep.pop(key, None)
        if memory is not None and memory.making is not None:
            memory.making.cancel()
