"""What a pass over one run reads and what it asks for: plain values, no effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from benchrun_client.contract import Progress, StageRecord, open_record

from benchrun.api.status import BenchmarkRunStatus
from benchrun.measure.samples import Sample, ServerFacts
from benchrun.observe.views import Children, Run

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record that came from the client and is not known to be stored."""

    sequence: int
    digest: str
    data: bytes
    """The record, packed; checked when it came."""

    @property
    def record(self) -> StageRecord:
        """The record, opened."""
        return open_record(self.data)


@dataclass(frozen=True, slots=True)
class Collected:
    """What was measured so far, kept in memory while the run goes on; rebuilt from ConfigMaps after a restart."""

    records: Sequence[StageRecord] = ()
    """Every record known, stored or just arrived, by sequence; each may be opened only when it is looked at."""
    sequences: frozenset[int] = frozenset()
    """Of `records`, told without opening them."""
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
    endpoint_addresses: tuple[str, ...] | None = None
    """Pod addresses behind endpoint.serviceRef, as host:port; None until looked up."""


@dataclass(frozen=True, slots=True)
class Context:
    """Settings of the operator that decisions depend on."""

    client_image: str
    client_image_pull_policy: str = "IfNotPresent"
    live_interval_seconds: float = 5.0
    """Least time between two writes of status.live."""
    operator_version: str = "0"


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
class ScrapeTarget:
    """A metrics page to read again and again."""

    role: str
    pod: str
    url: str
    interval_seconds: int


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
class Decision:
    """What to do now, in this order: delete, apply, acknowledge, write the status, post events."""

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
    lookup_endpoint: bool = False
    """Find the pods behind endpoint.serviceRef and decide again."""
    forget: bool = False
    """The run is over: drop what memory holds of it."""
    delete_run: bool = False
    """TTL has passed."""
    events: tuple[Event, ...] = ()
    requeue_after_seconds: float | None = None
