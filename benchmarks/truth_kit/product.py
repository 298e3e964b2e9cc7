"""What the simulated parts ask of the product, in one place: a stage judged, two groups of servers
compared, what a design could find.

Only public functions that a run uses as well; a change of the product's interface is followed here
and nowhere else."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from _records import columns, gap_counts, server_edge, stage_record
from benchrun import measure
from benchrun.api import (
    KEYS,
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    ComparedMetric,
    CompiledKernels,
    Result,
    ServerStatus,
)
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.comparison.compare import Compared, compare
from benchrun.judge.results import results
from benchrun.measure.metrics_page import Sample
from benchrun.plan import cells
from benchrun_client.contract import ClientFigures, StageRecord

from truth_kit.queues import PERCENTS, Request

ENDED = "2026-01-01T00:00:00Z"
SECONDS_A_SERVICE = 2.0
"""The mean service time of a simulated queue: long, for a limit is in whole milliseconds."""
PREFILL_SHARE = 0.1
"""Of a service, until the first token."""
BEGAN_US = 1_800_000_000_000_000
NEVER_COMPILED = ServerStatus(role="server", compilations=CompiledKernels(count=0))


def fresh_spec(**changes: Any) -> BenchmarkRunSpec:
    """A run with a server of its own."""
    values: dict[str, Any] = {
        "model": {"name": "tiny", "source": {"path": {"path": "/models/tiny"}}},
        "server": {"image": "simulator", "resources": {"limits": {"nvidia.com/gpu": 1}}},
        "workloads": [
            {
                "name": "w",
                "dataset": {"random": {}},
                "load": {"requestRates": ["1"]},
                "requests": 100,
            },
        ],
    }
    return BenchmarkRunSpec.model_validate(values | changes)


def judged_stage(
    requests: Sequence[Request],
    *,
    limits: Sequence[tuple[int, float]],
    rate: float = 0.0,
    users: int | None = None,
) -> Result:
    """The row of one stage: of an open loop, whose `rate` is in requests a mean service time, or of
    so many users. `limits` are percentiles of the time in the system with the value, in mean
    service times, that each must keep."""
    objectives = [
        {
            "metric": "E2EL",
            "percentile": str(percent),
            "maxMilliseconds": round(1000 * SECONDS_A_SERVICE * limit),
        }
        for percent, limit in limits
    ]
    load: Mapping[str, Any] = {"requestRates": [f"{rate / SECONDS_A_SERVICE:.6g}"]}
    if users is not None:
        load = {"concurrencies": [users]}
    workload = {
        "name": "w",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 2}},
        "load": load,
    }
    spec = fresh_spec(
        workloads=[{**workload, "requests": len(requests)}],
        objectives=objectives,
        measurement={"percentiles": list(map(str, PERCENTS)), "warmup": {"none": {}}},
    )
    (cell,) = cells(spec)
    record = _record(requests, cell.stage_ids[0])
    return results([cell], [record], _samples(record), spec=spec, servers=[NEVER_COMPILED]).results[
        0
    ]


def _record(requests: Sequence[Request], stage_id: str) -> StageRecord:
    def us(times: float) -> int:
        return round(1e6 * SECONDS_A_SERVICE * times)

    first = requests[0].sent
    sent = columns(
        [us(each.sent - first) for each in requests],
        [us(each.waited + PREFILL_SHARE * each.served) for each in requests],
        [us(each.sojourn) for each in requests],
        tokens=(64, 2),
    )
    ended = max(start + e2el for start, e2el in zip(sent.start_us, sent.e2el_us, strict=True))
    gaps = gap_counts(e2el - ttft for ttft, e2el in zip(sent.ttft_us, sent.e2el_us, strict=True))
    wall = ended / 1e6
    client = ClientFigures(
        cpu_seconds=wall / 20,
        wall_seconds=wall,
        throttled_periods=0,
        lag_p99_us=300,
        lag_max_us=900,
    )
    return stage_record(
        stage_id,
        0,
        sent,
        gaps,
        server_edge(sent, start_time=1.0),
        began_us=BEGAN_US,
        ended_us=BEGAN_US + ended,
        client=client,
    )


def _samples(record: StageRecord) -> list[Sample]:
    """None: a simulated stage has no servers to read, and rules that need them say that they did
    not check."""
    return []


def interval_ms(row: Result, percent: int) -> tuple[float, float] | None:
    """The interval of a percentile of E2EL; None where none is given."""
    found = row.intervals.get(f"p{percent}_e2el_ms")
    return None if found is None else (found[0], found[1])


def server_run(name: str, figures: Sequence[Mapping[ComparedMetric, float]]) -> MeasuredRun:
    """A fresh server that was measured at as many load points."""
    spec = _spec_of_points(len(figures))
    rates = spec.workloads[0].load.request_rates or []
    rows = [
        Result.model_validate(
            {
                "cell": f"w/rate={rate}",
                "workload": "w",
                "axis": "rate",
                "value": rate,
                "repeats": 1,
                "repeatsPlanned": 1,
                "metrics": {KEYS[metric]: value for metric, value in of.items()},
                "traffic": "t",
                "verdict": "Valid",
            }
        )
        for rate, of in zip(rates, figures, strict=True)
    ]
    return MeasuredRun(name, name, spec, BenchmarkRunStatus(completion_time=ENDED, results=rows))


@cache
def _spec_of_points(points: int) -> BenchmarkRunSpec:
    rates = [str(number + 1) for number in range(points)]
    workload = {
        "name": "w",
        "dataset": {"random": {}},
        "load": {"requestRates": rates},
        "requests": 100,
    }
    return fresh_spec(workloads=[workload])


def run_of_rows(
    name: str, rows: Sequence[Result], *, spec: BenchmarkRunSpec | None = None
) -> MeasuredRun:
    """A fresh server with these results. `spec`: that of the lab's endpoint; its servers are fresh
    processes, which to the comparison a run with a server of its own is."""
    own = _spec_of_points(len(rows))
    if spec is not None:
        workloads = [
            w.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
            for w in spec.workloads
        ]
        own = fresh_spec(workloads=workloads)
    return MeasuredRun(
        name, name, own, BenchmarkRunStatus(completion_time=ENDED, results=list(rows))
    )


def compared(
    baseline: Sequence[MeasuredRun],
    candidate: Sequence[MeasuredRun],
    metrics: Sequence[ComparedMetric],
    *,
    max_regression_percent: float | None = None,
) -> Compared:
    """The product's comparison. Raises ValueError where it compares nothing, which would count as
    "no difference"."""
    made = compare(
        baseline, candidate, metrics=metrics, max_regression_percent=max_regression_percent
    )
    if made.outcome == "NotComparable":
        raise ValueError(made.message)
    return made


def told_percent(servers: int, questions: int, *, deviation_percent: float) -> float | None:
    """The smallest change that so many servers a side find in 80 % of comparisons with so many
    questions, as `benchrun check` tells it; None while the product does not tell any."""
    told: Callable[..., float] | None = getattr(measure, "detectable_percent", None)
    return None if told is None else told(servers, questions, cv_percent=deviation_percent)
