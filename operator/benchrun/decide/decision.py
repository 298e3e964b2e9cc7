"""What a reconcile of one run reads (Facts) and decides (Decision): plain values, no effects.

A decision requests queries, which are answered beside the queue's workers
(`benchrun.effects.lookups`). A query is a value, and the key of its answer until the run is
forgotten. A failed query has an answer too: only the field that it would fill stays empty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any, Generic, Literal, TypeVar

from benchrun_client.contract import ClientProgress, Sealed, SearchPlan
from benchrun_client.engines import Engine, StartupPhases

from benchrun import names
from benchrun.api import (
    BenchmarkRunStatus,
    Blocked,
    ClientStatus,
    EndingStatus,
    Judgement,
    Reason,
    RunInstants,
    ServerStatus,
    early_phase,
)
from benchrun.measure import bucketed
from benchrun.measure.metrics_page import Sample, ServerFacts
from benchrun.observe import Children, Flavor, Run
from benchrun.plan import NO_DEFAULTS, PackedResult, RunDefaults

T = TypeVar("T")
ExporterKind = Literal["gpu", "cpu"]
"""GPU figures (DCGM), or the CPU figures of containers (cAdvisor)."""


class Query(Generic[T]):
    """A query whose answer is a T."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    value: T | None  # None if not available
    problem: str = ""  # why it is not available


class Answers(dict[Query[Any], Answer[Any]]):
    def of(self, query: Query[T]) -> Answer[T] | None:
        """Return the answer to the query, or None as long as there is none."""
        return self.get(query)

    def value(self, query: Query[T] | None) -> T | None:
        """Return the value of the query's answer; None without a query, an answer or a value."""
        answer = None if query is None else self.get(query)
        return None if answer is None else answer.value


@dataclass(frozen=True, slots=True)
class LogTail(Query[str]):
    """A query for the last lines of a failed container's log."""

    pod: str
    container: str
    previous: (
        bool  # whether the log is of the container before the one that runs now
    )


@dataclass(frozen=True, slots=True)
class Compilations(Query[tuple[float, ...]]):
    """A query for the kernel compilations in a healthy server's log, as Unix seconds."""

    pod: str
    container: str
    since: str  # RFC 3339 timestamp
    engine: Engine  # The engine that wrote the log.


@dataclass(frozen=True, slots=True)
class Start:
    phases: StartupPhases  # phases of the start, from the server's log
    # seconds of the image pull, from the pod's events
    image_pull_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ServerStart(Query[Start]):
    """A query for how a server's pod started: the beginning of its log, and its events."""

    pod: str
    uid: str
    container: str
    engine: Engine  # The engine that wrote the log.


@dataclass(frozen=True, slots=True)
class ExporterPod:
    name: str
    ip: str


@dataclass(frozen=True, slots=True)
class Exporter(Query[ExporterPod]):
    """A query for the exporter of one kind that runs on a node."""

    kind: ExporterKind
    node: str


@dataclass(frozen=True, slots=True)
class EndpointPods(Query[tuple[str, ...]]):
    """Addresses of the ready pods behind a Service, as host:port. Queried until there are any."""

    service: str
    port: int

    @property
    def what(self) -> str:
        """Return what is looked up, in words."""
        return f"Service {self.service}"


@dataclass(frozen=True, slots=True)
class LabelledPods(Query[tuple[str, ...]]):
    """Addresses of the ready pods with these labels, as host:port.

    Queried again and again, because a gateway sends requests to replicas that come later, too.
    """

    labels: tuple[tuple[str, str], ...]
    port: int

    @property
    def selector(self) -> str:
        """Return the labels as a selector of the API server."""
        return ",".join(f"{name}={value}" for name, value in self.labels)

    @property
    def what(self) -> str:
        """Return what is looked up, in words."""
        return f"endpoint.metrics.pods ({self.selector})"


@dataclass(frozen=True, slots=True)
class Flavors(Query[tuple[Flavor, ...]]):
    """The ResourceFlavors of these names. Queried until all could be read."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodsRefused(Query[str]):
    """Why pods of a Job, or of a group's StatefulSets, are not made, in the API server's words.

    Only events say so; the answer is empty if none does. Repeated while decisions request it.
    """

    kind: Literal["Job", "StatefulSet"]
    name: str  # name of the Job, or the prefix of the names of the StatefulSets
    # uid of a Job: another one of the same name may have existed before
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A judged run: the part that its status holds, and the packed result document."""

    judgement: Judgement
    document: PackedResult | None = None


