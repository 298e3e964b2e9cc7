"""What judging costs: a stage of 10,000 requests through every rule and into its row, beside reading its record.

Reading is what can't be avoided: unpacking and checking the record that the client sent. Progress goes to standard error;
the last line on standard output is one JSON object. Exits 1 when a limit is not kept.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.judge.judging import judge_run
from benchrun.judge.results import results, run_context
from benchrun.judge.thresholds import thresholds_of
from benchrun.measure.samples import Sample
from benchrun.plan.stages import cells
from benchrun_client.contract import (
    SERVER_COUNTERS,
    START_TIME,
    ClientFigures,
    Engine,
    Envelope,
    GapCounts,
    RequestColumns,
    ServerEdge,
    StageRecord,
    open_record,
)

REQUESTS, RATE, TOKENS = 10_000, 40.0, 64
ROUNDS = 15
MAX_JUDGE_MS = 50.0
MAX_RATIO = 8.0
"""A rule that became quadratic would be far above, on any machine."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is printed; medians."""

    judge_ms: float
    """Every rule over the stage, the shapes that rules share included."""
    all_ms: float
    """The same with pools, intervals, steady state, explanation and the finished row."""
    read_ms: float
    """Unpacking and checking the record."""
    ratio: float
    """`judge_ms` to `read_ms`, in one run: does not depend on the machine."""

    def beyond_limits(self) -> Iterator[str]:
        """Every limit that was not kept."""
        if self.judge_ms >= MAX_JUDGE_MS:
            yield f"judge_ms {self.judge_ms} is not below {MAX_JUDGE_MS}"
        if self.ratio > MAX_RATIO:
            yield f"ratio {self.ratio} is above {MAX_RATIO}"


def main() -> int:
    """Measure, print, and compare with the limits."""
    record = _record()
    data = Envelope.seal(record).data()
    samples = _samples()
    spec = _spec()
    planned = cells(spec)
    by_stage = {record.stage_id: record}

    def judge() -> object:
        run = run_context(planned, by_stage, samples, thresholds_of(spec), spec=spec, compilations=())
        return judge_run(run)

    rules = _median_ms(judge)
    whole = _median_ms(lambda: results(planned, [record], samples, spec=spec, compilations=()))
    read = _median_ms(lambda: open_record(data))
    figures = Figures(round(rules, 1), round(whole, 1), round(read, 1), round(rules / read, 2))
    print(json.dumps(asdict(figures)), flush=True)
    beyond = tuple(figures.beyond_limits())
    for line in beyond:
        print(f"limit not kept: {line}", file=sys.stderr)
    return 1 if beyond else 0


def _median_ms(work: Callable[[], object]) -> float:
    def once() -> float:
        began = time.perf_counter()
        work()
        return 1000 * (time.perf_counter() - began)

    return statistics.median(once() for _ in range(ROUNDS))


def _spec() -> BenchmarkRunSpec:
    return BenchmarkRunSpec.model_validate(
        {
            "model": {"name": "tiny"},
            "endpoint": {"url": "http://server:8000"},
            "workloads": [
                {
                    "name": "chat",
                    "dataset": {"random": {"inputTokens": 512, "outputTokens": TOKENS}},
                    "load": {"requestRates": [f"{RATE:g}"]},
                    "requests": REQUESTS,
                }
            ],
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
    before = dict.fromkeys(SERVER_COUNTERS, 0.0) | {START_TIME: 1.0}
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
