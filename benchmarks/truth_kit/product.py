"""The product's functions that the simulated parts call, in one place.

They judge a stage, compare two groups of servers, and tell what a design could find. Only public
functions that a run uses as well are called; a change of the product's interface is followed here
and nowhere else.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from _records import columns, server_edge, stage_record
from benchrun import measure
from benchrun.api import (
    KEYS,
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    ComparedMetric,
    CompiledKernels,
    LoadPoint,
    Result,
    ServerStatus,
)
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.comparison.compare import Compared, compare
from benchrun.judge.results import results
from benchrun.plan import load_points
from benchrun_client.contract import MAX_GAP_SLICES, ClientFigures, StageRecord
from benchrun_client.stage_record import gap_counts, gap_slices, summed

from truth_kit.batching import Decodes, Served

ENDED = "2026-01-01T00:00:00Z"
BEGAN_US = 1_800_000_000_000_000
ComparedLatency = Literal["TTFT", "TPOT", "E2EL"]
PERCENTS = (50, 90, 95, 99)
PROMPT_TOKENS = 512
NEVER_COMPILED = ServerStatus(
    engine="VLLM", role="server", compilations=CompiledKernels(count=0)
)


def fresh_spec(**changes: Any) -> BenchmarkRunSpec:
    """Build the spec of a run with a server of its own, with these fields changed."""
    values: dict[str, Any] = {
        "model": {"name": "tiny", "source": {"path": {"path": "/models/tiny"}}},
        "server": {
            "image": "simulator",
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        },
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


def judged_answers(
    stages: Sequence[Served],
    *,
    limits: Sequence[tuple[ComparedLatency, int, int]] = (),
    rate: float | None = None,
    users: int | None = None,
) -> Result:
    """Judge a load point with these repeats, and return its row.

    The load is `rate` in requests a second, or so many `users`. `limits` are objectives: latency,
    percentile and milliseconds.
    """
    objectives = [
        {"metric": metric, "percentile": str(percent), "maxMilliseconds": limit_ms}
        for metric, percent, limit_ms in limits
    ]
    load: Mapping[str, Any] = {"concurrencies": [users]}
    if rate is not None:
        load = {"requestRates": [f"{rate:.6g}"]}
    workload = {
        "name": "w",
        "dataset": {"random": {"inputTokens": PROMPT_TOKENS, "outputTokens": 128}},
        "load": load,
    }
    spec = fresh_spec(
        workloads=[{**workload, "requests": len(stages[0].answers)}],
        objectives=objectives,
        repeats=len(stages),
        measurement={
            "percentiles": list(map(str, PERCENTS)),
            "warmup": {"none": {}},
        },
    )
    (load_point,) = load_points(spec)
    records = [
        _record(served, load_point, number) for number, served in enumerate(stages)
    ]
    judged = results([load_point], records, [], spec=spec, servers=[NEVER_COMPILED])
    return judged.results[0]


def _record(served: Served, load_point: LoadPoint, sequence: int) -> StageRecord:
    answers = served.answers
    first = min(each.sent for each in answers)
    sent = columns(
        [round(1000 * (each.sent - first)) for each in answers],
        [round(1000 * each.ttft) for each in answers],
        [round(1000 * each.e2el) for each in answers],
        tokens=(PROMPT_TOKENS, 2),
    )
    tokens = tuple(each.tokens for each in answers)
    sent = sent.model_copy(update={"output_tokens": tokens, "asked_tokens": tokens})
    ended = max(
        start + e2el
        for start, e2el in zip(sent.start_us, sent.e2el_us, strict=True)
    )
    by_slice = _gaps_by_slice(served.decodes, ended)
    wall = ended / 1e6
    client = ClientFigures(
        cpu_seconds=wall / 20,
        wall_seconds=wall,
        throttled_periods=0,
        lag_p99_us=300,
        lag_max_us=900,
    )
    return stage_record(
        load_point.stage_ids[sequence],
        sequence,
        sent,
        gap_counts(summed(by_slice)),
        server_edge(sent, start_time=1.0, generated=1e6 * sequence),
        load=load_point.load,
        began_us=BEGAN_US + sequence * 10**10,
        ended_us=BEGAN_US + sequence * 10**10 + ended,
        client=client,
        slices=gap_slices(by_slice),
    )


def _gaps_by_slice(decodes: Sequence[Decodes], ended_us: int) -> list[Counter[int]]:
    """Count the gaps in microseconds, by equal slices of time up to `ended_us`."""
    slices = [Counter[int]() for _ in range(MAX_GAP_SLICES)]
    for end, gap, sequences, steps in decodes:
        number = min(int(1000 * end / ended_us * len(slices)), len(slices) - 1)
        slices[number][round(1000 * gap)] += sequences * steps
    return slices


def server_run(
    name: str, figures: Sequence[Mapping[ComparedMetric, float]]
) -> MeasuredRun:
    """Build the finished run of a fresh server that was measured at as many load points."""
    spec = _spec_of_points(len(figures))
    rates = spec.workloads[0].load.request_rates or []
    rows = [
        Result.model_validate(
            {
                "loadPoint": f"w/rate={rate}",
                "workload": "w",
                "axis": "RequestRate",
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
    return MeasuredRun(
        name, name, spec, BenchmarkRunStatus(completion_time=ENDED, results=rows)
    )


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
    """Build the finished run of a fresh server with these results.

    `spec` is the lab's, for an endpoint; the lab's servers are fresh processes, which the
    comparison must take for runs with a server of their own.
    """
    own = _spec_of_points(len(rows))
    if spec is not None:
        workloads = [
            w.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
            for w in spec.workloads
        ]
        own = fresh_spec(workloads=workloads)
    return MeasuredRun(
        name,
        name,
        own,
        BenchmarkRunStatus(completion_time=ENDED, results=list(rows)),
    )


def compared(
    baseline: Sequence[MeasuredRun],
    candidate: Sequence[MeasuredRun],
    metrics: Sequence[ComparedMetric],
    *,
    max_regression_percent: float | None = None,
) -> Compared:
    """Return the product's comparison.

    Raises ValueError where it compares nothing, which would count as "no difference".
    """
    made = compare(
        baseline,
        candidate,
        metrics=metrics,
        max_regression_percent=max_regression_percent,
    )
    if made.outcome == "NotComparable":
        raise ValueError(made.message)
    return made


def told_percent(
    servers: int, questions: int, *, deviation_percent: float
) -> float | None:
    """Return the smallest change that is found in 80 % of comparisons, by `benchrun check`.

    The design is so many servers a side and questions; None while the product does not tell any.
    """
    told: Callable[..., float] | None = getattr(measure, "detectable_percent", None)
    return (
        None
        if told is None
        else told(servers, questions, cv_percent=deviation_percent)
    )
