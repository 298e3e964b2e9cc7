"""What a pass over one run reads and what it asks for: plain values, no effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from benchrun_client.contract import Progress, StageRecord, open_record

from benchrun.api.status import BenchmarkRunStatus
from benchrun.measure.samples import Sample, ServerFacts
from benchrun.observe.startup_log import StartupPhases
from benchrun.observe.views import Children, Run

Manifest = dict[str, Any]
PodRoad = Literal["Direct", "Proxy"]
"""How pods are reached: at their addresses, or (by an operator outside the cluster) through the API server."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record that came from the client and is not known to be stored."""

    sequence: int
    digest: str
    data: bytes
    """The record, packed; checked when it came."""
    ends_search: str | None = None
    """The workload whose search ended with it."""

    @property
    def record(self) -> StageRecord:
        """The record, opened."""
        return open_record(self.data)


@dataclass(frozen=True, slots=True)
class GpuExporters:
    """Pods that tell of GPUs, one a node."""

    namespace: str
    selector: str
    """Label selector."""
    port: int


@dataclass(frozen=True, slots=True)
class ExporterPod:
    """The one of a node."""

    name: str
    ip: str


@dataclass(frozen=True, slots=True)
class StartupTold:
    """What was read of a pod's start."""

    phases: StartupPhases
    """By its log."""
    image_pull_seconds: float | None = None
    """By its events."""


@dataclass(frozen=True, slots=True)
class RefusedObject:
    """One of our objects that the API server did not take."""

    kind: str
    name: str
    role: str
    message: str
    """The API server's own words."""
    curable: bool
    """It may be taken later as it is: a quota, a policy, our rights. Otherwise it is invalid and stays so."""
    is_kind_missing: bool = False
    """The cluster does not know such objects at all."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run ends without all its measurements."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Collected:
    """What was measured so far. What is stored is not kept in memory; it is read back once, for judging."""

    records: Sequence[StageRecord] = ()
    """Records at hand, by sequence: those on their way into ConfigMaps, and once read back all others."""
    sequences: frozenset[int] = frozenset()
    """Of every record that came, told without opening them."""
    search_ends: Mapping[int, str] = field(default_factory=dict)
    """Of those that ended a search: its workload, by sequence."""
    read_back: bool = False
    """Whether all that is stored and can be read is among `records`."""
    arrivals: tuple[Arrival, ...] = ()
    samples: Sequence[Sample] = ()
    """The whole timeline, oldest first: stored chunks and what is in memory; older ones may be opened only when looked at."""
    unstored_samples: tuple[Sample, ...] = ()
    timeline_chunks: int = 0
    """Timeline ConfigMaps that exist."""
    facts: dict[str, ServerFacts] = field(default_factory=dict)
    """By pod name."""
    progress: Progress | None = None
    """Latest word of the client; None when it has not answered since the operator started."""
    client_silent: bool = False
    """The client has been asked again and again and did not answer: it counts as unreachable, not as not yet heard."""
    refused: str | None = None
    """Why a record of the client was refused, if one was."""
    refused_count: int = 0
    log_tail: str | None = None
    """Last lines of the failed server's log, once fetched."""
    log_tail_tried: bool = False
    conflict: str | None = None
    """An object that stands where one of ours should, and is not: kind and name."""
    refused_object: RefusedObject | None = None
    """What the API server refused when it was last asked."""
    exporters: Mapping[str, ExporterPod | None] = field(default_factory=dict)
    """Exporters of GPUs' figures by node, of nodes where one was looked for; None: none runs there."""
    gpu_troubles: Mapping[str, str] = field(default_factory=dict)
    """Why an exporter's page tells nothing of a pod, by pod name."""
    ending: Ending | None = None
    """Why the run ends: decided and carried out in part, and not in the status yet."""
    compilations: tuple[float, ...] | None = None
    """When the server compiled kernels while it served, in Unix seconds, as its log tells; None: the log was not read."""
    log_searched: bool = False
    """Whether that log was asked for."""
    startups: Mapping[str, StartupTold] = field(default_factory=dict)
    """By pod name, of those whose start was looked at; empty words where nothing could be read."""
    baseline: Run | None = None
    """The run that spec.baseline names, once all is measured; None: there is none."""
    baseline_sought: bool = False
    """Whether it was looked for."""
    endpoint_addresses: tuple[str, ...] | None = None
    """Pod addresses behind endpoint.serviceRef, as host:port; None until looked up."""


@dataclass(frozen=True, slots=True)
class Context:
    """Settings of the operator that decisions depend on."""

    client_image: str
    client_image_pull_policy: str = "IfNotPresent"
    live_interval_seconds: float = 5.0
    """Least time between two writes of status.live."""
    unschedulable_grace_seconds: int = 900
    """How long a pod that no node could ever take is waited for: an autoscaler may add such a node."""
    operator_version: str = "0"
    pod_road: PodRoad = "Direct"
    gpu_exporters: GpuExporters | None = None


@dataclass(frozen=True, slots=True)
class World:
    """Everything a pass knows."""

    run: Run
    children: Children
    collected: Collected
    now: datetime
    context: Context


@dataclass(frozen=True, slots=True)
class Ref:
    """An object to delete; the uid keeps a namesake safe."""

    kind: str
    namespace: str
    name: str
    uid: str | None = None
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class GpuPage:
    """The page of a GPU exporter, beside a server's own."""

    url: str
    namespace: str
    """Of the server's pod."""


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """A metrics page to read again and again."""

    role: str
    pod: str
    url: str
    interval_seconds: int
    gpus: GpuPage | None = None


@dataclass(frozen=True, slots=True)
class PullTarget:
    """A client to follow."""

    pod: str
    url: str
    """Base URL of its record server."""
    nonce: str
    from_sequence: int
    """First record wanted."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something a person watching should see, once."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class LogWanted:
    """The tail of a failed container's log, for the status."""

    pod: str
    container: str
    previous: bool


@dataclass(frozen=True, slots=True)
class LogRange:
    """The latest part of a running container's log, to look for compilations in."""

    pod: str
    container: str
    since_seconds: int


@dataclass(frozen=True, slots=True)
class StartupWanted:
    """A server whose log's beginning and whose events are to be read."""

    pod: str
    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, in this order: search the log, delete, apply, acknowledge, read back, write the status, post events."""

    status: BenchmarkRunStatus
    delete: tuple[Ref, ...] = ()
    apply: tuple[Manifest, ...] = ()
    scrape: tuple[ScrapeTarget, ...] = ()
    """The pages to be reading from now on; others are left."""
    pull: PullTarget | None = None
    """The client to be following from now on."""
    acknowledge: int | None = None
    """Records below this are stored; tell the client."""
    log_wanted: LogWanted | None = None
    log_search: LogRange | None = None
    startups_wanted: tuple[StartupWanted, ...] = ()
    exporters_wanted: tuple[str, ...] = ()
    """Nodes whose exporter of GPUs' figures is to be found."""
    read_back: bool = False
    """Read what is stored and decide again, in the same pass: with it the run can be judged."""
    baseline_wanted: str | None = None
    """With `read_back`: the run of this name is read too."""
    ending: Ending | None = None
    """With `read_back`: what that decision will say, should it be long in coming."""
    lookup_endpoint: bool = False
    """Find the pods behind endpoint.serviceRef and decide again."""
    forget: bool = False
    """The run is over: drop what memory holds of it."""
    delete_run: bool = False
    """TTL has passed."""
    events: tuple[Event, ...] = ()
    requeue_after_seconds: float | None = None
