"""The story: apply all runs, let them wait for GPUs, serve and scrape them, let them finish."""

import asyncio
import os
import re
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from _outcome import NotAsExpected
from benchrun import names
from benchrun_client.contract import PLAN_FILE, Plan

from runs_kit import manifests
from runs_kit.client import PlayedClient
from runs_kit.cluster import PATHS, Cluster, Json, Picture
from runs_kit.figures import Figures
from runs_kit.metrics_page import MetricsServer, Server
from runs_kit.operator_process import OperatorProcess, refuse_rivals
from runs_kit.proxy import CountingProxy

CLIENT_IMAGE = "docker.io/benchrun/client:scale"
RUN_NAME = re.compile(r"played-\d{4}")
CREATE_ROUNDS = 5
AT_ONCE = 16
"""Most requests of the benchmark in flight."""
STEP_SECONDS = 300.0
"""Longest wait for any step; the figures judge the speed."""
QUIET_SECONDS = 3.0
LEAST_READ_PERCENT = 90.0
"""Least share of the pages due in the window that must be read; with fewer the CPU figure would
flatter."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How many runs, and how long."""

    runs: int
    scrape_seconds: float
    wait_seconds: float
    """Seconds that all runs wait for a GPU."""


@dataclass(slots=True)
class PlayedRun:
    """One run and the played client of its pods."""

    name: str
    address: str
    client: PlayedClient
    uid: str = ""
    """Uid of the run; empty before it is applied."""


