"""The parts of a running operator, put together; started before Kopf watches, stopped after."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from importlib.metadata import PackageNotFoundError, version

from benchrun.decide.decision import Context
from benchrun.effects.client_link import Exchanger
from benchrun.effects.clock import SystemClock
from benchrun.effects.connection import Connection, configuration
from benchrun.effects.errors import ClusterError
from benchrun.effects.kubernetes_api import KubernetesApi
from benchrun.effects.pod_proxy import PROXY_CONNECTIONS, ProxyFetcher
from benchrun.effects.scraper import HttpFetcher
from benchrun.runtime.health import MAX_LOOP_LAG_SECONDS, MAX_SILENCE_SECONDS, Health, Pulse
from benchrun.runtime.indexes import Indexes, Key, SweepKey
from benchrun.runtime.listing import list_everything
from benchrun.runtime.memory import Memories
from benchrun.runtime.queue import WorkQueue
from benchrun.runtime.reconcile import Decide, Reconciler
from benchrun.runtime.result_metrics import ResultMetrics
from benchrun.runtime.sessions import Sessions
from benchrun.runtime.settings import Settings
from benchrun.runtime.sweep.reconcile import SweepReconciler
from benchrun.runtime.telemetry import Telemetry

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0


class Operator:
    """Indexes, queue, sessions and health of one process."""

    def __init__(self, settings: Settings, *, decide: Decide) -> None:
        self._settings = settings
        self._decide = decide
        self.indexes = Indexes(result_runs=settings.result_runs)
        self.telemetry = Telemetry()
        self.telemetry.registry.register(ResultMetrics(self.indexes.results))
        self.health = Health(self.telemetry, problems=self.problems, ready=lambda: self._opened)
        self._pulse = Pulse(self.telemetry)
        self._memories = Memories()
        self._queue: WorkQueue[Key] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._cleanup = contextlib.AsyncExitStack()
        self._opened = False

    def enqueue(self, key: Key) -> None:
        """Look at a run or a sweep soon."""
        if self._queue is not None:
            self._queue.add(key)

    async def start(self) -> None:
        """Answer probes, read the whole cluster, then begin to make passes. Waits as long as there is no API server.

        No pass is made before everything was listed: a pass that knows half of a run's children would make the others
        anew. Kopf starts to watch after this returns, and begins with a list of its own, so nothing falls in between.
        """
        await self.health.start(self._settings.listen_host, self._settings.listen_port)
        self._cleanup.push_async_callback(self.health.stop)
        self._begin(self._pulse.beat(), "pulse")
        connection = Connection(await configuration())
        self._cleanup.push_async_callback(connection.close)
        fetcher = await self._road_to_pods()
        cluster = KubernetesApi(connection, count=self.telemetry.count_write)
        self._queue = self._assemble(cluster, fetcher)
        await self._until_listed(cluster)
        for key in self._keys():
            self._queue.add(key)
        self._queue.start()
        self._opened = True
        self._begin(self._resync(cluster, self._queue), "resync")
        logger.info("ready, with %d runs", sum(1 for _ in self.indexes.runs()))

    async def stop(self) -> None:
        """Let passes under way end, leave everything else; within 5 seconds."""
        self._opened = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._queue is not None:
            await self._queue.stop()
        await self._cleanup.aclose()

    def problems(self) -> list[str]:
        """What is wrong with this process that a restart may cure."""
        problems = [f"{task.get_name()} has ended" for task in self._tasks if task.done()]
        if self._opened and self._queue is not None and not self._queue.alive:
            problems.append("a queue worker has ended")
        if self._pulse.lag_seconds() > MAX_LOOP_LAG_SECONDS:
            problems.append(f"the event loop is {self._pulse.lag_seconds():.0f} s late")
        if self.indexes.silent_seconds() > MAX_SILENCE_SECONDS:
            problems.append(f"a watch is silent about a change that is {self.indexes.silent_seconds():.0f} s old")
        return problems

    async def _road_to_pods(self) -> Exchanger:
        direct = HttpFetcher()
        self._cleanup.push_async_callback(direct.close)
        if self._settings.pod_road == "Direct":
            return direct
        # Long polls would take all connections that passes need.
        connection = Connection(await configuration(connections=PROXY_CONNECTIONS))
        self._cleanup.push_async_callback(connection.close)
        return ProxyFetcher(connection, direct=direct)

    def _assemble(self, cluster: KubernetesApi, fetcher: Exchanger) -> WorkQueue[Key]:
        clock = SystemClock()
        sessions = Sessions(
            cluster=cluster, exchanger=fetcher, clock=clock, telemetry=self.telemetry, enqueue=self.enqueue
        )
        self._cleanup.push_async_callback(sessions.close)
        reconciler = Reconciler(
            cluster=cluster,
            indexes=self.indexes,
            memories=self._memories,
            sessions=sessions,
            clock=clock,
            context=_context(self._settings),
            decide=self._decide,
            telemetry=self.telemetry,
        )
        sweeps = SweepReconciler(
            cluster=cluster, indexes=self.indexes, clock=clock, telemetry=self.telemetry, enqueue=self.enqueue
        )

        async def handle(key: Key) -> float | None:
            return await (sweeps(key) if isinstance(key, SweepKey) else reconciler(key))

        queue = WorkQueue(handle, workers=self._settings.workers)
        self.telemetry.measured("queue_depth", "Runs and sweeps waiting for a pass.", lambda: float(queue.depth))
        self.telemetry.measured("active_runs", "Runs that something goes on for.", lambda: float(len(sessions)))
        self.telemetry.measured(
            "watch_silence_seconds",
            "How long the watches have owed the oldest change known.",
            self.indexes.silent_seconds,
        )
        return queue

    async def _until_listed(self, cluster: KubernetesApi) -> None:
        while True:
            try:
                await list_everything(cluster, self.indexes, self._settings.namespaces)
                return
            except ClusterError as error:
                logger.warning("the cluster can't be read yet: %s: %s", type(error).__name__, error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _resync(self, cluster: KubernetesApi, queue: WorkQueue[Key]) -> None:
        """Now and then list everything and look at every run, whatever the watches say."""
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            try:
                await list_everything(cluster, self.indexes, self._settings.namespaces)
            except ClusterError as error:
                logger.warning("resync: %s: %s", type(error).__name__, error)
            for key in self._keys():
                queue.add(key)

    def _keys(self) -> tuple[Key, ...]:
        return (*self.indexes.runs(), *self.indexes.sweeps())

    def _begin(self, work: Coroutine[None, None, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))


def _context(settings: Settings) -> Context:
    try:
        installed = version("benchrun-operator")
    except PackageNotFoundError:  # run from a source tree
        installed = "0"
    return Context(
        client_image=settings.client_image,
        client_image_pull_policy=settings.client_image_pull_policy,
        pod_road=settings.pod_road,
        gpu_exporters=settings.gpu_exporters,
        unschedulable_grace_seconds=settings.unschedulable_grace_seconds,
        operator_version=installed,
    )
