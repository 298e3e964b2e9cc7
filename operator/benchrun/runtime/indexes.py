"""What the cluster holds, as far as the operator knows: sweeps, runs, and everything that carries a
run's label. Small views only.

It is fed from three sides: the watches (`heard`), lists (`benchrun.runtime.watching`) and answers
to our own writes (`learnt`). The newest resourceVersion wins whatever order they come in; a uid
that was seen deleted stays dead.

Specs and statuses are kept as bytes, within a budget, and parsed in the pass. What the budget has
no room for is known by its metadata (`left_out`), and read from the cluster in the pass.

What we learnt and a watch has not confirmed is remembered with its time, and listed once more when
it is `overdue`. An object that can't be read is kept by its metadata, so that it can still be
deleted; nothing that an object holds raises here."""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from benchrun import names
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.decide import RESULT_ROLES, SERVER_KINDS
from benchrun.effects import EXTENSION_KINDS
from benchrun.observe import (
    finished_run_of,
    is_finished,
    packed,
    unpacked,
    untrusted_json as raw,
    view_of,
    views,
)
from benchrun.runtime.budget import Budget
from benchrun.runtime.memory import LatestResults

logger = logging.getLogger(__name__)

Body = dict[str, Any]
_DECLARED = (names.KIND, SWEEP_KIND)
DECLARED_BYTES = 32 * 1024 * 1024  # of all specs and statuses, packed: 30,000 usual runs
MAX_RETURNING = 20  # of what was left out, looked at again at a time
D = TypeVar("D", bound=views.Declared)


@dataclass(frozen=True, slots=True)
class Seen:
    """A view, and which version of the object it is a view of."""

    view: views.View  # of a run or sweep without spec and status
    uid: str
    version: int
    belongs_to: views.Key  # which run or sweep is to be looked at when it changes
    packed: bytes | None = None  # spec and status of a run or sweep

    @property
    def is_left_out(self) -> bool:
        return isinstance(self.view, views.Declared) and self.view.left_out


@dataclass(slots=True, eq=False)  # Two lists under way are two, also while they hold the same.
class Listing:
    """A list under way: what must not be undone by it."""

    kind: str
    listed: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)  # uids that were heard of while it went on
    deleted: set[str] = field(default_factory=set)


