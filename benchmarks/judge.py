"""What judging costs: a stage of 10,000 requests through every rule and into its row, beside reading its record; and how a
run of 64 such stages, judged in a thread, holds up the event loop.

Reading is what can't be avoided: unpacking and checking the record that the client sent. Progress goes to standard error;
the last line on standard output is one JSON object. Exits 1 when a limit is not kept.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from benchrun.api import BenchmarkRunSpec
from benchrun.judge.results import cell_context, results
from benchrun.judge.rules.catalogue import judge_cell
from benchrun.judge.thresholds import thresholds_of
from benchrun.judge_process.judging import PackedRecords
from benchrun.measure.exposition import Sample
from benchrun.plan.stages import cells
from benchrun_client.contract import (
    START_TIME,
    ClientFigures,
    Engine,
    GapCounts,
    RequestColumns,
    ServerEdge,
    StageRecord,
    open_record,
    seal,
)
from benchrun_client.engines import ENGINE

REQUESTS, RATE, TOKENS = 10_000, 40.0, 64
ROUNDS = 15
LOAD_POINTS, REPEATS = 32, 2
TICK_SECONDS = 0.01
_RATES = [f"{RATE + n:g}" for n in range(LOAD_POINTS)]
MAX_JUDGE_MS = 50.0
MAX_ALL_MS = 50.0
MAX_RATIO = 8.0
"""A rule that became quadratic would be far above, on any machine."""
MAX_LAG_MS = 500.0
"""Judged on the event loop the run would hold it up for all of `run_seconds`."""
MAX_RUN_MB = 100.0
"""A cell's records are open at a time; all of the run's take 400 MB."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is printed. Of a stage in CPU time, of several rounds the quickest: what else the machine does only adds."""

    judge_ms: float
    """Every rule over the stage, the shapes that rules share included."""
    all_ms: float
    """The same with pools, intervals, steady state, explanation and the finished row."""
    read_ms: float
    """Unpacking and checking the record."""
    ratio: float
    """`judge_ms` to `read_ms`, in one run: does not depend on the machine."""
    run_seconds: float
    """A run of 64 such stages, from its packed records to its rows."""
    run_max_lag_ms: float
    """How late, at worst, the event loop came to what was due meanwhile."""
    run_mb: float
    """By how much the process grew for it."""

    def beyond_limits(self) -> Iterator[str]:
        """Every limit that was not kept."""
        if self.judge_ms >= MAX_JUDGE_MS:
            yield f"judge_ms {self.judge_ms} is not below {MAX_JUDGE_MS}"
        if self.all_ms >= MAX_ALL_MS:
            yield f"all_ms {self.all_ms} is not below {MAX_ALL_MS}"
        if self.ratio > MAX_RATIO:
            yield f"ratio {self.ratio} is above {MAX_RATIO}"
        if self.run_max_lag_ms > MAX_LAG_MS:
            yield f"run_max_lag_ms {self.run_max_lag_ms} is above {MAX_LAG_MS}"
        if self.run_mb > MAX_RUN_MB:
            yield f"run_mb {self.run_mb} is above {MAX_RUN_MB}"


def main() -> int:
    """Measure, print, and compare with the limits."""
    record = _record()
    data = seal(record)[1]
    samples = _samples()
    spec = _spec([f"{RATE:g}"])
    (cell,) = planned = cells(spec)

    def judge() -> object:
        of = cell_context(cell, [record], samples, thresholds_of(spec), spec=spec, compilations=())
        return judge_cell(of)

    rules = _quickest_ms(judge)
    whole = _quickest_ms(lambda: results(planned, [record], samples, spec=spec, compilations=()))
    read = _quickest_ms(lambda: open_record(data))
    # In a process of its own, whose memory is the run's alone.
    with multiprocessing.get_context("spawn").Pool(1) as alone:
        run = alone.apply(judged_run, [_packed_run(record)])
    figures = Figures(
        judge_ms=round(rules, 1),
        all_ms=round(whole, 1),
        read_ms=round(read, 1),
        ratio=round(rules / read, 2),
        run_seconds=round(run.seconds, 1),
        run_max_lag_ms=round(run.max_lag_ms, 1),
        run_mb=round(run.mb, 1),
    )
    print(json.dumps(asdict(figures)), flush=True)
    beyond = tuple(figures.beyond_limits())
    for line in beyond:
        print(f"limit not kept: {line}", file=sys.stderr)
    return 1 if beyond else 0


