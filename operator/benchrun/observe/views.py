"""Views of objects, which the watch indexes hold and decisions read, and the keys of objects."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, NamedTuple

from benchrun_client.contract import Envelope

from benchrun import names
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.observe import untrusted_json as raw
from benchrun.observe.noted_defaults import NotedDefaults
from benchrun.observe.quotas import Quota


@dataclass(frozen=True, slots=True)
class Child:
    """An object of the cluster that carries the label of a run."""

    kind: str  # Deployment, LeaderWorkerSet, Job, Service or ConfigMap.
    name: str
    uid: str
    role: str
    # Uid of the controlling BenchmarkRun; None when nothing, or another kind, controls it.
    owner_uid: str | None
    deleting: bool
    # ConfigMaps of stages: position of the stage in the plan.
    sequence: int | None = None
    # ConfigMaps of stages: that of the record; None if unreadable.
    envelope: Envelope | None = None
    result_digest: str | None = None  # Of a result document: SHA-256 of its bytes.
    # Digest of the plan that the client was given: on the plan itself and the client's Job.
    plan_digest: str | None = None
    # Digest of the token that the client accepts; only on the plan.
    token_digest: str | None = None
    defaults: NotedDefaults | None = (
        None  # The platform's, for this run: on the plan and the client's Job.
    )
    stored_bytes: int = 0
    created_at: datetime | None = None
    # Failure in its own status: a Deployment's ReplicaFailure, a Job's Failed message.
    failure: str | None = None
    quota: Quota | None = None  # Of a Workload: what Kueue says of it.


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
    # When the main container last started, by the scheduler's clock.
    started_at: datetime | None = None
    restarts: int = 0
    image: str | None = None
    image_digest: str | None = None
    gpus: int = 0
    args: tuple[str, ...] = ()
    # Scheduler's message while PodScheduled is False.
    unschedulable: str | None = None
    # Names of the gates that keep the scheduler from looking at it.
    gated: str | None = None
    # Why the main container does not run: ErrImagePull, CrashLoopBackOff ...
    waiting_reason: str | None = None
    waiting_message: str | None = None
    # How the main container ended, if it is not running now.
    terminated: Termination | None = None
    # How the main container ended the time before (restarts > 0).
    last_terminated: Termination | None = None
    pod_reason: str | None = None  # Why the whole pod ended, for example Evicted.
    pod_message: str | None = None

    @property
    def ending(self) -> Termination | None:
        """Return how the main container last ended, also if it was restarted since."""
        return self.terminated or self.last_terminated


class Patience(StrEnum):
    """Which limit of time applies to a problem, counted from when it was first seen.

    If that instant is lost, the time is counted anew.
    """

    NODE = "Node"  # an autoscaler may add a node that fits
    REFUSED = "Refused"  # what is missing may be about to be created
    # the API server, or a webhook that it calls, may answer again
    RETRIED = "Retried"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a pod can't do its work, and what to do about it."""

    reason: str  # One of `benchrun.api.conditions.Reason`.
    message: str  # What happened, in the program's own words where it left any, and what to change.
    terminal: bool
    """True: waiting can't help. False: it may still resolve, and is shown while waiting."""
    patience: Patience | None = None
    """How long the cause may last before it ends the run; None if it does not end the run."""
    node_helps: bool = True  # Whether a new node may help; False: the pod waits for something else.


@dataclass(frozen=True, slots=True)
class Children:
    """Everything of one run that the watches know."""

    objects: tuple[Child, ...] = ()
    pods: tuple[Pod, ...] = ()

    def named(self, kind: str, name: str) -> Child | None:
        """Return the object of that kind and name; None if there is none."""
        return next(
            (c for c in self.objects if c.kind == kind and c.name == name), None
        )

    def role_pods(self, role: str) -> tuple[Pod, ...]:
        """Return the pods of a role, oldest first."""
        return tuple(
            sorted(
                (p for p in self.pods if p.role == role),
                key=lambda p: (str(p.created_at), p.name),
            )
        )


