"""What Kueue does with the Workloads of runs, by one watch of each namespace, or of the cluster.

Kopf could not watch them: a cluster may get Kueue after the operator has started. What many runs
ask is asked once: a thousand runs in a queue cost no more requests than one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchrun import names
from benchrun.child_kinds import WORKLOAD
from benchrun.decide import Collected, QueuedWorkload
from benchrun.effects import ClusterError, KubernetesApi
from benchrun.observe import Key, untrusted_json as raw, views
from benchrun.runtime.background_tasks import doubling
from benchrun.runtime.indexes import Body, Indexes

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 15.0
"""Seconds between two attempts to watch what can't be watched, such as before Kueue is there."""
PLACE_SECONDS = 30.0
"""Seconds between two looks at the places in a queue, which take Kueue long."""
SOON_SECONDS = 5.0  # the same, if runs have joined
Scope = str | None  # a namespace, or None: all of them at once


@dataclass(kw_only=True, eq=False)
class QueuedWorkloads:
    """Tells runs of their Workloads: what Kueue says, that they are gone, and their places."""

    cluster: KubernetesApi
    indexes: Indexes
    enqueue: Callable[[Key], None]
    namespaces: Iterable[str] = ()
    heard: Callable[[str, str], None] = lambda *_: None
    """Called with kind and type of every change."""
    _followed: dict[Key, tuple[QueuedWorkload, Collected]] = field(
        default_factory=dict, init=False
    )

    def __post_init__(self) -> None:
        self.scopes: tuple[Scope, ...] = tuple(self.namespaces) or (None,)
        self._known: set[Scope] = set()
        """Scopes of which every Workload is known, and every change heard."""
        self._joined = asyncio.Event()

    def follow(
        self, key: Key, wanted: QueuedWorkload | None, collected: Collected
    ) -> None:
        """Tell the run only of this Workload from now on; of no Workload if it is None."""
        if wanted is None:
            self._followed.pop(key, None)
            return
        known = self._followed.get(key)
        if known is not None and known[0] == wanted and known[1] is collected:
            return
        self._followed[key] = wanted, collected
        self._settle(key)
        if wanted.queue is not None:
            self._joined.set()

    async def watch(self, scope: Scope) -> None:
        """Keep the index up to date with the Workloads of a scope, for ever."""
        pauses = doubling(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            try:
                version = await self._list(scope)
                while True:
                    version = await self._hear(scope, version)
                    # Not after the list: what may be listed and not watched, as with the roles of
                    # an older release, would be listed every second.
                    pauses = doubling(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
                    await asyncio.sleep(FIRST_PAUSE_SECONDS)
            except ClusterError as error:
                self._known.discard(scope)
                logger.info("Workloads in %s: %s", scope or "all namespaces", error)
            await asyncio.sleep(next(pauses))

    async def _list(self, scope: Scope) -> str:
        """List the Workloads of a scope; return a version since which changes are to be heard."""
        version = await self.cluster.version(WORKLOAD, namespace=scope)
        with self.indexes.listing(WORKLOAD, scope) as listing:
            async for body in self.cluster.list(
                WORKLOAD, namespace=scope, selector=names.LABEL_RUN
            ):
                self.indexes.listed(listing, body)
        self._known.add(scope)
        for key in tuple(self._followed):
            self._settle(key)
        return version

    async def _hear(self, scope: Scope, version: str) -> str:
        """Take changes until the API server ends this watch; return the version it got to."""
        async for change, body in self.cluster.watch(
            WORKLOAD, namespace=scope, selector=names.LABEL_RUN, since=version
        ):
            metadata = raw.mapping(body.get("metadata"))
            version = raw.text(metadata.get("resourceVersion")) or version
            if change != "BOOKMARK":
                self.heard(WORKLOAD, change)
                self._take(body, deleted=change == "DELETED")
        return version

    def _take(self, body: Body, *, deleted: bool) -> None:
        changed = self.indexes.heard(WORKLOAD, body, deleted=deleted)
        metadata = raw.mapping(body.get("metadata"))
        name, namespace = (
            raw.text(metadata.get(each)) for each in ("name", "namespace")
        )
        run = views.part_of(Key(WORKLOAD, namespace, name), body)
        if changed is not None:
            self.enqueue(changed)
        if run is not None:
            self._settle(run)

    def _settle(self, key: Key) -> None:
        """Note whether the Workload that the run follows is gone; unknown counts as before."""
        if (followed := self._followed.get(key)) is None:
            return
        wanted, collected = followed
        gone = collected.gone_workloads
        was_gone = wanted.attempt in gone
        if self.indexes.children(key).named(WORKLOAD, wanted.name) is not None:
            gone.discard(wanted.attempt)
        elif not self._known.isdisjoint({key.namespace, None}):
            gone.add(wanted.attempt)
        if was_gone != (wanted.attempt in gone):
            self.enqueue(key)

    async def look_up_places(self) -> None:
        """Look up who is where in each queue in which runs wait, one queue after the other."""
        while True:
            self._joined.clear()
            for namespace, queue in sorted(self._queues()):
                await self._look_up(namespace, queue)
            await asyncio.sleep(SOON_SECONDS)
            try:
                async with asyncio.timeout(PLACE_SECONDS - SOON_SECONDS):
                    await self._joined.wait()
            except TimeoutError:
                continue

    def _queues(self) -> set[tuple[str, str]]:
        return {
            (key.namespace, wanted.queue)
            for key, (wanted, _) in self._followed.items()
            if wanted.queue is not None
        }

    async def _look_up(self, namespace: str, queue: str) -> None:
        """Tell runs how many are ahead of them in a queue; unknown where Kueue does not say."""
        try:
            ahead = await self.cluster.ahead_in_queue(namespace, queue)
        except ClusterError as error:
            logger.debug("places in %s/%s: %s", namespace, queue, error)
            ahead = {}
        for key, (wanted, collected) in tuple(self._followed.items()):
            if (key.namespace, wanted.queue) != (namespace, queue):
                continue
            before = dict(collected.places)
            collected.places.pop(wanted.attempt, None)
            if (place := ahead.get(wanted.name)) is not None:
                collected.places[wanted.attempt] = place
            if before != collected.places:
                self.enqueue(key)