@dataclass(frozen=True, slots=True)
class Judging(Query[Evaluation]):
    """A query for the judgement of everything that was measured; the judge process makes it."""

    ended_early: bool
    ending: EndingStatus | None = field(
        default=None, compare=False
    )  # why, where it ended early
    instants: RunInstants = field(default_factory=RunInstants, compare=False)
    servers: tuple[ServerStatus, ...] = field(default=(), compare=False)
    """Entries of the servers as the last status will have them."""
    client: ClientStatus | None = field(default=None, compare=False)
    unstored: tuple[
        str, ...
    ] = ()  # stages whose record is lost: known when it was refused
    most_stages: int = field(default=1_000, compare=False)
    """Number of stages that are expected: a record with a higher number is not the run's."""
    most_chunks: int = field(default=1_000, compare=False)
    """Number of timeline parts that are expected: a part with a higher number is not the run's."""


# roles of the ConfigMaps that hold what was measured
RESULT_ROLES = (
    names.ROLE_STAGE,
    names.ROLE_TIMELINE,
    names.ROLE_RESULT,
)
MAX_BACKLOG_BYTES = 4 * 1024 * 1024
"""Most bytes of records that wait to be stored: above it the client is not polled."""
MAX_SERVERS = 128
"""Most servers of a run of which something is remembered: replicas behind a gateway come and go for
as long as the run lasts."""
MAX_UNSTORED_SAMPLES = 4096
"""Most samples that wait to be stored: above it they are merged in pairs."""

SAMPLE_BYTES = 1_700
FEW_UNSTORED_SAMPLES = 32  # most samples that wait to be stored if memory is scarce


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run ends without all its measurements, or a sweep without all its runs."""

    reason: str
    message: str

    @property
    def phase(self) -> Literal["Cancelled", "Failed"]:
        return early_phase(self.reason)


CANCELLED = Ending(Reason.CANCELLED, "cancelled by spec.cancel")


@dataclass(frozen=True, slots=True)
class RefusedObject:
    """An object of the run that the API server did not accept."""

    kind: str
    name: str
    role: str
    # the API server's own words, which may change with every answer
    message: str = field(compare=False)
    # the same object may be accepted later: a quota, a policy, missing rights of the operator, an
    # API server in trouble; else it is invalid
    curable: bool
    is_kind_missing: bool = field(default=False, compare=False)
    """Whether the cluster does not know such objects at all."""
    is_transient: bool = field(default=False, compare=False)
    """Whether the API server had no time or gave no answer: the object is retried in a moment."""


@dataclass(slots=True)
class ClientState:
    """What the operator has learnt from the run's client since the operator started."""

    # latest answer of the client; None before its first answer
    progress: ClientProgress | None = None
    # it has never answered, for several polls: it counts as unreachable, not as not yet heard
    silent: bool = False
    # why operator and client do not understand each other
    mismatch: str | None = None
    # a record that the client no longer has and that is not stored
    lost_record: int | None = None

    @property
    def answered(self) -> bool:
        """Return whether enough is known of the client to judge the state of the run.

        It has answered, counts as silent, or does not match this operator.
        """
        return self.progress is not None or self.silent or self.mismatch is not None