def _packed_run(one: StageRecord) -> tuple[bytes, ...]:
    stages = [stage for cell in cells(_spec(_RATES, repeats=REPEATS)) for stage in cell.stage_ids]
    copies = (one.model_copy(update={"stage_id": stage, "sequence": n}) for n, stage in enumerate(stages))
    return tuple(seal(copy)[1] for copy in copies)


def _quickest_ms(work: Callable[[], object]) -> float:
    def once() -> float:
        began = time.process_time()
        work()
        return 1000 * (time.process_time() - began)

    return min(once() for _ in range(ROUNDS))


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """What judging a large run did to the process."""

    seconds: float
    max_lag_ms: float
    mb: float


def judged_run(packed: tuple[bytes, ...]) -> JudgedRun:
    """Judge its records as the operator does, and meanwhile see how late the event loop is."""
    return asyncio.run(_judged_run(packed))


async def _judged_run(packed: tuple[bytes, ...]) -> JudgedRun:
    spec, samples, records = _spec(_RATES, repeats=REPEATS), _samples(), PackedRecords(packed)
    lags: list[float] = []
    ticking = asyncio.create_task(_tick(lags))
    before, began = _resident_mb(), time.perf_counter()
    judged = await asyncio.to_thread(results, cells(spec), records, samples, spec=spec, compilations=())
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
    """The most it ever was."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _spec(rates: list[str], *, repeats: int = 1) -> BenchmarkRunSpec:
    return BenchmarkRunSpec.model_validate(
        {
            "model": {"name": "tiny"},
            "endpoint": {"url": "http://server:8000"},
            "workloads": [
                {
                    "name": "chat",
                    "dataset": {"random": {"inputTokens": 512, "outputTokens": TOKENS}},
                    "load": {"requestRates": rates},
                    "requests": REQUESTS,
                }
            ],
            "repeats": repeats,
            "objectives": [{"metric": "TTFT", "maxMilliseconds": 500}],
        }
    )


def _record() -> StageRecord:
    draw = random.Random(1)
    starts = sorted(draw.uniform(0, 1e6 * REQUESTS / RATE) for _ in range(REQUESTS))
    ttfts = [int(draw.lognormvariate(11, 0.3)) for _ in range(REQUESTS)]
    tpots = [draw.gauss(12_000, 400) for _ in range(REQUESTS)]
    e2els = [ttft + int(tpot * (TOKENS - 1)) for ttft, tpot in zip(ttfts, tpots, strict=True)]
    gaps = Counter(max(1, int(draw.gauss(12_000, 900))) for _ in range(REQUESTS * (TOKENS - 1)))
    first = min(starts)
    before = dict.fromkeys(ENGINE.counter_series, 0.0) | {START_TIME: 1.0}
    after = before | {
        "prompt_tokens_total": 512.0 * REQUESTS,
        "generation_tokens_total": float(TOKENS * REQUESTS),
        "request_success_total": float(REQUESTS),
        "prefix_cache_queries_total": 512.0 * REQUESTS,
        "time_to_first_token_seconds_sum": sum(ttfts) / 1e6,
        "time_to_first_token_seconds_count": float(REQUESTS),
    }
    return StageRecord(
        run_uid="uid",
        plan_digest="a" * 64,
        sequence=0,
        stage_id=f"chat/rate={RATE:g}/r1",
        prompts_digest="b" * 64,
        engine=Engine(name="vllm", version="0.32.0", trust_env=False),
        first_send_unix_us=1_000_000_000,
        last_receive_unix_us=1_000_000_000 + int(max(s + e for s, e in zip(starts, e2els, strict=True)) - first),
        idle_before_us=0,
        scalars={"duration": REQUESTS / RATE},
        requests=RequestColumns(
            start_us=tuple(int(start - first) for start in starts),
            queue_us=tuple(draw.randrange(300) for _ in range(REQUESTS)),
            ttft_us=tuple(ttfts),
            e2el_us=tuple(e2els),
            input_tokens=(512,) * REQUESTS,
            output_tokens=(TOKENS,) * REQUESTS,
            asked_tokens=(TOKENS,) * REQUESTS,
            ended=(1,) * REQUESTS,
            ok=(1,) * REQUESTS,
        ),
        gaps=GapCounts(us=tuple(sorted(gaps)), count=tuple(gaps[us] for us in sorted(gaps))),
        servers=(ServerEdge(address="server:8000", before=before, after=after),),
        errors={},
        client=ClientFigures(cpu_seconds=20, wall_seconds=REQUESTS / RATE, throttled_periods=0, lag_p99_us=500),
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
