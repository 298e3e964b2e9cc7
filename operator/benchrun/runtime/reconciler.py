"""What passes over runs and sweeps have in common, and the end of runs over which no pass succeeds.

What the API server refused is raised to the queue, which retries. What it did is put into the index at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from benchrun import names
from benchrun.api import Reason, timestamp
from benchrun.decide import SERVER_KINDS, Event, Ref
from benchrun.effects import ClusterError, Conflict, Invalid, KubernetesApi, NotFound, Throttled
from benchrun.observe import Declared, Key, RunKey, is_finished, object_of
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.queue import Later
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.5  # after a conflict: by then the watch is usually up to date


@dataclass(kw_only=True, eq=False)
class Reconciler:
    """Makes passes over one kind of object, and writes what they decide."""

    cluster: KubernetesApi
    indexes: Indexes
    now: Callable[[], datetime]
    telemetry: Telemetry

    async def guard(self, key: Key, make_pass: Callable[[], Awaitable[float | None]]) -> float | None:
        """What the pass returned: seconds until the next one without an event, or None. Raises Later to be retried; after a
        conflict, when what is there now was read."""
        with self.telemetry.a_pass() as outcome:
            try:
                return await make_pass()
            except Throttled as error:
                outcome.result = "throttled"
                raise Later(str(error), seconds=error.retry_after_seconds) from error
            except Conflict as error:
                outcome.result = "conflict"
                await self._refresh(key)
                raise Later(str(error), seconds=RETRY_SECONDS) from error
            except ClusterError as error:
                outcome.result = type(error).__name__.lower()
                raise Later(f"{type(error).__name__}: {error}", seconds=RETRY_SECONDS) from error

    async def delete(self, refs: Iterable[Ref]) -> list[ClusterError]:
        """What failed. Each deletion is requested, whatever became of the others."""
        failed: list[ClusterError] = []
        for ref in refs:
            try:
                await self.cluster.delete(ref)
                self.indexes.mark_deleting(ref.kind, ref.namespace, ref.name)
            except ClusterError as error:
                failed.append(error)
        return failed

    async def change_status(self, declared: Declared, changes: dict[str, Any]) -> None:
        """Write it over the version that was decided on, not over what was heard of since. Raises ClusterError."""
        body = await self.cluster.patch_status(declared, resource_version=declared.version, changes=changes)
        self.indexes.learnt(declared.kind, body)

    async def post(self, about: Declared, events: Iterable[Event]) -> None:
        """Post events; one that can't be posted costs nothing else."""
        for event in events:
            try:
                await self.cluster.create_event(about, event, now=self.now())
            except ClusterError as error:
                logger.warning("%s/%s: event %s was not posted: %s", about.namespace, about.name, event.reason, error)

    async def _refresh(self, key: Key) -> None:
        """Read what is there now from the API server, in case a watch is behind."""
        kind, namespace, name = object_of(key)
        try:
            self.indexes.learnt(kind, await self.cluster.get(kind, namespace=namespace, name=name))
        except NotFound:
            self.indexes.drop(kind, namespace, name)
        except ClusterError as error:
            logger.info("%s: not read after a conflict: %s", key, error)


# To end a run over which no pass succeeds, neither its spec nor its status is read, nor anything else that the run, its pods or its
# client could have spoilt.

MOST_FAILURES = 5
LONGEST_SECONDS = 60.0  # whichever comes first, of passes that failed in a row
_CONDITIONS = {"Complete": "False", "Failed": "True", "Succeeded": "False", "Ready": "False", "Stalled": "True"}


@dataclass(eq=False)
class FailingRuns:
    """Counts failed passes by run, and ends runs over which no pass succeeds."""

    passes: Reconciler
    _failures: dict[RunKey, tuple[int, float]] = field(default_factory=dict)
    """How many passes failed in a row, and since when, in the loop's time."""

    def forget(self, key: RunKey) -> None:
        """A pass succeeded, or the run is gone."""
        self._failures.pop(key, None)

    async def lets_go(self, key: RunKey, error: Exception) -> bool:
        """Count a failed pass; True when the run is over because of it. What the API server does not do now does not count: only
        what it will never do, and errors of our own code."""
        cause = error.__cause__ if isinstance(error, Later) else error
        if isinstance(cause, ClusterError) and not isinstance(cause, Invalid):
            return False
        now = asyncio.get_running_loop().time()
        count, since = self._failures.get(key, (0, now))
        self._failures[key] = count + 1, since
        if count + 1 < MOST_FAILURES and now - since < LONGEST_SECONDS:
            return False
        logger.error("%s: let go after %d failed passes", key, count + 1, exc_info=cause)
        if not await self.let_go(key) or not await self._write_failed(key, cause or error):
            return False
        self.forget(key)
        return True

    async def let_go(self, key: RunKey) -> bool:
        """Whether the deletion of everything that the run holds was requested."""
        run = self.passes.indexes.run(key)
        if run is None:
            return True
        roles = (*names.SERVING_ROLES, names.ROLE_CLIENT)
        ours = (c for c in self.passes.indexes.children(key).objects if c.owner_uid == run.uid and not c.deleting)
        held = (c for c in ours if c.kind in (*SERVER_KINDS, "Job") and c.role in roles)
        servers_first = sorted(held, key=lambda child: child.kind == "Job")
        failed = await self.passes.delete(Ref(c.kind, key.namespace, c.name, c.uid) for c in servers_first)
        for error in failed:
            logger.warning("%s: something it holds is not deleted yet: %s", key, error)
        return not failed

    async def _write_failed(self, key: RunKey, error: BaseException) -> bool:
        """Whether the status says that the run has failed. One that has ended already is left as it is."""
        run = self.passes.indexes.run(key)
        if run is None or is_finished(run.status):
            return True
        try:
            await self.passes.change_status(run, self._status(type(error).__name__, run.generation))
        except ClusterError as refused:
            logger.warning("%s: its status is not written yet: %s", key, refused)
            return False
        return True

    def _status(self, error: str, generation: int) -> dict[str, object]:
        """A status that says only this, and is valid whatever stood there before."""
        now = timestamp(self.passes.now())
        message = f"the operator could not work on this run ({error}) and let go of its servers; see the operator's log"
        same = {"message": message, "observedGeneration": generation}
        condition = {"reason": Reason.INTERNAL_ERROR, "lastTransitionTime": now, **same}
        return {
            **same,
            "phase": "Failed",
            "verdict": "Unknown",
            "completionTime": now,
            "conditions": [{"type": type_, "status": status, **condition} for type_, status in _CONDITIONS.items()],
            "live": None,
            "ending": None,
        }
