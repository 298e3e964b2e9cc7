"""Runs in which one thing is wrong that a single record does not show: several repeats, another load, readings, a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchrun.api import Cell, ServerStatus
from benchrun.judge.rules.rule import Code
from benchrun.measure.exposition import Sample
from benchrun_client.contract import RequestColumns, ServedModel, Shards, StageRecord
from unit.judge.queues import Server, open_loop
from unit.measure.records import cell, client, edge, record, requests, sample


@dataclass(frozen=True)
class Scene:
    """What the judge is given of a run of one cell; a rate of four a second unless told otherwise."""

    records: Sequence[StageRecord]
    of: Cell = field(default_factory=cell)
    samples: Sequence[Sample] = ()
    compilations: tuple[float, ...] | None = ()
    max_concurrency: int | None = None
    servers: Sequence[ServerStatus] = ()
    """Of a run that starts its own; else it measures an endpoint."""


def _columns(factor: float = 1.0) -> RequestColumns:
    """A hundred requests whose latencies are so many times the usual, and 1 % more or less by turns."""
    around = [factor * (0.99 if i % 2 else 1.01) for i in range(100)]
    return requests(
        ttft_us=[round(10_000 * f) for f in around],
        e2el_us=[round(100_000 * f) for f in around],
        output_tokens=[10] * 100,
    )


def _cold() -> StageRecord:
    ttft_us = [900_000] * 3 + [20_000] * 97
    return record(requests=requests(ttft_us=ttft_us, e2el_us=[1_000_000] * 100, output_tokens=[10] * 100))


def _slower_each_time() -> Scene:
    repeated = cell(repeats=4)
    factors = zip(repeated.stage_ids, (1.0, 1.2, 1.4, 1.6), strict=True)
    records = [record(stage, requests=_columns(f), sequence=place) for place, (stage, f) in enumerate(factors)]
    return Scene(records, of=repeated)


USERS = cell(axis="concurrency", value="8")
AT_ONCE = cell(value="inf")
OVERLOADED = Server(slots=1, prefill_seconds=0.01, decode_seconds=0.5)
SCENES: Mapping[Code, Scene] = {
    Code.RATE_NOT_ACHIEVED: Scene([record(requests=requests(start_us=(0, 9_000_000)))]),
    Code.CONCURRENCY_NOT_REACHED: Scene([record(USERS.stage_ids[0])], of=USERS),
    Code.CLIENT_SATURATED: Scene([record(client=client(cpu_seconds=9.0, lag_p99_us=99_000))]),
    Code.CLIENT_THROTTLED: Scene([record(client=client(throttled_periods=3))]),
    Code.SHARDS_OUT_OF_STEP: Scene([record(shards=Shards(count=2, start_skew_us=20_000, clock_error_us=1_000))]),
    Code.COMPILATION_IN_WINDOW: Scene([record()], compilations=(1005.0,)),
    Code.COLD_START: Scene([_cold()]),
    Code.NOT_STEADY_STATE: Scene([open_loop(OVERLOADED, rate=4.0, count=200, seed=1).record]),
    Code.DRIFT: _slower_each_time(),
    Code.REPEATS_DISAGREE: _slower_each_time(),
    Code.LITTLES_LAW_BROKEN: Scene([record()], samples=[sample(1000.2 + i / 2, running=50.0) for i in range(20)]),
    Code.WINDOW_TOO_SHORT: Scene([record(scalars={"duration": 5.0})]),
    Code.TOO_FEW_SAMPLES: Scene([record()]),
    Code.QUEUE_WAIT_HIDDEN: Scene([record(requests=requests(queue_us=(0, 9_000_000)))], max_concurrency=1),
    Code.ALL_AT_ONCE: Scene([record(AT_ONCE.stage_ids[0])], of=AT_ONCE),
    Code.ROLE_IDLE: Scene(
        [record(servers=(edge("p", role="prefill"), edge("d", role="decode")))],
        samples=[
            *(sample(1000.2 + i, role="prefill", pod="p", running=1.0, waiting=9.0) for i in range(9)),
            *(sample(1000.2 + i, role="decode", pod="d", running=0.0, waiting=0.0) for i in range(9)),
        ],
    ),
    Code.WRONG_SERVER: Scene(
        [record(servers=(edge("10.0.0.9:8000"),))], servers=(ServerStatus(role="server", addresses=["10.0.0.1"]),)
    ),
    Code.WRONG_MODEL: Scene(
        [record(servers=(edge().model_copy(update={"served": ServedModel(id="Qwen/Qwen3-4B", root="r" * 600)}),))],
        servers=(ServerStatus(role="server", addresses=["10.0.0.9"]),),
    ),
    Code.SCRAPE_COVERAGE_LOW: Scene([record()], samples=[sample(1005.0)]),
}
