"""What the cluster holds, as far as we have been told: sweeps, runs, and everything that carries a run's label. Small views only.

Told from three sides: the watches (`heard`), lists (`benchrun.runtime.listing`) and answers to our own writes (`learnt`).
The newest resourceVersion wins whatever order they come in; a uid that was seen deleted stays dead.

What we learnt and a watch has not confirmed is remembered with its time. A watch that stays behind is silent: that is how
a dead stream is found out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from benchrun.api import names
from benchrun.api.base import KIND
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.effects.resources import EXTENSION_KINDS
from benchrun.observe import raw
from benchrun.observe.finished import finished_run_of
from benchrun.observe.trim import child_of, pod_of, run_of, sweep_of
from benchrun.observe.views import Child, Children, Pod, Run, Sweep
from benchrun.runtime.latest_results import LatestResults

Body = dict[str, Any]
D = TypeVar("D", Run, Sweep)
UNWATCHED_ROLES = (names.ROLE_STAGE, names.ROLE_TIMELINE)
"""ConfigMaps that hold what was measured: listed by their metadata, never watched, since every event would carry the data."""
_DECLARED = (KIND, SWEEP_KIND)
_BULKY = ("results", "findings", "servers", "logTail", "variants", "best", "front")


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


View = Sweep | Run | Child | Pod


@dataclass(frozen=True, slots=True)
class Seen:
    """A view, and which version of the object it is a view of."""

    view: View
    uid: str
    version: int
    belongs_to: Key
    """Which run or sweep is to be looked at when it changes."""


@dataclass(slots=True)
class Listing:
    """A list under way: what must not be undone by it."""

    kind: str
    namespace: str | None
    listed: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    """Uids that were heard of while it went on."""
    deleted: set[str] = field(default_factory=set)


class Indexes:
    """Everything known, by run."""

    def __init__(self, *, seconds: Callable[[], float] = time.monotonic, result_runs: int = 0) -> None:
        self.results = LatestResults(most=result_runs)
        self._seconds = seconds
        self._seen: dict[ObjectKey, Seen] = {}
        self._by_run: dict[Key, set[ObjectKey]] = {}
        self._unconfirmed: dict[ObjectKey, tuple[int, float]] = {}
        self._listings: list[Listing] = []

    # ---- questions -------------------------------------------------------------------------------------------------

    def run(self, key: RunKey) -> Run | None:
        """The run, if it exists."""
        seen = self._seen.get(ObjectKey(KIND, *key))
        return seen.view if seen is not None and isinstance(seen.view, Run) else None

    def run_version(self, key: RunKey) -> str:
        """The resourceVersion of `run(key)`."""
        return str(self._seen[ObjectKey(KIND, *key)].version)

    def children(self, key: RunKey) -> Children:
        """Everything that carries the run's label, whoever owns it."""
        views = [self._seen[o].view for o in sorted(self._by_run.get(key, ()))]
        return Children(
            objects=tuple(v for v in views if isinstance(v, Child)), pods=tuple(v for v in views if isinstance(v, Pod))
        )

    def runs(self) -> Iterator[RunKey]:
        """All runs."""
        return iter([RunKey(key.namespace, key.name) for key in self._seen if key.kind == KIND])

    def sweep(self, key: SweepKey) -> Sweep | None:
        """The sweep, if it exists."""
        seen = self._seen.get(ObjectKey(SWEEP_KIND, key.namespace, key.name))
        return seen.view if seen is not None and isinstance(seen.view, Sweep) else None

    def sweep_version(self, key: SweepKey) -> str:
        """The resourceVersion of `sweep(key)`."""
        return str(self._seen[ObjectKey(SWEEP_KIND, key.namespace, key.name)].version)

    def sweeps(self) -> Iterator[SweepKey]:
        """All sweeps."""
        return iter([SweepKey(key.namespace, key.name) for key in self._seen if key.kind == SWEEP_KIND])

    def runs_of(self, sweep_uid: str) -> tuple[Run, ...]:
        """The runs that this sweep controls."""
        views = (seen.view for key, seen in self._seen.items() if key.kind == KIND)
        return tuple(view for view in views if isinstance(view, Run) and view.sweep_uid == sweep_uid)

    def silent_seconds(self) -> float:
        """How long the watches have owed us the oldest thing that we know from elsewhere; 0 when they owe nothing."""
        oldest = min((since for _, since in self._unconfirmed.values()), default=None)
        return 0.0 if oldest is None else self._seconds() - oldest

    # ---- what we are told ------------------------------------------------------------------------------------------

    def heard(self, kind: str, body: Body, *, deleted: bool) -> Key | None:
        """A watch event; the run or sweep it concerns, or None when it changes nothing."""
        key, uid, version = _identity(kind, body)
        for listing in self._listings:
            (listing.deleted if deleted else listing.touched).add(uid)
        waited_for = self._unconfirmed.get(key)
        if waited_for is not None and (deleted or version >= waited_for[0]):
            del self._unconfirmed[key]
        if deleted:
            return self._remove(key, uid)
        return self._put(key, uid, version, body)

    def learnt(self, kind: str, body: Body) -> Key | None:
        """An object as it came back from a write; its watch event is due."""
        key, uid, version = _identity(kind, body)
        for listing in self._listings:
            listing.touched.add(uid)
        before = self._seen.get(key)
        if before is not None and before.uid == uid and before.version >= version:
            return None
        told = self._put(key, uid, version, body)
        if key in self._seen and _watched(self._seen[key].view):
            self._unconfirmed.setdefault(key, (version, self._seconds()))
        return told

    def mark_deleting(self, kind: str, namespace: str, name: str) -> None:
        """We asked for its deletion; the watch will tell when it is gone."""
        key = ObjectKey(kind, namespace, name)
        seen = self._seen.get(key)
        if seen is not None:
            self._seen[key] = replace(seen, view=replace(seen.view, deleting=True))

    def drop(self, kind: str, namespace: str, name: str) -> None:
        """It turned out not to exist."""
        key = ObjectKey(kind, namespace, name)
        self._unconfirmed.pop(key, None)
        seen = self._seen.get(key)
        if seen is not None:
            self._remove(key, seen.uid)

    # ---- lists -----------------------------------------------------------------------------------------------------

    def begin_listing(self, kind: str, namespace: str | None) -> Listing:
        """A list of a kind begins: from now on events take precedence over it."""
        listing = Listing(kind, namespace)
        self._listings.append(listing)
        return listing

    def listed(self, listing: Listing, body: Body) -> None:
        """One object of a list."""
        uid = str(body["metadata"]["uid"])
        listing.listed.add(uid)
        if uid not in listing.deleted:
            self.learnt(listing.kind, body)
            self._note_result(*_identity(listing.kind, body)[:2], body)  # a place may have come free since it was heard

    def end_listing(self, listing: Listing, *, complete: bool) -> None:
        """The list is over. If it is complete, what it did not hold, and nobody spoke of meanwhile, is gone."""
        self._listings.remove(listing)
        if not complete:
            return
        alive = listing.listed | listing.touched
        for key, seen in list(self._seen.items()):
            in_scope = key.kind == listing.kind and listing.namespace in (None, key.namespace)
            if in_scope and seen.uid not in alive:
                self.drop(*key)

    # ---- keeping ---------------------------------------------------------------------------------------------------

    def _put(self, key: ObjectKey, uid: str, version: int, body: Body) -> Key | None:
        before = self._seen.get(key)
        if before is not None and before.uid == uid and before.version >= version:
            return None
        owner = _belongs_to(key, body)
        if owner is None:
            return None
        view = _view(key.kind, body)
        self._seen[key] = Seen(view, uid, version, owner)
        self._note_result(key, uid, body)
        if key.kind not in _DECLARED:
            self._by_run.setdefault(owner, set()).add(key)
        if before is not None and before.uid == uid and before.view == view and before.belongs_to == owner:
            return None  # something changed that no decision looks at
        return owner

    def _remove(self, key: ObjectKey, uid: str) -> Key | None:
        seen = self._seen.get(key)
        if seen is None or seen.uid != uid:
            return None
        del self._seen[key]
        siblings = self._by_run.get(seen.belongs_to, set())
        siblings.discard(key)
        if key.kind == KIND:
            self.results.drop((key.namespace, key.name))
            # Nobody will tell of these: they are not watched.
            for child in [k for k in siblings if not _watched(self._seen[k].view)]:
                siblings.discard(child)
                del self._seen[child]
        if not siblings:
            self._by_run.pop(seen.belongs_to, None)
        return seen.belongs_to

    def _note_result(self, key: ObjectKey, uid: str, body: Body) -> None:
        if key.kind == KIND:
            status = body.get("status") or {}
            ended = finished_run_of(status) if is_finished(status) else None
            self.results.note((key.namespace, key.name), uid, ended)


