"""The operator as a process of its own, with its own identity and only the chart's rights."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from _ports import free_port
from prometheus_client.parser import text_string_to_metric_families

from runs_kit.cluster import Cluster, Json

ROOT = Path(__file__).parents[2]
NAME = "benchrun"
TOKEN_SECONDS = 6 * 3600
STOP_SECONDS = 20.0
START_SECONDS = 60.0
AS_IN_THE_IMAGE = """
import runpy, sys
sys.modules["kubernetes_validate"] = None  # a tool of the tests, which kubernetes loads, \
with jsonschema, where it is there
runpy.run_module("benchrun.runtime", run_name="__main__")
"""
OWN_CLOCK = """
import pathlib, time
wall, ahead = time.time, pathlib.Path({path!r})
time.time = lambda: wall() + float(ahead.read_text() or 0)
"""
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """The kernel's figures on a process."""

    rss_mib: float
    peak_rss_mib: float
    cpu_seconds: float
    """User and system CPU seconds since the process started."""
    kept_waiting_seconds: float
    """Seconds in which the process was ready to run while other work held the machine's cores: no
    fault of the operator."""


class OperatorProcess:
    """`python -m benchrun.runtime` on this machine, connected to the API server through the proxy.

    It has the packages of the image and no others.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        *,
        api_url: str,
        directory: Path,
        watched: tuple[str, ...] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare the process without starting it.

        `watched` holds the namespaces it works in, its own if empty. `settings` are environment
        variables it gets besides the usual ones.
        """
        self._cluster = cluster
        self._namespace = namespace
        self._watched = watched or (namespace,)
        self._settings = settings or {}
        self._api_url = api_url
        self._directory = directory
        self._process: asyncio.subprocess.Process | None = None
        self._clock = directory / "clock"
        self.log = directory / "operator.log"

    async def start(self) -> None:
        """Grant its rights, launch it and wait until it is ready.

        Raises RuntimeError with the end of its log when it does not become ready.
        """
        await self.grant()
        await self.launch()
        await self.until_ready()

    async def grant(self) -> None:
        """Grant it the chart's rights, and no others."""
        await _grant(self._namespace, self._watched)

    def set_clock(self, *, ahead_seconds: float) -> None:
        """Put the clock of its node ahead by so many seconds from now on.

        It takes effect only if it was also called before the launch.
        """
        self._clock.write_text(str(ahead_seconds))

    async def launch(self, *, clock_ahead_seconds: float | None = None) -> None:
        """Start its process; it may not be ready yet.

        With `clock_ahead_seconds` the clock of its node is ahead by so much.
        """
        if clock_ahead_seconds is not None:
            self.set_clock(ahead_seconds=clock_ahead_seconds)
        port = free_port()
        kubeconfig = self._directory / "operator.kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(json.dumps(await self._kubeconfig()))
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._directory),
            "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'client-image'}",
            "KUBECONFIG": str(kubeconfig),
            "BENCHRUN_CLIENT_IMAGE": "docker.io/benchrun/client:scale",
            "BENCHRUN_NAMESPACES": ",".join(self._watched),
            "BENCHRUN_NAMESPACE": self._namespace,
            "BENCHRUN_NETWORK_POLICIES": "true",
            "BENCHRUN_LISTEN": f"127.0.0.1:{port}",
            "BENCHRUN_LOG_FORMAT": "plain",
            **self._settings,
        }
        with self.log.open("ab") as log:
            clock = (
                OWN_CLOCK.format(path=str(self._clock))
                if self._clock.exists()
                else ""
            )
            command = (sys.executable, "-c", clock + AS_IN_THE_IMAGE)
            self._process = await asyncio.create_subprocess_exec(
                *command, env=environment, stdout=log, stderr=log
            )
        self._url = f"http://127.0.0.1:{port}"

    async def is_ready(self) -> bool:
        """Return whether the operator reports that it is ready."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{self._url}/readyz") as answer,
            ):
                return answer.ok
        except aiohttp.ClientConnectionError:
            return False

    async def until_ready(self) -> None:
        """Wait until it reports that it is ready.

        Raises RuntimeError with the end of its log when it has ended or is not ready in time.
        """
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            self.usage()
            if await self.is_ready():
                return
            await asyncio.sleep(0.1)
        raise RuntimeError(
            f"the operator is not ready after {START_SECONDS:.0f} s: {self.last_words()}"
        )

    @property
    def has_ended(self) -> bool:
        """Return whether there is no running process."""
        return self._process is None or self._process.returncode is not None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal at once, if it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)

    async def stop(self) -> None:
        """Terminate it, and kill it when it does not end in time."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                self._process.kill()
            await self._process.wait()

    async def kill(self) -> None:
        """Kill it with SIGKILL, whatever it is doing; `start` begins anew.

        Raises RuntimeError when it has ended already.
        """
        if self._process is None or self._process.returncode is not None:
            raise RuntimeError(f"the operator has ended: {self.last_words()}")
        self._process.kill()
        await self._process.wait()

    def usage(self) -> Usage:
        """Return its memory and CPU use by now. Raises RuntimeError when the operator has ended."""
        if self._process is None or self._process.returncode is not None:
            raise RuntimeError(f"the operator has ended: {self.last_words()}")
        own = Path("/proc") / str(self._process.pid)
        fields = dict(
            line.split(":", 1) for line in (own / "status").read_text().splitlines()
        )
        user, system = (own / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
        return Usage(
            rss_mib=_mib(fields["VmRSS"]),
            peak_rss_mib=_mib(fields["VmHWM"]),
            cpu_seconds=(int(user) + int(system)) / _TICKS_A_SECOND,
            kept_waiting_seconds=kept_waiting_seconds(self._process.pid),
        )

    async def decide_p99_ms(self) -> float:
        """Return a bound of the p99 of its decisions' CPU times, in milliseconds.

        It is the upper bound of the histogram bucket that holds the p99.
        """
        buckets = await self.buckets("benchrun_decision_cpu_seconds")
        wanted = 0.99 * max(buckets.values())
        return 1000 * min(
            bound for bound, count in buckets.items() if count >= wanted
        )

    async def buckets(self, histogram: str) -> dict[float, float]:
        """Return one of its histograms: bucket bound -> how many observations were at most that."""
        return {
            float(labels["le"]): value
            for name, labels, value in await self._samples()
            if name == f"{histogram}_bucket"
        }

    async def gauge(self, wanted: str) -> float:
        """Return the value of one of its metrics that has no labels."""
        return next(
            value for name, _, value in await self._samples() if name == wanted
        )

    async def _samples(self) -> list[tuple[str, dict[str, str], float]]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self._url}/metrics") as answer,
        ):
            page = await answer.text()
        return [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        ]

    def last_words(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    async def _kubeconfig(self) -> Json:
        """Build a kubeconfig for the operator's ServiceAccount, with a token of its own."""
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{NAME}/token"
        answer = await self._cluster.ask(
            "POST", path, {"spec": {"expirationSeconds": TOKEN_SECONDS}}
        )
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "counted", "cluster": {"server": self._api_url}}],
            "users": [
                {"name": "operator", "user": {"token": answer["status"]["token"]}}
            ],
            "contexts": [
                {
                    "name": "counted",
                    "context": {"cluster": "counted", "user": "operator"},
                }
            ],
            "current-context": "counted",
        }


