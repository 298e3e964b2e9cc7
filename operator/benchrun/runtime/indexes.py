"""What the cluster holds, as far as we have been told: runs, and everything that carries their label. Small views only.

Told from three sides: the watches (`heard`), lists (`benchrun.runtime.listing`) and answers to our own writes (`learnt`).
The newest resourceVersion wins whatever order they come in; a uid that was seen deleted stays dead.

What we learnt and a watch has not confirmed is remembered with its time. A watch that stays behind is silent: that is how
a dead stream is found out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from benchrun.api import names
from benchrun.api.base import KIND
from benchrun.observe.trim import child_of, pod_of, run_of
from benchrun.observe.views import Child, Children, Pod, Run

Body = dict[str, Any]
UNWATCHED_ROLES = (names.ROLE_STAGE, names.ROLE_TIMELINE)
"""ConfigMaps that hold what was measured: listed by their metadata, never watched, since every event would carry the data."""
_BULKY = ("results", "findings", "servers", "logTail")


class RunKey(NamedTuple):
    """Which run."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class ObjectKey(NamedTuple):
    """Which object."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A view, and which version of the object it is a view of."""

    view: Run | Child | Pod
    uid: str
    version: int
    run: RunKey


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

    def __init__(self, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._seen: dict[ObjectKey, Seen] = {}
        self._by_run: dict[RunKey, set[ObjectKey]] = {}
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
        return iter([seen.run for key, seen in self._seen.items() if key.kind == KIND])

    def silent_seconds(self) -> float:
        """How long the watches have owed us the oldest thing that we know from elsewhere; 0 when they owe nothing."""
        oldest = min((since for _, since in self._unconfirmed.values()), default=None)
        return 0.0 if oldest is None else self._seconds() - oldest

    # ---- what we are told ------------------------------------------------------------------------------------------

    def heard(self, kind: str, body: Body, *, deleted: bool) -> RunKey | None:
        """A watch event; the run it concerns, or None when it changes nothing."""
        key, uid, version = _identity(kind, body)
        for listing in self._listings:
            (listing.deleted if deleted else listing.touched).add(uid)
        waited_for = self._unconfirmed.get(key)
        if waited_for is not None and (deleted or version >= waited_for[0]):
            del self._unconfirmed[key]
        if deleted:
            return self._remove(key, uid)
        return self._put(key, uid, version, body)

    def learnt(self, kind: str, body: Body) -> RunKey | None:
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

    def _put(self, key: ObjectKey, uid: str, version: int, body: Body) -> RunKey | None:
        before = self._seen.get(key)
        if before is not None and before.uid == uid and before.version >= version:
            return None
        run = RunKey(key.namespace, key.name) if key.kind == KIND else _labelled_run(key.namespace, body)
        if run is None:
            return None
        view = _view(key.kind, body)
        self._seen[key] = Seen(view, uid, version, run)
        if key.kind != KIND:
            self._by_run.setdefault(run, set()).add(key)
        if before is not None and before.uid == uid and before.view == view and before.run == run:
            return None  # something changed that no decision looks at
        return run

    def _remove(self, key: ObjectKey, uid: str) -> RunKey | None:
        seen = self._seen.get(key)
        if seen is None or seen.uid != uid:
            return None
        del self._seen[key]
        siblings = self._by_run.get(seen.run, set())
        siblings.discard(key)
        if key.kind == KIND:
            # Nobody will tell of these: they are not watched.
            for child in [k for k in siblings if not _watched(self._seen[k].view)]:
                siblings.discard(child)
                del self._seen[child]
        if not siblings:
            self._by_run.pop(seen.run, None)
        return seen.run


def is_finished(status: dict[str, Any]) -> bool:
    """Whether a raw status says that the run has ended."""
    ended = ("Complete", "Failed")
    return any(c.get("type") in ended and c.get("status") == "True" for c in status.get("conditions") or ())


def _identity(kind: str, body: Body) -> tuple[ObjectKey, str, int]:
    meta = body["metadata"]
    # resourceVersions of one kind are comparable as numbers, which Kubernetes promises since 1.35.
    return ObjectKey(kind, str(meta["namespace"]), str(meta["name"])), str(meta["uid"]), int(meta["resourceVersion"])


def _labelled_run(namespace: str, body: Body) -> RunKey | None:
    name = (body["metadata"].get("labels") or {}).get(names.LABEL_RUN)
    return RunKey(namespace, str(name)) if name else None


def _view(kind: str, body: Body) -> Run | Child | Pod:
    if kind == KIND:
        return _lightened(run_of(body))
    return pod_of(body) if kind == "Pod" else child_of(kind, body)


def _lightened(run: Run) -> Run:
    """A run that has ended is never judged again: its results stay in the cluster, not in our memory."""
    if not is_finished(run.status):
        return run
    return replace(run, status={name: value for name, value in run.status.items() if name not in _BULKY})


def _watched(view: Run | Child | Pod) -> bool:
    return not isinstance(view, Child) or view.role not in UNWATCHED_ROLES
