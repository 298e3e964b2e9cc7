"""What was collected of a run so far, and the look-ups that a decision asks for to learn more."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from benchrun_client.contract import Progress

from benchrun.api import ClientStatus, Judgement, Reason, ServerStatus
from benchrun.measure.exposition import Sample, ServerFacts
from benchrun.measure.timeline import bucketed
from benchrun.observe.vllm_log import StartupPhases

# ---- lookups ----------------------------------------------------------------------------------------------------------
# Look-ups: questions that a decision asks, answered beside the queue's workers (`benchrun.effects.lookups`).
#
# A question is a value. Its answer is kept under it until the run is forgotten. A look-up that fails is an answer too: it costs
# its own field and nothing else.

T = TypeVar("T")


class Question(Generic[T]):
    """A look-up whose answer is a T."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What came of a look-up."""

    value: T | None
    """None: it can't be had."""
    problem: str = ""
    """Why it can't be had."""


class Answers(dict[Question[Any], Answer[Any]]):
    """All answers of a run so far."""

    def of(self, question: Question[T]) -> Answer[T] | None:
        """The answer; None: there is none yet."""
        return self.get(question)

    def value(self, question: Question[T]) -> T | None:
        """What was found; None: nothing, or not yet."""
        answer = self.get(question)
        return None if answer is None else answer.value


@dataclass(frozen=True, slots=True)
class LogTail(Question[str]):
    """The last lines of a failed container's log."""

    pod: str
    container: str
    previous: bool
    """Of the container before the one that runs now."""


@dataclass(frozen=True, slots=True)
class Compilations(Question[tuple[float, ...]]):
    """Unix seconds at which a server's log tells of compiled kernels, since it was healthy."""

    pod: str
    container: str
    since: str
    """RFC 3339."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a server's pod started."""

    phases: StartupPhases
    """By its log."""
    image_pull_seconds: float | None = None
    """By its events."""


@dataclass(frozen=True, slots=True)
class ServerStart(Question[Start]):
    """How a server's pod started: the beginning of its log, and its events."""

    pod: str
    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class ExporterPod:
    """The pod of a GPU exporter."""

    name: str
    ip: str


@dataclass(frozen=True, slots=True)
class GpuExporter(Question[ExporterPod]):
    """The GPU exporter that runs on a node."""

    node: str


@dataclass(frozen=True, slots=True)
class EndpointPods(Question[tuple[str, ...]]):
    """Addresses of the ready pods behind a Service, as host:port. Asked again until there are any."""

    service: str
    port: int


@dataclass(frozen=True, slots=True)
class Judging(Question[Judgement]):
    """The judgement of all that was measured, by a process of its own."""

    ended_early: bool
    servers: tuple[ServerStatus, ...] = field(default=(), compare=False)
    """As the last status will have them."""
    client: ClientStatus | None = field(default=None, compare=False)


# ---- collected --------------------------------------------------------------------------------------------------------
# What was collected of a run so far: declared once, filled by `benchrun.runtime`, read by decisions.
#
# All of it can be lost: a restarted operator finds it again in the cluster and at the client.

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
