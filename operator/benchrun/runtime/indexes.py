"""What the cluster holds, as far as the operator knows: sweeps, runs, and everything that carries a
run's label. Small views only.

It is fed from three sides: the watches (`heard`), lists (`benchrun.runtime.watching`) and answers
to our own writes (`learnt`). The newest resourceVersion wins whatever order they come in, also
between objects that had the same name one after the other; a uid that was seen deleted stays dead.

Who calls hears which run or sweep is to be looked at. `wake` is told of those that no caller hears
of: what a part was taken from, and what a list has news of.

What we learnt and a watch has not confirmed is remembered with its time, and listed once more when
it is `overdue`. An object that can't be read is kept by its metadata, so that it can still be
deleted; nothing that an object holds raises here."""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from benchrun import names
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.decide import RESULT_ROLES, SERVER_KINDS
from benchrun.effects import EXTENSION_KINDS
from benchrun.observe import finished_run_of, is_finished, untrusted_json as raw, view_of, views
from benchrun.runtime.memory import LatestResults

logger = logging.getLogger(__name__)

Body = dict[str, Any]
_DECLARED = (names.KIND, SWEEP_KIND)


@dataclass(frozen=True, slots=True)
class Seen:
    """A view, and which version of the object it is a view of."""

    view: views.View
    uid: str
    version: int
    part_of: views.Key | None  # the run that it is of; of a run, the sweep that made it


@dataclass(slots=True, eq=False)  # Two lists under way are two, also while they hold the same.
class Listing:
    """A list under way: what must not be undone by it."""

    kind: str
    listed: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)  # uids that were heard of while it went on
    deleted: set[str] = field(default_factory=set)