def kept_waiting_seconds(pid: int) -> float:
    """Return how long a process was ready to run while the cores were busy with something else.

    Only its main thread counts, where all that matters happens.
    """
    schedule = (Path("/proc") / str(pid) / "schedstat").read_text()
    return int(schedule.split()[1]) / 1e9  # nanoseconds


async def refuse_rivals(cluster: Cluster) -> None:
    """Raise RuntimeError when an operator is installed that works in all namespaces.

    Two operators would fight over every run.
    """
    installed = await cluster.ask(
        "GET",
        f"/apis/apps/v1/deployments?labelSelector=app.kubernetes.io/name={NAME}",
    )
    for deployment in installed["items"]:
        meta = deployment["metadata"]
        spec = deployment["spec"]
        settings = {
            e["name"]: e.get("value")
            for c in spec["template"]["spec"]["containers"]
            for e in c.get("env", ())
        }
        if spec.get("replicas") != 0 and not settings.get("BENCHRUN_NAMESPACES"):
            where = f"{meta['namespace']}/{meta['name']}"
            raise RuntimeError(
                f"Deployment {where} is an operator of the whole cluster; scale it to 0 or "
                "uninstall it"
            )


async def _grant(namespace: str, watched: tuple[str, ...]) -> None:
    """Apply ServiceAccount, Roles and bindings as the chart renders them."""
    chart = [
        "helm",
        "template",
        NAME,
        str(ROOT / "charts" / "benchrun"),
        f"--namespace={namespace}",
    ]
    chart += [
        "--set=rbac.scope=namespace",
        f"--set=watchNamespaces={{{','.join(watched)}}}",
        "--set=rbac.aggregateRoles=false",
        f"--set=fullnameOverride={NAME}",
    ]
    chart += [
        "--set=image.repository=none.invalid/operator",
        "--set=clientImage.repository=none.invalid/client",
    ]
    chart += [
        f"--show-only=templates/{name}.yaml"
        for name in ("role", "own-role", "serviceaccount")
    ]
    await command("kubectl", "apply", "--filename=-", stdin=await command(*chart))


async def command(*arguments: str, stdin: str = "") -> str:
    """Run a command and return what it printed.

    Raises RuntimeError with its error output when it fails.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *arguments, stdin=pipe, stdout=pipe, stderr=pipe
    )
    printed, complaints = await process.communicate(stdin.encode())
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {complaints.decode().strip()}")
    return printed.decode()


def _mib(kilobytes: str) -> float:
    return int(kilobytes.split()[0]) / 1024
