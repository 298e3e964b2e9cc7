"""Runs in which one thing is wrong that a single record does not show.

They need several repeats, another load, samples, or a log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchrun.api import LoadPoint, ServerStatus
from benchrun.judge.rules.rule import Code
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import (
    PROCESS_CPU,
    RequestColumns,
    RoundTrips,
    ServedModel,
    Shards,
    StageRecord,
)
from unit.judge.queues import Server, open_loop
from unit.measure.records import (
    client,
    edge,
    load_point,
    record,
    requests,
    sample,
    served,
)


@dataclass(frozen=True)
class Scene:
    """The judge's input for a run of one load point.

    Its rate is four requests a second unless told otherwise.
    """

    records: Sequence[StageRecord]
    planned: LoadPoint = field(default_factory=load_point)
    samples: Sequence[Sample] = ()
    compilations: tuple[float, ...] | None = ()
    servers: Sequence[ServerStatus] = ()
    """Of a run that starts its own; else it measures an endpoint."""
    unstored: Sequence[str] = ()


def _columns(factor: float = 1.0) -> RequestColumns:
    """Build a hundred requests with latencies of `factor` times the usual.

    By turns they take 1 % more or less.
    """
    around = [factor * (0.99 if i % 2 else 1.01) for i in range(100)]
    return requests(
        ttft_us=[round(10_000 * f) for f in around],
        e2el_us=[round(100_000 * f) for f in around],
        output_tokens=[10] * 100,
    )


def _cold() -> StageRecord:
    ttft_us = [900_000] * 3 + [20_000] * 97
    return record(
        requests=requests(
            ttft_us=ttft_us, e2el_us=[1_000_000] * 100, output_tokens=[10] * 100
        )
    )


def _slower_each_time() -> Scene:
    repeated = load_point(repeats=4)
    factors = zip(repeated.stage_ids, (1.0, 1.2, 1.4, 1.6), strict=True)
    records = [
        record(stage, requests=_columns(f), sequence=place)
        for place, (stage, f) in enumerate(factors)
    ]
    return Scene(records, planned=repeated)


def _in_step() -> StageRecord:
    begins = [
        round(1e6 * (r + place / 100)) for r in range(12) for place in range(8)
    ]
    ttft_us = [10_000 * (1 + place) for _ in range(12) for place in range(8)]
    columns = requests(
        start_us=begins,
        ttft_us=ttft_us,
        e2el_us=[999_000] * 96,
        output_tokens=[10] * 96,
    )
    return record(
        USERS.stage_ids[0],
        requests=columns,
        last_receive_unix_us=1_012_070_000,
        scalars={"duration": 12.07},
    )


def _on_gpus(**figures: float) -> list[Sample]:
    """Return samples with these GPU figures, the first of which is older than the stage."""
    return [_gpu_sample(place, figures) for place in range(10)]


def _gpu_sample(place: int, figures: Mapping[str, float]) -> Sample:
    first: Mapping[str, float] = {"gpu_xid": 0.0}
    values: dict[str, Any] = dict(figures if place else first)
    return sample(
        1000.2 + place, gpu_joules=700.0 * place, sm_clock_mhz=1980.0, **values
    )


GPU_SERVER = (ServerStatus(engine="VLLM", role="server", gpus=1),)


def _behind_the_client(*, cores: float) -> StageRecord:
    """Build a record whose server counts 15 ms less of each TTFT.

    Its API server used so many cores for ten seconds.
    """
    rises = {
        **served(requests()),
        "time_to_first_token_seconds_sum": 0.02,
        PROCESS_CPU: 10 * cores,
    }
    return record(servers=(edge(rises=rises),))


USERS = load_point(axis="Concurrency", value="8")
AT_ONCE = load_point(value="inf")
OVERLOADED = Server(slots=1, prefill_seconds=0.01, decode_seconds=0.5)


def _evenly_sent(*, slower_at_first: float = 1.0) -> StageRecord:
    """Build a stage of 200 requests, four a second, with a slower first third.

    It takes `slower_at_first` times as long.
    """
    e2el = [
        round(100_000 * (slower_at_first if i < 70 else 1.0)) + i * 619 % 997
        for i in range(200)
    ]
    columns = requests(
        start_us=[250_000 * i for i in range(200)],
        ttft_us=[20_000] * 200,
        e2el_us=e2el,
        output_tokens=[11] * 200,
    )
    return record(requests=columns, scalars={"duration": 50.0})


SCENES: Mapping[Code, Scene] = {
    Code.RECORD_NOT_STORED: Scene([record()], unstored=(record().stage_id,)),
    Code.RATE_NOT_ACHIEVED: Scene(
        [record(requests=requests(start_us=(0, 9_000_000)))]
    ),
    Code.CONCURRENCY_NOT_REACHED: Scene(
        [record(USERS.stage_ids[0])], planned=USERS
    ),
    Code.CLIENT_SATURATED: Scene(
        [record(client=client(cpu_seconds=9.0, lag_p99_us=99_000))]
    ),
    Code.PATH_SLOW: Scene(
        [record(round_trips=RoundTrips(count=20, median_us=20_000, p95_us=31_000))]
    ),
    Code.FRONTEND_SATURATED: Scene([_behind_the_client(cores=0.95)]),
    Code.CLIENT_SERVER_GAP: Scene([_behind_the_client(cores=0.1)]),
    Code.CLIENT_THROTTLED: Scene([record(client=client(throttled_periods=3))]),
    Code.SHARDS_OUT_OF_STEP: Scene(
        [record(shards=Shards(count=2, start_skew_us=20_000, clock_error_us=1_000))]
    ),
    Code.COMPILATION_IN_WINDOW: Scene([record()], compilations=(1005.0,)),
    Code.COLD_START: Scene([_cold()]),
    Code.NOT_STEADY_STATE: Scene(
        [open_loop(OVERLOADED, rate=4.0, count=200, seed=1).record]
    ),
    Code.DRIFT: _slower_each_time(),
    Code.REPEATS_DISAGREE: _slower_each_time(),
    Code.LITTLES_LAW_BROKEN: Scene(
        [record()],
        samples=[sample(1000.2 + i / 2, running=50.0) for i in range(20)],
    ),
    Code.WINDOW_TOO_SHORT: Scene([record(scalars={"duration": 5.0})]),
    Code.TOO_FEW_SAMPLES: Scene([_evenly_sent()]),
    Code.FIRST_PART_DIFFERS: Scene([_evenly_sent(slower_at_first=1.3)]),
    Code.QUEUE_WAIT_HIDDEN: Scene(
        [record(requests=requests(queue_us=(0, 9_000_000)))],
        planned=load_point(max_concurrency=1),
    ),
    Code.ALL_AT_ONCE: Scene([record(AT_ONCE.stage_ids[0])], planned=AT_ONCE),
    Code.ROLE_IDLE: Scene(
        [record(servers=(edge("p", role="prefill"), edge("d", role="decode")))],
        samples=[
            *(
                sample(
                    1000.2 + i, role="prefill", pod="p", running=1.0, waiting=9.0
                )
                for i in range(9)
            ),
            *(
                sample(1000.2 + i, role="decode", pod="d", running=0.0, waiting=0.0)
                for i in range(9)
            ),
        ],
    ),
    Code.WRONG_SERVER: Scene(
        [record(servers=(edge("10.0.0.9:8000"),))],
        servers=(
            ServerStatus(engine="VLLM", role="server", addresses=["10.0.0.1"]),
        ),
    ),
    Code.WRONG_MODEL: Scene(
        [
            record(
                servers=(
                    edge().model_copy(
                        update={
                            "served": ServedModel(
                                id="Qwen/Qwen3-4B", root="r" * 600
                            )
                        }
                    ),
                )
            )
        ],
        servers=(
            ServerStatus(engine="VLLM", role="server", addresses=["10.0.0.9"]),
        ),
    ),
    Code.USERS_IN_STEP: Scene([_in_step()], planned=USERS),
    Code.GPU_SLOWED: Scene(
        [record()],
        samples=_on_gpus(gpu_slowed=1.0, gpu_power_capped=0.0),
        servers=GPU_SERVER,
    ),
    Code.GPU_ERRORS: Scene(
        [record()], samples=_on_gpus(gpu_xid=94.0), servers=GPU_SERVER
    ),
    Code.GPU_SHARED: Scene(
        [record()], samples=_on_gpus(gpu_pods=2.0), servers=GPU_SERVER
    ),
    Code.SERVER_THROTTLED: Scene(
        [record()],
        samples=[
            sample(1000.2 + i, cpu_periods=10.0 * i, cpu_throttled_periods=3.0 * i)
            for i in range(10)
        ],
    ),
    Code.SCRAPE_COVERAGE_LOW: Scene([record()], samples=[sample(1005.0)]),
}
