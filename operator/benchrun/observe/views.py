"""The views that the watch indexes hold and that decisions read. Small on purpose: a hundred runs' worth stay in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.names import KIND


@dataclass(frozen=True, slots=True)
class Child:
    """Any object that carries our run label."""

    kind: str
    """Deployment, LeaderWorkerSet, Job, Service or ConfigMap."""
    name: str
    uid: str
    role: str
    owner_uid: str | None
    """Uid of the controlling BenchmarkRun; None when nobody (or somebody else's kind) controls it."""
    deleting: bool
    applied_hash: str | None
    """Hash of the manifest that was applied last."""
    sequence: int | None = None
    """ConfigMaps of stages: position of the stage in the plan."""
    record_digest: str | None = None
    """ConfigMaps of stages: digest of the record within."""
    stage_id: str | None = None
    """ConfigMaps of stages: which one."""
    plan_digest: str | None = None
    """The client's Job and ConfigMaps of stages: digest of the plan that the client was given."""
    ends_search: str | None = None
    """ConfigMaps of stages: the workload whose search ended with this one."""
    stored_bytes: int = 0
    """ConfigMaps of stages and timeline: how much they hold."""
    created_at: datetime | None = None
    failure: str | None = None
    """What the object itself says is wrong (a Deployment's ReplicaFailure, a Job's Failed message); None if nothing."""


@dataclass(frozen=True, slots=True)
class Termination:
    """How a container ended."""

    exit_code: int
    reason: str
    message: str
    """Termination message, or the last lines of the log (FallbackToLogsOnError)."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a run."""

    name: str
    uid: str
    role: str
    run_uid: str
    ip: str | None
    phase: str
    ready: bool
    """Condition Ready."""
    deleting: bool
    node: str | None
    scheduled_at: datetime | None
    """When condition PodScheduled became True."""
    rank: int = 0
    """Place among the pods of one server over several nodes, or of one client; the first, 0, is the one that answers."""
    created_at: datetime | None = None
    started_at: datetime | None = None
    """When the main container last started."""
    restarts: int = 0
    image: str | None = None
    image_digest: str | None = None
    gpus: int = 0
    args: tuple[str, ...] = ()
    unschedulable: str | None = None
    """Scheduler's message while PodScheduled is False."""
    waiting_reason: str | None = None
    """Why the main container does not run: ErrImagePull, CrashLoopBackOff, CreateContainerConfigError ..."""
    waiting_message: str | None = None
    terminated: Termination | None = None
    """How the main container ended, if it is not running now."""
    last_terminated: Termination | None = None
    """How the main container ended the time before (restarts > 0)."""
    pod_reason: str | None = None
    """status.reason, for example Evicted."""
    pod_message: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a pod can't do its work, told apart, with what to do about it."""

    reason: str
    """One of `benchrun.api.conditions.Reason`."""
    message: str
    """What happened, in the program's own words where it left any, and what to change."""
    terminal: bool
    """True: waiting can't help. False: it may still resolve; shown while waiting."""


@dataclass(frozen=True, slots=True)
class Children:
    """Everything of one run that the watches know."""

    objects: tuple[Child, ...] = ()
    pods: tuple[Pod, ...] = ()

    def named(self, kind: str, name: str) -> Child | None:
        """The object of that kind and name."""
        return next((c for c in self.objects if c.kind == kind and c.name == name), None)

    def role_pods(self, role: str) -> tuple[Pod, ...]:
        """Pods of a role, oldest first."""
        return tuple(sorted((p for p in self.pods if p.role == role), key=lambda p: (str(p.created_at), p.name)))


@dataclass(frozen=True, slots=True)
class Declared:
    """What a user declared, as read from the cluster, undigested."""

    kind: ClassVar[str]
    namespace: str
    name: str
    uid: str
    generation: int
    spec: dict[str, object] = field(default_factory=dict)
    status: dict[str, object] = field(default_factory=dict)
    created_at: datetime | None = None
    deleting: bool = False
    version: str = field(default="", compare=False)
    """The resourceVersion that was read: what is decided on it is written over it alone."""


@dataclass(frozen=True, slots=True)
class Run(Declared):
    """A BenchmarkRun."""

    kind: ClassVar[str] = KIND
    sweep_uid: str | None = None
    """Uid of the BenchmarkSweep that controls it, if one does."""


@dataclass(frozen=True, slots=True)
class Sweep(Declared):
    """A BenchmarkSweep."""

    kind: ClassVar[str] = SWEEP_KIND


View = Sweep | Run | Child | Pod
"""Of any object."""
