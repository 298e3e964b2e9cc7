"""The views that the watch indexes hold and that decisions read, and which object or run a body
is."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, NamedTuple

from benchrun import names
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.observe import untrusted_json as raw


@dataclass(frozen=True, slots=True)
class Child:
    """Any object that carries our run label."""

    kind: str  # Deployment, LeaderWorkerSet, Job, Service or ConfigMap.
    name: str
    uid: str
    role: str
    owner_uid: (
        str | None
    )  # Uid of the controlling BenchmarkRun; None when nobody, or another kind, controls it.
    deleting: bool
    applied_hash: str | None  # Hash of the manifest that was applied last.
    sequence: int | None = None  # ConfigMaps of stages: position of the stage in the plan.
    record_digest: str | None = None
    stage_id: str | None = None
    plan_digest: str | None = (
        None  # Client's Job, ConfigMaps of stages: digest of the plan that the client was given.
    )
    ends_search: str | None = (
        None  # ConfigMaps of stages: the workload whose search ended with this one.
    )
    stored_bytes: int = 0
    created_at: datetime | None = None
    failure: str | None = (
        None  # By its own status: a Deployment's ReplicaFailure, a Job's Failed message.
    )


@dataclass(frozen=True, slots=True)
class Termination:
    """How a container ended."""

    exit_code: int
    reason: str
    message: str  # Termination message, or the last lines of the log (FallbackToLogsOnError).


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
    deleting: bool
    node: str | None
    scheduled_at: datetime | None  # When condition PodScheduled became True.
    # Place among the pods of one server over several nodes, or of one client; 0 is the one that
    # answers.
    rank: int = 0
    created_at: datetime | None = None
    started_at: datetime | None = None  # When the main container last started.
    restarts: int = 0
    image: str | None = None
    image_digest: str | None = None
    gpus: int = 0
    args: tuple[str, ...] = ()
    unschedulable: str | None = None  # Scheduler's message while PodScheduled is False.
    waiting_reason: str | None = (
        None  # Why the main container does not run: ErrImagePull, CrashLoopBackOff ...
    )
    waiting_message: str | None = None
    terminated: Termination | None = None  # How the main container ended, if it is not running now.
    last_terminated: Termination | None = (
        None  # How the main container ended the time before (restarts > 0).
    )
    pod_reason: str | None = None  # Why the whole pod ended, for example Evicted.
    pod_message: str | None = None

    @property
    def ending(self) -> Termination | None:
        """How the main container ended last; of one that was started again, the time before."""
        return self.terminated or self.last_terminated


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a pod can't do its work, and what to do about it."""

    reason: str  # One of `benchrun.api.conditions.Reason`.
    message: str  # What happened, in the program's own words where it left any, and what to change.
    terminal: bool  # True: waiting can't help. False: it may still resolve; shown while waiting.


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
        return tuple(
            sorted(
                (p for p in self.pods if p.role == role), key=lambda p: (str(p.created_at), p.name)
            )
        )


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
    left_out: bool = False  # memory has no room for its spec and status: they are read in the pass
    version: str = field(
        default="", compare=False
    )  # resourceVersion: what is decided on it is written over it alone


@dataclass(frozen=True, slots=True)
class Run(Declared):
    """A BenchmarkRun."""

    kind: ClassVar[str] = names.KIND
    sweep_uid: str | None = None  # Uid of the BenchmarkSweep that controls it, if one does.


@dataclass(frozen=True, slots=True)
class Sweep(Declared):
    """A BenchmarkSweep."""

    kind: ClassVar[str] = SWEEP_KIND


View = Sweep | Run | Child | Pod
_MAX_VERSION_CHARS = 40


class Key(NamedTuple):
    """Which object. What is queued is that of a run or a sweep."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}"
        return f"sweep {where}" if self.kind == SWEEP_KIND else where


def run_key(namespace: str, name: str) -> Key:
    return Key(names.KIND, namespace, name)


def sweep_key(namespace: str, name: str) -> Key:
    return Key(SWEEP_KIND, namespace, name)


class Identity(NamedTuple):
    """An object, its uid and its version."""

    key: Key
    uid: str
    version: int


def identity_of(kind: str, body: raw.Object) -> Identity | None:
    """None where the body does not say which object it is, or which version."""
    meta = raw.mapping(body.get("metadata"))
    namespace, name, uid = (raw.text(meta.get(key)) for key in ("namespace", "name", "uid"))
    # resourceVersions of one kind are comparable as numbers, which Kubernetes promises since 1.35.
    version = raw.text(meta.get("resourceVersion"), _MAX_VERSION_CHARS)
    if not (namespace and name and uid and version.isascii() and version.isdigit()):
        return None
    return Identity(Key(kind, namespace, name), uid, int(version))


def belongs_to(key: Key, body: raw.Object) -> Key | None:
    """The run or sweep to reconcile when the object changes; None: none."""
    if key.kind in (names.KIND, SWEEP_KIND):
        return key
    name = raw.text(
        raw.mapping(raw.mapping(body.get("metadata")).get("labels")).get(names.LABEL_RUN)
    )
    return run_key(key.namespace, name) if name else None


def sweep_of_run(body: raw.Object) -> Key | None:
    """The sweep that controls this run, if one does."""
    meta = raw.mapping(body.get("metadata"))
    owner = raw.controller(meta)
    namespace, name = raw.text(meta.get("namespace")), raw.text(owner.get("name"))
    return (
        sweep_key(namespace, name)
        if owner.get("kind") == SWEEP_KIND and namespace and name
        else None
    )
