"""Common parts of reconciling runs and sweeps: failures, retries, and ending hopeless objects.

A refused request is raised to the queue, which retries. The answer to a successful write is put
into the index at once. An object whose reconciles keep failing is ended, without reading data of it
that could be the cause.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Generic, Literal, TypeVar

from benchrun.api import Reason, ended_early, timestamp
from benchrun.decide import Event, Ref
from benchrun.effects import (
    ClusterError,
    Conflict,
    Invalid,
    KubernetesApi,
    NotFound,
    Throttled,
    serving,
)
from benchrun.observe import (
    Declared,
    Key,
    is_finished,
    untrusted_json as raw,
    view_of,
)
from benchrun.runtime import log_lines
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import Memories, Memory
from benchrun.runtime.queue import Later
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

# seconds after a conflict: by then the watch is usually up to date
RETRY_SECONDS = 0.5
LONGEST_CONFLICT_SECONDS = 4.0
"""Most seconds until a retry after repeated conflicts: few, because the API server answers."""
# how often an object that the API server refused is retried, without an event
REFUSED_RETRY_SECONDS = 15.0
MOST_FAILURES = 5
LONGEST_SECONDS = 60.0
"""Most seconds of failures. An object is ended after MOST_FAILURES in a row or after this time,
whichever comes first."""

D = TypeVar("D", bound=Declared)
M = TypeVar("M", bound=Memory)


@dataclass(slots=True)
class Failures:
    """Failures in a row to reconcile one object, which is identified by its uid."""

    uid: str
    since: float  # time of the first failure, by the event loop's clock
    count: int = 0


@dataclass(kw_only=True, eq=False)
class Reconciler(ABC, Generic[D, M]):
    """Decides on objects of one kind, runs or sweeps, and carries the decisions out."""

    what: ClassVar[Literal["run", "sweep"]]
    let_go_in_words: ClassVar[str]
    cleared_at_the_end: ClassVar[Mapping[str, Any]]
    """Status fields that are cleared when the reconciler ends an object."""

    cluster: KubernetesApi
    indexes: Indexes
    now: Callable[[], datetime]
    telemetry: Telemetry
    memories: Memories[M] = field(init=False)

    def __post_init__(self) -> None:
        self._failures: dict[Key, Failures] = {}

    @abstractmethod
    def known(self, key: Key) -> D | None:
        """Return the object from the index; None if the index does not have it."""

    @abstractmethod
    async def look_at(self, key: Key, declared: D) -> float | None:
        """Reconcile an existing object.

        Returns the seconds until the next reconcile if no event comes before; None: only an event
        leads to the next one.
        """

    @abstractmethod
    async def let_go(self, declared: D) -> list[ClusterError]:
        """Delete or cancel everything that runs for the object.

        Return the errors that may be retried.
        """

    async def clear(self, key: Key, declared: D | None) -> list[ClusterError]:
        """Delete or cancel everything that runs for earlier objects of this name.

        Return the errors. An implementation may first read the current object of this name from the
        API server, and store it in the index.
        """
        return []

    def forget(self, key: Key) -> None:
        """Drop everything that is kept under the key."""
        self.memories.drop(key)

    async def __call__(self, key: Key) -> float | None:
        try:
            seconds = await self.guard(key, lambda: self._pass(key))
        except Exception as error:
            if not await self._is_over(key, error):
                raise
            self.telemetry.let_go(self.what)
            self.forget(key)
            seconds = None
        self._failures.pop(key, None)
        return seconds

    async def _pass(self, key: Key) -> float | None:
        failed = await self.clear(key, self.known(key))
        declared = self.known(key)  # `clear` may have read a newer one
        memory = self.memories.get(key)
        if declared is None or declared.deleting:
            # The garbage collector removes the object's children without the operator, but only
            # when no finalizer holds the object any more.
            self.forget(key)
            failed += [] if declared is None else await self.let_go(declared)
            return REFUSED_RETRY_SECONDS if failed else None
        if memory is not None and memory.uid != declared.uid:
            self.forget(key)  # the memory of an earlier object of this name
        return await self.look_at(key, declared)

    async def guard(
        self, key: Key, make_pass: Callable[[], Awaitable[float | None]]
    ) -> float | None:
        """Run `make_pass` and return its result: see `look_at`.

        Raises Later for an error of the API server, to be retried.
        """
        serving.set(key.namespace)  # for the tasks that begin here, too
        log_lines.concerns(key)
        with self.telemetry.a_pass() as outcome:
            try:
                return await make_pass()
            except Throttled as error:
                outcome.result = "throttled"
                raise Later(
                    str(error), seconds=error.retry_after_seconds
                ) from error
            except Conflict as error:
                outcome.result = "conflict"
                await self._refresh(key)
                raise Later(
                    str(error),
                    seconds=RETRY_SECONDS,
                    longest_seconds=LONGEST_CONFLICT_SECONDS,
                ) from error
            except ClusterError as error:
                outcome.result = type(error).__name__.lower()
                raise Later(
                    f"{type(error).__name__}: {error}", seconds=RETRY_SECONDS
                ) from error

    async def whole(self, key: Key, declared: D) -> D | None:
        """Return the object with spec and status, read from the cluster if they are left out.

        None if the object is gone, being deleted, or replaced by another one of the same name; the
        next reconcile finds out which.
        """
        if not declared.left_out:
            return declared
        kind, namespace, name = key
        try:
            body = await self.cluster.get(kind, namespace=namespace, name=name)
        except NotFound:
            self.indexes.drop(key, declared.uid)
            return None
        self.indexes.learnt(kind, body)
        found = view_of(kind, body)
        assert isinstance(found, type(declared))
        if (found.uid, found.deleting) != (declared.uid, declared.deleting):
            return None
        return replace(found, left_out=key in self.indexes.left_out)

    async def delete(self, refs: Iterable[Ref]) -> list[ClusterError]:
        """Request every deletion, even if others fail, and return the errors."""
        failed: list[ClusterError] = []
        for ref in refs:
            try:
                await self.cluster.delete(ref)
                self.indexes.mark_deleting(
                    ref.kind, ref.namespace, ref.name, ref.uid
                )
            except ClusterError as error:
                failed.append(error)
        return failed

    async def change_status(
        self, declared: Declared, changes: dict[str, Any]
    ) -> None:
        """Write the status over the version that was decided on, not over a newer one.

        Raises ClusterError.
        """
        body = await self.cluster.patch_status(
            declared, resource_version=declared.version, changes=changes
        )
        self.indexes.learnt(declared.kind, body)

    async def post(self, about: Declared, events: Iterable[Event]) -> None:
        """Post events; a failure is logged and has no other effect."""
        for event in events:
            try:
                await self.cluster.create_event(about, event, now=self.now())
            except ClusterError as error:
                logger.warning(
                    "%s/%s: event %s was not posted: %s",
                    about.namespace,
                    about.name,
                    event.reason,
                    error,
                )

    async def _refresh(self, key: Key) -> None:
        """Read the object's current state from the API server, in case a watch is behind."""
        kind, namespace, name = key
        before = self.known(key)
        try:
            self.indexes.learnt(
                kind, await self.cluster.get(kind, namespace=namespace, name=name)
            )
        except NotFound:
            if before is not None:
                self.indexes.drop(key, before.uid)
        except ClusterError as error:
            logger.info("%s: not read after a conflict: %s", key, error)

    async def _is_over(self, key: Key, error: Exception) -> bool:
        """Count a failure, and return whether the object was ended because of it.

        Only errors that will never go away, and errors in the operator's own code, count.
        """
        cause = error.__cause__ if isinstance(error, Later) else error
        if isinstance(cause, ClusterError) and not isinstance(cause, Invalid):
            return False
        if (declared := self.known(key)) is None:
            return False  # the next reconcile finds that it is gone
        failed = self._failures.get(key)
        now = asyncio.get_running_loop().time()
        if failed is None or failed.uid != declared.uid:
            failed = self._failures[key] = Failures(declared.uid, since=now)
        failed.count += 1
        if failed.count < MOST_FAILURES and now - failed.since < LONGEST_SECONDS:
            return False
        logger.error(
            "%s: ended after %d failed reconciles",
            key,
            failed.count,
            exc_info=cause,
        )
        return not await self.let_go(declared) and await self._write_failed(
            key, cause or error
        )

    async def _write_failed(self, key: Key, error: BaseException) -> bool:
        """Write that the object has failed; return whether the status says how it ended.

        An object that has ended already is left unchanged. Also return True if the object is gone.
        """
        if (declared := self.known(key)) is None:
            return True
        now = timestamp(self.now())
        kind = type(error).__name__
        message = (
            f"the operator failed repeatedly on this {self.what} ({kind}) and "
            f"{self.let_go_in_words}; see the operator's log"
        )
        same = {
            "lastTransitionTime": now,
            "observedGeneration": declared.generation,
        }
        rows = ended_early(self.what, Reason.INTERNAL_ERROR, message)
        ended = {
            "phase": "Failed",
            "message": message,
            "conditions": [
                {
                    "type": t,
                    "status": status,
                    "reason": reason,
                    "message": text,
                    **same,
                }
                for t, status, reason, text in rows
            ],
            "observedGeneration": declared.generation,
            "completionTime": now,
        }
        try:
            if not is_finished(await self._status(declared)):
                await self.change_status(
                    declared, {**ended, **self.cleared_at_the_end}
                )
        except ClusterError as refused:
            logger.warning("%s: its status is not written yet: %s", key, refused)
            return False
        return True

    async def _status(self, declared: D) -> raw.Object:
        """Return the status, read from the cluster if it is left out. Raises ClusterError."""
        if not declared.left_out:
            return declared.status
        body = await self.cluster.get(
            declared.kind, namespace=declared.namespace, name=declared.name
        )
        return raw.mapping(body.get("status"))
