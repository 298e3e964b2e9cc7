"""What memory holds of runs that go on: what was collected, and what the runtime itself has to remember.

All of it can be lost: a restarted operator finds it again in the cluster and at the client. What is stored is let go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from benchrun.api import names
from benchrun.decide.collected import Collected
from benchrun.observe.views import Child, Children
from benchrun.runtime.indexes import RunKey


@dataclass(slots=True)
class RunMemory:
    """One run's part."""

    uid: str
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


class Memories:
    """The memory of every run that goes on."""

    def __init__(self) -> None:
        self._by_run: dict[RunKey, RunMemory] = {}

    def __len__(self) -> int:
        return len(self._by_run)

    def of(self, key: RunKey, uid: str) -> RunMemory:
        """The run's memory; a run of the same name but another uid starts with none."""
        memory = self._by_run.get(key)
        if memory is None or memory.uid != uid:
            memory = self._by_run[key] = RunMemory(uid=uid)
        return memory

    def drop(self, key: RunKey) -> None:
        """Forget the run."""
        self._by_run.pop(key, None)