@dataclass(frozen=True, slots=True)
class Declared:
    """What a user wrote in a run or sweep, as read from the cluster, not validated."""

    kind: ClassVar[str]
    namespace: str
    name: str
    uid: str
    generation: int
    spec: dict[str, object] = field(default_factory=dict)
    status: dict[str, object] = field(default_factory=dict)
    created_at: datetime | None = None
    deleting: bool = False
    left_out: bool = False
    """Whether memory has no room for spec and status: each reconcile then reads them again."""
    version: str = field(default="", compare=False)
    """The resourceVersion: a status is written only if the object still has this version."""
    labels: tuple[
        tuple[str, str], ...
    ] = ()  # Labels set by the user; memory does not keep those of an ended run.


@dataclass(frozen=True, slots=True)
class Run(Declared):
    """An object of kind BenchmarkRun."""

    kind: ClassVar[str] = names.KIND
    # Uid of the BenchmarkSweep that made it, if one did.
    sweep_uid: str | None = None


@dataclass(frozen=True, slots=True)
class Sweep(Declared):
    """An object of kind BenchmarkSweep."""

    kind: ClassVar[str] = SWEEP_KIND


View = Sweep | Run | Child | Pod
_MAX_VERSION_CHARS = 40


class Key(NamedTuple):
    """The kind, namespace and name of an object. The keys in the queue name runs and sweeps."""

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
    """The uid and version of an object, which distinguish it from others of the same name."""

    key: Key
    uid: str
    version: int


def identity_of(kind: str, body: raw.Object) -> Identity | None:
    """Return the key, uid and version of the object in the body; None if one is missing."""
    meta = raw.mapping(body.get("metadata"))
    namespace, name, uid = (
        raw.text(meta.get(key)) for key in ("namespace", "name", "uid")
    )
    # resourceVersions of one kind are comparable as numbers, which Kubernetes promises since 1.35.
    version = raw.text(meta.get("resourceVersion"), _MAX_VERSION_CHARS)
    if not (namespace and name and uid and version.isascii() and version.isdigit()):
        return None
    return Identity(Key(kind, namespace, name), uid, int(version))


def part_of(key: Key, body: raw.Object) -> Key | None:
    """Return the run that the object's label names; for a run, the sweep that made it.

    None if it belongs to neither.
    """
    if key.kind == names.KIND:
        return sweep_of_run(body)
    name = raw.text(
        raw.mapping(raw.mapping(body.get("metadata")).get("labels")).get(
            names.LABEL_RUN
        )
    )
    return run_key(key.namespace, name) if name and key.kind != SWEEP_KIND else None


class Controller(NamedTuple):
    """The object of the benchrun.dev API that controls another."""

    name: str
    uid: str


def controller_of(metadata: raw.Object, kind: str) -> Controller | None:
    """Return the object of this kind that controls another.

    Return None if there is no controller, or one of another kind or API group. Anybody may write
    such a reference, so callers also check that the controller would give the object its name.
    """
    owner = raw.controller(metadata)
    name = raw.text(owner.get("name"))
    uid = raw.text(owner.get("uid"))
    is_ours = owner.get("kind") == kind and raw.text(
        owner.get("apiVersion")
    ).startswith(f"{names.GROUP}/")
    return Controller(name, uid) if is_ours and name and uid else None


def sweep_that_made(metadata: raw.Object) -> Controller | None:
    """Return the sweep that controls the run, if it would give the run its name; else None."""
    owner = controller_of(metadata, SWEEP_KIND)
    is_made = (
        owner is not None
        and names.sweep_of(raw.text(metadata.get("name"))) == owner.name
    )
    return owner if is_made else None


def sweep_of_run(body: raw.Object) -> Key | None:
    """Return the sweep that made this run, in the run's own namespace; None if none did."""
    meta = raw.mapping(body.get("metadata"))
    owner = sweep_that_made(meta)
    namespace = raw.text(meta.get("namespace"))
    return (
        sweep_key(namespace, owner.name)
        if owner is not None and namespace
        else None
    )
