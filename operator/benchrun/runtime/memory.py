"""What memory holds of runs that go on: records on their way into the cluster, samples, the client's and servers' words.

All of it can be lost: a restarted operator reads it back from the run's ConfigMaps and from the client. A record that is
stored is let go: it is read back when the run is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchrun_client.contract import Progress

from benchrun.api import names
from benchrun.decide.decision import Arrival, Collected, Ending, ExporterPod, RefusedObject, StartupTold
from benchrun.measure.samples import Sample, ServerFacts
from benchrun.measure.timeline import bucketed
from benchrun.observe.views import Child, Children, Run
from benchrun.runtime.indexes import RunKey
from benchrun.runtime.packed import PackedRecords, Readings

MAX_STORED_SAMPLES = 16_384
"""Stored readings of a run kept one by one: more than four hours at one a second. Beyond it all are merged in pairs."""


@dataclass(slots=True)
class RunMemory:
    """One run's part."""

    uid: str
    restored: bool = False
    """Whether the timeline that the cluster holds of it has been read back."""
    sequences: set[int] = field(default_factory=set)
    """Of every record that came."""
    search_ends: dict[int, str] = field(default_factory=dict)
    """Of those that ended a search: its workload, by sequence."""
    arrivals: dict[int, Arrival] = field(default_factory=dict)
    """Records that are not known to be stored, by sequence."""
    stored_samples: Readings = field(default_factory=Readings)
    unstored_samples: list[Sample] = field(default_factory=list)
    bucket: int = 1
    """Readings that make one stored sample by now."""
    facts: dict[str, ServerFacts] = field(default_factory=dict)
    progress: Progress | None = None
    client_silent: bool = False
    refused: str | None = None
    refused_count: int = 0
    log_tail: str | None = None
    log_tail_tried: bool = False
    conflict: str | None = None
    refused_object: RefusedObject | None = None
    ending: Ending | None = None
    compilations: tuple[float, ...] | None = None
    log_searched: bool = False
    startups: dict[str, StartupTold] = field(default_factory=dict)
    exporters: dict[str, ExporterPod | None] = field(default_factory=dict)
    gpu_troubles: dict[str, str] = field(default_factory=dict)
    baseline: Run | None = None
    baseline_sought: bool = False
    endpoint_addresses: tuple[str, ...] | None = None
    acknowledged: tuple[int, int] | None = None
    """What the client was last told is stored, and the version of its progress then."""

    def collected(self, children: Children, *, stored: Mapping[int, bytes] | None = None) -> Collected:
        """What a decision reads. `stored`: packed records by sequence, read back to be judged; None: they were not."""
        for sequence in [s for s, arrival in self.arrivals.items() if self._is_stored(arrival, children)]:
            del self.arrivals[sequence]
        records = dict(stored or {}) | {s: arrival.data for s, arrival in self.arrivals.items()}
        return Collected(
            records=PackedRecords(tuple(records[s] for s in sorted(records))),
            sequences=frozenset(self.sequences),
            search_ends=dict(self.search_ends),
            read_back=stored is not None,
            arrivals=tuple(self.arrivals[s] for s in sorted(self.arrivals)),
            samples=self.stored_samples.followed_by(self.unstored_samples),
            unstored_samples=tuple(self.unstored_samples),
            timeline_chunks=sum(self._owns(c) and c.role == names.ROLE_TIMELINE for c in children.objects),
            facts=dict(self.facts),
            progress=self.progress,
            client_silent=self.client_silent,
            refused=self.refused,
            refused_count=self.refused_count,
            log_tail=self.log_tail,
            log_tail_tried=self.log_tail_tried,
            conflict=self.conflict,
            refused_object=self.refused_object,
            ending=self.ending,
            compilations=self.compilations,
            log_searched=self.log_searched,
            startups=dict(self.startups),
            exporters=dict(self.exporters),
            gpu_troubles=dict(self.gpu_troubles),
            baseline=self.baseline,
            baseline_sought=self.baseline_sought,
            endpoint_addresses=self.endpoint_addresses,
        )

    def next_sequence(self, first: int) -> int:
        """The first record from `first` on that we do not have."""
        while first in self.sequences:
            first += 1
        return first

    def take(self, arrival: Arrival) -> bool:
        """Keep a record; False when it is known already. The first one of a stage stands."""
        if arrival.sequence in self.sequences:
            return False
        self.sequences.add(arrival.sequence)
        self.arrivals[arrival.sequence] = arrival
        if arrival.ends_search is not None:
            self.search_ends[arrival.sequence] = arrival.ends_search
        return True

    def refuse(self, reason: str) -> None:
        """Note that something the client sent was not taken."""
        self.refused = reason
        self.refused_count += 1

    def stored(self, count: int) -> None:
        """The oldest `count` samples that were not stored now are."""
        self.stored_samples.extend(bucketed(self.unstored_samples[:count], self.bucket).samples)
        del self.unstored_samples[:count]
        if len(self.stored_samples) > MAX_STORED_SAMPLES:
            self.bucket *= 2
            self.stored_samples = Readings.of(bucketed(self.stored_samples.followed_by(()), 2).samples)

    def _is_stored(self, arrival: Arrival, children: Children) -> bool:
        return any(
            self._owns(c) and c.sequence == arrival.sequence and c.record_digest == arrival.digest
            for c in children.objects
            if c.role == names.ROLE_STAGE
        )

    def _owns(self, child: Child) -> bool:
        return child.owner_uid == self.uid


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
