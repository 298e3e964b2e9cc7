"""The story: apply all runs, restart the operator, serve and scrape half of them, let them end.

Before the restart all runs wait for GPUs. Meanwhile another tenant's servers are released.
"""

import asyncio
import re
import ssl
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from _outcome import NotAsExpected
from benchrun import names
from chaos_kit.chronicle import polled
from runs_kit.client import PlayedClient
from runs_kit.cluster import PATHS, Cluster, Json
from runs_kit.metrics_page import MetricsServer
from runs_kit.operator_process import OperatorProcess, refuse_rivals
from runs_kit.proxy import CountingProxy

from scale_kit import bare, manifests
from scale_kit.figures import (
    TARGETS,
    Figures,
    Window,
    added,
    page_cpu_seconds,
    percentile,
    whole_cores,
    writes_by_run,
)
from scale_kit.players import PlayedRun, Tenant, addresses

RUN_NAME = re.compile(r"(?:many|few|old)-\d{4,5}")
STEP_SECONDS = 1200.0
"""Longest wait for any step; the figures judge the speed."""
QUIET_SECONDS = 3.0
AFTER_RESTART_SECONDS = 15.0
ALONE_SECONDS = 20.0
SLICE_SECONDS = 4.0
FEW_STAGE_SECONDS = 1.0
LATE_STAGE_SECONDS = 2.0
BEFORE_RESTART = ("runs are applied", "clients get ready")
AFTER_RESTART = ("servers get ready", "stages end", "runs end")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scale:
    """How many runs, and how long."""

    runs: int
    ended: int
    """Number of runs that have ended when the operator starts again."""
    scrape_seconds: float


