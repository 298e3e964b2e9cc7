"""Turns that are fair between namespaces, however many requests of one namespace wait.

`Lane` is a queue with this order. `Places` limits how many tasks work at a time; further tasks wait
in such a queue.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

serving: ContextVar[str] = ContextVar("serving", default="")
"""Namespace that the current task works for; empty: no namespace."""


class _InNamespace(Protocol):
    @property
    def namespace(self) -> str: ...


W = TypeVar("W", bound=_InNamespace)


class Lane(Generic[W]):
    """A queue in which every item waits once.

    Namespaces take turns; within a namespace, items are taken first come, first served.
    """

    def __init__(self) -> None:
        self._waiting: dict[
            str, dict[W, None]
        ] = {}  # items by namespace, in turn order

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __contains__(self, one: W) -> bool:
        return one in self._waiting.get(one.namespace, ())

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces with waiting items, in the order of their turns."""
        return tuple(self._waiting)

    def add(self, one: W) -> None:
        self._waiting.setdefault(one.namespace, {})[one] = None

    def remove(self, one: W) -> None:
        waiting = self._waiting[one.namespace]
        del waiting[one]
        if not waiting:
            del self._waiting[one.namespace]

    def take(self) -> W | None:
        """Remove and return the item whose turn it is; None if no item waits."""
        return self.take_of(next(iter(self._waiting), ""))

    def take_of(self, namespace: str) -> W | None:
        """Remove and return the first item of a namespace, which has then had its turn.

        None if no item of the namespace waits.
        """
        waiting = self._waiting.get(namespace)
        if waiting is None:
            return None
        one = next(iter(waiting))
        self.remove(one)
        self.put_last(namespace)
        return one

    def put_last(self, namespace: str) -> None:
        """Put the namespace behind all others that wait."""
        if namespace in self._waiting:
            self._waiting[namespace] = self._waiting.pop(namespace)

    def clear(self) -> None:
        self._waiting.clear()


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    namespace: str
    called: asyncio.Future[None] = field(default_factory=asyncio.Future)


class Places:
    """A limit on how many tasks work at a time, shared fairly between namespaces.

    A task holds one of `most` places while it works. A free place goes to the waiting namespace
    that holds the fewest places. The last free one is kept for a namespace that holds none, so that
    it need not wait for others to finish.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        self._waiting: Lane[_Waiter] = Lane()

    @property
    def free(self) -> int:
        return self._most - self._taken.total()

    @asynccontextmanager
    async def taken(self, namespace: str) -> AsyncIterator[None]:
        """Hold one of the namespace's places, once it is its turn."""
        waiter = _Waiter(namespace)
        self._waiting.add(waiter)
        self._call_next()
        try:
            await waiter.called
            yield
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.called.cancelled():
                self._leave(namespace)

    def _leave(self, namespace: str) -> None:
        self._taken[namespace] -= 1
        if not self._taken[namespace]:
            del self._taken[namespace]
        self._waiting.put_last(namespace)
        self._call_next()

    def _call_next(self) -> None:
        while (namespace := self._whose_turn()) is not None:
            waiter = self._waiting.take_of(namespace)
            if (
                waiter is not None and not waiter.called.done()
            ):  # done: the waiter has just given up
                self._taken[namespace] += 1
                waiter.called.set_result(None)

    def _whose_turn(self) -> str | None:
        """Return the namespace that gets the next place.

        None if no place is free, or no waiting namespace may take it.
        """
        having = min(
            self._waiting.namespaces,
            key=lambda each: self._taken[each],
            default=None,
        )
        if having is None or self.free <= 0:
            return None
        is_kept = self.free == 1 < self._most and self._taken[having] > 0
        return None if is_kept else having