class Indexes:
    """Everything known, by run."""

    def __init__(
        self,
        *,
        seconds: Callable[[], float] = time.monotonic,
        result_runs: int = 0,
        declared_bytes: int = DECLARED_BYTES,
        news: Callable[[views.Key], None] = lambda _: None,
    ) -> None:
        """`news` is called with runs and sweeps that others leave no room."""
        self.results = LatestResults(most=result_runs)
        self.declared = Budget(declared_bytes)
        self.left_out: dict[views.Key, int] = {}  # what there is no room for, and its size
        self._news = news
        self._seconds = seconds
        self._seen: dict[views.Key, Seen] = {}
        self._by_run: dict[views.Key, set[views.Key]] = {}
        self._unconfirmed: dict[views.Key, tuple[int, float]] = {}
        self._listings: list[Listing] = []
        self.unreadable: set[views.Key] = (
            set()
        )  # known by their metadata only: the rest can't be read

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
        """Return some of what was left out that there is room for by now."""
        fit = (key for key, size in self.left_out.items() if self.declared.has_room(key, size))
        return list(islice(fit, MAX_RETURNING))

    def children(self, key: views.Key) -> views.Children:
        """Everything that carries the run's label, whoever owns it."""
        found = [self._seen[o].view for o in sorted(self._by_run.get(key, ()))]
        objects = tuple(v for v in found if isinstance(v, views.Child))
        return views.Children(objects, tuple(v for v in found if isinstance(v, views.Pod)))

    def holds_server(self, key: views.Key) -> bool:
        """Whether a server of the run is there that nobody has deleted yet."""
        found = (self._seen[o].view for o in self._by_run.get(key, ()) if o.kind in SERVER_KINDS)
        return any(
            isinstance(v, views.Child) and v.role in names.SERVING_ROLES and not v.deleting
            for v in found
        )

    def runs(self) -> list[views.Key]:
        return [key for key in self._seen if key.kind == names.KIND]

    def sweeps(self) -> list[views.Key]:
        return [key for key in self._seen if key.kind == SWEEP_KIND]

    def runs_of(self, sweep_uid: str) -> tuple[views.Run, ...]:
        found = (seen for key, seen in self._seen.items() if key.kind == names.KIND)
        return tuple(
            _whole(seen.view, seen.packed)
            for seen in found
            if isinstance(seen.view, views.Run) and seen.view.sweep_uid == sweep_uid
        )

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
        if (waited_for := self._unconfirmed.get(key)) is not None and (
            deleted or version >= waited_for[0]
        ):
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
        before = self._seen.get(key)
        if not _is_news(before, uid, version):
            return None
        is_known = before is not None and (before.uid, before.version) == (uid, version)
        changed = self._put(key, uid, version, body)
        if not is_known and key in self._seen and _watched(self._seen[key].view):
            self._unconfirmed.setdefault(key, (version, self._seconds()))
        return changed

    def mark_deleting(self, kind: str, namespace: str, name: str) -> None:
        """Its deletion was requested; the watch delivers when it is gone."""
        key = views.Key(kind, namespace, name)
        if (seen := self._seen.get(key)) is not None:
            self._seen[key] = replace(seen, view=replace(seen.view, deleting=True))

    def drop(self, key: views.Key) -> None:
        """It turned out not to exist."""
        self._unconfirmed.pop(key, None)
        if (seen := self._seen.get(key)) is not None:
            self._remove(key, seen.uid)

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
                self.drop(key)

    def listed(self, listing: Listing, body: Body) -> None:
        if (identity := self._identity(listing.kind, body)) is None:
            return
        key, uid, _ = identity
        listing.listed.add(uid)
        if uid not in listing.deleted:
            self._learnt(*identity, body)
            self._note_result(key, uid, body)  # a place may have come free since it was heard

    def _put(self, key: views.Key, uid: str, version: int, body: Body) -> views.Key | None:
        before = self._seen.get(key)
        if not _is_news(before, uid, version):
            return None
        owner = views.belongs_to(key, body)
        seen = self._seen_of(key, uid, version, owner, body) if owner is not None else None
        if owner is None or seen is None:
            return None
        if before is not None and before.belongs_to != owner:
            self._leave(key, before.belongs_to)
        self._seen[key] = seen
        self._note_result(key, uid, body)
        if key.kind in _DECLARED:
            self._find_room(key, len(seen.packed or b""))
        else:
            self._by_run.setdefault(owner, set()).add(key)
        now = self._seen[key]
        if before is None or now != replace(before, version=version):
            return owner
        # Nothing changed that a decision looks at; of what was left out nobody knows.
        return owner if now.is_left_out and version > before.version else None

    def _find_room(self, key: views.Key, size: int) -> None:
        """Keep what a run or sweep declares, if there is room; others may have to give theirs
        back."""
        self.left_out.pop(key, None)
        for lost in self.declared.hold(key, size):
            seen = self._seen[lost]
            assert isinstance(seen.view, views.Declared)
            self.left_out[lost] = len(seen.packed or b"")
            self._seen[lost] = replace(seen, view=replace(seen.view, left_out=True), packed=None)
            if lost != key:
                self._news(lost)

    def _identity(self, kind: str, body: Body) -> views.Identity | None:
        if (found := views.identity_of(kind, body)) is None:
            logger.warning(
                "a %s does not say which object it is, or which version: passed over", kind
            )
        return found

    def _seen_of(
        self, key: views.Key, uid: str, version: int, owner: views.Key, body: Body
    ) -> Seen | None:
        """The whole object, or its metadata alone; None where not even these can be read."""
        try:
            seen = _lean(Seen(view_of(key.kind, body), uid, version, owner))
        except Exception:
            if key not in self.unreadable:
                self.unreadable.add(key)
                logger.exception("%s %s/%s can't be read; only its metadata is used", *key)
        else:
            self.unreadable.discard(key)
            return seen
        try:
            of_metadata = view_of(key.kind, {"metadata": body["metadata"]})
            return _lean(Seen(of_metadata, uid, version, owner))
        except Exception:
            logger.exception("%s %s/%s can't be read, not even its metadata: passed over", *key)
            return None

    def _remove(self, key: views.Key, uid: str) -> views.Key | None:
        if (seen := self._seen.get(key)) is None or seen.uid != uid:
            return None
        del self._seen[key]
        self.unreadable.discard(key)
        self.declared.let_go(key)
        self.left_out.pop(key, None)
        self._leave(key, seen.belongs_to)
        if key.kind == names.KIND:
            self.results.drop(key)
            # They are not watched, so that no event will come.
            for child in [
                k for k in self._by_run.get(seen.belongs_to, ()) if not _watched(self._seen[k].view)
            ]:
                self._leave(child, seen.belongs_to)
                del self._seen[child]
        return seen.belongs_to

    def _leave(self, key: views.Key, owner: views.Key) -> None:
        siblings = self._by_run.get(owner, set())
        siblings.discard(key)
        if not siblings:
            self._by_run.pop(owner, None)

    def _note_result(self, key: views.Key, uid: str, body: Body) -> None:
        if key.kind == names.KIND:
            status = raw.mapping(body.get("status"))
            ended = finished_run_of(status) if is_finished(status) else None
            self.results.note(key, uid, ended)


def _is_news(before: Seen | None, uid: str, version: int) -> bool:
    """Whether an object of that version is to be looked at: also once more, where there was no
    room for it."""
    if before is None or before.uid != uid:
        return True
    return version > before.version or (version == before.version and before.is_left_out)


def _lean(seen: Seen) -> Seen:
    """With spec and status packed, of what has them."""
    view = seen.view
    if not isinstance(view, views.Declared):
        return seen
    data = packed({"spec": view.spec, "status": view.status})
    return replace(seen, view=replace(view, spec={}, status={}), packed=data)


def _whole(declared: D, data: bytes | None) -> D:
    """With spec and status, of what they are kept of."""
    return declared if data is None else replace(declared, **unpacked(data))


def _watched(view: views.View) -> bool:
    """What was measured is listed by its metadata, never watched, since every event would carry the
    data."""
    return not isinstance(view, views.Child) or (
        view.kind not in EXTENSION_KINDS and view.role not in RESULT_ROLES
    )
