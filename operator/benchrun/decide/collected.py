"""What was collected of a run so far: declared once, filled by `benchrun.runtime`, read by decisions.

All of it can be lost: a restarted operator finds it again in the cluster and at the client.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from benchrun_client.contract import Progress

from benchrun.api.conditions import Reason
from benchrun.decide.lookups import Answers
from benchrun.measure.samples import Sample, ServerFacts
from benchrun.measure.timeline import bucketed

MAX_BACKLOG_BYTES = 4 * 1024 * 1024
"""Records that wait to be stored: beyond it the client is not asked for more."""
MAX_UNSTORED_SAMPLES = 4096
"""Samples that wait to be stored, 400 bytes each: beyond it they are merged in pairs."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record that came from the client, as packed by it. The operator checks its envelope and never opens it."""

    sequence: int
    stage_id: str
    plan_digest: str
    digest: str
    """SHA-256 of `data`, checked when it came."""
    data: bytes
    ends_search: str | None = None
    """The workload whose search ended with it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run ends without all its measurements, or a sweep without all its runs."""

    reason: str
    message: str

    @property
    def phase(self) -> Literal["Cancelled", "Failed"]:
        """The phase of what ended so."""
        return "Cancelled" if self.reason == Reason.CANCELLED else "Failed"


CANCELLED = Ending(Reason.CANCELLED, "cancelled by spec.cancel")


@dataclass(frozen=True, slots=True)
class RefusedObject:
    """One of our objects that the API server did not take."""

    kind: str
    name: str
    role: str
    message: str
    """The API server's own words."""
    curable: bool
    """It may be taken later as it is: a quota, a policy, our rights, an API server in trouble. Otherwise it is invalid."""
    is_kind_missing: bool = False
    """The cluster does not know such objects at all."""
    is_transient: bool = False
    """The API server had no time, or did not answer: it is offered again in a moment."""


@dataclass(slots=True)
class ClientLink:
    """What the operator has heard from the run's client since it started."""

    progress: Progress | None = None
    """Its latest answer; None: none yet."""
    silent: bool = False
    """It has been asked again and again without an answer: it counts as unreachable, not as not yet heard."""
    mismatch: str | None = None
    """Why operator and client do not understand each other."""
    lost_record: int | None = None
    """A record that the client no longer has and that is not stored."""

    @property
    def answered(self) -> bool:
        """Whether there is nothing more to wait for before a run is judged by what is known of its client."""
        return self.progress is not None or self.silent or self.mismatch is not None


@dataclass(slots=True)
class Samples:
    """Samples of the servers' metrics endpoints that are not stored yet, and each server's last two."""

    unstored: list[Sample] = field(default_factory=list)
    _latest: dict[tuple[str, str], tuple[Sample, ...]] = field(default_factory=dict)

    @property
    def recent(self) -> list[Sample]:
        """Each server's last two, oldest first."""
        return sorted((s for pair in self._latest.values() for s in pair), key=lambda s: s.at)

    def add(self, sample: Sample) -> None:
        """A sample was taken."""
        self.unstored.append(sample)
        server = (sample.role, sample.pod)
        self._latest[server] = (*self._latest.get(server, ())[-1:], sample)
        if len(self.unstored) > MAX_UNSTORED_SAMPLES:
            self.unstored = list(bucketed(self.unstored, 2).samples)

    def stored(self, through: float) -> None:
        """Everything taken until then (Unix seconds) is stored."""
        self.unstored = [sample for sample in self.unstored if sample.at > through]


@dataclass(slots=True)
class Collected:
    """Everything that a decision reads and no watch tells."""

    arrivals: dict[int, Arrival] = field(default_factory=dict)
    """Records that are not known to be stored, by sequence."""
    sequences: set[int] = field(default_factory=set)
    """Of every record that came."""
    search_ends: dict[int, str] = field(default_factory=dict)
    """Of those that ended a search: its workload, by sequence."""
    client: ClientLink = field(default_factory=ClientLink)
    samples: Samples = field(default_factory=Samples)
    facts: dict[str, ServerFacts] = field(default_factory=dict)
    """What servers say of themselves, by pod name."""
    gpu_troubles: dict[str, str] = field(default_factory=dict)
    """Why a GPU exporter tells nothing of a pod, by pod name."""
    answers: Answers = field(default_factory=Answers)
    """What look-ups found."""
    refused_object: RefusedObject | None = None
    """What the API server refused when it was last asked."""
    conflict: str | None = None
    """An object that stands where one of ours should, and is not: kind and name."""
    ending: Ending | None = None
    """Why the run ends: decided, and carried out in part."""
    released_at: datetime | None = None
    """When the deletion of the servers was asked for."""

    def next_sequence(self, first: int) -> int:
        """The first record from `first` on that did not come."""
        while first in self.sequences:
            first += 1
        return first

    @property
    def backlog_is_full(self) -> bool:
        """Whether so many records wait to be stored that no more should be asked for."""
        return sum(len(arrival.data) for arrival in self.arrivals.values()) > MAX_BACKLOG_BYTES

    def take(self, arrival: Arrival) -> bool:
        """Keep a record; False when it is known already. The first one of a stage stands."""
        if arrival.sequence in self.sequences:
            return False
        self.sequences.add(arrival.sequence)
        self.arrivals[arrival.sequence] = arrival
        if arrival.ends_search is not None:
            self.search_ends[arrival.sequence] = arrival.ends_search
        return True
