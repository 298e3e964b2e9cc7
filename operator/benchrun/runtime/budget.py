"""A budget of bytes held in memory for runs and sweeps, shared between namespaces.

A namespace may use what other namespaces do not use. When the total is exceeded, the namespace that
holds most gives back its largest item. Its share is the total divided by the number of namespaces
that hold something; a namespace below its share never has to give back.
"""

from collections.abc import Iterator

from benchrun.observe import Key


class ByteBudget:
    """The bytes that are held in memory for each key, and how many may be held in all."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._held: dict[str, dict[Key, int]] = {}
        self._sums: dict[str, int] = {}

    def __iter__(self) -> Iterator[Key]:
        return (key for held in self._held.values() for key in held)

    def of(self, key: Key) -> int:
        """Return the bytes held under the key."""
        return self._held.get(key.namespace, {}).get(key, 0)

    def used_by(self, namespace: str) -> int:
        """Return the bytes that all keys of a namespace hold."""
        return self._sums.get(namespace, 0)

    def share(self, namespace: str) -> int:
        """Return the bytes that the namespace may always hold.

        That is the total divided by the number of namespaces: those that hold something, and this.
        """
        return self.total // len(self._held.keys() | {namespace})

    def has_room(self, key: Key, size: int) -> bool:
        """Return whether `size` bytes fit under the key without being given back at once."""
        more = size - self.of(key)
        if self.used + more <= self.total:
            return True
        return self.used_by(key.namespace) + more <= self.share(key.namespace)

    def may_grow(self, namespace: str) -> bool:
        """Return whether the namespace holds no more bytes than are still free.

        Meant for bytes that can't be given back: no namespace can then take everything, and a
        namespace that comes later finds room.
        """
        return self.used_by(namespace) <= self.total - self.used

    def is_over(self, namespace: str) -> bool:
        """Return whether the total is exceeded and this namespace holds at least its share."""
        return self.used > self.total and self.used_by(namespace) >= self.share(
            namespace
        )

    def note(self, key: Key, size: int) -> None:
        """Record that `size` bytes are held under the key from now on, even above the total."""
        held = self._held.setdefault(key.namespace, {})
        more = size - held.pop(key, 0)
        if size > 0:
            held[key] = size
        self.used += more
        self._sums[key.namespace] = self.used_by(key.namespace) + more
        if not held:
            del self._held[key.namespace], self._sums[key.namespace]

    def hold(self, key: Key, size: int) -> tuple[Key, ...]:
        """Hold `size` bytes under the key, and return the keys that give back their bytes.

        The key itself is among them if its own bytes do not fit.
        """
        self.note(key, size)
        given_back: list[Key] = []
        while self.used > self.total:
            most = max(
                self._sums, key=lambda namespace: (self._sums[namespace], namespace)
            )
            largest = self._largest(most)
            self.note(largest, 0)
            given_back.append(largest)
        return tuple(given_back)

    def let_go(self, key: Key) -> None:
        """Record that nothing is held under the key any more."""
        if self.of(key):
            self.note(key, 0)

    def _largest(self, namespace: str) -> Key:
        """Return the key that holds most; of several, the one added last.

        Otherwise two keys of the same size would replace each other again and again.
        """
        held = self._held[namespace]
        return max(reversed(held), key=lambda key: held[key])
