"""A cluster in which the test plays scheduler, kubelets and containers.

The operator is a process of its own, API server and controllers are real, and no container runs.
Everything a pod could do, a hostile one included, is played within milliseconds.
"""

import asyncio
import itertools
import json
import os
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from re import compile as pattern
from typing import Any

from benchrun_client.contract import PLAN_FILE, Plan
from runs_kit import manifests
from runs_kit.client import PlayedClient
from runs_kit.cluster import PATHS, Cluster, Picture
from runs_kit.metrics_page import MetricsServer, Server
from runs_kit.operator_process import OperatorProcess, refuse_rivals
from runs_kit.proxy import CountingProxy

from kit.kubectl import Object
from kit.pod_statuses import by_a_clock
from kit.polling import INTERVAL_SECONDS
from kit.runs import is_finished, merged

RUN_UID = "benchrun.dev/run-uid"
ROLE = "benchrun.dev/role"
# longest wait for one thing that a test needs before it can begin
STEP_SECONDS = 60.0
CLIENT_IMAGE = "docker.io/benchrun/client:scale"
SERVER_IMAGE = "docker.io/vllm/vllm-openai:v0.32.0"
_HOSTS = itertools.count(1)
_NO_LABELS: Mapping[str, str] = {}
STAGES = 2  # number of stages of each run
ONE_WORKLOAD = {
    "name": "chat",
    "dataset": {"random": {"inputTokens": 1024, "outputTokens": 128}},
    "load": {"concurrencies": [4]},
    "requests": 400,
}


def _address() -> str:
    """Return a new loopback address.

    Every played pod is identified by its address, and no two processes share a network.
    """
    host = next(_HOSTS)
    return f"127.{64 + os.getpid() % 128}.{200 + host // 250}.{host % 250 + 1}"


@dataclass(slots=True)
class PlayedRun:
    """A run, and what plays its pods.

    Both pods are on `address`, the client on port 8090 and the server on 8000.
    """

    name: str
    uid: str
    address: str
    client: PlayedClient
    pages: MetricsServer = field(default_factory=MetricsServer)

    @property
    def server(self) -> Server:
        """Return what its server counts."""
        return self.pages.servers[self.address]