@dataclass(slots=True)
class Samples:
    """Samples of the servers' metrics endpoints: the unstored ones, and each server's last two."""

    unstored: list[Sample] = field(default_factory=list)
    _latest: dict[tuple[str, str], tuple[Sample, ...]] = field(default_factory=dict)

    @property
    def recent(self) -> list[Sample]:
        """Return each server's last two samples, oldest first."""
        return sorted(
            (s for pair in self._latest.values() for s in pair), key=lambda s: s.at
        )

    @property
    def held_bytes(self) -> int:
        """Return how many bytes of memory the unstored samples take at most."""
        return len(self.unstored) * SAMPLE_BYTES

    def add(self, sample: Sample, *, is_tight: bool = False) -> None:
        """Keep a sample. `is_tight`: memory is scarce, so fewer samples are kept."""
        self.unstored.append(sample)
        server = (sample.role, sample.pod)
        # Put last: what was not heard of for longest is dropped first.
        self._latest[server] = (*self._latest.pop(server, ())[-1:], sample)
        if len(self._latest) > MAX_SERVERS:
            del self._latest[next(iter(self._latest))]
        limit = FEW_UNSTORED_SAMPLES if is_tight else MAX_UNSTORED_SAMPLES
        # With fewer than two of each server every new one would cost a look at all.
        limit = max(limit, 2 * len(self._latest))
        if len(self.unstored) > limit:
            self.unstored = list(bucketed(self.unstored, 2))
        # Of servers that come and go nothing can be merged: the oldest are lost.
        if len(self.unstored) > (most := max(limit, 2 * MAX_SERVERS)):
            self.unstored = self.unstored[-most // 2 :]

    def stored(self, through: float) -> None:
        """Drop the samples taken until `through` (Unix seconds): they are stored."""
        self.unstored = [sample for sample in self.unstored if sample.at > through]


@dataclass(slots=True)
class Collected:
    """Everything that a decision reads and that no watch delivers."""

    arrivals: dict[int, Sealed] = field(default_factory=dict)
    """Received records that are not known to be stored, by sequence."""
    # sequences of all received records
    sequences: set[int] = field(default_factory=set)
    search_ends: dict[int, str] = field(default_factory=dict)
    """Workloads whose search ended, by the sequence of the search's last record; with repeats: Auto
    that of the last stage."""
    client: ClientState = field(default_factory=ClientState)
    samples: Samples = field(default_factory=Samples)
    server_facts: dict[str, ServerFacts] = field(default_factory=dict)
    """What servers report of themselves, by pod name."""
    exporter_troubles: dict[tuple[ExporterKind, str], str] = field(
        default_factory=dict
    )
    """Why a pod has no figures, by kind of exporter and pod."""
    answers: Answers = field(default_factory=Answers)  # what queries found
    # object that was refused in the last reconcile
    refused_object: RefusedObject | None = None
    refused_at: datetime | None = None  # when this object was refused
    # what kept the run waiting in the last reconcile, and when
    blocked: Blocked | None = None
    # a foreign object with the name of one of the run's: kind and name
    conflict: str | None = None
    # why the run ends: decided, and carried out in part
    ending: Ending | None = None
    judged_bytes: int = 0  # bytes of records that wait for the judge, stored or not
    is_adopted: bool = False
    """Whether another process saw the measurement begin, and may have judged it."""
    # whether the status in the cluster counts this judgement
    is_judging_counted: bool = False
    # when the deletion of the servers was requested
    released_at: datetime | None = None
    gone_workloads: set[int] = field(default_factory=set)
    """Attempts whose Workload the API server said to be gone."""
    places: dict[int, int] = field(default_factory=dict)
    """How many are ahead in the queue, by the number of the attempt."""

    def note_server(self, pod: str, facts: ServerFacts) -> None:
        """Keep what a server reports of itself; of too many servers, drop the one noted first."""
        self.server_facts[pod] = facts
        if len(self.server_facts) > MAX_SERVERS:
            del self.server_facts[next(iter(self.server_facts))]

    def next_sequence(self, first: int) -> int:
        """Return the sequence, from `first` on, of the first record that was not received."""
        return next(
            sequence for sequence in count(first) if sequence not in self.sequences
        )

    @property
    def backlog_bytes(self) -> int:
        """Return how much memory the unstored records and what queries read take.

        Records and the result document count in bytes, logs in characters.
        """
        records = sum(len(arrival.body) for arrival in self.arrivals.values())
        values = [answer.value for answer in self.answers.values()]
        logs = sum(len(value) for value in values if isinstance(value, str))
        evaluated = (
            value.document for value in values if isinstance(value, Evaluation)
        )
        return (
            records
            + logs
            + sum(len(each.data) for each in evaluated if each is not None)
        )

    @property
    def backlog_is_full(self) -> bool:
        return self.backlog_bytes > MAX_BACKLOG_BYTES

    def take(self, arrival: Sealed) -> bool:
        """Keep a received record; return False if its sequence is already known.

        Of several records of a stage, the first one counts.
        """
        envelope = arrival.envelope
        if envelope.sequence in self.sequences:
            return False
        self.sequences.add(envelope.sequence)
        self.arrivals[envelope.sequence] = arrival
        if envelope.ends_search is not None:
            self.search_ends[envelope.sequence] = envelope.ends_search
        return True


Manifest = dict[str, Any]
PodRoad = Literal["Direct", "Proxy"]
"""Route to the pods: directly to their addresses, or (from outside the cluster) through the API
server."""


@dataclass(frozen=True, slots=True)
class Exporters:
    """Where the exporters of one kind are: pods with metrics of their node, one on each node."""

    namespace: str
    selector: str  # label selector
    port: int


@dataclass(frozen=True, slots=True)
class Context:
    """Settings of the operator that decisions depend on."""

    client_image: str
    client_image_pull_policy: str = "IfNotPresent"
    live_interval_seconds: float = 5.0
    """Least seconds between two status writes that change only progress and live figures."""
    unschedulable_grace_seconds: int = 900
    """Seconds that a pod that fits no node waits for one, if its run sets no other time."""
    max_hold_seconds: int = 86_400
    """Most seconds that a server may be held once it is scheduled, whatever its deadlines say."""
    pod_road: PodRoad = "Direct"
    exporters: Mapping[ExporterKind, Exporters] = field(default_factory=dict)
    # the key that all runs' tokens derive from
    channel_key: bytes = field(default=b"", repr=False)
    # whether every run gets NetworkPolicies; servers in development mode always do
    network_policies: bool = False
    # where this operator's pod runs; empty outside the cluster
    operator_namespace: str = ""
    network_policy_peers: tuple[
        Manifest, ...
    ] = ()  # further NetworkPolicy peers that may connect to servers
    # whether runs may wait in queues of Kueue
    kueue: bool = False
    run_defaults: RunDefaults = NO_DEFAULTS
    """The platform's defaults, for runs whose plan is not made yet."""
    archive: bool = False
    """Whether ended runs are archived: what is not yet is then kept, whatever its TTL says."""


@dataclass(frozen=True, slots=True)
class Facts:
    run: Run
    children: Children
    collected: Collected
    now: datetime
    context: Context


@dataclass(frozen=True, slots=True)
class Ref:
    """An object to delete or to cancel; the uid protects another object of the same name."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ExporterEndpoint:
    """The metrics endpoint of an exporter, scraped beside a server's own."""

    kind: ExporterKind
    url: str
    namespace: str  # namespace of the server's pod


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """A metrics endpoint to scrape."""

    engine: Engine
    role: str
    pod: str
    url: str
    interval_seconds: int
    exporters: tuple[ExporterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class PullTarget:
    """A client to poll, and the values of the plan that its envelopes are checked against."""

    pod: str
    url: str  # base URL of the client's record server
    run_uid: str
    from_sequence: int  # first record wanted
    token: str = field(repr=False)
    # digest of the plan; None if the Job does not have it
    plan_digest: str | None = None
    stage_ids: Sequence[str] = field(default=(), compare=False, repr=False)
    searches: tuple[SearchPlan, ...] = field(default=(), compare=False, repr=False)
    # stages that there may be with repeats: Auto
    repeated: frozenset[str] = field(default=frozenset(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class QueuedWorkload:
    """A Workload that a run follows, and the queue in which its place is looked up."""

    name: str
    attempt: int
    queue: (
        str | None
    )  # queue in which its place is looked up; None: it has its quota


@dataclass(frozen=True, slots=True)
class Event:
    """An event for people who watch the run or sweep; it is posted once."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now.

    It is done in this order: `last_words`, `delete`, `apply`, `acknowledge`, `lookups`, `status`,
    `events`.
    """

    status: BenchmarkRunStatus
    last_words: LogTail | None = None
    """The log of a failed server to read: one attempt, before the server is deleted."""
    delete: tuple[Ref, ...] = ()  # objects to delete, servers first
    apply: tuple[Manifest, ...] = ()
    scrape: tuple[
        ScrapeTarget, ...
    ] = ()  # endpoints to scrape from now on; all others are dropped
    pull: PullTarget | None = None  # the client to follow from now on
    # the Workload to read from now on; None: none
    queued: QueuedWorkload | None = None
    # the client is told that records below this sequence are stored
    acknowledge: int | None = None
    lookups: tuple[
        Query[Any], ...
    ] = ()  # queries to start; answered ones are left out
    # whether the status is written first, before the run is judged
    counts_judging: bool = False
    ending: Ending | None = None  # why the run ends, kept until it has ended
    # whether the run is over: what memory holds of it is dropped
    forget: bool = False
    # whether the run is deleted because its TTL has passed
    delete_run: bool = False
    events: tuple[Event, ...] = ()
    requeue_after_seconds: float | None = None
