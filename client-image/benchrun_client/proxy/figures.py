"""The proxy's metrics, as Prometheus reads them. All names begin with `benchrun_proxy_`, but for the process's own."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from benchrun_client.load.self_watch import LoopWatch

Outcome = Literal[
    "ok",
    "refused",
    "prefill_error",
    "prefill_unreachable",
    "decode_error",
    "decode_unreachable",
    "broken",
    "client_gone",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
ADDED_BOUNDS = (0.00025, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
STEP_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
LAG_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
PREFIX = "benchrun_proxy_"


class Histogram:
    """Observations in seconds; `bounds` are upper limits, inclusive, without +Inf."""

    def __init__(self, name: str, about: str, bounds: Sequence[float]) -> None:
        self._name, self._about, self._bounds = PREFIX + name, about, bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def lines(self) -> Iterator[str]:
        yield from _head(self._name, "histogram", self._about)
        so_far = 0
        for bound, found in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            so_far += found
            yield f'{self._name}_bucket{{le="{bound}"}} {so_far}'
        yield f"{self._name}_sum {self._sum!r}"
        yield f"{self._name}_count {so_far}"


class Figures:
    """Counts what happens, and writes it down."""

    def __init__(self) -> None:
        self._started_unix = time.time()
        self._outcomes: Counter[Outcome] = Counter()
        self.prefill = Histogram("prefill_seconds", "From a request sent to prefill to its answer read.", STEP_BOUNDS)
        self.queue = Histogram("queue_seconds", "Wait for a place, with --max-in-flight under way.", STEP_BOUNDS)
        self.added = Histogram(
            "added_seconds",
            "What the proxy itself adds to a time to first token: received to sent to prefill, answered to sent to decode, "
            "first bytes of decode to written. Without the wait for a place.",
            ADDED_BOUNDS,
        )
        self.ttft = Histogram(
            "time_to_first_token_seconds",
            "From a completion read to the first bytes of its answer written. Before that it waits for the loop: see the lag.",
            STEP_BOUNDS,
        )
        self._lag = Histogram("loop_lag_seconds", "How late the event loop comes to ticks 20 ms apart.", LAG_BOUNDS)

    def ended(self, outcome: Outcome) -> None:
        """Count a request that has ended."""
        self._outcomes[outcome] += 1

    def watch_loop(self, loop: asyncio.AbstractEventLoop) -> LoopWatch:
        """Note from now on how late the loop is."""
        return LoopWatch(loop, note=self._lag.observe)

    def exposition(self, *, in_flight: int, queued: int) -> str:
        """The text of the metrics endpoint."""
        return "\n".join([*self._lines(in_flight=in_flight, queued=queued), ""])

    def _lines(self, *, in_flight: int, queued: int) -> Iterator[str]:
        yield from _head(f"{PREFIX}requests_total", "counter", "Completions that have ended, by what became of them.")
        for outcome in OUTCOMES:
            yield f'{PREFIX}requests_total{{outcome="{outcome}"}} {self._outcomes[outcome]}'
        yield from _gauge(f"{PREFIX}in_flight", "Completions under way.", in_flight)
        yield from _gauge(f"{PREFIX}queued", "Completions that wait for a place.", queued)
        for histogram in (self.prefill, self.queue, self.added, self.ttft, self._lag):
            yield from histogram.lines()
        yield from _head("process_cpu_seconds_total", "counter", "User and system CPU time.")
        yield f"process_cpu_seconds_total {time.process_time()!r}"
        yield from _gauge("process_start_time_seconds", "Start of the process, Unix time.", self._started_unix)


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _gauge(name: str, about: str, value: float) -> Iterator[str]:
    yield from _head(name, "gauge", about)
    yield f"{name} {value!r}"
