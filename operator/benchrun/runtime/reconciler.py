"""What passes over runs and sweeps have in common: how they fail, how they are retried, and how what
can't be worked on is ended.

What the API server refused is raised to the queue, which retries. What it did is put into the index
at once. An object over which no pass succeeds is ended without reading what could be spoilt."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar, Generic, Literal, TypeVar

from benchrun.api import Reason, timestamp
from benchrun.decide import Event, Ref
from benchrun.decide.condition_table import ended_early
from benchrun.effects import (
    ClusterError,
    Conflict,
    Invalid,
    KubernetesApi,
    NotFound,
    Throttled,
    serving,
)
from benchrun.observe import Declared, Key, is_finished, untrusted_json as raw, view_of
from benchrun.runtime import log_lines
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import Memories, Memory
from benchrun.runtime.queue import Later
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.5  # after a conflict: by then the watch is usually up to date
LONGEST_CONFLICT_SECONDS = 4.0  # however often that fails: the API server is well
# how often an object that the API server refused is retried, without an event
REFUSED_RETRY_SECONDS = 15.0
MOST_FAILURES = 5
LONGEST_SECONDS = 60.0  # whichever comes first, of passes that failed in a row

D = TypeVar("D", bound=Declared)
M = TypeVar("M", bound=Memory)


@dataclass(slots=True)
class Failures:
    """Passes over one object that failed in a row; its uid distinguishes it from namesakes."""

    uid: str
    since: float  # in the loop's time
    count: int = 0


@dataclass(kw_only=True, eq=False)
class Reconciler(ABC, Generic[D, M]):
    """Makes passes over one kind of object, and writes what they decide."""

    what: ClassVar[Literal["run", "sweep"]]
    let_go_in_words: ClassVar[str]
    cleared_at_the_end: ClassVar[Mapping[str, Any]]  # of the status of what is ended here

    cluster: KubernetesApi
    indexes: Indexes
    now: Callable[[], datetime]
    telemetry: Telemetry
    memories: Memories[M] = field(init=False)

    def __post_init__(self) -> None:
        self._failures: dict[Key, Failures] = {}

    @abstractmethod
    def known(self, key: Key) -> D | None:
        """The object, as the index has it."""

    @abstractmethod
    async def look_at(self, key: Key, declared: D) -> float | None:
        """A pass over what is there: seconds until the next one without an event, or None."""

    @abstractmethod
    async def let_go(self, declared: D) -> list[ClusterError]:
        """Request that everything ends which goes on for it. What failed and may be retried."""

    async def clear(self, key: Key, declared: D | None) -> list[ClusterError]:
        """Request that everything ends which goes on for earlier ones of this name. What failed."""
        return []

    def forget(self, key: Key) -> None:
        """Drop all that is kept by its name."""
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
        declared = self.known(key)
        memory = self.memories.get(key)
        failed = await self.clear(key, declared)
        if declared is None or declared.deleting:
            # The garbage collector removes what is its own, with or without us, but not before
            # somebody's finalizer lets the object go.
            self.forget(key)
            failed += [] if declared is None else await self.let_go(declared)
            return REFUSED_RETRY_SECONDS if failed else None
        if memory is not None and memory.uid != declared.uid:
            self.forget(key)  # an earlier one of this name
        return await self.look_at(key, declared)

    async def guard(
        self, key: Key, make_pass: Callable[[], Awaitable[float | None]]
    ) -> float | None:
        """What the pass returned: seconds until the next one without an event, or None. Raises
        Later to be retried."""
        serving.set(key.namespace)  # for the tasks that begin here, too
        log_lines.concerns(key)
        with self.telemetry.a_pass() as outcome:
            try:
                return await make_pass()
            except Throttled as error:
                outcome.result = "throttled"
                raise Later(str(error), seconds=error.retry_after_seconds) from error
            except Conflict as error:
                outcome.result = "conflict"
                await self._refresh(key)
                raise Later(
                    str(error), seconds=RETRY_SECONDS, longest_seconds=LONGEST_CONFLICT_SECONDS
                ) from error
            except ClusterError as error:
                outcome.result = type(error).__name__.lower()
                raise Later(f"{type(error).__name__}: {error}", seconds=RETRY_SECONDS) from error

    async def whole(self, key: Key, declared: D) -> D | None:
        """Return it with its spec and status: of what memory has no room for they are read anew.
        None: it is gone or going, or another has its name; the next pass sees which."""
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
        """What failed. Each deletion is requested, whatever became of the others."""
        failed: list[ClusterError] = []
        for ref in refs:
            try:
                await self.cluster.delete(ref)
                self.indexes.mark_deleting(ref.kind, ref.namespace, ref.name, ref.uid)
            except ClusterError as error:
                failed.append(error)
        return failed

    async def change_status(self, declared: Declared, changes: dict[str, Any]) -> None:
        """Write it over the version that was decided on, not over what was heard of since. Raises
        ClusterError."""
        body = await self.cluster.patch_status(
            declared, resource_version=declared.version, changes=changes
        )
        self.indexes.learnt(declared.kind, body)

    async def post(self, about: Declared, events: Iterable[Event]) -> None:
        """Post events; one that can't be posted costs nothing else."""
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
        """Read what is there now from the API server, in case a watch is behind."""
        kind, namespace, name = key
        before = self.known(key)
        try:
            self.indexes.learnt(kind, await self.cluster.get(kind, namespace=namespace, name=name))
        except NotFound:
            if before is not None:
                self.indexes.drop(key, before.uid)
        except ClusterError as error:
            logger.info("%s: not read after a conflict: %s", key, error)

    async def _is_over(self, key: Key, error: Exception) -> bool:
        """Count a failed pass; True when the object is ended for it. Only what will never work, and
        our errors, count."""
        cause = error.__cause__ if isinstance(error, Later) else error
        if isinstance(cause, ClusterError) and not isinstance(cause, Invalid):
            return False
        if (declared := self.known(key)) is None:
            return False  # the next pass finds that it is gone
        failed = self._failures.get(key)
        now = asyncio.get_running_loop().time()
        if failed is None or failed.uid != declared.uid:
            failed = self._failures[key] = Failures(declared.uid, since=now)
        failed.count += 1
        if failed.count < MOST_FAILURES and now - failed.since < LONGEST_SECONDS:
            return False
        logger.error("%s: let go after %d failed passes", key, failed.count, exc_info=cause)
        return not await self.let_go(declared) and await self._write_failed(key, cause or error)

    async def _write_failed(self, key: Key, error: BaseException) -> bool:
        """Whether the status says that the object has failed, and only that. One that has ended
        already is left as it is."""
        if (declared := self.known(key)) is None:
            return True
        now = timestamp(self.now())
        kind = type(error).__name__
        message = (
            f"the operator failed repeatedly on this {self.what} ({kind}) and "
            f"{self.let_go_in_words}; see the operator's log"
        )
        same = {"lastTransitionTime": now, "observedGeneration": declared.generation}
        rows = ended_early(self.what, Reason.INTERNAL_ERROR, message)
        ended = {
            "phase": "Failed",
            "message": message,
            "conditions": [
                {"type": t, "status": status, "reason": reason, "message": text, **same}
                for t, status, reason, text in rows
            ],
            "observedGeneration": declared.generation,
            "completionTime": now,
        }
        try:
            if not is_finished(await self._status(declared)):
                await self.change_status(declared, {**ended, **self.cleared_at_the_end})
        except ClusterError as refused:
            logger.warning("%s: its status is not written yet: %s", key, refused)
            return False
        return True

    async def _status(self, declared: D) -> raw.Object:
        """What memory has no room for is read anew. Raises ClusterError."""
        if not declared.left_out:
            return declared.status
        body = await self.cluster.get(
            declared.kind, namespace=declared.namespace, name=declared.name
        )
        return raw.mapping(body.get("status"))