def is_finished(status: dict[str, Any]) -> bool:
    """Whether a raw status says that the run has ended."""
    ended = ("Complete", "Failed")
    return any(c.get("type") in ended and c.get("status") == "True" for c in status.get("conditions") or ())


def _identity(kind: str, body: Body) -> tuple[ObjectKey, str, int]:
    meta = body["metadata"]
    # resourceVersions of one kind are comparable as numbers, which Kubernetes promises since 1.35.
    return ObjectKey(kind, str(meta["namespace"]), str(meta["name"])), str(meta["uid"]), int(meta["resourceVersion"])


def sweep_of_run(body: Body) -> SweepKey | None:
    """The sweep that controls this run, if one does."""
    owner = raw.controller(body["metadata"])
    return SweepKey(str(body["metadata"]["namespace"]), str(owner["name"])) if owner.get("kind") == SWEEP_KIND else None


def _belongs_to(key: ObjectKey, body: Body) -> Key | None:
    if key.kind == KIND:
        return RunKey(key.namespace, key.name)
    if key.kind == SWEEP_KIND:
        return SweepKey(key.namespace, key.name)
    name = (body["metadata"].get("labels") or {}).get(names.LABEL_RUN)
    return RunKey(key.namespace, str(name)) if name else None


def _view(kind: str, body: Body) -> View:
    if kind == KIND:
        return _lightened(run_of(body))
    if kind == SWEEP_KIND:
        return _lightened(sweep_of(body))
    return pod_of(body) if kind == "Pod" else child_of(kind, body)


def _lightened(declared: D) -> D:
    """What has ended is never judged again: its results stay in the cluster, not in our memory."""
    if not is_finished(declared.status):
        return declared
    return replace(declared, status={name: value for name, value in declared.status.items() if name not in _BULKY})


def _watched(view: View) -> bool:
    return not isinstance(view, Child) or (view.kind not in EXTENSION_KINDS and view.role not in UNWATCHED_ROLES)
