"""One experiment: servers, client, scraping once a second, and the judge at the end.

It is done as in a real run, but without a cluster.
"""

import asyncio
import json
import secrets
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any

import httpx
from benchrun.api import (
    MAX_COMPILATIONS,
    BenchmarkRunSpec,
    CompiledKernels,
    ServerStatus,
    Severity,
)
from benchrun.judge.results import Judged, results
from benchrun.measure.metrics_page import Sample, UnreadableMetrics, parse_sample
from benchrun.plan import Owner, load_points, plan_of_client
from benchrun_client.contract import (
    TOKEN_HEADER,
    Acknowledgement,
    ClientProgress,
    Plan,
    StageRecord,
    digest_of_token,
    open_record,
    unpack_delivery,
)
from benchrun_client.engines import ENGINES

from truth_kit.physical import (
    Standstill,
    core_wait_seconds,
    counting_waits,
    cpu_periods,
    cpu_quota,
    delaying,
    losing,
    neighbours,
    run_ahead,
    stand_still,
    waited_seconds,
)
from truth_kit.processes import TINY_MODEL, Server, client, free_port, server

VLLM = ENGINES["VLLM"]

TOKEN = secrets.token_hex(32)
SHOWN = {TOKEN_HEADER: TOKEN}
PATIENCE_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What to measure, and what the judge must say of it."""

    name: str
    workloads: Sequence[Mapping[str, Any]]
    servers: Sequence[Sequence[str]] = ((),)
    """Flags of each server."""
    real_servers: bool = False
    """Whether the servers are vLLM on CPUs instead of simulated ones; they have no log of their
    own."""
    repeats: int = 1
    about_seconds: float = 0.0
    """Approximate duration; the longest experiments begin first, so that none is left over at the
    end."""
    measurement: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, Severity] = field(default_factory=dict)
    evidence: Mapping[str, str] = field(default_factory=dict)
    """Values that the evidence of one of the expected findings must have, by key of the
    evidence."""
    client_cpu_share: float | None = None
    """Share of a core for the client once it measures; None: no limit."""
    client_stopped: Standstill | None = None
    server_cpu_share: float | None = None
    """Share of a core for the first server; None: no limit."""
    server_stopped: Standstill | None = None
    path_delay_ms: float = 0.0
    """Delay of everything between client and server, each way."""
    path_loss_percent: float = 0.0
    """Share of the packets between them that are lost."""
    neighbours: int = 0
    """Number of other processes that keep the CPU busy."""
    read_servers: bool = True
    """Whether the operator can read the servers' metrics pages."""
    environment: Mapping[str, str] = field(default_factory=dict)
    allow_reset: bool = False
    client_processes: int = 1
    client_ahead: bool = False
    """Whether the client, once it measures, runs before all processes of ordinary priority, as if
    it had a core to itself; `servers_ahead` does the same for the servers."""
    servers_ahead: bool = False
    threads_ahead: bool = False
    """Whether the processes and threads that they start run ahead, too."""
    traffic: str = ""
    """Experiments with the same word send the same prompts at the same instants; an empty word: the
    experiment has traffic of its own."""

    def spec(self, url: str) -> BenchmarkRunSpec:
        """Build the BenchmarkRun spec for an endpoint, as a person would write it."""
        endpoint: dict[str, Any] = {"url": url} | (
            {"allowCacheReset": True} if self.allow_reset else {}
        )
        return BenchmarkRunSpec.model_validate(
            {
                "model": {
                    "name": "tiny",
                    "source": {"path": {"path": str(TINY_MODEL)}},
                },
                "endpoint": endpoint,
                "workloads": [dict(workload) for workload in self.workloads],
                "repeats": self.repeats,
                "client": {"parallelism": self.client_processes},
                "measurement": {"warmup": {"none": {}}, **self.measurement},
            }
        )


@dataclass(frozen=True)
class Outcome:
    """The results of an experiment."""

    spec: BenchmarkRunSpec
    records: tuple[StageRecord, ...]
    samples: tuple[Sample, ...]
    compilations: tuple[float, ...]
    truth: tuple[Mapping[str, Any], ...]
    """Log of the servers, one object per finished request."""
    wall_seconds: float
    waited_share: float = 0.0
    """Share of the measuring that the client or a server, whichever more, waited for a core."""

    @cached_property
    def judged(self) -> Judged:
        """Return the judge's results for the stages that have records."""
        measured = {record.stage_id for record in self.records}
        of_load_points = (
            replace(c, stage_ids=tuple(s for s in c.stage_ids if s in measured))
            for c in load_points(self.spec)
        )
        kept = [load_point for load_point in of_load_points if load_point.stage_ids]
        known = CompiledKernels(
            count=len(self.compilations),
            at=list(self.compilations[:MAX_COMPILATIONS]),
        )
        servers = [ServerStatus(engine="VLLM", role="server", compilations=known)]
        return results(
            kept, self.records, self.samples, spec=self.spec, servers=servers
        )


class Failed(RuntimeError):
    """The client gave up; the text is its own."""


