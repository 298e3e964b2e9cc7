"""One pass over one run: look, decide, do, write the status once, say it.

Everything here can be repeated: a pass that breaks off anywhere is made again from what the cluster then holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from benchrun.api import names
from benchrun.api.base import KIND
from benchrun.decide.decision import (
    Context,
    Decision,
    Event,
    ExporterPod,
    LogWanted,
    PullTarget,
    Ref,
    RefusedObject,
    ScrapeTarget,
    World,
)
from benchrun.decide.refused import RESULTS, diagnose_refusal
from benchrun.effects.clock import Clock
from benchrun.effects.errors import ClusterError, Forbidden, Invalid, NotFound, NotServed, Occupied
from benchrun.effects.kubernetes_api import Cluster
from benchrun.observe.compilations import compilations
from benchrun.observe.trim import run_of
from benchrun.observe.views import Children, Run
from benchrun.plan.stored import TIMELINE_KEY
from benchrun.runtime.guarding import guarded
from benchrun.runtime.indexes import Indexes, RunKey, is_finished
from benchrun.runtime.judging import AGAIN_SECONDS, Bench
from benchrun.runtime.listing import look_up_groups
from benchrun.runtime.memory import Memories, RunMemory
from benchrun.runtime.restore import read_back, restore_timeline
from benchrun.runtime.startups import startup_told
from benchrun.runtime.status_patch import status_changes
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

Decide = Callable[[World], Decision]
RUNS_A_LIVE_SECOND = 20
"""Live figures are written at most this often a second, over all runs."""
REFUSED_AGAIN_SECONDS = 15.0
"""How often an object that the API server refused is offered again; a change of the run or its children comes before."""
LOG_SEARCH_SECONDS = 0.5
"""A server's release waits at most so long for its log."""


class Background(Protocol):
    """What goes on between passes (`benchrun.runtime.sessions`)."""

    def __len__(self) -> int:
        """Runs with something going on."""
        ...

    def follow(
        self, key: RunKey, run: Run, memory: RunMemory, *, scrape: tuple[ScrapeTarget, ...], pull: PullTarget | None
    ) -> None:
        """From now on do exactly this for the run."""
        ...

    async def acknowledge(self, key: RunKey, through: int) -> bool:
        """Tell the run's client that records below `through` are stored; False when it did not hear."""
        ...

    def stop(self, key: RunKey) -> None:
        """End everything that goes on for the run."""
        ...


