"""The operator's index of the cluster: views of sweeps, runs, and all objects with a run's label.

Objects come from three sources: watches (`heard`), lists (`benchrun.runtime.watching`), and answers
to the operator's own reads and writes (`learnt`). The newest resourceVersion wins, in whatever
order they come, also between objects that had the same name one after the other. A uid that was
seen deleted stays deleted.

Methods return the run or sweep to reconcile. `wake` is called for further runs and sweeps: the
former owner of an object, those that a list has news of, and those that lose their room in memory.

Specs and statuses are kept as bytes, within a budget, and parsed when a run or sweep is reconciled.
If the budget has no room for them, only the metadata is kept (`left_out`), and each reconcile reads
the object from the cluster.

A change that the operator learnt but no watch has confirmed is `owed`. When it is overdue, the
objects of its kind are listed again. If an object can't be parsed, its metadata is
kept, so that it can still be deleted; no content of an object makes a method raise.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from benchrun import names
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.child_kinds import EXTENSION_KINDS, SERVER_KINDS
from benchrun.decide import RESULT_ROLES, is_settled
from benchrun.observe import (
    finished_run_of,
    in_short,
    is_finished,
    packed,
    unpacked,
    untrusted_json as raw,
    view_of,
    views,
)
from benchrun.runtime.budget import ByteBudget
from benchrun.runtime.memory import LatestResults
from benchrun.runtime.owed import Owed
from benchrun.runtime.stored_bytes import StoredBytes

logger = logging.getLogger(__name__)

Body = dict[str, Any]
_DECLARED = (names.KIND, SWEEP_KIND)
# bytes for all specs and statuses, packed: 30,000 usual runs
DECLARED_BYTES = 32 * 1024 * 1024
# most left-out runs and sweeps that are reconciled again at a time
MAX_RETURNING = 20
D = TypeVar("D", bound=views.Declared)


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """The observed state of an object, with the object's uid and version."""

    view: views.View  # observed state; that of a run or sweep lacks spec and status
    uid: str
    version: int
    part_of: views.Key | None
    """The run that the object is part of; for a run, the sweep that made it."""
    packed: bytes | None = None  # packed spec and status of a run or sweep
    has_ended: bool = False  # a run or sweep that has ended
    # a run that has ended, and that calls for no decision by itself
    settled: bool = False
    # known by the columns of a list, which `packed` holds; a decision reads the whole object
    in_short: bool = False

    @property
    def is_left_out(self) -> bool:
        return isinstance(self.view, views.Declared) and self.view.left_out


@dataclass(
    slots=True, eq=False
)  # Two lists under way are distinct even while they hold the same.
class Listing:
    """A list that is being read, and the watch events meanwhile, which it must not undo."""

    kind: str
    listed: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    """Uids of objects in watch events since the list began."""
    deleted: set[str] = field(default_factory=set)