async def measure_all(
    experiments: Sequence[Experiment],
    *,
    lanes: int,
    say: Callable[[str], None],
    as_listed: bool = False,
) -> AsyncIterator[tuple[Experiment, Outcome]]:
    """Run the experiments, `lanes` at a time, and yield each with its outcome as it ends.

    One that fails is reported with `say` and left out. `as_listed`: neighbours in the list are run
    in the same minute; otherwise the longest begin first.
    """
    lane = asyncio.Semaphore(lanes)

    async def one(experiment: Experiment) -> tuple[Experiment, Outcome | Failed]:
        async with lane:
            try:
                return experiment, await measure(experiment)
            except Failed as failure:
                return experiment, failure

    # Experiments of one kind are neighbours in the list, and would want the same resources at once.
    mixed = Random(1).sample(experiments, len(experiments))
    longest_first = sorted(mixed, key=lambda experiment: -experiment.about_seconds)
    order = experiments if as_listed else longest_first
    for ended in asyncio.as_completed(
        [asyncio.create_task(one(each)) for each in order]
    ):
        experiment, outcome = await ended
        if isinstance(outcome, Failed):
            say(f"{experiment.name}: {outcome}")
            continue
        say(
            f"{experiment.name}: {len(outcome.records)} stages in {outcome.wall_seconds:.0f} s"
        )
        yield experiment, outcome


async def measure(experiment: Experiment) -> Outcome:
    """Run an experiment. Raises Failed when the client could not measure it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="truth-") as name:
        folder = Path(name)
        async with AsyncExitStack() as stack:
            start = partial(
                server,
                folder,
                environment=dict(experiment.environment),
                real=experiment.real_servers,
            )
            servers = [
                await stack.enter_async_context(start(flags))
                for flags in experiment.servers
            ]
            spec = experiment.spec(await _on_its_way(stack, experiment, servers[0]))
            records, samples, waited = await _measure(
                stack, experiment, _plan(experiment, spec, servers), servers, folder
            )
        # Read once the servers have ended: they write their log when they have time.
        truth = tuple(line for each in servers for line in read_log(each))
    compilations = tuple(at for each in servers for at in each.compilations)
    return Outcome(
        spec,
        tuple(records),
        tuple(samples),
        compilations,
        truth,
        time.monotonic() - began,
        waited,
    )


async def measure_at(experiment: Experiment, at: Server) -> Outcome:
    """Run an experiment against a server that is there already and keeps running.

    The outcome has no truth: the log is whole only once the server has ended. Raises Failed when
    the client could not measure it.
    """
    began = time.monotonic()
    spec = experiment.spec(at.url)
    with tempfile.TemporaryDirectory(prefix="truth-") as folder:
        async with AsyncExitStack() as stack:
            records, samples, waited = await _measure(
                stack, experiment, _plan(experiment, spec, [at]), [at], Path(folder)
            )
    wall = time.monotonic() - began
    return Outcome(spec, tuple(records), tuple(samples), (), (), wall, waited)


def stage_seeds(experiment: Experiment, at: Server) -> Sequence[int]:
    """Return the seed of each stage of an experiment, in the order in which they are sent."""
    return [
        stage.seed
        for stage in _plan(experiment, experiment.spec(at.url), [at]).stages
    ]


async def _on_its_way(
    stack: AsyncExitStack, experiment: Experiment, to: Server
) -> str:
    """Put in place what is to disturb server and path, and return the URL for the client."""
    if experiment.neighbours:
        to.waits = stack.enter_context(counting_waits(to.process))
    stack.enter_context(losing(to.port, experiment.path_loss_percent))
    if experiment.server_cpu_share is not None:
        to.group = stack.enter_context(
            cpu_quota(uuid.uuid4().hex[:8], experiment.server_cpu_share)
        )
        (to.group / "cgroup.procs").write_text(str(to.process.pid))
    if not experiment.path_delay_ms:
        return to.url
    port = free_port()
    await stack.enter_async_context(
        delaying(port, to.port, experiment.path_delay_ms)
    )
    return f"http://127.0.0.1:{port}"


async def _measure(
    stack: AsyncExitStack,
    experiment: Experiment,
    plan: Plan,
    servers: Sequence[Server],
    folder: Path,
) -> tuple[list[StageRecord], list[Sample], float]:
    plan_file = folder / "plan.json"
    plan_file.write_text(plan.to_json())
    group = None
    if experiment.client_cpu_share is not None:
        group = stack.enter_context(
            cpu_quota(uuid.uuid4().hex[:8], experiment.client_cpu_share)
        )
    process, url = await stack.enter_async_context(
        client(plan_file, group=group, processes=experiment.client_processes)
    )
    http = await stack.enter_async_context(
        httpx.AsyncClient(trust_env=False, timeout=30)
    )
    stops = [
        (each, stop)
        for each, stop in (
            (process, experiment.client_stopped),
            (servers[0].process, experiment.server_stopped),
        )
        if stop
    ]
    of_servers = [each.process for each in servers]
    waits = _Waits((process, *of_servers))
    ahead = [
        process
    ] * experiment.client_ahead + of_servers * experiment.servers_ahead

    def holds() -> None:
        """Begin to disturb what is measured, and let the chosen processes run ahead.

        This must not come earlier: processes that start want cores, too.
        """
        waits.begin()
        if group is not None:
            (group / "cgroup.procs").write_text(str(process.pid))
        for each in ahead:
            run_ahead(each, with_threads=experiment.threads_ahead)
        stack.enter_context(neighbours(experiment.neighbours))

    samples: list[Sample] = []
    read = servers if experiment.read_servers else ()
    scraping = [
        asyncio.create_task(_scrape(http, each, f"server-{n}", samples))
        for n, each in enumerate(read)
    ]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            records = await _pull(
                http, url, plan, process, holds=holds, stops=stops
            )
            return records, samples, waits.share()
    finally:
        for task in scraping:
            task.cancel()
        await asyncio.gather(*scraping, return_exceptions=True)


class _Waits:
    """How long processes wait for a core, from when the measuring begins."""

    def __init__(self, processes: Sequence[asyncio.subprocess.Process]) -> None:
        self._processes = processes
        self.begin()

    def begin(self) -> None:
        self._began = time.monotonic()
        self._before = [core_wait_seconds(each) for each in self._processes]

    def share(self) -> float:
        """Return the share of the time since then that the process waited that waited longest."""
        now = [core_wait_seconds(each) for each in self._processes]
        waited = max(b - a for a, b in zip(self._before, now, strict=True))
        return max(0.0, waited) / max(1e-3, time.monotonic() - self._began)


def _plan(
    experiment: Experiment, spec: BenchmarkRunSpec, servers: Sequence[Server]
) -> Plan:
    """Build the client's plan; it reads all servers, and sends to the first."""
    owner = Owner(
        namespace="lab", name="lab", uid=experiment.traffic or str(uuid.uuid4())
    )
    plan = plan_of_client(owner, spec, token_digest=digest_of_token(TOKEN))
    if len(servers) == 1:
        return plan
    pages = tuple(f"{each.url}/metrics" for each in servers)
    target = plan.target.model_copy(update={"metrics_urls": pages})
    return plan.model_copy(update={"target": target})