class Reconciler:
    """Makes passes."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        indexes: Indexes,
        memories: Memories,
        sessions: Background,
        clock: Clock,
        context: Context,
        decide: Decide,
        telemetry: Telemetry,
    ) -> None:
        self._cluster = cluster
        self._indexes = indexes
        self._memories = memories
        self._sessions = sessions
        self._clock = clock
        self._context = context
        self._decide = decide
        self._telemetry = telemetry
        self._bench = Bench()

    async def __call__(self, key: RunKey) -> float | None:
        """Seconds after which to look again without being told to; None for never. Raises to be called again, backed off."""
        return await guarded(
            lambda: self._pass(key), telemetry=self._telemetry, after_conflict=lambda: self._read_again(key)
        )

    async def _pass(self, key: RunKey) -> float | None:
        run = self._indexes.run(key)
        if run is None or run.deleting:
            # The garbage collector removes the children, with or without us.
            self._forget(key)
            return None
        if not is_finished(run.status):
            await look_up_groups(self._cluster, self._indexes, run)
        children = self._indexes.children(key)
        memory = self._memories.of(key, run.uid)
        if not memory.restored and not is_finished(run.status):
            await restore_timeline(self._cluster, run, children, memory)
        unstored = len(memory.unstored_samples)
        world = World(
            run=run,
            children=children,
            collected=memory.collected(children),
            now=self._clock.now(),
            context=self._live_context(),
        )
        decision = self._decide(world)
        self._sessions.follow(key, run, memory, scrape=decision.scrape, pull=decision.pull)
        await self._search_log(run, decision, memory)
        await self._delete(decision.delete)
        before = memory.refused_object
        if await self._apply(key, run, decision, memory, unstored) or _turned(before, memory.refused_object):
            return 0.0  # nothing is acknowledged or called finished that was not stored
        if decision.apply and memory.refused_object is not None:
            if not decision.forget:
                await self._write_status(key, run, decision)
            return min(REFUSED_AGAIN_SECONDS, decision.requeue_after_seconds or REFUSED_AGAIN_SECONDS)
        await self._acknowledge(key, memory, decision.acknowledge)
        if decision.read_back:
            async with self._bench.turn() as ours:
                if not ours:
                    await self._write_unjudged(key, run, decision, memory)
                    return AGAIN_SECONDS
                unstored = len(memory.unstored_samples)
                decision = await self._judged(key, world, decision, memory)
            if await self._apply(key, run, decision, memory, unstored):
                return 0.0
            await self._acknowledge(key, memory, decision.acknowledge)
        await self._write_status(key, run, decision)
        await self._say(run, decision.events)
        self._telemetry.live(key, decision.status, ended=decision.forget)
        if decision.delete_run:
            await self._cluster.delete(Ref(KIND, run.namespace, run.name, run.uid))
        if decision.forget:
            self._forget(key)
            return decision.requeue_after_seconds
        found_out = await self._find_out(run, decision, memory)
        return 0.0 if found_out else decision.requeue_after_seconds

    async def _judged(self, key: RunKey, world: World, decision: Decision, memory: RunMemory) -> Decision:
        """The same world, decided again with all that is stored. What the first decision deleted is deleted no more."""
        children = self._indexes.children(key)
        try:
            stored = await read_back(self._cluster, world.run, children, memory)
            await self._look_up_baseline(world.run, decision.baseline_wanted, memory)
        except ClusterError:
            await self._write_unjudged(key, world.run, decision, memory)
            raise
        # Nothing of this world changes while it is judged: what comes meanwhile goes into memory.
        whole = replace(
            world, children=_with_new(world.children, children), collected=memory.collected(children, stored=stored)
        )
        return await asyncio.to_thread(self._decide, whole)

    async def _write_unjudged(self, key: RunKey, run: Run, decision: Decision, memory: RunMemory) -> None:
        """Where the run stands, and why it ends: it is judged by a later pass."""
        memory.ending = decision.ending
        await self._write_status(key, run, decision)

    def _live_context(self) -> Context:
        least = self._context.live_interval_seconds
        return replace(self._context, live_interval_seconds=max(least, len(self._sessions) / RUNS_A_LIVE_SECOND))

    async def _delete(self, refs: tuple[Ref, ...]) -> None:
        for ref in refs:
            await self._cluster.delete(ref)
            self._indexes.mark_deleting(ref.kind, ref.namespace, ref.name)

    async def _apply(self, key: RunKey, run: Run, decision: Decision, memory: RunMemory, unstored: int) -> bool:
        """Whether a name turned out to be taken, so that it must be decided anew. What is refused is noted."""
        refused: list[RefusedObject] = []
        for manifest in decision.apply:
            try:
                written = await self._apply_one(key, run, manifest)
            except Occupied as error:
                memory.conflict = str(error)
                return True
            except (Forbidden, Invalid, NotServed) as error:
                refused.append(_refused(manifest, error))
                if refused[-1].role in RESULTS:
                    continue  # each record is by itself
                break  # the client before the server
            if written and TIMELINE_KEY in manifest.get("binaryData", {}):
                # A timeline holds every sample that was not stored when it was decided.
                memory.stored(unstored)
        if decision.apply:
            await self._note_refused(run, memory, refused[0] if refused else None)
        return False

    async def _note_refused(self, run: Run, memory: RunMemory, refused: RefusedObject | None) -> None:
        if refused is not None and _turned(memory.refused_object, refused):
            told = diagnose_refusal(refused)
            await self._say(run, (Event(told.reason, told.message, warning=True),))
        memory.refused_object = refused

    async def _apply_one(self, key: RunKey, run: Run, manifest: dict[str, Any]) -> bool:
        """Whether the object was written now, as it was asked for."""
        kind, meta = manifest["kind"], manifest["metadata"]
        known = self._indexes.children(key).named(kind, meta["name"])
        if known is not None and known.owner_uid != run.uid:
            known = None  # a namesake: the API server is asked whose it is
        wanted_hash = (meta.get("annotations") or {}).get(names.ANNOTATION_APPLIED)
        if known is not None and wanted_hash is not None and known.applied_hash == wanted_hash:
            return False
        body = await self._cluster.apply(manifest, known_uid=known.uid if known is not None else None)
        self._indexes.learnt(kind, body)
        return (body["metadata"].get("annotations") or {}).get(names.ANNOTATION_APPLIED) == wanted_hash

    async def _acknowledge(self, key: RunKey, memory: RunMemory, through: int | None) -> None:
        if through is None:
            return
        said = (through, memory.progress.version if memory.progress is not None else -1)
        if memory.acknowledged != said and await self._sessions.acknowledge(key, through):
            memory.acknowledged = said

    async def _write_status(self, key: RunKey, run: Run, decision: Decision) -> None:
        changes = status_changes(run.status, decision.status)
        if changes:
            version = self._indexes.run_version(key)
            body = await self._cluster.patch_status(run, resource_version=version, changes=changes)
            self._indexes.learnt(KIND, body)

    async def _say(self, run: Run, events: tuple[Event, ...]) -> None:
        for event in events:
            try:
                await self._cluster.create_event(run, event, now=self._clock.now())
            except ClusterError as error:
                logger.warning("%s/%s: event %s was not posted: %s", run.namespace, run.name, event.reason, error)

    async def _find_out(self, run: Run, decision: Decision, memory: RunMemory) -> bool:
        """Look up what the decision asked for; whether there is something new to decide on."""
        if decision.log_wanted is not None and not memory.log_tail_tried:
            memory.log_tail = await self._log_tail(run, decision.log_wanted)
            memory.log_tail_tried = True
            return True
        unread = [wanted for wanted in decision.startups_wanted if wanted.pod not in memory.startups]
        for wanted in unread:
            memory.startups[wanted.pod] = await startup_told(self._cluster, run.namespace, wanted)
        unknown = [node for node in decision.exporters_wanted if node not in memory.exporters]
        for node in unknown:
            memory.exporters[node] = await self._exporter_on(node)
        if unread or unknown:
            return True
        if decision.lookup_endpoint:
            before = memory.endpoint_addresses
            memory.endpoint_addresses = await self._endpoint_addresses(run)
            return memory.endpoint_addresses != before
        return False

    async def _search_log(self, run: Run, decision: Decision, memory: RunMemory) -> None:
        """What the log says of compilations, if it can be had at once: the server waits for it to be released."""
        if decision.log_search is None:
            return
        memory.log_searched = True
        try:
            async with asyncio.timeout(LOG_SEARCH_SECONDS):
                text, complete = await self._cluster.log_since(run.namespace, decision.log_search)
        except (ClusterError, TimeoutError) as error:
            logger.info("%s/%s: log not searched for compilations: %s", run.namespace, run.name, error or "too slow")
            return
        memory.compilations = compilations(text, complete=complete)

    async def _look_up_baseline(self, run: Run, name: str | None, memory: RunMemory) -> None:
        """Straight from the API server: the index keeps no results of runs that have ended."""
        if name is None:
            return
        try:
            memory.baseline = run_of(await self._cluster.get(KIND, namespace=run.namespace, name=name))
        except NotFound:
            memory.baseline = None
        memory.baseline_sought = True

    async def _log_tail(self, run: Run, wanted: LogWanted) -> str | None:
        try:
            return await self._cluster.log_tail(run.namespace, wanted)
        except (NotFound, Invalid, Forbidden) as error:
            logger.info("%s/%s: no log of %s: %s", run.namespace, run.name, wanted.pod, error)
            return None

    async def _exporter_on(self, node: str) -> ExporterPod | None:
        """Nice to have: where it can't be asked for, there is none."""
        exporters = self._context.gpu_exporters
        if exporters is None:
            return None
        try:
            return await self._cluster.exporter_on(exporters, node)
        except ClusterError as error:
            logger.info("no exporter of GPUs' figures on node %s: %s", node, error)
            return None

    async def _endpoint_addresses(self, run: Run) -> tuple[str, ...]:
        reference: Any = run.spec.get("endpoint") or {}
        service = reference.get("serviceRef") or {}
        try:
            return await self._cluster.endpoint_addresses(run.namespace, service["name"], service.get("port", 8000))
        except NotFound:
            return ()

    async def _read_again(self, key: RunKey) -> None:
        """After a conflict: what is there now, straight from the API server, in case a watch is behind."""
        try:
            self._indexes.learnt(KIND, await self._cluster.get(KIND, namespace=key.namespace, name=key.name))
        except NotFound:
            self._indexes.drop(KIND, key.namespace, key.name)
        except ClusterError as error:
            logger.info("%s: not read again: %s", key, error)

    def _forget(self, key: RunKey) -> None:
        self._sessions.stop(key)
        self._memories.drop(key)
        self._telemetry.forget(key)


def _with_new(before: Children, now: Children) -> Children:
    """What was there and what was stored since: what was let go meanwhile was there when it was decided on."""
    known = {(child.kind, child.name) for child in before.objects}
    return Children((*before.objects, *(c for c in now.objects if (c.kind, c.name) not in known)), before.pods)


def _refused(manifest: dict[str, Any], error: ClusterError) -> RefusedObject:
    meta = manifest["metadata"]
    role = str((meta.get("labels") or {}).get(names.LABEL_ROLE))
    return RefusedObject(
        manifest["kind"],
        meta["name"],
        role,
        str(error),
        curable=not isinstance(error, Invalid),
        is_kind_missing=isinstance(error, NotServed),
    )


def _turned(before: RefusedObject | None, after: RefusedObject | None) -> bool:
    """Whether something else is refused now. Words alone may change with every answer."""
    known = [(refused.kind, refused.name, refused.curable) for refused in (before, after) if refused is not None]
    return len(known) == 1 or (len(known) == 2 and known[0] != known[1])
