"""The process's own metrics and health: /healthz, /readyz and /metrics over HTTP."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

import prometheus_client
from aiohttp import web

from benchrun.api import BenchmarkRunStatus
from benchrun.observe import GpuUse, Key

MAX_LIVE_RUNS = 200
"""Most runs with their own gauges at a time; more would make the metrics too long."""
_FAST = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.015,
    0.02,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
_PREFIX = "benchrun_"
# figures of `status.live`, and their gauges
_LIVE = (
    ("running", "run_requests_running", "Requests running on the run's servers."),
    ("waiting", "run_requests_waiting", "Requests waiting on the run's servers."),
    (
        "kv_cache_percent",
        "run_kv_cache_percent",
        "KV cache in use on the run's servers, in percent.",
    ),
    (
        "generation_tokens_per_second",
        "run_generation_tokens_per_second",
        "Output tokens per second of the run's servers.",
    ),
    (
        "prompt_tokens_per_second",
        "run_prompt_tokens_per_second",
        "Prompt tokens per second of the run's servers.",
    ),
)


@dataclass(slots=True)
class Outcome:
    """How a timed block ended."""

    result: str = "success"


class Telemetry:
    """The operator's own metrics, which Prometheus scrapes."""

    def __init__(self, *, live_runs: int = MAX_LIVE_RUNS) -> None:
        self._most_live_runs = live_runs
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.PlatformCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)
        self._passes = self._count(
            "reconcile", "Reconciles of runs and sweeps, by result.", "result"
        )
        self._pass_seconds = self._histogram(
            "reconcile_seconds", "Seconds that a reconcile of a run or sweep takes."
        )
        self._decision_seconds = self._histogram(
            "decision_cpu_seconds",
            "CPU seconds that a reconcile takes to decide on a run.",
        )
        self._let_go = {
            "run": self._counter(
                "runs_let_go",
                "Runs that were ended because reconciles kept failing.",
            ),
            "sweep": self._counter(
                "sweeps_let_go",
                "Sweeps that were ended because reconciles kept failing.",
            ),
        }
        self.count_write = self._count(
            "api_writes",
            "Requests to the API server that change an object.",
            "verb",
            "resource",
            "code",
        )
        self._scrapes = self._count(
            "scrapes", "Scrapes of servers' metrics endpoints, by result.", "result"
        )
        self._scrape_seconds = self._histogram(
            "scrape_seconds", "Seconds that a scrape of a server's metrics takes."
        )
        self.records_taken = self._counter(
            "records", "Stage records taken from clients."
        ).inc
        self.records_refused = self._counter(
            "records_refused",
            "Answers and records of clients that the operator refused.",
        ).inc
        self.watch_event = self._count(
            "watch_events",
            "Events that watches received, by kind and type.",
            "kind",
            "type",
        )
        self.task_restarted = self._count(
            "tasks_restarted",
            "Background tasks that ended and were restarted.",
            "task",
        )
        self._unreadable = self._gauge(
            "namespace_unreadable",
            "1 if the last attempt to read the namespace failed, else 0.",
            "namespace",
        )
        self._gpu_seconds = self._counter(
            "gpu_seconds",
            "GPU seconds that servers of runs took while this process reconciled, by use.",
            "namespace",
            "use",
        )
        self.loop_lag_seconds = self._gauge(
            "event_loop_lag_seconds",
            "Seconds by which the event loop ran its last tick too late.",
        )
        self._live = {
            figure: self._gauge(name, meaning, "namespace", "run")
            for figure, name, meaning in _LIVE
        }
        self._live_runs: set[Key] = set()

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return prometheus_client.generate_latest(self.registry)

    def measured(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """Add a gauge whose value is read at every scrape."""
        self._gauge(name, meaning).set_function(value)

    def a_pass(self) -> AbstractContextManager[Outcome]:
        return self._timed(self._pass_seconds, self._passes, broken="error")

    @contextmanager
    def a_decision(self) -> Iterator[None]:
        """Time one decision in CPU time: time spent waiting for a core does not count."""
        began = time.thread_time()
        yield
        self._decision_seconds.observe(time.thread_time() - began)

    def a_scrape(self) -> AbstractContextManager[Outcome]:
        return self._timed(self._scrape_seconds, self._scrapes, broken="failure")

    def namespace_read(self, namespace: str, unreadable: bool) -> None:
        """Record whether a namespace could be listed."""
        self._unreadable.labels(namespace).set(unreadable)

    def gpus_used(self, namespace: str, seconds: Mapping[GpuUse, float]) -> None:
        """Count GPU seconds of a run, by what the GPUs were used for."""
        for use, more in seconds.items():
            self._gpu_seconds.labels(namespace, use).inc(more)

    def let_go(self, what: Literal["run", "sweep"]) -> None:
        """Count a run or sweep that was ended because its reconciles kept failing."""
        self._let_go[what].inc()

    def live(self, key: Key, status: BenchmarkRunStatus, *, ended: bool) -> None:
        """Show a run's live figures until it ends."""
        room = key in self._live_runs or len(self._live_runs) < self._most_live_runs
        if ended or status.live is None or not room:
            return
        self._live_runs.add(key)
        for name, gauge in self._live.items():
            value = getattr(status.live, name)
            gauge.labels(key.namespace, key.name).set(
                float("nan") if value is None else value
            )

    def forget(self, key: Key) -> None:
        if key in self._live_runs:
            self._live_runs.remove(key)
            for gauge in self._live.values():
                gauge.remove(key.namespace, key.name)

    @contextmanager
    def _timed(
        self,
        seconds: prometheus_client.Histogram,
        count: Callable[[str], None],
        *,
        broken: str,
    ) -> Iterator[Outcome]:
        """Time and count a block.

        `broken` is the result if the block raises without having set a result.
        """
        outcome = Outcome()
        started = time.perf_counter()
        try:
            yield outcome
        except Exception:
            outcome.result = (
                broken if outcome.result == "success" else outcome.result
            )
            raise
        finally:
            seconds.observe(time.perf_counter() - started)
            count(outcome.result)

    def _count(self, name: str, meaning: str, *labels: str) -> Callable[..., None]:
        """Return a new counter's increment, to be called with the values of its labels."""
        counter = self._counter(name, meaning, *labels)
        return lambda *values: counter.labels(*values).inc()

    def _counter(
        self, name: str, meaning: str, *labels: str
    ) -> prometheus_client.Counter:
        return prometheus_client.Counter(
            _PREFIX + name, meaning, labels, registry=self.registry
        )

    def _gauge(
        self, name: str, meaning: str, *labels: str
    ) -> prometheus_client.Gauge:
        return prometheus_client.Gauge(
            _PREFIX + name, meaning, labels, registry=self.registry
        )

    def _histogram(self, name: str, meaning: str) -> prometheus_client.Histogram:
        return prometheus_client.Histogram(
            _PREFIX + name, meaning, buckets=_FAST, registry=self.registry
        )


TICK_SECONDS = 1.0
MAX_LAG_SECONDS = 30.0
# most silence of a watch about a known change; Kopf renews a quiet stream after 70 s
MAX_SILENCE_SECONDS = 180.0


class Pulse:
    """Wakes up once a second, and measures how late it wakes up: the lag of the event loop."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._expected = 0.0

    async def beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._expected = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            self._telemetry.loop_lag_seconds.set(
                max(0.0, loop.time() - self._expected)
            )

    def lag_seconds(self) -> float:
        """Return by how many seconds the next beat is late already."""
        return max(0.0, asyncio.get_running_loop().time() - self._expected)


@dataclass(eq=False)
class Health:
    """The HTTP server that answers probes of the kubelet, and Prometheus."""

    telemetry: Telemetry
    _: KW_ONLY
    problems: Callable[[], list[str]]
    ready: Callable[[], bool]
    remarks: Callable[[], list[str]] = list
    port: int = field(default=0, init=False)  # the port that it listens on
    _runner: web.AppRunner | None = field(default=None, init=False)

    async def start(self, host: str, port: int) -> None:
        """Listen on a port; port 0 takes any free one."""
        app = web.Application()
        for path, handler in (
            ("/healthz", self._healthz),
            ("/readyz", self._readyz),
            ("/metrics", self._metrics),
        ):
            app.router.add_get(path, handler)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        problems = self.problems()
        return web.Response(
            status=503 if problems else 200,
            text="\n".join(problems or ["ok"]) + "\n",
        )

    async def _readyz(self, _: web.Request) -> web.Response:
        ready = self.ready()
        lines = ["ready" if ready else "reading the cluster", *self.remarks()]
        return web.Response(
            status=200 if ready else 503, text="\n".join(lines) + "\n"
        )

    async def _metrics(self, _: web.Request) -> web.Response:
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=self.telemetry.page(), headers=headers)