class Indexes:
    """Everything that is known of the cluster: objects by run, and runs by sweep."""

    def __init__(
        self,
        *,
        seconds: Callable[[], float] = time.monotonic,
        result_runs: int = 0,
        declared_bytes: int = DECLARED_BYTES,
        wake: Callable[[views.Key], None] = lambda _: None,
    ) -> None:
        self.results = LatestResults(most=result_runs)
        self.stored = StoredBytes()
        self.declared = ByteBudget(declared_bytes)
        self.left_out: dict[
            views.Key, int
        ] = {}  # sizes in bytes of runs and sweeps without room
        self.owed = Owed(seconds)
        self._wake = wake
        self._seen: dict[views.Key, ObservedObject] = {}
        self._parts: dict[views.Key, set[views.Key]] = {}
        self._listings: list[Listing] = []
        # objects known by their metadata only: the rest can't be read
        self.unreadable: set[views.Key] = set()

    def run(self, key: views.Key) -> views.Run | None:
        seen = self._seen.get(key)
        if seen is None or not isinstance(seen.view, views.Run):
            return None
        return _whole(seen.view, seen.packed)

    def sweep(self, key: views.Key) -> views.Sweep | None:
        seen = self._seen.get(key)
        if seen is None or not isinstance(seen.view, views.Sweep):
            return None
        return _whole(seen.view, seen.packed)

    def returning(self) -> list[views.Key]:
        """Return some of the runs and sweeps in `left_out` that fit into memory by now."""
        fit = (
            key
            for key, size in self.left_out.items()
            if self.declared.has_room(key, size)
        )
        return list(islice(fit, MAX_RETURNING))

    def children(self, key: views.Key) -> views.Children:
        """Return everything that carries the run's label, whatever its owner."""
        found = [self._seen[o].view for o in sorted(self._parts.get(key, ()))]
        objects = tuple(v for v in found if isinstance(v, views.Child))
        return views.Children(
            objects, tuple(v for v in found if isinstance(v, views.Pod))
        )

    def holds_server(self, key: views.Key) -> bool:
        """Return whether the run has a server that is not being deleted yet."""
        found = (
            self._seen[o].view
            for o in self._parts.get(key, ())
            if o.kind in SERVER_KINDS
        )
        return any(
            isinstance(v, views.Child)
            and v.role in names.SERVING_ROLES
            and not v.deleting
            for v in found
        )

    def runs(self) -> list[views.Key]:
        """Return all runs, those that have not ended first."""
        runs = (key for key in self._seen if key.kind == names.KIND)
        return sorted(runs, key=lambda key: self._seen[key].has_ended)

    def has_ended(self, key: views.Key) -> bool:
        """Return whether a run or sweep is known to have ended."""
        return key in self._seen and self._seen[key].has_ended

    def may_rest(self, key: views.Key) -> bool:
        """Return whether a run has ended, and calls for no decision but perhaps by its objects."""
        seen = self._seen.get(key)
        if seen is None or not isinstance(seen.view, views.Run):
            return False
        return seen.settled and not seen.view.deleting

    def has_objects(self, key: views.Key) -> bool:
        """Return whether there is anything that carries the run's label."""
        return key in self._parts

    def is_in_short(self, key: views.Key) -> bool:
        """Return whether a run is known by the columns of a list only."""
        return key in self._seen and self._seen[key].in_short

    def lacks_result(self, body: Body) -> datetime | None:
        """Return when a run in short ended if its results are to be read for the metrics."""
        found = views.identity_of(names.KIND, body)
        ended_at = raw.instant(
            raw.mapping(body.get("status")).get("completionTime")
        )
        if found is None or not self.results.lacks(found.key, found.uid, ended_at):
            return None
        return ended_at

    def sweeps(self) -> list[views.Key]:
        return [key for key in self._seen if key.kind == SWEEP_KIND]

    def runs_of(self, sweep: views.Sweep) -> tuple[views.Run, ...]:
        """Return the runs that this sweep made; none of an earlier sweep of the same name."""
        parts = sorted(
            self._parts.get(views.sweep_key(sweep.namespace, sweep.name), ())
        )
        runs = (self.run(key) for key in parts)
        return tuple(
            run for run in runs if run is not None and run.sweep_uid == sweep.uid
        )

    def heard(self, kind: str, body: Body, *, deleted: bool) -> views.Key | None:
        """Take a watch event.

        Return the run or sweep to reconcile, or None if the event changes nothing.
        """
        if (identity := self._identity(kind, body)) is None:
            return None
        key, uid, version = identity
        for listing in self._listings:
            (listing.deleted if deleted else listing.touched).add(uid)
        self.owed.heard(key, version)
        if deleted:
            return self._remove(key, uid)
        if self._tells_nothing(key, uid, version, in_short=False):
            return None
        return self._put(key, uid, version, body)

    def learnt(self, kind: str, body: Body) -> views.Key | None:
        """Take an object that a read or write returned; its watch event is still due.

        Return the run or sweep to reconcile, or None if the object changes nothing.
        """
        identity = self._identity(kind, body)
        return None if identity is None else self._learnt(*identity, body)

    def _learnt(
        self,
        key: views.Key,
        uid: str,
        version: int,
        body: Body,
        *,
        in_short: bool = False,
    ) -> views.Key | None:
        for listing in self._listings:
            listing.touched.add(uid)
        before = self._seen.get(key)
        if not _is_news(before, uid, version):
            return None
        is_known = before is not None and (before.uid, before.version) == (
            uid,
            version,
        )
        changed = self._put(key, uid, version, body, in_short=in_short)
        if not is_known and key in self._seen and _watched(self._seen[key].view):
            self.owed.note(key, version)
        return changed

    def mark_deleting(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Record that the object's deletion was requested; a watch event tells when it is gone.

        An object that no watch covers and that has no pods counts as gone at once. Otherwise a run
        that begins anew could take it for its own.
        """
        key = views.Key(kind, namespace, name)
        if (seen := self._seen.get(key)) is None or seen.uid != uid:
            return
        if _watched(seen.view) or kind in SERVER_KINDS:
            self._seen[key] = replace(seen, view=replace(seen.view, deleting=True))
            return
        for listing in self._listings:
            listing.deleted.add(uid)
        self._remove(key, uid)

    def drop(self, key: views.Key, uid: str) -> None:
        """Remove an object that does not exist any more; another object of its name stays."""
        if (seen := self._seen.get(key)) is not None and seen.uid == uid:
            self._remove(key, uid)

    @contextmanager
    def listing(self, kind: str, namespace: str | None) -> Iterator[Listing]:
        """Let watch events take precedence over a list while it is read.

        At the end of the list, every object that neither the list nor an event named is removed.
        """
        listing = Listing(kind)
        self._listings.append(listing)
        try:
            yield listing
        finally:
            self._listings.remove(listing)
        alive = listing.listed | listing.touched
        for key, seen in list(self._seen.items()):
            if (
                key.kind == kind
                and namespace in (None, key.namespace)
                and seen.uid not in alive
            ):
                self.drop(key, seen.uid)

    def listed(
        self, listing: Listing, body: Body, *, in_short: bool = False
    ) -> None:
        """Take an object of a list; `in_short`: a run that has ended, by its columns."""
        if (identity := self._identity(listing.kind, body)) is None:
            return
        key, uid, version = identity
        listing.listed.add(uid)
        if uid in listing.deleted:
            return
        if not self._tells_nothing(key, uid, version, in_short=in_short):
            changed = self._learnt(*identity, body, in_short=in_short)
            if changed is not None:
                self._wake(changed)
                if (sweep := self._part_of(key)) is not None:
                    self._wake(sweep)
        if not in_short:
            # a place may have become free since the watch event
            self._note_result(key, uid, body)

    def _tells_nothing(
        self, key: views.Key, uid: str, version: int, *, in_short: bool
    ) -> bool:
        """Return whether what is told of an object is known, where one of both is in short.

        The whole object would take memory, and tell of a run that has ended only what a decision
        reads again.
        """
        seen = self._seen.get(key)
        if seen is None or (seen.uid, seen.version) != (uid, version):
            return False
        return in_short or seen.in_short

    def _put(
        self,
        key: views.Key,
        uid: str,
        version: int,
        body: Body,
        *,
        in_short: bool = False,
    ) -> views.Key | None:
        """Store an object and return the run or sweep to reconcile for it.

        None if the object is not newer than the stored one.
        """
        before = self._seen.get(key)
        if not _is_news(before, uid, version):
            return None
        owner = views.part_of(key, body)
        if owner is None and key.kind not in _DECLARED:
            return None if before is None else self._remove(key, before.uid)
        if (seen := self._seen_of(key, uid, version, owner, body)) is None:
            return None
        seen = _shortened(seen) if in_short else _still_owned(seen, before, body)
        if before is not None and before.part_of != owner:
            self._leave(key, before.part_of)
        self._seen[key] = seen
        self.stored.note(
            key.namespace, None if before is None else before.view, seen.view
        )
        if not in_short:
            self._note_result(key, uid, body)
        if owner is not None:
            self._parts.setdefault(owner, set()).add(key)
        if key.kind in _DECLARED:
            self._find_room(key, len(seen.packed or b""))
        return (
            (key if key.kind in _DECLARED else owner)
            if self._differs(key, before)
            else None
        )

    def _differs(self, key: views.Key, before: ObservedObject | None) -> bool:
        """Return whether anything changed that a decision reads.

        If the object's spec and status are left out, any newer version counts.
        """
        now = self._seen[key]
        if before is None or now != replace(before, version=now.version):
            return True
        return now.is_left_out and now.version > before.version

    def _part_of(self, key: views.Key) -> views.Key | None:
        seen = self._seen.get(key)
        return None if seen is None else seen.part_of

    def _find_room(self, key: views.Key, size: int) -> None:
        """Keep a run's or sweep's spec and status if there is room; others may lose theirs."""
        self.left_out.pop(key, None)
        for lost in self.declared.hold(key, size):
            seen = self._seen[lost]
            assert isinstance(seen.view, views.Declared)
            self.left_out[lost] = len(seen.packed or b"")
            self._seen[lost] = _in_short(seen)
            if lost != key:
                self._wake(lost)

    def _identity(self, kind: str, body: Body) -> views.Identity | None:
        if (found := views.identity_of(kind, body)) is None:
            logger.warning(
                "ignored a %s without namespace, name, uid or a numeric resourceVersion",
                kind,
            )
        return found

    def _seen_of(
        self,
        key: views.Key,
        uid: str,
        version: int,
        owner: views.Key | None,
        body: Body,
    ) -> ObservedObject | None:
        """Read the whole object, else its metadata; None if neither can be read."""
        try:
            seen = _lean(
                ObservedObject(view_of(key.kind, body), uid, version, owner)
            )
        except Exception:
            if key not in self.unreadable:
                self.unreadable.add(key)
                logger.exception(
                    "%s %s/%s can't be parsed; only its metadata is used", *key
                )
        else:
            self.unreadable.discard(key)
            return seen
        try:
            of_metadata = view_of(key.kind, {"metadata": body["metadata"]})
            return _lean(ObservedObject(of_metadata, uid, version, owner))
        except Exception:
            logger.exception(
                "ignored %s %s/%s: not even its metadata can be parsed", *key
            )
            return None

    def _remove(self, key: views.Key, uid: str) -> views.Key | None:
        if (seen := self._seen.get(key)) is None or seen.uid != uid:
            return None
        del self._seen[key]
        self.stored.note(key.namespace, seen.view, None)
        self.owed.drop(key)
        self.unreadable.discard(key)
        self.declared.let_go(key)
        self.left_out.pop(key, None)
        self._leave(key, seen.part_of)
        if key.kind == names.KIND:
            self.results.drop(key)
            # No event will say that its children without a watch are gone, too.
            for child in [
                k
                for k in self._parts.get(key, ())
                if not _watched(self._seen[k].view)
            ]:
                self._leave(child, key)
                self.stored.note(child.namespace, self._seen.pop(child).view, None)
        if key.kind in _DECLARED:
            self._wake(key)
            return key
        return seen.part_of

    def _leave(self, key: views.Key, owner: views.Key | None) -> None:
        if owner is None:
            return
        siblings = self._parts.get(owner, set())
        siblings.discard(key)
        if not siblings:
            self._parts.pop(owner, None)
        self._wake(owner)

    def _note_result(self, key: views.Key, uid: str, body: Body) -> None:
        if key.kind != names.KIND or not self.results.most:
            return
        status = raw.mapping(body.get("status"))
        if not is_finished(status):
            self.results.note(key, uid, None)
        elif self.results.has_place(key, raw.instant(status.get("completionTime"))):
            self.results.note(key, uid, finished_run_of(status))


def _is_news(before: ObservedObject | None, uid: str, version: int) -> bool:
    """Return whether the object is newer than what is known under its name.

    The same version counts as new if its spec and status are left out.
    """
    if before is None or before.uid != uid:
        return before is None or version >= before.version
    return version > before.version or (
        version == before.version and before.is_left_out
    )


def _still_owned(
    seen: ObservedObject, before: ObservedObject | None, body: Body
) -> ObservedObject:
    """Keep the known owner of an object that has lost its owner reference.

    Deleting a run with `--cascade=orphan` removes the reference, but the run still made the object.
    """
    if (
        before is None
        or before.uid != seen.uid
        or raw.controller(raw.mapping(body["metadata"]))
    ):
        return seen
    if not isinstance(seen.view, views.Child) or not isinstance(
        before.view, views.Child
    ):
        return seen
    return replace(seen, view=replace(seen.view, owner_uid=before.view.owner_uid))


def _lean(seen: ObservedObject) -> ObservedObject:
    """Pack spec, status and labels of a run or sweep; return other objects unchanged."""
    view = seen.view
    if not isinstance(view, views.Declared):
        return seen
    labels = {"labels": dict(view.labels)} if view.labels else {}
    data = packed({"spec": view.spec, "status": view.status, **labels})
    short = replace(view, spec={}, status={}, labels=())
    return replace(
        seen,
        view=short,
        packed=data,
        has_ended=is_finished(view.status),
        settled=isinstance(view, views.Run) and is_settled(view),
    )


def _shortened(seen: ObservedObject) -> ObservedObject:
    """Mark a run as known by the columns of a list."""
    assert isinstance(seen.view, views.Run)
    return replace(seen, view=replace(seen.view, left_out=True), in_short=True)


def _in_short(seen: ObservedObject) -> ObservedObject:
    """Reduce a run or sweep without room in memory to its metadata.

    A run of a sweep also keeps the fields that the sweep reads.
    """
    assert isinstance(seen.view, views.Declared)
    if not isinstance(seen.view, views.Run) or seen.part_of is None:
        return replace(
            seen,
            view=replace(seen.view, left_out=True),
            packed=None,
            in_short=False,
        )
    short = in_short(_whole(seen.view, seen.packed))
    lean = _lean(replace(seen, view=replace(short, left_out=True)))
    return replace(lean, settled=seen.settled)


def _whole(declared: D, data: bytes | None) -> D:
    """Return the object with the spec, status and labels that `data` holds.

    Without data it is returned as it is.
    """
    if data is None:
        return declared
    found = unpacked(data)
    labels = tuple(found.pop("labels", {}).items())
    return replace(declared, labels=labels, **found)


def _watched(view: views.View) -> bool:
    """Return whether a watch covers the object.

    ConfigMaps with measured data are listed by metadata and never watched, since every event would
    carry the data. Kinds that a cluster may lack do not count as covered: some are not watched, and
    the others perhaps not yet.
    """
    return not isinstance(view, views.Child) or (
        view.kind not in EXTENSION_KINDS and view.role not in RESULT_ROLES
    )
