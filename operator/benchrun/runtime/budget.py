"""How many bytes may be held in memory for runs and sweeps: so many in total, shared between
namespaces.

A namespace may borrow what others leave. When the total is reached, whoever holds most gives back:
the namespace that holds most, and of it the largest thing. A namespace that holds less than its
share (the total by the number of namespaces that hold something) is never that one."""

from collections.abc import Iterator

from benchrun.observe import Key


class Budget:
    """Who holds how many bytes."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._held: dict[str, dict[Key, int]] = {}
        self._sums: dict[str, int] = {}

    def __iter__(self) -> Iterator[Key]:
        return (key for held in self._held.values() for key in held)

    def of(self, key: Key) -> int:
        """Return what is held under the key."""
        return self._held.get(key.namespace, {}).get(key, 0)

    def used_by(self, namespace: str) -> int:
        """Return what all keys of a namespace hold."""
        return self._sums.get(namespace, 0)

    def share(self, namespace: str) -> int:
        """Return what the namespace may hold whatever others do, beside those that hold now."""
        return self.total // len(self._held.keys() | {namespace})

    def has_room(self, key: Key, size: int) -> bool:
        """Return whether so much could be held under the key without being given back."""
        more = size - self.of(key)
        if self.used + more <= self.total:
            return True
        return self.used_by(key.namespace) + more <= self.share(key.namespace)

    def may_grow(self, namespace: str) -> bool:
        """Return whether the namespace holds no more than is left for all others. Of what can't be
        given back nobody can take all then, and whoever comes later finds room."""
        return self.used_by(namespace) <= self.total - self.used

    def is_over(self, namespace: str) -> bool:
        """Return whether too much is held, and by this namespace: it is to give back."""
        return self.used > self.total and self.used_by(namespace) >= self.share(namespace)

    def note(self, key: Key, size: int) -> None:
        """Note that so much is held under the key from now on, whatever the total."""
        held = self._held.setdefault(key.namespace, {})
        more = size - held.pop(key, 0)
        if size > 0:
            held[key] = size
        self.used += more
        self._sums[key.namespace] = self.used_by(key.namespace) + more
        if not held:
            del self._held[key.namespace], self._sums[key.namespace]

    def hold(self, key: Key, size: int) -> tuple[Key, ...]:
        """Hold so much under the key. Return the keys that give back what they hold: the key
        itself among them where there is no room for it."""
        self.note(key, size)
        given_back: list[Key] = []
        while self.used > self.total:
            most = max(self._sums, key=lambda namespace: (self._sums[namespace], namespace))
            largest = self._largest(most)
            self.note(largest, 0)
            given_back.append(largest)
        return tuple(given_back)

    def let_go(self, key: Key) -> None:
        """Hold nothing under the key any more."""
        if self.of(key):
            self.note(key, 0)

    def _largest(self, namespace: str) -> Key:
        """Return the largest; of several the one that came last, so that nobody changes places."""
        held = self._held[namespace]
        return max(reversed(held), key=lambda key: held[key])
