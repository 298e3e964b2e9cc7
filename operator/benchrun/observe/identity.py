"""Which object a body is, and which run or sweep it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from benchrun.api import names
from benchrun.api.base import KIND
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.observe import raw
from benchrun.observe.raw import Object

_MAX_VERSION_CHARS = 40


class RunKey(NamedTuple):
    """Which run."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class SweepKey:
    """Which sweep. Never equal to a run's key."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"sweep {self.namespace}/{self.name}"


Key = RunKey | SweepKey


class ObjectKey(NamedTuple):
    """Which object."""

    kind: str
    namespace: str
    name: str


def object_of(key: Key) -> ObjectKey:
    """The object that a key stands for."""
    return ObjectKey(KIND if isinstance(key, RunKey) else SWEEP_KIND, key.namespace, key.name)


class Identity(NamedTuple):
    """An object, its uid and its version."""

    key: ObjectKey
    uid: str
    version: int


def identity_of(kind: str, body: Object) -> Identity | None:
    """None where the body does not say which object it is, or which version."""
    meta = raw.mapping(body.get("metadata"))
    namespace, name, uid = (raw.text(meta.get(key)) for key in ("namespace", "name", "uid"))
    # resourceVersions of one kind are comparable as numbers, which Kubernetes promises since 1.35.
    version = raw.text(meta.get("resourceVersion"), _MAX_VERSION_CHARS)
    if not (namespace and name and uid and version.isascii() and version.isdigit()):
        return None
    return Identity(ObjectKey(kind, namespace, name), uid, int(version))


def belongs_to(key: ObjectKey, body: Object) -> Key | None:
    """The run or sweep that is to be looked at when the object changes; None: none."""
    if key.kind == KIND:
        return RunKey(key.namespace, key.name)
    if key.kind == SWEEP_KIND:
        return SweepKey(key.namespace, key.name)
    name = raw.text(raw.mapping(raw.mapping(body.get("metadata")).get("labels")).get(names.LABEL_RUN))
    return RunKey(key.namespace, name) if name else None


def sweep_of_run(body: Object) -> SweepKey | None:
    """The sweep that controls this run, if one does."""
    meta = raw.mapping(body.get("metadata"))
    owner = raw.controller(meta)
    namespace, name = raw.text(meta.get("namespace")), raw.text(owner.get("name"))
    return SweepKey(namespace, name) if owner.get("kind") == SWEEP_KIND and namespace and name else None
