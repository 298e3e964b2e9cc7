"""What judging costs: a stage of 10,000 requests, and a run of 64 such stages.

The stage goes through every rule and into its row, and is compared with the reading of its record:
unpacking and checking what the client sent, which can't be avoided. The run is judged in a thread,
and the lag of the event loop meanwhile is measured. Progress goes to standard error; the last line
on standard output is one JSON object. Exits 1 when a limit is not kept.
"""

import asyncio
import multiprocessing
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from _outcome import beyond, finish
from _records import columns, gap_counts, server_edge, stage_record
from benchrun.api import BenchmarkRunSpec
from benchrun.judge.results import load_point_context, results
from benchrun.judge.rules.all_rules import judge_load_point
from benchrun.judge.thresholds import thresholds_of
from benchrun.judge_process.judge_job import PackedRecords
from benchrun.measure.metrics_page import Sample
from benchrun.plan import load_points
from benchrun_client.contract import (
    ClientFigures,
    RateLoad,
    StageRecord,
    open_record,
    seal,
)

REQUESTS = 10_000
RATE = 40.0
TOKENS = 64
ROUNDS = 15
LOAD_POINTS = 32
REPEATS = 2
TICK_SECONDS = 0.01
_RATES = [f"{RATE + n:g}" for n in range(LOAD_POINTS)]
MAX_RATIO = 10.0
MAX_ALL_RATIO = 20.0
"""Limit of `all_ratio`. A rule that became quadratic would be far above it, on any machine."""
MAX_LAG_MS = 500.0
"""Limit of `run_max_lag_ms`. If it were judged on the event loop, the run would block it for all of
`run_seconds`."""
MAX_RUN_MB = 100.0
"""Limit of `run_mb`. The records of one load point are open at a time; all of the run's take 400
MB."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The JSON object that is printed.

    A stage's times are CPU times, the quickest of several rounds: other work on the machine only
    adds.
    """

    judge_ms: float
    """Time of every rule over the stage, including the shapes that rules share."""
    all_ms: float
    """The same including pools, intervals, steady state, explanation and the finished row."""
    read_ms: float
    """Time to unpack and check the record."""
    ratio: float
    """Ratio of `judge_ms` to `read_ms`, measured in one benchmark run: it does not depend on the
    machine."""
    all_ratio: float
    """Ratio of `all_ms` to `read_ms`."""
    run_seconds: float
    """Time for a run of 64 such stages, from its packed records to its rows."""
    run_max_lag_ms: float
    """Largest delay of what was due on the event loop meanwhile."""
    run_mb: float
    """Growth of the process in MB during that run."""

    def beyond_limits(self) -> Iterator[str]:
        """Yield a line for every limit that is not kept."""
        ratios = {"ratio": MAX_RATIO, "all_ratio": MAX_ALL_RATIO}
        return beyond(
            self,
            at_most={**ratios, "run_max_lag_ms": MAX_LAG_MS, "run_mb": MAX_RUN_MB},
        )


def main() -> int:
    """Measure, print the figures, compare them with the limits, and return the exit status."""
    record = _record()
    data = seal(record)[1]
    samples = _samples()
    spec = _spec([f"{RATE:g}"])
    (load_point,) = planned = load_points(spec)

    def judge() -> object:
        of = load_point_context(
            load_point, [record], samples, thresholds_of(spec), spec=spec
        )
        return judge_load_point(of)

    rules, whole, read = _quickest_ms(
        judge,
        lambda: results(planned, [record], samples, spec=spec),
        lambda: open_record(data),
    )
    # In a process of its own, so that other memory does not count.
    with multiprocessing.get_context("spawn").Pool(1) as alone:
        run = alone.apply(judged_run, [_packed_run(record)])
    return finish(
        Figures(
            judge_ms=round(rules, 1),
            all_ms=round(whole, 1),
            read_ms=round(read, 1),
            ratio=round(rules / read, 2),
            all_ratio=round(whole / read, 2),
            run_seconds=round(run.seconds, 1),
            run_max_lag_ms=round(run.max_lag_ms, 1),
            run_mb=round(run.mb, 1),
        )
    )


def _packed_run(one: StageRecord) -> tuple[bytes, ...]:
    stages = [
        stage
        for load_point in load_points(_spec(_RATES, repeats=REPEATS))
        for stage in load_point.stage_ids
    ]
    copies = (
        one.model_copy(update={"stage_id": stage, "sequence": n})
        for n, stage in enumerate(stages)
    )
    return tuple(seal(copy)[1] for copy in copies)


