"""The two arms, each in a namespace of its own, and what is seen of the server meanwhile.

The end of the idle time is the receipt of the watch event that shows the Deployment deleted or
being deleted: some milliseconds after the request, in both arms.
"""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import aiohttp
from benchrun.names import CLIENT_CONTAINER, SERVER_CONTAINER
from benchrun_client.contract import RECORD_PORT
from benchrun_client.engines import ENGINES
from runs_kit.cluster import PATHS, Cluster, Json, Picture

from gpu_idle_kit import manifests
from gpu_idle_kit.figures import NotAsExpected, Seen, seen
from gpu_idle_kit.manifests import ServerKind
from gpu_idle_kit.streams import Exchange, exchanges, refused
from gpu_idle_kit.wire import Packet, Wire

VLLM = ENGINES["VLLM"]

POLL_SECONDS = 0.05
STEP_SECONDS = 1200.0
"""Longest wait for any step; the figures judge the speed."""
OPERATOR_SECONDS = 120.0
"""Longest wait for a sign of an operator."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Watched:
    """What an arm left: the exchanges on the wire, and when the server's deletion was requested."""

    exchanges: list[Exchange]
    records: list[Exchange]
    """Requests of the operator to the client; empty in an arm without operator or client."""
    deleted_at: float
    template: Json
    """Pod template of the server."""

    def seen(self) -> Seen:
        """Sort the exchanges into stages. Raises NotAsExpected when they do not fit the plan."""
        return seen(
            self.exchanges,
            deleted_at=self.deleted_at,
            stages=len(manifests.STAGES),
            requests=manifests.REQUESTS,
        )