async def _pull(
    http: httpx.AsyncClient,
    url: str,
    plan: Plan,
    process: asyncio.subprocess.Process,
    *,
    holds: Callable[[], None],
    stops: Sequence[tuple[asyncio.subprocess.Process, Standstill]],
) -> list[StageRecord]:
    """Pull and acknowledge all records as the operator does, and return them.

    Raises Failed when the client ends or reports a failure.
    """
    records: list[StageRecord] = []
    seen = -1
    held = False
    standing: list[asyncio.Task[None]] = []
    while True:
        try:
            answer = await http.get(
                f"{url}/records",
                params={"from": len(records), "seen": seen, "wait": 5},
                headers=SHOWN,
            )
        except httpx.TransportError:
            if process.returncode is not None:
                raise Failed(
                    f"the client ended with {process.returncode} after {len(records)} records"
                ) from None
            await asyncio.sleep(0.2)
            continue
        delivery, bodies = unpack_delivery(answer.content)
        seen = delivery.progress.version
        _raise_if_failed(delivery.progress)
        if not held and delivery.progress.phase in ("WarmingUp", "Measuring"):
            held = True
            holds()
        began = delivery.progress.first_request_unix_us
        if stops and not standing and began is not None:
            standing = [
                asyncio.create_task(stand_still(of, stop, began_unix=began / 1e6))
                for of, stop in stops
            ]
        records += [open_record(body) for body in bodies]
        if bodies:
            said = Acknowledgement(through=len(records)).model_dump_json()
            await http.post(f"{url}/ack", content=said, headers=SHOWN)
        if len(records) == len(plan.stages):
            await asyncio.gather(*standing)
            return records


def _raise_if_failed(progress: ClientProgress) -> None:
    if progress.failure is not None:
        raise Failed(f"{progress.failure.reason}: {progress.failure.message}")


async def _scrape(
    http: httpx.AsyncClient, of: Server, pod: str, samples: list[Sample]
) -> None:
    due = asyncio.get_running_loop().time()
    while True:
        due += 1.0
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
        try:
            page = await http.get(f"{of.url}/metrics")
            page.raise_for_status()
            sample = parse_sample(
                page.text, VLLM, at=time.time(), role="server", pod=pod
            )
            if of.group is not None:
                periods, throttled = cpu_periods(of.group)
                sample = replace(
                    sample, cpu_periods=periods, cpu_throttled_periods=throttled
                )
            if of.waits is not None:
                sample = replace(
                    sample, cpu_waiting_seconds=waited_seconds(of.waits)
                )
            samples.append(sample)
        except (httpx.HTTPError, UnreadableMetrics):
            continue


def read_log(of: Server) -> list[dict[str, Any]]:
    """Return the lines of a simulated server's own log; none where it has no log."""
    if not of.truth.exists():
        return []
    return [
        json.loads(line)
        for line in of.truth.read_text().splitlines()
        if line.startswith("{")
    ]
