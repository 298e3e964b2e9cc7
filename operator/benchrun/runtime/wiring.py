"""The parts of a running operator, put together; started before Kopf watches, stopped after."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

from benchrun import effects
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.decide import Context
from benchrun.observe import Key
from benchrun.runtime.background_tasks import ProcessTasks, doubling
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import Measured, ResultMetrics, WaitMetrics
from benchrun.runtime.queue import WorkQueue
from benchrun.runtime.queued_workloads import QueuedWorkloads
from benchrun.runtime.run_reconciler import Decide, RunReconciler
from benchrun.runtime.sessions import Sessions
from benchrun.runtime.settings import OperatorSettings
from benchrun.runtime.sweep_reconciler import SweepReconciler
from benchrun.runtime.telemetry import (
    MAX_LAG_SECONDS,
    MAX_LIVE_RUNS,
    MAX_SILENCE_SECONDS,
    Health,
    Pulse,
    Telemetry,
)
from benchrun.runtime.watching import (
    ALL_NAMESPACES,
    FOR_RELEASE,
    FOR_SWEEPS,
    Lister,
    Scope,
)

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
"""Seconds of the first pause before an unreadable namespace is read again; it doubles each time."""
CHECKED_AT_ONCE = 20  # runs in a turn of the event loop
VERIFY_SECONDS = 15.0  # seconds between two checks of unconfirmed changes
LEASE_CONNECTIONS = 2
NOT_LEADING_RETRY_SECONDS = 1.0
"""Seconds until a key is retried while this process could not renew the Lease."""


class Operator:
    """Indexes, queue, sessions and health of one process."""

    def __init__(self, settings: OperatorSettings, *, decide: Decide) -> None:
        self._settings = settings
        self._decide = decide
        self.clock = effects.Clock()
        self.indexes = Indexes(
            result_runs=settings.result_runs if settings.run_metrics else 0,
            wake=self.enqueue,
        )
        self.telemetry = Telemetry(
            live_runs=MAX_LIVE_RUNS if settings.run_metrics else 0
        )
        self.waits = WaitMetrics(self.clock.now, is_readable=self._is_readable)
        self.telemetry.registry.register(ResultMetrics(self.indexes.results))
        self.telemetry.registry.register(self.waits)
        self.telemetry.registry.register(self.indexes.stored)
        self.health = Health(
            self.telemetry,
            problems=self.problems,
            ready=self._is_ready,
            remarks=self.remarks,
        )
        self._pulse = Pulse(self.telemetry)
        self._tasks = ProcessTasks(self.telemetry.task_restarted)
        self._lister: Lister | None = None
        self._queue: WorkQueue | None = None
        self._rests: Callable[[Key], bool] = lambda _: False
        self._workloads: QueuedWorkloads | None = None
        self._cleanup = contextlib.AsyncExitStack()
        self._opened = False
        self._makes_passes = False
        self._elector: effects.Elector | None = None
        # whether another process leads, so this one must end
        self.is_superseded = False
        # set when this process must end, and when it does: Kopf waits 5 s for its waiters
        self.ends = asyncio.Event()

    def enqueue(self, key: Key) -> None:
        """Reconcile a run or sweep soon, if this process leads and has listed its namespace."""
        needed = FOR_SWEEPS if key.kind == SWEEP_KIND else FOR_RELEASE
        knows = self._lister is not None and self._lister.knows(
            key.namespace, needed
        )
        if self._queue is not None and self._makes_passes and knows:
            self._queue.add(key)

    async def start(self) -> None:
        """Answer probes, read the whole cluster, then begin to reconcile or wait for the Lease.

        Reading has no time limit. A run is not reconciled before its namespace was listed, because
        children that are not known would be created again; only unneeded servers are deleted. Kopf
        starts to watch after this returns, from where these lists ended or else with a list of its
        own, so no change in between is missed.
        """
        await self.health.start(*self._settings.listen)
        self._cleanup.push_async_callback(self.health.stop)
        self._tasks.start("pulse", self._pulse.beat)
        connection = await self._connection()
        # On connections of its own: long polls would take all that reconciling needs. Its answers
        # have the pods' time, so the clock is not told.
        by_proxy = self._settings.pod_road == "Proxy"
        fetcher = effects.Fetcher(
            await self._connection(effects.PROXY_CONNECTIONS, to_pods=True)
            if by_proxy
            else None
        )
        self._cleanup.push_async_callback(fetcher.close)
        cluster = effects.KubernetesApi(
            connection, count=self.telemetry.count_write
        )
        namespaces = self._settings.namespaces
        lister = self._lister = Lister(
            cluster, self.indexes, namespaces, turned=self.telemetry.namespace_read
        )
        queue = self._queue = self.assemble(
            cluster,
            fetcher,
            await self._channel_key(connection),
            watching=await self._watching(),
        )
        await lister.list_all()
        while (
            not lister.can_release
        ):  # an unreadable namespace does not block the others
            await asyncio.sleep(RETRY_SECONDS)
            await lister.list_all()
        self._opened = True
        self._tasks.start("verify", lambda: self._verify(lister))
        if self._settings.leader_election:
            elector = self._elector = await self._election()
            self._tasks.start("leading", lambda: self._lead(elector, lister, queue))
        else:
            self._begin_passes(lister, queue, list_first=False)
        logger.info("ready, with %d runs", len(self.indexes.runs()))

    def reached(self, kind: str, namespace: Scope) -> str | None:
        """Return, once, the version that the operator's own first list of a kind has reached."""
        return (
            None if self._lister is None else self._lister.reached(kind, namespace)
        )

    async def stop(self) -> None:
        """Let handlers finish, cancel other tasks, and give up the Lease, within some 6 seconds."""
        self._opened = self._makes_passes = False
        await self._tasks.close()
        if self._queue is not None:
            await self._queue.stop()
        if self._elector is not None:
            await self._elector.release()
        await self._cleanup.aclose()
        self.ends.set()

    def problems(self) -> list[str]:
        """Describe the problems of this process that a restart may cure; /healthz reports them."""
        problems = self._tasks.problems()
        if self.is_superseded:
            problems.append("another operator leads")
        elif self._queue is not None and self._queue.has_lost_workers:
            problems.append("a queue worker has ended")
        if self._pulse.lag_seconds() > MAX_LAG_SECONDS:
            problems.append(
                f"the event loop is {self._pulse.lag_seconds():.0f} s late"
            )
        if self._silent_seconds() > MAX_SILENCE_SECONDS:
            problems.append(
                f"no watch has reported a change that is {self._silent_seconds():.0f} s old"
            )
        return problems

    def remarks(self) -> list[str]:
        """Return the remarks that /readyz shows below its answer."""
        unreadable = {} if self._lister is None else self._lister.unreadable
        remarks = [
            f"namespace {namespace} can't be read: {why}"
            for namespace, why in sorted(unreadable.items())
        ]
        if self._elector is not None and self._elector.trouble is not None:
            remarks.append(
                f"the Lease can't be read or written: {self._elector.trouble}"
            )
        return remarks

    def _is_ready(self) -> bool:
        """Return whether the process is ready.

        A process that waits for the Lease is ready too, unless it can't read or write the Lease.
        """
        return self._opened and (
            self._elector is None or self._leads() or self._elector.trouble is None
        )

    def _leads(self) -> bool:
        return self._elector is None or self._elector.leads

    def _is_readable(self, namespace: str) -> bool:
        return self._lister is None or self._lister.is_readable(namespace)

    def _silent_seconds(self) -> float:
        unreadable = () if self._lister is None else self._lister.unreadable.keys()
        return (
            0.0
            if ALL_NAMESPACES in unreadable
            else self.indexes.owed.silent_seconds(unreadable=unreadable)
        )

    async def _channel_key(self, connection: effects.Connection) -> bytes:
        """Wait until the operator's key can be read, and return it: every client requires it."""
        while True:
            try:
                return await effects.channel_key(
                    connection, namespace=self._settings.operator_namespace
                )
            except effects.ClusterError as error:
                logger.warning(
                    "the operator's key can't be read yet: %s: %s",
                    type(error).__name__,
                    error,
                )
                await asyncio.sleep(RETRY_SECONDS)

    async def _connection(
        self, connections: int = effects.CONNECTIONS, *, to_pods: bool = False
    ) -> effects.Connection:
        found = await effects.configuration(connections=connections)
        connection = effects.Connection(
            found, told=None if to_pods else self.clock.told
        )
        self._cleanup.push_async_callback(connection.close)
        return connection

    async def _watching(self) -> effects.KubernetesApi | None:
        """Return the API server for watches of Workloads; None if runs can't use queues.

        It has connections of its own: open watches would take all that reconciling needs.
        """
        if not self._settings.kueue:
            return None
        connection = await self._connection(len(self._settings.namespaces) + 2)
        return effects.KubernetesApi(connection, count=self.telemetry.count_write)

    def assemble(
        self,
        cluster: effects.KubernetesApi,
        fetcher: effects.Fetcher,
        key: bytes,
        *,
        watching: effects.KubernetesApi | None = None,
    ) -> WorkQueue:
        """Build the queue, the reconcilers and their helpers, with their metrics; return the queue.

        Nothing runs yet.
        """
        indexes = self.indexes
        telemetry = self.telemetry
        common: dict[str, Any] = {
            "cluster": cluster,
            "indexes": indexes,
            "now": self.clock.now,
            "telemetry": telemetry,
        }
        measured = Measured()
        workloads = self._workloads = QueuedWorkloads(
            cluster=watching or cluster,
            indexes=indexes,
            enqueue=self.enqueue,
            namespaces=self._settings.namespaces,
            heard=telemetry.watch_event,
        )
        sessions = Sessions(
            fetcher=fetcher,
            enqueue=self.enqueue,
            measured=measured,
            workloads=workloads,
            **common,
        )
        judge = effects.JudgeChild()
        tools = effects.Tools(cluster, judge, self._settings.exporters)
        lookups = effects.LookUps(tools, news=self.enqueue)
        for part in (sessions, judge, lookups):
            self._cleanup.push_async_callback(part.close)
        shared = {
            f.name: getattr(self._settings, f.name)
            for f in fields(Context)
            if hasattr(self._settings, f.name)
        }
        context = Context(channel_key=key, **shared)
        runs = RunReconciler(
            sessions=sessions,
            lookups=lookups,
            context=context,
            decide=self._decide,
            measured=measured,
            **common,
        )
        self.waits.runs = runs.memories
        self._rests = runs.rests
        sweeps = SweepReconciler(
            judge=judge,
            enqueue=self.enqueue,
            run_defaults=self._settings.run_defaults,
            **common,
        )

        async def handle(key: Key) -> float | None:
            if not self._leads():
                return NOT_LEADING_RETRY_SECONDS
            if key.kind == SWEEP_KIND:
                return await sweeps(key)
            is_known = self._lister is None or self._lister.knows(key.namespace)
            return await (runs(key) if is_known else runs.release(key))

        queue = WorkQueue(
            handle, workers=self._settings.workers, urgent=indexes.holds_server
        )
        for name, meaning, value in (
            (
                "queue_depth",
                "Runs and sweeps waiting for a reconcile.",
                lambda: queue.depth,
            ),
            (
                "active_runs",
                "Runs whose servers are scraped or whose client is polled.",
                lambda: len(sessions),
            ),
            (
                "watch_silence_seconds",
                "Age in seconds of the oldest change that no watch has reported yet.",
                self._silent_seconds,
            ),
            (
                "leader",
                "1 if this process reconciles, 0 if another one does or it waits.",
                lambda: self._makes_passes and self._leads(),
            ),
            (
                "objects_unreadable",
                "Objects of which only the metadata is used, because the rest can't be parsed.",
                lambda: len(indexes.unreadable),
            ),
            (
                "objects_left_out",
                "Runs and sweeps whose spec and status are too large to be kept in memory with the "
                "others.",
                lambda: len(indexes.left_out),
            ),
            (
                "declared_bytes",
                "Bytes that the specs and statuses of all runs and sweeps take in memory.",
                lambda: indexes.declared.used,
            ),
            (
                "measured_bytes",
                "Bytes that the records, logs and samples of all runs take in memory.",
                lambda: measured.records.used + measured.samples.used,
            ),
        ):
            telemetry.measured(name, meaning, value)
        return queue

    async def _election(self) -> effects.Elector:
        # On connections of its own: if slow requests held them all, the Lease would not be renewed.
        connection = await self._connection(LEASE_CONNECTIONS)
        namespace = self._settings.operator_namespace
        name = self._settings.lease_name
        leases = effects.LeaseApi(connection, namespace=namespace, name=name)
        identity = self._settings.pod_name or socket.gethostname()
        return effects.Elector(
            leases,
            identity=identity,
            now=self.clock.now,
            monotonic=asyncio.get_running_loop().time,
        )

    async def _lead(
        self, elector: effects.Elector, lister: Lister, queue: WorkQueue
    ) -> None:
        """Reconcile while this process holds the Lease.

        When another process holds it, this one ends; its replacement waits for the Lease.
        """
        await elector.acquire()
        if not self._makes_passes:
            self._begin_passes(lister, queue, list_first=True)
        await elector.hold()
        self._makes_passes = False
        self.is_superseded = True
        self.ends.set()
        await queue.stop()
        await asyncio.Event().wait()

    def _begin_passes(
        self, lister: Lister, queue: WorkQueue, *, list_first: bool
    ) -> None:
        """Let keys be enqueued from now on; the queue is started when everything is known."""
        self._makes_passes = True
        self._follow_queues()
        self._tasks.start(
            "resync", lambda: self._resync(lister, queue, list_first=list_first)
        )

    def _follow_queues(self) -> None:
        """Watch what Kueue does with runs, where they may use queues."""
        workloads = self._workloads
        if workloads is None or not self._settings.kueue:
            return
        for scope in workloads.scopes:
            self._tasks.start(
                f"watch Workloads {scope or ALL_NAMESPACES}",
                partial(workloads.watch, scope),
            )
        self._tasks.start("look up places", workloads.look_up_places)

    async def _resync(
        self, lister: Lister, queue: WorkQueue, *, list_first: bool
    ) -> None:
        """List everything and reconcile all runs and sweeps, every `resync_seconds`."""
        loop = asyncio.get_running_loop()
        if list_first:
            await lister.list_all()
        queue.start()
        while self._makes_passes:
            await self._enqueue_all()
            seconds = self._settings.resync_seconds
            due = loop.time() + seconds
            pauses = doubling(RETRY_SECONDS, seconds)
            while lister.unreadable and loop.time() + (pause := next(pauses)) < due:
                await asyncio.sleep(pause)
                if await lister.list_unreadable():
                    await self._enqueue_all()
            await asyncio.sleep(due - loop.time())
            await lister.list_all()
        await asyncio.Event().wait()

    async def _verify(self, lister: Lister) -> None:
        while True:
            await asyncio.sleep(VERIFY_SECONDS)
            await lister.verify_overdue()
            for key in self.indexes.returning():
                self.enqueue(key)

    async def _enqueue_all(self) -> None:
        """Reconcile all runs and sweeps but runs that rest; those that go on come first."""
        for number, key in enumerate(
            (*self.indexes.runs(), *self.indexes.sweeps())
        ):
            if not self._rests(key):
                self.enqueue(key)
            if number % CHECKED_AT_ONCE == 0:
                await asyncio.sleep(0)
