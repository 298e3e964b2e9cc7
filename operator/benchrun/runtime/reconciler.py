"""What passes over runs and sweeps have in common.

What the API server refused is raised to the queue, which retries. What it did is put into the index
at once."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from benchrun.decide import Event, Ref
from benchrun.effects import ClusterError, Conflict, KubernetesApi, NotFound, Throttled, serving
from benchrun.observe import Declared, Key, view_of
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.queue import Later
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

D = TypeVar("D", bound=Declared)
RETRY_SECONDS = 0.5  # after a conflict: by then the watch is usually up to date


@dataclass(kw_only=True, eq=False)
class Reconciler:
    """Makes passes over one kind of object, and writes what they decide."""

    cluster: KubernetesApi
    indexes: Indexes
    now: Callable[[], datetime]
    telemetry: Telemetry

    async def guard(
        self, key: Key, make_pass: Callable[[], Awaitable[float | None]]
    ) -> float | None:
        """What the pass returned: seconds until the next one without an event, or None. Raises
        Later to be retried."""
        serving.set(key.namespace)  # for the tasks that begin here, too
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

    async def whole(self, key: Key, declared: D) -> D | None:
        """Return it with its spec and status: of what memory has no room for they are read anew.
        None: it is gone."""
        if not declared.left_out:
            return declared
        kind, namespace, name = key
        try:
            body = await self.cluster.get(kind, namespace=namespace, name=name)
        except NotFound:
            self.indexes.drop(key)
            return None
        self.indexes.learnt(kind, body)
        found = view_of(kind, body)
        assert isinstance(found, type(declared))
        return replace(found, left_out=key in self.indexes.left_out)

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
        try:
            self.indexes.learnt(kind, await self.cluster.get(kind, namespace=namespace, name=name))
        except NotFound:
            self.indexes.drop(key)
        except ClusterError as error:
            logger.info("%s: not read after a conflict: %s", key, error)