class Scenario:
    """One performance of the story."""

    def __init__(
        self, scale: Scale, namespace: str, *, say: Callable[[str], None]
    ) -> None:
        self._scale = scale
        self._namespace = namespace
        self._say = say
        # Each process has a loopback network of its own, so that two benchmarks do not collide.
        network = 64 + os.getpid() % 128
        self._runs = [
            PlayedRun(
                f"played-{n:04d}",
                address := f"127.{network}.{n // 250}.{n % 250 + 1}",
                PlayedClient(address),
            )
            for n in range(scale.runs)
        ]
        self._pages = MetricsServer()

    async def play(self, directory: Path) -> Figures:
        """Play the whole story and return its figures.

        Raises NotAsExpected when something does not hold that must hold at any speed.
        """
        async with self._cluster() as cluster:
            await refuse_rivals(cluster)
            self._api = cluster
            self._picture = Picture(cluster, self._namespace)
            self._picture.start()
            await self._pages.start([run.address for run in self._runs])
            # Before the operator starts: nothing acts on what this creates.
            create_seconds = await self._create_alike()
            tls = ssl.create_default_context(cafile=cluster.authority)
            self._proxy = CountingProxy(cluster.url, tls=tls, run_name=RUN_NAME)
            await self._proxy.start()
            self._operator = OperatorProcess(
                cluster,
                self._namespace,
                api_url=self._proxy.url,
                directory=directory,
            )
            try:
                await self._operator.start()
                self._report("operator ready")
                return await self._measured(create_seconds)
            except NotAsExpected:
                self._say(
                    f"the operator's last words: {self._operator.last_words()}"
                )
                raise
            finally:
                await self._operator.stop()
                self._proxy.stop()
                self._pages.stop()
                self._picture.stop()
                await asyncio.gather(*(run.client.stop() for run in self._runs))

    @asynccontextmanager
    async def _cluster(self) -> AsyncIterator[Cluster]:
        """Yield a connection to the cluster with a namespace that is deleted afterwards."""
        cluster = await Cluster.connect()
        try:
            await cluster.ask(
                "POST",
                "/api/v1/namespaces",
                {"metadata": {"name": self._namespace}},
            )
            yield cluster
        finally:
            await cluster.ask("DELETE", f"/api/v1/namespaces/{self._namespace}")
            await cluster.close()

    async def _measured(self, create_seconds: float) -> Figures:
        children_seconds = await self._apply_runs()
        server_children_seconds = await self._start_clients()
        waiting = await self._wait_for_gpus()
        cpu_cores = await self._scrape()
        await self._finish()
        return Figures(
            runs=len(self._runs),
            create_seconds=round(create_seconds, 2),
            children_seconds=round(children_seconds, 2),
            children_ratio=round(children_seconds / create_seconds, 2),
            server_children_seconds=round(server_children_seconds, 2),
            server_children_ratio=round(
                server_children_seconds / create_seconds, 2
            ),
            rss_mib=round(self._operator.usage().peak_rss_mib, 1),
            cpu_cores=round(cpu_cores, 3),
            writes_per_run=max(self._writes().values()),
            requests_per_waiting_run_per_minute=round(waiting, 3),
            decide_p99_ms=await self._operator.decide_p99_ms(),
        )

    async def _create_alike(self) -> float:
        """Return the seconds to create runs and first children by a client that decides nothing.

        It is the median of some rounds.
        """
        rounds = [
            await self._create_once(number) for number in range(CREATE_ROUNDS)
        ]
        self._say(
            f"as many objects were created in {', '.join(f'{seconds:.2f}' for seconds in rounds)} s"
        )
        return median(rounds)

    async def _create_once(self, number: int) -> float:
        runs = PATHS["BenchmarkRun"].format(self._namespace)

        async def create(run: PlayedRun) -> None:
            name = f"alike-{number}-{run.name}"
            for kind, body in manifests.alike(name, self._namespace):
                await self._api.ask(
                    "POST", PATHS[kind].format(self._namespace), body
                )
            await self._api.ask(
                "PATCH", f"{runs}/{name}/status", manifests.pending(), merge=True
            )

        began = time.monotonic()
        await self._each(create)
        seconds = time.monotonic() - began
        for kind in manifests.ALIKE_KINDS:
            path = (
                f"{PATHS[kind].format(self._namespace)}"
                "?labelSelector=alike&propagationPolicy=Background"
            )
            await self._api.ask("DELETE", path)
        await self._until(
            lambda: not self._picture.objects["Pod"],
            "the pods of those Jobs are gone",
        )
        return seconds

    async def _apply_runs(self) -> float:
        """Apply all runs; return the seconds from the last apply until all first children exist."""
        path = PATHS["BenchmarkRun"].format(self._namespace)

        async def apply(run: PlayedRun) -> None:
            applied = await self._api.ask(
                "POST", path, manifests.run(run.name, self._namespace)
            )
            run.uid = applied["metadata"]["uid"]

        began = time.monotonic()
        await self._each(apply)
        applied = time.monotonic()
        wanted = [
            child
            for run in self._runs
            for child in (
                ("ConfigMap", names.plan_name(run.name, run.uid)),
                ("Service", names.child_name(run.name, run.uid, names.ROLE_SERVER)),
                ("Job", names.child_name(run.name, run.uid, names.ROLE_CLIENT)),
            )
        ]
        await self._until(
            lambda: self._exist(wanted),
            "every run has plan, Service and client Job",
        )
        seconds = self._last_seen(wanted) - applied
        self._report(
            f"{len(self._runs)} runs applied in {applied - began:.1f} s, first children "
            f"{seconds:.2f} s later"
        )
        return seconds

    async def _start_clients(self) -> float:
        """Start all clients and wait for the servers' Deployments.

        Return the seconds from the last client pod being ready until the Deployment of every run
        exists.
        """
        await self._until(
            lambda: self._have_pods(names.ROLE_CLIENT), "every run has a client pod"
        )
        await self._each(self._start_client)
        # A real client's process, too, answers on its port long before it has found tokenizer and
        # data.
        await self._until_quiet()
        await self._each(lambda run: self._write_client(run, ready=True))
        ready = time.monotonic()
        wanted = [
            ("Deployment", names.child_name(run.name, run.uid, names.ROLE_SERVER))
            for run in self._runs
        ]
        await self._until(
            lambda: self._exist(wanted), "every run has a server Deployment"
        )
        seconds = self._last_seen(wanted) - ready
        self._report(f"clients ready, Deployments {seconds:.2f} s later")
        return seconds

    async def _start_client(self, run: PlayedRun) -> None:
        body = self._picture.objects["ConfigMap"][
            names.plan_name(run.name, run.uid)
        ]
        await run.client.start(Plan.model_validate_json(body["data"][PLAN_FILE]))
        await self._write_client(run, ready=False)

    async def _write_client(self, run: PlayedRun, *, ready: bool) -> None:
        status = manifests.running(
            run.address, container="client", image=CLIENT_IMAGE, ready=ready
        )
        await self._write_pod(run, names.ROLE_CLIENT, status)

    async def _wait_for_gpus(self) -> float:
        """Let every server wait for a GPU; return the requests per run and minute meanwhile."""
        await self._until(
            lambda: self._have_pods(names.ROLE_SERVER), "every run has a server pod"
        )
        await self._each(
            lambda run: self._write_pod(
                run, names.ROLE_SERVER, manifests.unschedulable()
            )
        )
        await self._until(
            lambda: self._in_phase("WaitingForNode"), "every run waits for a node"
        )
        await self._until_quiet()
        began = time.monotonic()
        await asyncio.sleep(self._scale.wait_seconds)
        asked = [r for r in self._proxy.requests if r.at >= began]
        about_runs = [r for r in asked if not r.of_collection]
        self._report(
            f"waited {self._scale.wait_seconds:.0f} s: {len(about_runs)} requests about runs, "
            f"{len(asked)} in all"
        )
        return len(about_runs) / len(self._runs) / (self._scale.wait_seconds / 60)

    async def _scrape(self) -> float:
        """Scrape every server once a second while its run goes through its stages.

        Return the mean of the CPU cores the operator used.
        """
        await self._each(self._start_server)
        measuring = asyncio.gather(
            *(self._measure(n, run) for n, run in enumerate(self._runs))
        )
        await self._until(
            lambda: self._in_phase("Running"), "every run is measuring"
        )
        before = self._operator.usage()
        scrapes = self._pages.readings.copy()
        began = time.monotonic()
        await self._through_the_window(began)
        after = self._operator.usage()
        seconds = time.monotonic() - began
        self._check_scrapes(self._pages.readings - scrapes, seconds)
        await measuring
        return (after.cpu_seconds - before.cpu_seconds) / seconds

    async def _start_server(self, run: PlayedRun) -> None:
        self._pages.servers[run.address] = Server()
        image = "docker.io/vllm/vllm-openai:v0.32.0"
        status = manifests.running(
            run.address, container="server", image=image, ready=True
        )
        await self._write_pod(run, names.ROLE_SERVER, status)

    async def _measure(self, number: int, run: PlayedRun) -> None:
        """Play one run's stages, which end evenly over the window, the last one at its end.

        Stages of different runs end at different times.
        """
        step = self._scale.scrape_seconds / manifests.STAGES
        began = time.monotonic()
        part = number / len(self._runs)
        ends = [
            began + (stage + part) * step for stage in range(1, manifests.STAGES)
        ]
        await run.client.measure(
            self._pages.servers[run.address],
            ends=[*ends, began + self._scale.scrape_seconds],
        )

    async def _through_the_window(self, began: float) -> None:
        ends = began + self._scale.scrape_seconds
        while (left := ends - time.monotonic()) > 0:
            before = self._operator.usage().cpu_seconds
            slice_seconds = min(60.0, left)
            await asyncio.sleep(slice_seconds)
            used = self._operator.usage().cpu_seconds - before
            self._report(
                f"scraping, {max(0.0, left - slice_seconds):.0f} s left, "
                f"{used / slice_seconds:.3f} cores"
            )

    async def _finish(self) -> None:
        for run in self._runs:
            run.client.finish()
        finished = time.monotonic()
        told = await asyncio.gather(
            *(run.client.told(seconds=STEP_SECONDS) for run in self._runs)
        )
        if not all(told):
            raise NotAsExpected(
                f"{told.count(False)} clients were never told that their records are stored"
            )
        status = manifests.succeeded(container="client", image=CLIENT_IMAGE)
        await self._each(
            lambda run: self._write_pod(run, names.ROLE_CLIENT, status)
        )
        await self._until(
            lambda: self._in_phase("Completed"), "every run is Completed"
        )
        await self._until(
            lambda: not self._picture.objects["Deployment"],
            "every server is released",
        )
        self._report(
            f"all runs completed {time.monotonic() - finished:.1f} s after their last stage"
        )
        await self._until_quiet()
        self._check_results()

    def _check_scrapes(self, scrapes: Counter[str], seconds: float) -> None:
        least = min((scrapes[run.address] for run in self._runs), default=0)
        percent = 100 * least / seconds
        self._report(
            f"the server with the fewest scrapes was scraped in {percent:.1f} % of the seconds"
        )
        if percent < LEAST_READ_PERCENT:
            raise NotAsExpected(
                f"a server was scraped only {least} times in {seconds:.0f} s"
            )

    def _check_results(self) -> None:
        for name, body in self._picture.objects["BenchmarkRun"].items():
            status = body["status"]
            load_points = len(status.get("results", []))
            # Played stages are as short as the benchmark; a finding about that is not the
            # operator's fault.
            if status["verdict"] not in ("Valid", "Suspect") or load_points != 2:
                raise NotAsExpected(
                    f"{name}: verdict {status['verdict']}, {load_points} load points: "
                    f"{status['message']}"
                )
        stages = [
            c
            for c in self._picture.objects["ConfigMap"].values()
            if _role(c) == names.ROLE_STAGE
        ]
        if len(stages) != manifests.STAGES * len(self._runs):
            raise NotAsExpected(
                f"{len(stages)} records are stored of {manifests.STAGES * len(self._runs)}"
            )

    def _writes(self) -> Counter[str]:
        """Return how many requests changed something, by run.

        Raises NotAsExpected when one of them belongs to no run.
        """
        # The operator creates the Secret with its key once, for no run.
        writes = [
            r
            for r in self._proxy.requests
            if r.writes and not r.live_only and r.resource != "secrets"
        ]
        strays = [r for r in writes if r.run is None]
        if strays:
            raise NotAsExpected(
                f"{len(strays)} writes belong to no run, for example {strays[0]}"
            )
        by_run = Counter(r.run for r in writes if r.run is not None)
        most = max(by_run, key=lambda run: by_run[run])
        kinds = Counter(f"{r.method} {r.resource}" for r in writes if r.run == most)
        fields = [
            " ".join(r.changes) for r in writes if r.run == most and r.changes
        ]
        self._report(f"its status: {'; '.join(fields)}")
        live = sum(r.live_only for r in self._proxy.requests)
        self._report(
            f"writes of {most}: {dict(kinds.most_common())}; {live} writes of status.live over "
            "all runs"
        )
        asked = Counter(f"{r.method} {r.resource}" for r in self._proxy.requests)
        self._report(
            f"{len(self._proxy.requests)} requests in all: {dict(asked.most_common())}"
        )
        return by_run

    def _exist(self, wanted: Iterable[tuple[str, str]]) -> bool:
        return all(name in self._picture.objects[kind] for kind, name in wanted)

    def _last_seen(self, wanted: Iterable[tuple[str, str]]) -> float:
        return max(self._picture.first_seen[key] for key in wanted)

    def _have_pods(self, role: str) -> bool:
        return sum(
            _role(pod) == role for pod in self._picture.objects["Pod"].values()
        ) >= len(self._runs)

    def _in_phase(self, phase: str) -> bool:
        runs = self._picture.objects["BenchmarkRun"].values()
        return all(run.get("status", {}).get("phase") == phase for run in runs)

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        try:
            await self._picture.until(holds, seconds=STEP_SECONDS, what=what)
        except TimeoutError as error:
            phases = Counter(
                r.get("status", {}).get("phase")
                for r in self._picture.objects["BenchmarkRun"].values()
            )
            raise NotAsExpected(f"{error}; phases: {dict(phases)}") from error

    async def _until_quiet(self) -> None:
        """Wait until the operator has sent no request about any run for a while.

        Raises NotAsExpected when that does not happen in time.
        """
        deadline = time.monotonic() + STEP_SECONDS
        while time.monotonic() < deadline:
            latest = max(
                (r.at for r in self._proxy.requests if not r.of_collection),
                default=0.0,
            )
            left = latest + QUIET_SECONDS - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(left)
        raise NotAsExpected("the operator sends requests although nothing happens")

    async def _write_pod(self, run: PlayedRun, role: str, status: Json) -> None:
        pod = self._picture.pod(run.name, role)
        if pod is None:
            raise NotAsExpected(f"{run.name} has no {role} pod")
        path = f"{PATHS['Pod'].format(self._namespace)}/{pod['metadata']['name']}/status"
        await self._api.ask("PATCH", path, status, merge=True)

    async def _each(self, deed: Callable[[PlayedRun], Awaitable[object]]) -> None:
        """Await `deed` for every run, a few at a time."""
        places = asyncio.Semaphore(AT_ONCE)

        async def do(run: PlayedRun) -> None:
            async with places:
                await deed(run)

        await asyncio.gather(*(do(run) for run in self._runs))

    def _report(self, what: str) -> None:
        usage = self._operator.usage()
        cpu = (
            f"{usage.cpu_seconds:.1f} s of CPU, {usage.kept_waiting_seconds:.1f} s waiting for a "
            "core"
        )
        self._say(f"{what} [operator: {usage.rss_mib:.0f} MiB, {cpu}]")


def _role(body: Json) -> str | None:
    role: str | None = body["metadata"].get("labels", {}).get(names.LABEL_ROLE)
    return role
