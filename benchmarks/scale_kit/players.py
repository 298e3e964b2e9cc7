"""The played pods of a tenant's runs.

A client is ready a moment after it started, a server waits for a GPU, and a measurement ends when
it is told to.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchrun import names
from benchrun_client.contract import PLAN_FILE, Plan
from runs_kit import manifests
from runs_kit.client import PlayedClient
from runs_kit.cluster import PATHS, Cluster, Json, Picture
from runs_kit.metrics_page import MetricsServer, Server

CLIENT_IMAGE = "docker.io/benchrun/client:scale"
SERVER_IMAGE = "docker.io/vllm/vllm-openai:v0.32.0"
GETS_READY_SECONDS = 2.0
"""Time until a client is ready: its process answers long before it has found tokenizer and data."""
AT_ONCE = 16
"""Most requests of the kubelets in flight."""
TOLD_SECONDS = 900.0


def addresses() -> Iterator[str]:
    """Yield loopback addresses, in a network of this process's own."""
    network = 64 + os.getpid() % 128
    return (f"127.{network}.{n // 250}.{n % 250 + 1}" for n in itertools.count())


@dataclass(eq=False, slots=True)
class PlayedRun:
    """One run, and the progress of its played pods."""

    name: str
    namespace: str
    address: str
    client: PlayedClient
    uid: str = ""
    """Uid of the run; empty before it is applied."""
    pods: dict[str, str] = field(default_factory=dict)
    """Names of the existing pods by role."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    has_client: bool = False
    waits_for_gpu: bool = False
    stage_seconds: float | None = None
    """Seconds that a stage takes; None: there is no GPU for it yet."""
    first_seconds: float = 0.0
    """Additional seconds of the first stage, so that the stages of many runs do not end at the same
    time."""
    has_measured: bool = False
    may_finish: bool = False
    has_succeeded: bool = False

    def wake(self) -> None:
        """Wake up all that wait for a change of this run."""
        self.changed.set()

    async def until(self, attribute: str) -> None:
        """Wait until this attribute of the run is true."""
        while not getattr(self, attribute):
            self.changed.clear()
            await self.changed.wait()

    async def pod(self, role: str) -> str:
        """Wait for the run's pod of a role and return the pod's name."""
        while role not in self.pods:
            self.changed.clear()
            await self.changed.wait()
        return self.pods[role]


class Tenant:
    """A namespace with runs of one tenant."""

    def __init__(
        self,
        api: Cluster,
        namespace: str,
        pages: MetricsServer,
        *,
        runs: Sequence[PlayedRun],
    ) -> None:
        self._api = api
        self._pages = pages
        self.namespace = namespace
        self.runs = {run.name: run for run in runs}
        self.picture = Picture(api, namespace, notify=self._heard)
        self.released: dict[str, float] = {}
        """Instant at which the server of a run was deleted (`time.monotonic()`), by run."""
        self.kubelets = asyncio.Event()
        """Set once pods may make progress."""
        self._places = asyncio.Semaphore(AT_ONCE)
        self._playing: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start watching."""
        self.picture.start()

    async def stop(self) -> None:
        """End all pods and stop watching."""
        self.picture.stop()
        for task in self._playing.values():
            task.cancel()
        await asyncio.gather(*self._playing.values(), return_exceptions=True)
        await asyncio.gather(*(run.client.stop() for run in self.runs.values()))

    def check(self) -> None:
        """Raise the error that broke a watch or the play of a run, if any."""
        self.picture.check()
        for task in self._playing.values():
            if task.done():
                task.result()

    async def apply(self, run: PlayedRun, body: Json) -> None:
        """Create a run, and begin to play its pods."""
        made = await self._api.ask(
            "POST", PATHS[names.KIND].format(self.namespace), body
        )
        run.uid = made["metadata"]["uid"]
        self._playing[run.name] = asyncio.create_task(
            self._play(run), name=run.name
        )

    def first_children(self, run: PlayedRun) -> tuple[tuple[str, str], ...]:
        """Return kind and name of the children a run has before its client's pod."""
        return (
            ("ConfigMap", names.plan_name(run.name, run.uid)),
            ("Service", names.child_name(run.name, run.uid, names.ROLE_SERVER)),
            ("Job", names.child_name(run.name, run.uid, names.ROLE_CLIENT)),
        )

    def phase(self, run: PlayedRun) -> str | None:
        """Return the phase in a run's status, or None when there is none."""
        body = self.picture.objects[names.KIND].get(run.name, {})
        phase: str | None = body.get("status", {}).get("phase")
        return phase

    def _heard(self, kind: str, event: str, body: Json) -> None:
        meta = body["metadata"]
        labels = meta.get("labels", {})
        run = self.runs.get(labels.get(names.LABEL_RUN, ""))
        role = labels.get(names.LABEL_ROLE)
        if run is None:
            return
        if kind == "Deployment" and (
            event == "DELETED" or "deletionTimestamp" in meta
        ):
            self.released.setdefault(run.name, time.monotonic())
        elif kind == "Pod" and event == "ADDED":
            run.pods.setdefault(role, meta["name"])
            run.wake()
        elif kind == "ConfigMap" and role == names.ROLE_PLAN:
            run.wake()

    async def _play(self, run: PlayedRun) -> None:
        await run.pod(names.ROLE_CLIENT)
        await self.kubelets.wait()
        plan = self.picture.objects["ConfigMap"][names.plan_name(run.name, run.uid)]
        await run.client.start(Plan.model_validate_json(plan["data"][PLAN_FILE]))
        await self._write_client(run, ready=False)
        await asyncio.sleep(GETS_READY_SECONDS)
        await self._write_client(run, ready=True)
        run.has_client = True
        await run.pod(names.ROLE_SERVER)
        await self._write(run, names.ROLE_SERVER, manifests.unschedulable())
        run.waits_for_gpu = True
        await run.until("stage_seconds")
        await self._measure(run)
        run.has_measured = True
        await run.until("may_finish")
        run.client.finish()
        if await run.client.told(seconds=TOLD_SECONDS):
            ended = manifests.succeeded(
                container=names.CLIENT_CONTAINER, image=CLIENT_IMAGE
            )
            await self._write(run, names.ROLE_CLIENT, ended)
            run.has_succeeded = True

    async def _measure(self, run: PlayedRun) -> None:
        server = self._pages.servers[run.address] = Server()
        ready = manifests.running(
            run.address, container="server", image=SERVER_IMAGE, ready=True
        )
        await self._write(run, names.ROLE_SERVER, ready)
        assert run.stage_seconds is not None
        began = time.monotonic() + run.first_seconds
        ends = [
            began + run.stage_seconds * n for n in range(1, manifests.STAGES + 1)
        ]
        await run.client.measure(server, ends=ends)

    async def _write_client(self, run: PlayedRun, *, ready: bool) -> None:
        container = names.CLIENT_CONTAINER
        body = manifests.running(
            run.address, container=container, image=CLIENT_IMAGE, ready=ready
        )
        await self._write(run, names.ROLE_CLIENT, body)

    async def _write(self, run: PlayedRun, role: str, status: Json) -> None:
        path = f"{PATHS['Pod'].format(self.namespace)}/{run.pods[role]}/status"
        async with self._places:
            await self._api.ask("PATCH", path, status, merge=True)