@dataclass(slots=True)
class Arm:
    """One arm under way."""

    cluster: Cluster
    namespace: str
    picture: Picture
    node_pid: int
    say: Say
    deleted_at: float | None = None
    template: Json = field(default_factory=dict)

    async def create(self, kind: str, body: Json) -> None:
        """Create an object in the arm's namespace."""
        await self.cluster.ask("POST", PATHS[kind].format(self.namespace), body)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for a condition on what is in the namespace.

        Raises NotAsExpected when the run or a Job fails meanwhile.
        """

        def holds_unless_failed() -> bool:
            for kind in ("BenchmarkRun", "Job"):
                for name, body in self.picture.objects[kind].items():
                    if (failed := _condition(body, "Failed")).get(
                        "status"
                    ) == "True":
                        raise NotAsExpected(
                            f"{kind} {name} failed: {failed.get('message')}"
                        )
            return holds()

        await self.picture.until(
            holds_unless_failed, seconds=STEP_SECONDS, what=what
        )
        self.say(what)

    @asynccontextmanager
    async def serving(self, found: list[Exchange]) -> AsyncIterator[None]:
        """Watch the server while the block runs; then add all exchanges with it to `found`.

        Raises NotAsExpected when the server was up before the watching began.
        """
        packets: list[Packet] = []
        async with self._listening(SERVER_CONTAINER, VLLM.port, packets) as address:
            poller = asyncio.create_task(_poll_health(address), name="poller")
            try:
                yield
            finally:
                poller.cancel()
        if not refused(packets):
            raise NotAsExpected("the server was up before anybody listened")
        found += await asyncio.to_thread(exchanges, packets)

    @asynccontextmanager
    async def recording(self, found: list[Exchange]) -> AsyncIterator[None]:
        """Watch the client while the block runs; then add all exchanges with it to `found`."""
        packets: list[Packet] = []
        async with self._listening(CLIENT_CONTAINER, RECORD_PORT, packets):
            yield
        found += await asyncio.to_thread(exchanges, packets)

    @asynccontextmanager
    async def _listening(
        self, container: str, port: int, packets: list[Packet]
    ) -> AsyncIterator[str]:
        """Wait until the pod with that container has an address, and yield the address.

        Packets of its port are added to `packets` when the block ends.
        """
        await self.until(
            lambda: self._address(container) is not None,
            f"the pod of {container} has an address",
        )
        address = str(self._address(container))
        wire = Wire(node_pid=self.node_pid, address=address, port=port)
        wire.start()
        try:
            yield address
        finally:
            packets += await asyncio.to_thread(wire.stop)

    def note_deployment(self, event: str, body: Json) -> None:
        """Record the template, and the first sign of deletion, from an event of the Deployment."""
        self.template = body["spec"]["template"]
        if self.deleted_at is None and (
            event == "DELETED" or "deletionTimestamp" in body["metadata"]
        ):
            self.deleted_at = time.time()

    def _address(self, container: str) -> str | None:
        for pod in self.picture.objects["Pod"].values():
            if any(c["name"] == container for c in pod["spec"]["containers"]):
                return (
                    str(address)
                    if (address := pod.get("status", {}).get("podIP"))
                    else None
                )
        return None


async def benchmark_run(arm: Arm, server: ServerKind) -> Watched:
    """Run arm (a): one BenchmarkRun."""
    found: list[Exchange] = []
    records: list[Exchange] = []
    await arm.create("BenchmarkRun", manifests.benchmark_run(arm.namespace, server))
    await arm.picture.until(
        lambda: bool(
            arm.picture.objects["BenchmarkRun"]
            .get(manifests.NAME, {})
            .get("status")
        ),
        seconds=OPERATOR_SECONDS,
        what="an operator has taken up the run",
    )
    async with arm.recording(records), arm.serving(found):
        await arm.until(
            partial(_complete, arm.picture.objects["BenchmarkRun"], manifests.NAME),
            "the run is complete",
        )
        await arm.until(lambda: arm.deleted_at is not None, "the server is deleted")
    return _watched(arm, found, records)


async def by_hand(arm: Arm, template: Json) -> Watched:
    """Run arm (b): server, Job after Job, the server's end.

    Each step is taken the moment the one before is seen done.
    """
    found: list[Exchange] = []
    objects = arm.picture.objects
    await arm.create("Deployment", manifests.deployment(arm.namespace, template))
    await arm.create("Service", manifests.service(arm.namespace))
    async with arm.serving(found):
        await arm.until(
            lambda: (
                objects["Deployment"][manifests.NAME]
                .get("status", {})
                .get("availableReplicas", 0)
                > 0
            ),
            "the server is available",
        )
        for number, concurrency in enumerate(manifests.STAGES):
            await arm.create(
                "Job", body := manifests.job(arm.namespace, number, concurrency)
            )
            name = body["metadata"]["name"]
            await arm.until(
                partial(_complete, objects["Job"], name), f"{name} is complete"
            )
        await arm.cluster.ask(
            "DELETE",
            f"{PATHS['Deployment'].format(arm.namespace)}/{manifests.NAME}",
        )
        await arm.until(lambda: arm.deleted_at is not None, "the server is deleted")
    return _watched(arm, found, [])


@asynccontextmanager
async def arm(cluster: Cluster, *, node_pid: int, say: Say) -> AsyncIterator[Arm]:
    """Yield an arm with a watched namespace that is deleted afterwards."""
    namespace = f"idle-{uuid.uuid4().hex[:8]}"
    await cluster.ask(
        "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}
    )
    started = Arm(cluster, namespace, Picture(cluster, namespace), node_pid, say)
    started.picture.start()
    # A separate watch: the picture tells what exists, this one when it was deleted.
    watch = asyncio.create_task(
        cluster.watch(
            PATHS["Deployment"].format(namespace), started.note_deployment
        ),
        name="watch the server's end",
    )
    try:
        yield started
    finally:
        watch.cancel()
        started.picture.stop()
        await cluster.ask("DELETE", f"/api/v1/namespaces/{namespace}")


def _watched(arm: Arm, found: list[Exchange], records: list[Exchange]) -> Watched:
    assert arm.deleted_at is not None
    return Watched(found, records, arm.deleted_at, arm.template)


def _complete(objects: dict[str, Json], name: str) -> bool:
    return _condition(objects.get(name, {}), "Complete").get("status") == "True"


def _condition(body: Json, kind: str) -> Json:
    conditions: list[Json] = body.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


async def _poll_health(address: str) -> None:
    """Poll until the first healthy answer, on a new connection each time."""
    url = f"http://{address}:{VLLM.port}/health"
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True)
    ) as session:
        while True:
            next_at = time.monotonic() + POLL_SECONDS
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                async with session.get(
                    url, timeout=aiohttp.ClientTimeout(total=2)
                ) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))
