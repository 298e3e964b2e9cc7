"""The played scheduler, kubelets and containers of every pod.

A client measures as soon as it and its server are there, and ends when all its records are stored.
"""

import asyncio
import itertools
import os
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from benchrun import names
from benchrun_client.contract import Plan
from runs_kit.client import PlayedClient
from runs_kit.cluster import PATHS, Cluster, Json
from runs_kit.metrics_page import MetricsServer, Server

from chaos_kit import manifests
from chaos_kit.chronicle import polled

LOAD_SECONDS = 0.4
STAGE_SECONDS = 1.2
TOLD_SECONDS = 600.0
_HOSTS = itertools.count(1)


@dataclass(slots=True)
class Orders:
    """The kubelets' orders for a run's pods, by role."""

    no_node_seconds: dict[str, float] = field(default_factory=dict)
    never: set[str] = field(default_factory=set)
    clock_ahead_seconds: float = 0.0


@dataclass(slots=True, eq=False)
class PlayedPod:
    """A pod, and what runs in it."""

    namespace: str
    name: str
    uid: str
    role: str
    run: str
    run_uid: str
    address: str
    playing: asyncio.Task[None] | None = None
    is_ready: bool = False
    client: PlayedClient | None = None
    pages: MetricsServer | None = None
    server: Server | None = None
    has_measured: bool = False


def _address() -> str:
    """Return a new loopback address, in this process's own network."""
    host = next(_HOSTS)
    return f"127.{64 + os.getpid() % 128}.{host // 250 % 250}.{host % 250 + 1}"