class Scenario:
    """One performance of the story."""

    def __init__(
        self, scale: Scale, api: Cluster, directory: Path, say: Say
    ) -> None:
        mark = f"scale-{uuid.uuid4().hex[:6]}"
        self._scale = scale
        self._api = api
        self._say = say
        self._home = f"{mark}-home"
        self._old = f"{mark}-old"
        self._bare = f"{mark}-bare"
        self._pages = MetricsServer()
        at = addresses()
        self._many = self._tenant(f"{mark}-many", "many", scale.runs, at)
        others = len(BEFORE_RESTART) + len(AFTER_RESTART)
        self._few = self._tenant(f"{mark}-few", "few", others, at)
        for run in self._few.runs.values():
            run.stage_seconds = FEW_STAGE_SECONDS
        self._few.kubelets.set()
        tls = ssl.create_default_context(cafile=api.authority)
        self._proxy = CountingProxy(api.url, tls=tls, run_name=RUN_NAME)
        self._directory = directory
        self._releases: dict[str, float] = {}

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, scale: Scale, directory: Path, say: Say
    ) -> AsyncIterator["Scenario"]:
        """Yield a scenario with everything but the operator running; remove it all afterwards."""
        api = await Cluster.connect()
        try:
            await refuse_rivals(api)
            scenario = cls(scale, api, directory, say)
            async with scenario._open():
                yield scenario
        finally:
            await api.close()

    async def play(self) -> Figures:
        """Play the whole story and return its figures.

        Raises NotAsExpected when something does not hold that must hold at any speed.
        """
        try:
            return await self._measured()
        except NotAsExpected:
            self._say(f"the operator's last words: {self._operator.last_words()}")
            raise

    @property
    def _everywhere(self) -> tuple[str, ...]:
        return (*self._watched, self._home, self._bare)

    @property
    def _watched(self) -> tuple[str, ...]:
        return (self._many.namespace, self._few.namespace, self._old)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        made: list[str] = []
        try:
            for name in self._everywhere:
                await self._api.ask(
                    "POST", "/api/v1/namespaces", {"metadata": {"name": name}}
                )
                made.append(name)
            tenants = (self._many, self._few)
            await self._pages.start(
                [r.address for t in tenants for r in t.runs.values()]
            )
            await self._proxy.start()
            self._operator = OperatorProcess(
                self._api,
                self._home,
                api_url=self._proxy.url,
                directory=self._directory,
                watched=self._watched,
            )
            for tenant in tenants:
                tenant.start()
            yield
        finally:
            # First delete what would outlive this process; the rest ends with it anyway.
            for name in made:
                await self._api.ask("DELETE", f"/api/v1/namespaces/{name}")
            if made == list(self._everywhere):
                await self._operator.stop()
            await asyncio.gather(self._many.stop(), self._few.stop())
            self._proxy.stop()
            self._pages.stop()

    def _tenant(
        self, namespace: str, name: str, runs: int, at: Iterable[str]
    ) -> Tenant:
        free = iter(at)
        played = [
            PlayedRun(
                f"{name}-{n:04d}",
                namespace,
                address := next(free),
                PlayedClient(address),
            )
            for n in range(runs)
        ]
        return Tenant(self._api, namespace, self._pages, runs=played)

    # ---- the story

    async def _measured(self) -> Figures:
        await self._operator.start()
        self._report("operator ready")
        await self._prepare(BEFORE_RESTART)
        bare_seconds, children_seconds = await self._make_children()
        await self._wait_for_gpus()
        before = await self._operator.buckets("benchrun_reconcile_seconds")
        peak = self._operator.usage().peak_rss_mib
        converged, writes = await self._restart()
        await self._prepare(AFTER_RESTART)
        cpu, scrape = await self._scrape()
        await self._end()
        after = await self._operator.buckets("benchrun_reconcile_seconds")
        passes = added((before, after))
        return Figures(
            runs=len(self._many.runs),
            bare_seconds=round(bare_seconds, 2),
            children_seconds=round(children_seconds, 2),
            children_ratio=round(children_seconds / bare_seconds, 2),
            writes_per_run=self._most_writes(),
            reconcile_p50_ms=1000 * percentile(passes, 0.5),
            reconcile_p99_ms=1000 * percentile(passes, 0.99),
            rss_mib=round(max(peak, self._operator.usage().peak_rss_mib), 1),
            cpu_cores=round(cpu, 3),
            restart_converged_seconds=round(converged, 2),
            restart_writes=writes,
            scrape_cores_500=round(scrape, 3),
            other_tenant_release_seconds=round(max(self._releases.values()), 2),
        )

    async def _make_children(self) -> tuple[float, float]:
        """Return the seconds that the script took, and the seconds that the operator took.

        They take turns on the same API server: half of the script's runs come before the
        operator's, half after.
        """
        runs = self._scale.runs
        bare_seconds = await bare.make(self._api, self._bare, range(runs // 2))
        self._report(f"a script made {runs // 2} in {bare_seconds:.2f} s")
        release = asyncio.create_task(
            self._release_at(0, lambda: self._made() >= runs // 3)
        )
        children_seconds = await self._apply()
        await release
        self._report(f"the operator made {runs} in {children_seconds:.2f} s")
        await self._until_quiet()
        rest = await bare.make(self._api, self._bare, range(runs // 2, runs))
        self._report(f"a script made {runs - runs // 2} in {rest:.2f} s")
        return bare_seconds + rest, children_seconds

    async def _apply(self) -> float:
        """Apply all runs; return the seconds from the first apply until the last child exists.

        Time in which the operator waited for a core does not count.
        """
        many = self._many
        began = time.monotonic()
        waited = self._operator.usage().kept_waiting_seconds
        await bare.each(
            many.runs.values(),
            lambda run: many.apply(run, manifests.run(run.name, many.namespace)),
        )
        self._report(f"all runs are applied after {time.monotonic() - began:.2f} s")
        wanted = [
            child
            for run in many.runs.values()
            for child in many.first_children(run)
        ]
        seen = many.picture.first_seen
        await self._until(
            lambda: all(child in seen for child in wanted),
            "every run has its first children",
        )
        waited = self._operator.usage().kept_waiting_seconds - waited
        seconds = max(seen[child] for child in wanted) - began
        self._report(f"the children of all are there after {seconds:.2f} s")
        return seconds - waited

    def _made(self) -> int:
        return len(self._many.picture.objects["Job"])

    async def _wait_for_gpus(self) -> None:
        """Let all clients become ready, and wait until every run waits for a node."""
        many = self._many
        many.kubelets.set()
        half = len(many.runs) // 2
        release = asyncio.create_task(
            self._release_at(
                1, lambda: sum(r.has_client for r in many.runs.values()) >= half
            )
        )
        await self._until_all("waits_for_gpu", many.runs.values())
        await release
        await self._until(
            lambda: all(
                many.phase(run) == "WaitingForNode" for run in many.runs.values()
            ),
            "every run waits for a node",
        )
        await self._until_quiet()
        self._report("every run waits for a GPU")

    async def _restart(self) -> tuple[float, int]:
        """Kill the operator, add ended runs, and launch it anew.

        Return the seconds until it has reconciled everything, and the number of its writes. Time in
        which it waited for a core does not count.
        """
        like = await self._ended_run()
        await self._operator.kill()
        await bare.each(
            range(self._scale.ended), lambda number: self._make_ended(number, like)
        )
        self._say(f"{self._scale.ended} runs that have ended are there")
        began = time.monotonic()
        await self._operator.launch()
        await self._until_converged()
        seconds = time.monotonic() - began
        usage = self._operator.usage()
        self._report(f"it has looked at everything after {seconds:.1f} s")
        await asyncio.sleep(AFTER_RESTART_SECONDS)
        writes = [r for r in self._proxy.requests if r.at >= began and r.writes]
        return seconds - usage.kept_waiting_seconds, len(writes)

    async def _ended_run(self) -> Json:
        run = self._few.runs["few-0000"]
        await self._until(
            lambda: self._few.phase(run) == "Completed",
            "the other tenant's first run has ended",
        )
        return self._few.picture.objects[names.KIND][run.name]

    async def _make_ended(self, number: int, like: Json) -> None:
        body, status = manifests.ended(f"old-{number:05d}", self._old, like)
        path = PATHS[names.KIND].format(self._old)
        await self._api.ask("POST", path, body)
        await self._api.ask(
            "PATCH", f"{path}/{body['metadata']['name']}/status", status, merge=True
        )

    async def _until_converged(self) -> None:
        """Wait until the operator is ready, follows every client and has an empty queue.

        Raises NotAsExpected when that does not happen in time.
        """
        deadline = time.monotonic() + STEP_SECONDS
        while time.monotonic() < deadline:
            self._operator.usage()
            if await self._operator.is_ready():
                active = await self._operator.gauge("benchrun_active_runs")
                depth = await self._operator.gauge("benchrun_queue_depth")
                if active >= len(self._many.runs) and depth == 0:
                    return
            await asyncio.sleep(0.2)
        raise NotAsExpected("the operator that was started once more is not done")

    async def _scrape(self) -> tuple[float, float]:
        """Scrape half of the runs while they measure.

        Return the cores used meanwhile, and the cores that `TARGETS` pages a second take.
        """
        scraped = list(self._many.runs.values())[: len(self._many.runs) // 2]
        stage_seconds = self._scale.scrape_seconds / (manifests.STAGES - 1)
        release = asyncio.create_task(
            self._release_at(
                2, lambda: sum(map(self._is_read, scraped)) >= len(scraped) // 3
            )
        )
        for number, run in enumerate(scraped):
            run.first_seconds = stage_seconds * number / len(scraped)
            run.stage_seconds = stage_seconds
            run.wake()
        await self._until(
            lambda: all(map(self._is_read, scraped)), "every server is read"
        )
        await release
        self._report(f"{len(scraped)} servers are read")
        release = asyncio.create_task(self._release_at(3, lambda: True))
        window = await self._window(self._scale.scrape_seconds)
        await release
        self._report(_in_words("while stages end", window))
        await self._until_all("has_measured", scraped)
        quiet = await self._quiet_window()
        a_page = page_cpu_seconds(quiet)
        self._say(f"a page takes {1000 * a_page:.2f} ms of CPU")
        return whole_cores(
            window, targets=len(scraped), a_page=a_page
        ), TARGETS * a_page

    def _is_read(self, run: PlayedRun) -> bool:
        return self._pages.readings[run.address] > 0

    async def _end(self) -> None:
        """End all measured runs at once; then let the others have the GPUs and end, too."""
        many = self._many
        began = time.monotonic()
        first = [run for run in many.runs.values() if run.has_measured]
        release = asyncio.create_task(
            self._release_at(4, lambda: len(many.released) > 0)
        )
        for run in first:
            run.may_finish = True
            run.wake()
        await self._until(
            lambda: all(run.name in many.released for run in first),
            "every server is released",
        )
        await release
        self._report(f"servers are released {time.monotonic() - began:.1f} s later")
        for run in many.runs.values():
            run.may_finish = True
            run.stage_seconds = run.stage_seconds or LATE_STAGE_SECONDS
            run.wake()
        await self._until(
            lambda: all(
                many.phase(run) == "Completed" for run in many.runs.values()
            ),
            "every run is Completed",
        )
        self._report(
            f"all runs are Completed {time.monotonic() - began:.1f} s later"
        )
        await self._until_all("has_succeeded", many.runs.values())
        await self._until_quiet()
        self._check_results()

    # ---- the other tenant

    async def _prepare(self, moments: Iterable[str]) -> None:
        """Let a run for each moment measure all but its last record, which holds its server."""
        order = (*BEFORE_RESTART, *AFTER_RESTART)
        runs = [self._few_run(order.index(moment)) for moment in moments]
        for run in runs:
            await self._few.apply(run, manifests.run(run.name, self._few.namespace))
        await self._until_all("has_measured", runs)
        await self._until_quiet(but_live=True)

    async def _release_at(self, number: int, holds: Callable[[], bool]) -> None:
        """Let the other tenant's run of that number hand out its last record once `holds` is true.

        The time until its server is released is noted.
        """
        run = self._few_run(number)
        moment = (*BEFORE_RESTART, *AFTER_RESTART)[number]
        await self._until(holds, moment)
        began = time.monotonic()
        waited = self._operator.usage().kept_waiting_seconds
        run.may_finish = True
        run.wake()
        await self._until(
            lambda: run.name in self._few.released, f"{run.name} is released"
        )
        waited = self._operator.usage().kept_waiting_seconds - waited
        share = 1 - min(1.0, waited / (time.monotonic() - began))
        seconds = self._few.released[run.name] - began
        self._releases[moment] = share * seconds
        self._report(
            f"another tenant's server is released in {seconds:.2f} s while {moment}"
        )

    def _few_run(self, number: int) -> PlayedRun:
        return self._few.runs[f"few-{number:04d}"]

    # ---- looking

    async def _window(self, seconds: float) -> Window:
        usage = self._operator.usage()
        read = self._read()
        began = time.monotonic()
        await asyncio.sleep(seconds)
        used = self._operator.usage().cpu_seconds - usage.cpu_seconds
        return Window(time.monotonic() - began, used, self._read() - read)

    def _read(self) -> int:
        return self._pages.readings.total()

    async def _quiet_window(self) -> Window:
        """Measure some windows in which nothing happens but routine work; return the middle one.

        So an occasional list of everything is not in it.
        """
        number = round(ALONE_SECONDS / SLICE_SECONDS)
        windows = [await self._window(SLICE_SECONDS) for _ in range(number)]
        middle = median(window.cores for window in windows)
        found = min(windows, key=lambda window: abs(window.cores - middle))
        self._report(_in_words("while nothing happens", found))
        return found

    def _most_writes(self) -> int:
        of_no_run = [
            r
            for r in self._proxy.requests
            if r.writes and r.run is None and r.resource != "secrets"
        ]
        if of_no_run:
            raise NotAsExpected(
                f"writes belong to no run, for example {of_no_run[0]}"
            )
        by_run = writes_by_run(self._proxy.requests)
        most = max(self._many.runs, key=lambda run: by_run[run])
        kinds = Counter(
            f"{r.method} {r.resource}"
            for r in self._proxy.requests
            if r.run == most and r.writes and not r.live_only
        )
        self._report(f"writes of {most}: {dict(kinds.most_common())}")
        asked = Counter(f"{r.method} {r.resource}" for r in self._proxy.requests)
        per_run = len(self._proxy.requests) / len(self._many.runs)
        self._report(f"{per_run:.1f} requests a run: {dict(asked.most_common(12))}")
        return by_run[most]

    def _check_results(self) -> None:
        many = self._many
        stored = Counter(
            body["metadata"]["labels"][names.LABEL_RUN]
            for body in many.picture.objects["ConfigMap"].values()
            if body["metadata"].get("labels", {}).get(names.LABEL_ROLE)
            == names.ROLE_STAGE
        )
        for name in many.runs:
            status = many.picture.objects[names.KIND][name]["status"]
            if (
                status["verdict"] not in ("Valid", "Suspect")
                or stored[name] != manifests.STAGES
            ):
                raise NotAsExpected(
                    f"{name}: {stored[name]} records, {status['verdict']}: {status['message']}"
                )

    async def _until_all(self, attribute: str, runs: Iterable[PlayedRun]) -> None:
        wanted = tuple(runs)
        await self._until(
            lambda: all(getattr(run, attribute) for run in wanted),
            f"{attribute} of every run",
        )

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + STEP_SECONDS
        while not await polled(holds, seconds=1.0):
            self._operator.usage()
            self._many.check()
            self._few.check()
            if time.monotonic() > deadline:
                phases = Counter(
                    self._many.phase(run) for run in self._many.runs.values()
                )
                raise NotAsExpected(
                    f"not within {STEP_SECONDS:.0f} s: {what}; {dict(phases)}"
                )

    async def _until_quiet(self, *, but_live: bool = False) -> None:
        """Wait until the operator has sent no request about any run for a while.

        With `but_live`, writes of `status.live` alone do not count.
        """

        def latest() -> float:
            recent = reversed(self._proxy.requests)
            asked = (
                r.at
                for r in recent
                if not r.of_collection and not (but_live and r.live_only)
            )
            return next(asked, 0.0)

        await self._until(
            lambda: time.monotonic() - latest() >= QUIET_SECONDS,
            "the operator is quiet",
        )

    def _report(self, what: str) -> None:
        usage = self._operator.usage()
        memory = f"{usage.rss_mib:.0f} MiB, at most {usage.peak_rss_mib:.0f}"
        cpu = f"{usage.cpu_seconds:.1f} s of CPU"
        waiting = f"{usage.kept_waiting_seconds:.1f} s waiting for a core"
        self._say(f"{what} [operator: {memory}, {cpu}, {waiting}]")


def _in_words(when: str, window: Window) -> str:
    read = f"{window.pages / window.seconds:.0f} pages a second"
    return f"{when}: {window.cores:.3f} cores, {read}, for {window.seconds:.0f} s"
