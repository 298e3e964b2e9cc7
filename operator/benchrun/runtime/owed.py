"""Changes that the operator knows of and that no watch has confirmed yet.

A watch confirms a change with an event of at least its version, or by continuing from a list that
has the change. What stays unconfirmed for long shows that a watch is silent.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from benchrun.observe import Key


@dataclass(frozen=True, slots=True)
class _Change:
    version: int
    since: float  # when it became known, by the clock of `Owed`


@dataclass(eq=False)
class Owed:
    """The oldest unconfirmed change of every object; `seconds` is a monotonic clock."""

    seconds: Callable[[], float]
    _changes: dict[tuple[str, str], dict[Key, _Change]] = field(
        default_factory=dict, init=False
    )
    """By kind and namespace, as watches are."""

    def note(self, key: Key, version: int) -> None:
        """Record a change; an earlier one of the object is kept."""
        of_watch = self._changes.setdefault((key.kind, key.namespace), {})
        of_watch.setdefault(key, _Change(version, self.seconds()))

    def heard(self, key: Key, version: int) -> None:
        """Record that a watch has told of this version of the object."""
        change = self._changes.get((key.kind, key.namespace), {}).get(key)
        if change is not None and version >= change.version:
            self.drop(key)

    def continued(self, kind: str, namespace: str | None, version: int) -> None:
        """Record that a watch goes on from this version (`namespace` None: of all namespaces)."""
        watched = (
            [where for where in self._changes if where[0] == kind]
            if namespace is None
            else [(kind, namespace)]
        )
        for where in watched:
            for key, change in [*self._changes.get(where, {}).items()]:
                if change.version <= version:
                    self.drop(key)

    def drop(self, key: Key) -> None:
        """Forget the object's change, if there is one."""
        where = (key.kind, key.namespace)
        of_watch = self._changes.get(where, {})
        of_watch.pop(key, None)
        if not of_watch:
            self._changes.pop(where, None)

    def silent_seconds(self, *, unreadable: Collection[str] = ()) -> float:
        """Return the age of the oldest change outside `unreadable` namespaces; 0 without any."""
        since = (
            change.since
            for (_, namespace), change in self._all()
            if namespace not in unreadable
        )
        oldest = min(since, default=None)
        return 0.0 if oldest is None else self.seconds() - oldest

    def overdue(self, seconds: float) -> set[tuple[str, str]]:
        """Return kind and namespace of the changes that are at least `seconds` old."""
        latest = self.seconds() - seconds
        return {where for where, change in self._all() if change.since <= latest}

    def restart(self, namespace: str | None) -> None:
        """Let the time of all changes of a namespace (None: of all) begin now.

        Called when the namespace can be read again: until then its watches could not deliver.
        """
        now = self.seconds()
        for where, of_watch in self._changes.items():
            if namespace in (None, where[1]):
                self._changes[where] = {
                    key: _Change(change.version, now)
                    for key, change in of_watch.items()
                }

    def _all(self) -> Iterator[tuple[tuple[str, str], _Change]]:
        for where, of_watch in self._changes.items():
            for change in of_watch.values():
                yield where, change
