"""Runs to compare, made of a few words: `run("a", OutputThroughput=100)`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any

from benchrun.api import (
    KEYS,
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    Change,
    ClientStatus,
    ComparedMetric,
    Condition,
    Result,
    ServerStatus,
)
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.comparison.compare import Compared, compare
from unit.measure.records import load_of
from unit.plan.specs import spec

TYPICAL: Mapping[ComparedMetric, float] = {
    "OutputThroughput": 1200.0,
    "RequestThroughput": 9.4,
    "TotalTokenThroughput": 10_800.0,
    "MeanTTFT": 43.0,
    "MeanTPOT": 11.0,
    "MeanITL": 11.2,
    "MeanE2EL": 1440.0,
}
LATENCIES: tuple[ComparedMetric, ...] = (
    "MeanTTFT",
    "MeanTPOT",
    "MeanITL",
    "MeanE2EL",
)
LOAD_POINT = "chat/rate=4"
CLIENT = ClientStatus(image="client:1", engine="vllm", engine_version="0.32.0")
ENDED = "2026-01-01T00:05:00Z"


def row(
    load_point: str = LOAD_POINT,
    *,
    repeats: int = 1,
    cv: float | None = None,
    verdict: str = "Valid",
    traffic: str | None = "t",
    **figures: float | None,
) -> Result:
    """Build a row of results; `cv` percent is the scatter of every figure over the repeats."""
    workload = load_point.partition("/")[0]
    load = load_of(load_point)
    shown: dict[str, float | None] = {
        **dict[str, float](TYPICAL.items()),
        **figures,
    }
    return Result.model_validate(
        {
            "loadPoint": load_point,
            "workload": workload,
            "axis": load.axis,
            "value": load.value,
            "repeats": repeats,
            "repeatsPlanned": repeats,
            "metrics": {key: shown.get(metric) for metric, key in KEYS.items()},
            "repeatCvPercent": {}
            if cv is None
            else dict.fromkeys(KEYS.values(), cv),
            "traffic": traffic,
            "verdict": verdict,
        }
    )


def run(
    name: str = "a",
    rows: Sequence[Result] | None = None,
    *,
    run_spec: BenchmarkRunSpec | None = None,
    server: Mapping[str, Any] | None = None,
    client: ClientStatus = CLIENT,
    status: Mapping[str, Any] | None = None,
    **fields: Any,
) -> MeasuredRun:
    """Build a run that was measured to its end.

    `fields` go into its only row, `status` into its status.
    """
    run_spec = run_spec or spec()
    facts: dict[str, Any] = {
        "role": "server",
        "engine": "VLLM",
        "gpus": 1,
        "gpu": "H100",
        "node": "n1",
    }
    facts |= server or {}
    found = BenchmarkRunStatus(
        completion_time=ENDED,
        servers=[ServerStatus.model_validate(facts)],
        client=client,
        results=list(rows) if rows is not None else [row(**fields)],
    )
    return MeasuredRun(
        name, f"uid-{name}", run_spec, found.model_copy(update=dict(status or {}))
    )


def failed(name: str) -> MeasuredRun:
    """Build a run that failed before its end, although what it had measured looks right."""
    condition = Condition(type="Failed", status="True", reason="ServerRestarted")
    return run(name, status={"conditions": (condition,), "phase": "Failed"})


def repeated(
    name: str, *, repeats: int = 5, cv: float = 1.0, **figures: Any
) -> MeasuredRun:
    """Build one server's run, measured so many times."""
    return run(name, repeats=repeats, cv=cv, **figures)


def servers(
    prefix: str,
    random: Random,
    *,
    count: int = 5,
    cv: float = 0.015,
    effect: float = 1.0,
    load_points: Sequence[str] = (LOAD_POINT,),
) -> list[MeasuredRun]:
    """Build fresh servers of one configuration; `effect` above 1 makes everything so much worse."""
    return [
        _one_server(f"{prefix}{n}", random, cv, effect, load_points)
        for n in range(count)
    ]


def _one_server(
    name: str, random: Random, cv: float, effect: float, load_points: Sequence[str]
) -> MeasuredRun:
    def figures() -> dict[str, float | None]:
        return {
            KEYS[metric]: value
            * (effect if metric in LATENCIES else 1 / effect)
            * (1 + random.gauss(0, cv))
            for metric, value in TYPICAL.items()
        }

    like = _like(tuple(load_points))
    rows = [
        each.model_copy(update={"metrics": each.metrics | figures()})
        for each in like.status.results
    ]
    status = like.status.model_copy(update={"results": rows})
    return replace(like, name=name, uid=f"uid-{name}", status=status)


@lru_cache
def _like(load_points: tuple[str, ...]) -> MeasuredRun:
    """Build what servers have in common: to build thousands from the models takes most of a test."""
    return run(rows=[row(load_point) for load_point in load_points])


def compared(
    before: MeasuredRun | Sequence[MeasuredRun],
    after: MeasuredRun | Sequence[MeasuredRun],
    *metrics: ComparedMetric,
    limit: float | None = None,
    one_is_enough: bool = False,
) -> Compared:
    """Compare two sides, over throughput and TTFT unless other metrics are given."""
    first, second = (
        [side] if isinstance(side, MeasuredRun) else side
        for side in (before, after)
    )
    return compare(
        first,
        second,
        metrics=metrics or ("OutputThroughput", "MeanTTFT"),
        max_regression_percent=limit,
        one_server_is_enough=one_is_enough,
    )


def words(found: Compared, load_point: str = LOAD_POINT) -> dict[str, str]:
    return {
        change.metric: change.word for change in changes(found, load_point).values()
    }


def changes(found: Compared, load_point: str = LOAD_POINT) -> dict[str, Change]:
    return {
        change.metric: change
        for each in found.load_points
        if each.load_point == load_point
        for change in each.changes
    }