class Kubelets:
    """The played kubelets of all namespaces."""

    def __init__(
        self, api: Cluster, plan_of: Callable[[str, str, str], str | None]
    ) -> None:
        """Create the kubelets without any pod.

        `plan_of` returns the text of a run's plan by namespace, name and uid, or None before it is
        there.
        """
        self._api = api
        self._plan_of = plan_of
        self._changed = asyncio.Event()
        self.pods: dict[str, PlayedPod] = {}
        """Pods by uid, including those that have ended."""
        self.orders: dict[tuple[str, str], Orders] = defaultdict(Orders)
        """Orders by namespace and run."""
        self.measured: dict[str, list[PlayedPod]] = defaultdict(list)
        """Clients that began to measure, by uid of their run."""

    def heard(self, namespace: str, event: str, body: Json) -> None:
        """Start or end the play of a pod, after a watch event about it."""
        meta = body["metadata"]
        labels = meta.get("labels", {})
        role = labels.get(names.LABEL_ROLE)
        uid = meta["uid"]
        if role not in ("client", "server"):
            return
        pod = self.pods.get(uid)
        if pod is None and event != "DELETED" and "deletionTimestamp" not in meta:
            pod = self.pods[uid] = PlayedPod(
                namespace,
                meta["name"],
                uid,
                role,
                labels[names.LABEL_RUN],
                labels[names.LABEL_RUN_UID],
                _address(),
            )
            pod.playing = asyncio.create_task(
                self._play(pod), name=f"pod {pod.name}"
            )
        elif pod is not None and (
            event == "DELETED" or "deletionTimestamp" in meta
        ):
            self.end(pod)

    def forget(self) -> None:
        """End and forget all pods and orders of the round before."""
        for pod in self.pods.values():
            self.end(pod)
        self.pods.clear()
        self.orders.clear()
        self.measured.clear()

    def end(self, pod: PlayedPod) -> None:
        """End a pod's processes without reporting it."""
        pod.is_ready = False
        if pod.playing is not None and not pod.playing.done():
            pod.playing.cancel()

    def find(self, namespace: str, run: str, role: str) -> PlayedPod | None:
        """Return a run's newest pod of a role that is ready, or None."""
        found = (
            p
            for p in self.pods.values()
            if (p.namespace, p.run, p.role) == (namespace, run, role)
        )
        return next((p for p in reversed(list(found)) if p.is_ready), None)

    def has_had(self, namespace: str, run: str, role: str) -> bool:
        """Return whether the run ever had a pod of the role in this round."""
        wanted = (namespace, run, role)
        return any(
            (pod.namespace, pod.run, pod.role) == wanted
            for pod in self.pods.values()
        )

    async def write(self, pod: PlayedPod, status: Json) -> bool:
        """Write a pod's status; return whether that worked, for the pod may be gone."""
        ahead = self.orders[pod.namespace, pod.run].clock_ahead_seconds
        path = f"{PATHS['Pod'].format(pod.namespace)}/{pod.name}/status"
        body = {**manifests.by_clock(status, ahead), "metadata": {"uid": pod.uid}}
        try:
            await self._api.ask("PATCH", path, body, merge=True)
        except RuntimeError:
            return False
        return True

    async def close(self) -> None:
        """End all pods."""
        tasks = [
            pod.playing for pod in self.pods.values() if pod.playing is not None
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _play(self, pod: PlayedPod) -> None:
        try:
            if await self._gets_a_node(pod):
                await (
                    self._client(pod) if pod.role == "client" else self._server(pod)
                )
        finally:
            pod.is_ready = False
            self._wake()
            if pod.pages is not None:
                pod.pages.stop()
            if pod.client is not None:
                await pod.client.stop()

    async def _gets_a_node(self, pod: PlayedPod) -> bool:
        orders = self.orders[pod.namespace, pod.run]
        if pod.role in orders.never:
            await self.write(pod, manifests.unschedulable(ever=False))
            return False
        if (seconds := orders.no_node_seconds.get(pod.role)) is not None:
            await self.write(pod, manifests.unschedulable(ever=True))
            await asyncio.sleep(seconds)
        return True

    async def _server(self, pod: PlayedPod) -> None:
        await asyncio.sleep(LOAD_SECONDS)
        pod.server = Server()
        pod.pages = MetricsServer()
        pod.pages.servers[pod.address] = pod.server
        await pod.pages.start([pod.address])
        pod.is_ready = await self.write(
            pod, manifests.running("server", pod.address)
        )
        self._wake()
        await asyncio.Event().wait()

    async def _client(self, pod: PlayedPod) -> None:
        plan = await self._plan(pod)
        ahead = self.orders[pod.namespace, pod.run].clock_ahead_seconds
        client = pod.client = PlayedClient(pod.address, clock_ahead_seconds=ahead)
        await client.start(Plan.model_validate_json(plan))
        pod.is_ready = await self.write(
            pod, manifests.running("client", pod.address)
        )
        self._wake()
        while (server := self._server_of(pod)) is None or server.server is None:
            await self._changed.wait()
        self.measured[pod.run_uid].append(pod)
        await self._measure(client, server)
        pod.has_measured = True
        client.finish()
        if await client.told(seconds=TOLD_SECONDS):
            await self.write(pod, manifests.succeeded("client"))

    async def _plan(self, pod: PlayedPod) -> str:
        """Wait until the run's plan can be mounted, and return its text."""
        found: list[str] = []

        def is_there() -> bool:
            plan = self._plan_of(pod.namespace, pod.run, pod.run_uid)
            found.extend([plan] if plan is not None else [])
            return bool(found)

        await polled(is_there, seconds=float("inf"))
        return found[0]

    async def _measure(self, client: PlayedClient, server: PlayedPod) -> None:
        """Measure until the last stage has ended; never return if the server ends meanwhile."""
        assert server.server is not None
        began = time.monotonic()
        ends = [began + STAGE_SECONDS * (n + 1) for n in range(manifests.STAGES)]
        measuring = client.measure(
            server.server, ends=ends, server_address=server.address
        )
        task = asyncio.create_task(measuring)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=0.1)
                if not server.is_ready:
                    task.cancel()
                    await asyncio.Event().wait()
            await task
        finally:
            task.cancel()

    def _server_of(self, pod: PlayedPod) -> PlayedPod | None:
        found = (
            p
            for p in self.pods.values()
            if p.run_uid == pod.run_uid and p.role == "server"
        )
        return next((p for p in found if p.is_ready), None)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