def _quickest_ms(*works: Callable[[], object]) -> list[float]:
    """Return each work's shortest CPU time in milliseconds, from several rounds in turns.

    They take turns because the machine is not always as fast.
    """

    def once(work: Callable[[], object]) -> float:
        began = time.process_time()
        work()
        return 1000 * (time.process_time() - began)

    rounds = [[once(work) for work in works] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """What judging a large run did to the process."""

    seconds: float
    max_lag_ms: float
    mb: float


def judged_run(packed: tuple[bytes, ...]) -> JudgedRun:
    """Judge a run's packed records as the operator does, and measure the event loop's lag."""
    return asyncio.run(_judged_run(packed))


async def _judged_run(packed: tuple[bytes, ...]) -> JudgedRun:
    spec = _spec(_RATES, repeats=REPEATS)
    samples = _samples()
    records = PackedRecords(packed)
    lags: list[float] = []
    ticking = asyncio.create_task(_tick(lags))
    before = _resident_mb()
    began = time.perf_counter()
    judged = await asyncio.to_thread(
        results, load_points(spec), records, samples, spec=spec
    )
    seconds = time.perf_counter() - began
    ticking.cancel()
    if judged.verdict == "Unknown":
        raise RuntimeError("nothing was judged")
    return JudgedRun(seconds, 1000 * max(lags), _resident_mb() - before)


async def _tick(lags: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + TICK_SECONDS
        await asyncio.sleep(TICK_SECONDS)
        lags.append(loop.time() - due)


def _resident_mb() -> float:
    """Return the peak resident memory of this process in MiB.

    That of the resource module would begin with its parent's, which Linux hands down.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024  # type: ignore[index]


def _spec(rates: list[str], *, repeats: int = 1) -> BenchmarkRunSpec:
    data = {"random": {"inputTokens": 512, "outputTokens": TOKENS}}
    workload = {
        "name": "chat",
        "dataset": data,
        "load": {"requestRates": rates},
        "requests": REQUESTS,
    }
    return BenchmarkRunSpec.model_validate(
        {
            "model": {"name": "tiny"},
            "endpoint": {"url": "http://server:8000"},
            "workloads": [workload],
            "repeats": repeats,
            "objectives": [{"metric": "TTFT", "maxMilliseconds": 500}],
        }
    )


def _record() -> StageRecord:
    draw = random.Random(1)
    starts = sorted(draw.uniform(0, 1e6 * REQUESTS / RATE) for _ in range(REQUESTS))
    ttfts = [int(draw.lognormvariate(11, 0.3)) for _ in range(REQUESTS)]
    e2els = [ttft + int(draw.gauss(12_000, 400) * (TOKENS - 1)) for ttft in ttfts]
    starts_us = [int(start - starts[0]) for start in starts]
    queues = [draw.randrange(300) for _ in range(REQUESTS)]
    requests = columns(
        starts_us, ttfts, e2els, tokens=(512, TOKENS), queue_us=queues
    )
    gaps = gap_counts(
        max(1, int(draw.gauss(12_000, 900))) for _ in range(REQUESTS * (TOKENS - 1))
    )
    client = ClientFigures(
        cpu_seconds=20,
        wall_seconds=REQUESTS / RATE,
        throttled_periods=0,
        lag_p99_us=500,
    )
    began = 1_000_000_000
    lasted = max(start + e2el for start, e2el in zip(starts_us, e2els, strict=True))
    edge = server_edge(requests, start_time=1.0)
    load = RateLoad(requests_per_second=f"{RATE:g}")
    stage = f"chat/{load.label}/r1"
    return stage_record(
        stage,
        0,
        requests,
        gaps,
        edge,
        load=load,
        began_us=began,
        ended_us=began + lasted,
        client=client,
    )


def _samples() -> list[Sample]:
    seconds = int(REQUESTS / RATE)
    return [
        Sample(
            at=1000.0 + second,
            role="server",
            pod="server",
            running=33.0,
            waiting=0.0,
            kv_cache=0.2,
            generation_tokens=(second + 0.5) * TOKENS * RATE,
            start_time=1.0,
        )
        for second in range(seconds)
    ]


if __name__ == "__main__":
    sys.exit(main())