class PlayedCluster:
    """One namespace and its operator."""

    def __init__(
        self,
        api: Cluster,
        namespace: str,
        operator: OperatorProcess,
        way: CountingProxy,
    ) -> None:
        self.api = api
        self.namespace = namespace
        self.operator = operator
        self.way = way  # the operator's proxy to the API server
        self.picture = Picture(api, namespace)
        self._runs: list[PlayedRun] = []

    # ---- runs
    # --------------------------------------------------------------------------------------------------------

    async def apply(
        self, name: str, labels: Mapping[str, str] = _NO_LABELS, /, **spec: Any
    ) -> PlayedRun:
        """Create a run of `STAGES` stages, with `spec` laid over its own."""
        body = manifests.run(name, self.namespace)
        body["metadata"]["labels"] = dict(labels)
        body["spec"] = merged(
            body["spec"], {"workloads": [ONE_WORKLOAD], "repeats": STAGES, **spec}
        )
        made = await self.api.ask(
            "POST", PATHS["BenchmarkRun"].format(self.namespace), body
        )
        address = _address()
        run = PlayedRun(
            name, made["metadata"]["uid"], address, PlayedClient(address)
        )
        self._runs.append(run)
        return run

    async def patch(
        self, kind: str, name: str, patch: Object, *, subresource: str = ""
    ) -> Object:
        """Merge-patch an object."""
        path = f"{PATHS[kind].format(self.namespace)}/{name}"
        return await self.api.ask(
            "PATCH",
            f"{path}/{subresource}" if subresource else path,
            patch,
            merge=True,
        )

    async def delete(self, kind: str, name: str) -> None:
        """Request the deletion of an object."""
        await self.api.ask("DELETE", f"{PATHS[kind].format(self.namespace)}/{name}")

    def body(self, run: PlayedRun) -> Object:
        """Return the run as the cluster has it now; empty where it is gone."""
        return self.picture.objects["BenchmarkRun"].get(run.name, {})

    def status(self, run: PlayedRun) -> Object:
        """Return the run's status; empty while it has none."""
        found: Object = self.body(run).get("status", {})
        return found

    def children(self, run: PlayedRun, kind: str, role: str) -> list[Object]:
        """Return the run's objects of a kind for a role, by their labels."""
        wanted = {RUN_UID: run.uid, ROLE: role}.items()
        return [
            o
            for o in self.picture.objects[kind].values()
            if wanted <= o["metadata"].get("labels", {}).items()
        ]

    def has_server(self, run: PlayedRun) -> bool:
        """Return whether the run holds a GPU, or could."""
        return any(
            "deletionTimestamp" not in o["metadata"]
            for o in self.children(run, "Deployment", "server")
        )

    async def reaches(
        self, run: PlayedRun, phase: str, *, seconds: float = STEP_SECONDS
    ) -> None:
        """Wait until the run's status names that phase."""
        await self.until(
            lambda: self.status(run).get("phase") == phase,
            seconds=seconds,
            what=f"{run.name}: {phase}",
        )

    async def gets(
        self, run: PlayedRun, kind: str, role: str, *, seconds: float = STEP_SECONDS
    ) -> Object:
        """Wait until the run has an object of a kind for a role, and return it."""
        what = f"{run.name} has a {kind} of role {role}"
        await self.until(
            lambda: bool(self.children(run, kind, role)), seconds=seconds, what=what
        )
        return self.children(run, kind, role)[0]

    async def status_holds(self, run: PlayedRun, changes: Object) -> None:
        """Write these values into the run's status until they are kept.

        The API server takes a moment to know a definition.
        """
        ends_at = time.monotonic() + STEP_SECONDS
        while time.monotonic() < ends_at:
            with suppress(RuntimeError):
                body = {"status": changes}
                kept = await self.patch(
                    "BenchmarkRun", run.name, body, subresource="status"
                )
                if changes.items() <= kept["status"].items():
                    return
            await asyncio.sleep(INTERVAL_SECONDS)
        raise AssertionError(f"the status of {run.name} does not take {changes}")

    async def finished(self, run: PlayedRun, *, seconds: float) -> Object:
        """Wait until the run has ended, and return its status."""
        await self.until(
            lambda: is_finished(self.body(run)),
            seconds=seconds,
            what=f"{run.name} has ended",
        )
        return self.status(run)

    async def released(self, run: PlayedRun, *, seconds: float) -> None:
        """Wait until the run's server is gone."""
        await self.until(
            lambda: not self.has_server(run),
            seconds=seconds,
            what=f"the server of {run.name} is gone",
        )

    async def until(
        self, holds: Callable[[], bool], *, seconds: float = STEP_SECONDS, what: str
    ) -> None:
        """Wait for a condition on the picture.

        Raises AssertionError with the state of every run when time is up.
        """
        try:
            await self.picture.until(holds, seconds=seconds, what=what)
        except TimeoutError as error:
            where = [
                f"{run.name}: server {self.has_server(run)}, {self._in_short(run)}"
                for run in self._runs
            ]
            raise AssertionError(f"{error}\n" + "\n".join(where)) from None

    def _in_short(self, run: PlayedRun) -> str:
        status = self.status(run)
        return json.dumps(
            {
                key: status.get(key)
                for key in ("phase", "message", "progress", "verdict")
            }
        )

    # ---- pods
    # --------------------------------------------------------------------------------------------------------

    async def plan(self, run: PlayedRun) -> str:
        """Return the run's plan, as its client reads it."""
        text: str = (await self.gets(run, "ConfigMap", "plan"))["data"][PLAN_FILE]
        return text

    async def client_starts(self, run: PlayedRun) -> None:
        """Start an honest client: it listens, and its pod is ready."""
        await run.client.start(Plan.model_validate_json(await self.plan(run)))
        await self.client_pod_runs(run)

    async def client_pod_runs(self, run: PlayedRun) -> None:
        """Write, like a kubelet, that the client's pod is ready, whatever answers there."""
        status = manifests.running(
            run.address, container="client", image=CLIENT_IMAGE, ready=True
        )
        await self.write_pod(run, "client", status)

    async def server_starts(
        self, run: PlayedRun, *, clock_ahead_seconds: float = 0.0
    ) -> None:
        """Start a server: it is scheduled, loads at once and answers."""
        await self.server_listens(run, Server())
        status = manifests.running(
            run.address, container="server", image=SERVER_IMAGE, ready=True
        )
        by_its_clock = by_a_clock(status, ahead_seconds=clock_ahead_seconds)
        await self.write_pod(run, "server", by_its_clock)

    async def server_listens(self, run: PlayedRun, server: Server) -> None:
        """Serve the pages of a server, whatever becomes of its pod."""
        run.pages.servers[run.address] = server
        await run.pages.start([run.address])

    async def client_exits(self, run: PlayedRun) -> None:
        """End the client's process with 0, as it ends once everything is acknowledged."""
        await self.write_pod(
            run,
            "client",
            manifests.succeeded(container="client", image=CLIENT_IMAGE),
        )

    async def both_start(self, run: PlayedRun) -> None:
        """Start an honest client and a server that both answer."""
        await self.client_starts(run)
        await self.server_starts(run)

    async def write_pod(self, run: PlayedRun, role: str, status: Object) -> None:
        """Write a pod's status in place of a kubelet."""
        pod = await self.gets(run, "Pod", role)
        await self.patch(
            "Pod", pod["metadata"]["name"], status, subresource="status"
        )

    async def close(self) -> None:
        """Stop all players."""
        self.picture.stop()
        for run in self._runs:
            run.pages.stop()
        await asyncio.gather(*(run.client.stop() for run in self._runs))


@asynccontextmanager
async def played_cluster(
    directory: Path,
    *,
    settings: Mapping[str, str] | None = None,
    way: Callable[..., CountingProxy] = CountingProxy,
    neighbour: bool = False,
) -> AsyncIterator[PlayedCluster]:
    """Yield a namespace of its own with a ready operator.

    `settings` is more of the operator's environment; `way` is what stands between it and the API
    server; with `neighbour` it works in a second namespace, too.
    """
    api = await Cluster.connect()
    namespace = f"played-{uuid.uuid4().hex[:8]}"
    everywhere = (namespace, *([f"{namespace}-next"] if neighbour else ()))
    proxy = way(
        api.url,
        tls=ssl.create_default_context(cafile=api.authority),
        run_name=pattern("no run is counted"),
    )
    try:
        await refuse_rivals(api)
        for name in everywhere:
            await api.ask(
                "POST", "/api/v1/namespaces", {"metadata": {"name": name}}
            )
        await proxy.start()
        operator = OperatorProcess(
            api,
            namespace,
            api_url=proxy.url,
            directory=directory,
            watched=everywhere,
            settings=settings,
        )
        played = PlayedCluster(api, namespace, operator, proxy)
        played.picture.start()
        try:
            await operator.start()
            yield played
        finally:
            await operator.stop()
            await played.close()
            for name in everywhere:
                with suppress(RuntimeError):  # a test may have deleted it
                    await api.ask("DELETE", f"/api/v1/namespaces/{name}")
    finally:
        proxy.stop()
        await api.close()
