"""What a pass over one run reads and what it asks for: plain values, no effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from benchrun_client.contract import Search

from benchrun.api import BenchmarkRunStatus
from benchrun.decide.collected import Collected, Ending, LogTail, Question
from benchrun.observe.views import Children, Run

Manifest = dict[str, Any]
PodRoad = Literal["Direct", "Proxy"]
"""How pods are reached: at their addresses, or (by an operator outside the cluster) through the API server."""


@dataclass(frozen=True, slots=True)
class GpuExporters:
    """Pods that tell of GPUs, one a node."""

    namespace: str
    selector: str
    """Label selector."""
    port: int


@dataclass(frozen=True, slots=True)
class Context:
    """Settings of the operator that decisions depend on."""

    client_image: str
    client_image_pull_policy: str = "IfNotPresent"
    live_interval_seconds: float = 5.0
    """Least time between two writes of a status that tell of nothing but progress and live figures."""
    unschedulable_grace_seconds: int = 900
    """How long a pod that no node could ever take is waited for: an autoscaler may add such a node."""
    max_hold_seconds: int = 86_400
    """How long a server may be held once it is scheduled, whatever its deadlines say."""
    pod_road: PodRoad = "Direct"
    gpu_exporters: GpuExporters | None = None
    channel_key: bytes = field(default=b"", repr=False)
    """What the tokens of all runs are made of."""
    network_policies: bool = False
    """Whether every run gets NetworkPolicies; servers in development mode always do."""
    operator_namespace: str = ""
    """Where this operator's pod runs; empty outside the cluster."""
    policy_peers: tuple[Manifest, ...] = ()
    """Who else may connect to servers, as NetworkPolicy peers."""


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


@dataclass(frozen=True, slots=True)
class GpuPage:
    """The metrics endpoint of a GPU exporter, read beside a server's own."""

    url: str
    namespace: str
    """Of the server's pod."""


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """A metrics endpoint to scrape."""

    role: str
    pod: str
    url: str
    interval_seconds: int
    gpus: GpuPage | None = None


@dataclass(frozen=True, slots=True)
class PullTarget:
    """A client to follow, and what its envelopes are checked against."""

    pod: str
    url: str
    """Base URL of its record server."""
    run_uid: str
    from_sequence: int
    """First record wanted."""
    token: str = field(repr=False)
    plan_digest: str | None = None
    """None: the Job does not tell it."""
    stage_ids: Sequence[str] = field(default=(), compare=False, repr=False)
    searches: tuple[Search, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Event:
    """Something a person watching should see, once."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now, in this order: last words, delete, apply, acknowledge, look-ups, status, events."""

    status: BenchmarkRunStatus
    last_words: LogTail | None = None
    """The log of a failed server, which is gone with it: one attempt, before the server is deleted."""
    delete: tuple[Ref, ...] = ()
    """Servers first."""
    apply: tuple[Manifest, ...] = ()
    scrape: tuple[ScrapeTarget, ...] = ()
    """The endpoints to scrape from now on; others are left."""
    pull: PullTarget | None = None
    """The client to follow from now on."""
    acknowledge: int | None = None
    """Records below this are stored; tell the client."""
    lookups: tuple[Question[Any], ...] = ()
    """To be answered; those that are answered already are left out."""
    ending: Ending | None = None
    """Why the run ends, to be kept until it has ended."""
    forget: bool = False
    """The run is over: drop what memory holds of it."""
    delete_run: bool = False
    """TTL has passed."""
    events: tuple[Event, ...] = ()
    requeue_after_seconds: float | None = None