class Indexes:
    """Everything known: objects by run, runs by sweep."""

    def __init__(
        self,
        *,
        seconds: Callable[[], float] = time.monotonic,
        result_runs: int = 0,
        wake: Callable[[views.Key], None] = lambda _: None,
    ) -> None:
        self.results = LatestResults(most=result_runs)
        self._seconds, self._wake = seconds, wake
        self._seen: dict[views.Key, Seen] = {}
        self._parts: dict[views.Key, set[views.Key]] = {}
        self._unconfirmed: dict[views.Key, tuple[int, float]] = {}
        self._listings: list[Listing] = []
        self.unreadable: set[views.Key] = (
            set()
        )  # known by their metadata only: the rest can't be read

    def run(self, key: views.Key) -> views.Run | None:
        seen = self._seen.get(key)
        return seen.view if seen is not None and isinstance(seen.view, views.Run) else None

    def sweep(self, key: views.Key) -> views.Sweep | None:
        seen = self._seen.get(key)
        return seen.view if seen is not None and isinstance(seen.view, views.Sweep) else None

    def children(self, key: views.Key) -> views.Children:
        """Everything that carries the run's label, whoever owns it."""
        found = [self._seen[o].view for o in sorted(self._parts.get(key, ()))]
        objects = tuple(v for v in found if isinstance(v, views.Child))
        return views.Children(objects, tuple(v for v in found if isinstance(v, views.Pod)))

    def holds_server(self, key: views.Key) -> bool:
        """Whether a server of the run is there that nobody has deleted yet."""
        found = (self._seen[o].view for o in self._parts.get(key, ()) if o.kind in SERVER_KINDS)
        return any(
            isinstance(v, views.Child) and v.role in names.SERVING_ROLES and not v.deleting
            for v in found
        )

    def runs(self) -> list[views.Key]:
        return [key for key in self._seen if key.kind == names.KIND]

    def sweeps(self) -> list[views.Key]:
        return [key for key in self._seen if key.kind == SWEEP_KIND]

    def runs_of(self, sweep: views.Sweep) -> tuple[views.Run, ...]:
        """Those that this sweep made: of its own namespace, and none of a namesake's."""
        parts = sorted(self._parts.get(views.sweep_key(sweep.namespace, sweep.name), ()))
        runs = (self.run(key) for key in parts)
        return tuple(run for run in runs if run is not None and run.sweep_uid == sweep.uid)

    def silent_seconds(self, *, unreadable: Collection[str] = ()) -> float:
        """How long the watches have owed us the oldest thing that we know from elsewhere, but for
        `unreadable` namespaces."""
        owed = (
            since
            for key, (_, since) in self._unconfirmed.items()
            if key.namespace not in unreadable
        )
        oldest = min(owed, default=None)
        return 0.0 if oldest is None else self._seconds() - oldest

    def overdue(self, seconds: float) -> set[tuple[str, str]]:
        """Kinds and namespaces of what the watches have owed us for so long."""
        latest = self._seconds() - seconds
        return {
            (key.kind, key.namespace)
            for key, (_, since) in self._unconfirmed.items()
            if since <= latest
        }

    def owed_from_now(self, namespace: str | None) -> None:
        """The watches of a namespace (None: of all) could not deliver anything; their time begins
        anew."""
        for key, (version, _) in self._unconfirmed.items():
            if namespace in (None, key.namespace):
                self._unconfirmed[key] = (version, self._seconds())

    def heard(self, kind: str, body: Body, *, deleted: bool) -> views.Key | None:
        """A watch event; the run or sweep it concerns, or None when it changes nothing."""
        if (identity := self._identity(kind, body)) is None:
            return None
        key, uid, version = identity
        for listing in self._listings:
            (listing.deleted if deleted else listing.touched).add(uid)
        if (waited_for := self._unconfirmed.get(key)) is not None and version >= waited_for[0]:
            del self._unconfirmed[key]
        if deleted:
            return self._remove(key, uid)
        return self._put(key, uid, version, body)

    def learnt(self, kind: str, body: Body) -> views.Key | None:
        """An object as it came back from a write; its watch event is due."""
        identity = self._identity(kind, body)
        return None if identity is None else self._learnt(*identity, body)

    def _learnt(self, key: views.Key, uid: str, version: int, body: Body) -> views.Key | None:
        for listing in self._listings:
            listing.touched.add(uid)
        if self._is_old(key, uid, version):
            return None
        changed = self._put(key, uid, version, body)
        if key in self._seen and _watched(self._seen[key].view):
            self._unconfirmed.setdefault(key, (version, self._seconds()))
        return changed

    def _is_old(self, key: views.Key, uid: str, version: int) -> bool:
        """Whether as much is known already, of this object or of one that took its name."""
        if (before := self._seen.get(key)) is None:
            return False
        return before.version >= version if before.uid == uid else before.version > version

    def mark_deleting(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Its deletion was requested; the watch delivers when it is gone."""
        key = views.Key(kind, namespace, name)
        if (seen := self._seen.get(key)) is not None and seen.uid == uid:
            self._seen[key] = replace(seen, view=replace(seen.view, deleting=True))

    def drop(self, key: views.Key, uid: str) -> None:
        """It turned out not to exist; what has its name by now is another."""
        if (seen := self._seen.get(key)) is not None and seen.uid == uid:
            self._remove(key, uid)

    @contextmanager
    def listing(self, kind: str, namespace: str | None) -> Iterator[Listing]:
        """While a list is read, events take precedence over it. What it did not hold, and nobody
        spoke of, is then gone."""
        listing = Listing(kind)
        self._listings.append(listing)
        try:
            yield listing
        finally:
            self._listings.remove(listing)
        alive = listing.listed | listing.touched
        for key, seen in list(self._seen.items()):
            if key.kind == kind and namespace in (None, key.namespace) and seen.uid not in alive:
                self.drop(key, seen.uid)

    def listed(self, listing: Listing, body: Body) -> None:
        if (identity := self._identity(listing.kind, body)) is None:
            return
        key, uid, _ = identity
        listing.listed.add(uid)
        if uid in listing.deleted:
            return
        if (changed := self._learnt(*identity, body)) is not None:
            self._wake(changed)
            if (sweep := self._part_of(key)) is not None:
                self._wake(sweep)
        self._note_result(key, uid, body)  # a place may have come free since it was heard

    def _put(self, key: views.Key, uid: str, version: int, body: Body) -> views.Key | None:
        """The run or sweep to look at for it; None: it says nothing new."""
        if self._is_old(key, uid, version):
            return None
        owner, before = views.part_of(key, body), self._seen.get(key)
        if owner is None and key.kind not in _DECLARED:
            return None if before is None else self._remove(key, before.uid)
        if (view := self._view(key, body)) is None:
            return None
        if before is not None and before.part_of != owner:
            self._leave(key, before.part_of)
        self._seen[key] = Seen(view, uid, version, owner)
        self._note_result(key, uid, body)
        if owner is not None:
            self._parts.setdefault(owner, set()).add(key)
        if before is not None and (before.uid, before.view, before.part_of) == (uid, view, owner):
            return None  # something changed that no decision looks at
        return key if key.kind in _DECLARED else owner

    def _part_of(self, key: views.Key) -> views.Key | None:
        seen = self._seen.get(key)
        return None if seen is None else seen.part_of

    def _identity(self, kind: str, body: Body) -> views.Identity | None:
        if (found := views.identity_of(kind, body)) is None:
            logger.warning(
                "a %s does not say which object it is, or which version: passed over", kind
            )
        return found

    def _view(self, key: views.Key, body: Body) -> views.View | None:
        """The whole object's, or that of its metadata alone; None where not even these can be
        read."""
        try:
            view = view_of(key.kind, body)
        except Exception:
            if key not in self.unreadable:
                self.unreadable.add(key)
                logger.exception("%s %s/%s can't be read; only its metadata is used", *key)
        else:
            self.unreadable.discard(key)
            return view
        try:
            return view_of(key.kind, {"metadata": body["metadata"]})
        except Exception:
            logger.exception("%s %s/%s can't be read, not even its metadata: passed over", *key)
            return None

    def _remove(self, key: views.Key, uid: str) -> views.Key | None:
        if (seen := self._seen.get(key)) is None or seen.uid != uid:
            return None
        del self._seen[key]
        self._unconfirmed.pop(key, None)
        self.unreadable.discard(key)
        self._leave(key, seen.part_of)
        if key.kind == names.KIND:
            self.results.drop(key)
            # They are not watched, so that no event will come.
            for child in [k for k in self._parts.get(key, ()) if not _watched(self._seen[k].view)]:
                self._leave(child, key)
                del self._seen[child]
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
        if key.kind == names.KIND:
            status = raw.mapping(body.get("status"))
            ended = finished_run_of(status) if is_finished(status) else None
            self.results.note(key, uid, ended)


def _watched(view: views.View) -> bool:
    """What was measured is listed by its metadata, never watched, since every event would carry the
    data."""
    return not isinstance(view, views.Child) or (
        view.kind not in EXTENSION_KINDS and view.role not in RESULT_ROLES
    )
