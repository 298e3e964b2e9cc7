"""What passes over runs and over sweeps have in common: how they are counted and timed, and how they change the cluster.

What the API server said no to is told to the queue, which asks again. What it did is told to the index at once.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchrun.decide.decision import Event, Ref
from benchrun.effects.clock import Clock
from benchrun.effects.errors import ClusterError, Conflict, NotFound, Throttled
from benchrun.effects.kubernetes_api import Cluster
from benchrun.observe.identity import Key, object_of
from benchrun.observe.views import Declared
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.queue import Later
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 0.5
"""After a conflict: by then the watch has usually told."""


async def guarded(
    make_pass: Callable[[], Awaitable[float | None]],
    *,
    telemetry: Telemetry,
    after_conflict: Callable[[], Awaitable[None]],
) -> float | None:
    """What the pass returned. Raises Later; after a conflict, when what is there now was read again."""
    with telemetry.a_pass() as outcome:
        try:
            return await make_pass()
        except Throttled as error:
            outcome.result = "throttled"
            raise Later(str(error), seconds=error.retry_after_seconds) from error
        except Conflict as error:
            outcome.result = "conflict"
            await after_conflict()
            raise Later(str(error), seconds=LOOK_AGAIN_SECONDS) from error
        except ClusterError as error:
            outcome.result = type(error).__name__.lower()
            raise Later(f"{type(error).__name__}: {error}", seconds=LOOK_AGAIN_SECONDS) from error


@dataclass(eq=False)
class Writer:
    """Writes for passes."""

    cluster: Cluster
    indexes: Indexes
    clock: Clock

    async def delete(self, refs: Iterable[Ref]) -> list[ClusterError]:
        """What failed. Each is asked for, whatever became of the others."""
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

    async def say(self, about: Declared, events: Iterable[Event]) -> None:
        """Post events; one that can't be posted costs nothing else."""
        for event in events:
            try:
                await self.cluster.create_event(about, event, now=self.clock.now())
            except ClusterError as error:
                logger.warning("%s/%s: event %s was not posted: %s", about.namespace, about.name, event.reason, error)

    async def read_again(self, key: Key) -> None:
        """After a conflict: what is there now, straight from the API server, in case a watch is behind."""
        kind, namespace, name = object_of(key)
        try:
            self.indexes.learnt(kind, await self.cluster.get(kind, namespace=namespace, name=name))
        except NotFound:
            self.indexes.drop(kind, namespace, name)
        except ClusterError as error:
            logger.info("%s: not read again: %s", key, error)
