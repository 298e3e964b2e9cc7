"""Measured sweeps in the form the operator leaves them.

They are made by its own decisions, of figures that a test gives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchrun.api import BenchmarkRunStatus, Result, RoleFigures
from benchrun.api.sweep import BenchmarkSweepStatus, essence
from benchrun.observe import Run, Sweep
from benchrun.report.html import ReportedSweep
from unit.judge.comparison.sides import row, run
from unit.plan.specs import Json, rates, spec_body, workload
from unit.sweep.sweeps import (
    NAME,
    NAMESPACE,
    UID,
    a_run,
    decided,
    ended,
    failed,
    variant,
)

ALL_AT_ONCE = "chat/rate=inf"
SCATTER = 0.01
"""From server to server, of every figure."""


@dataclass(frozen=True)
class Measured:
    """A variant's figures of a row at each load point, and its server's readings meanwhile."""

    figures: Mapping[str, float | None] = field(default_factory=dict)
    server: Mapping[str, float] | None = None
    verdict: str = "Valid"
    objective: str | None = None
    """Outcome of TTFT p99 <= 500 ms."""
    at: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Figures that differ at a load point."""


BATCHES: Mapping[str, Measured] = {
    "10000": Measured(
        {
            "RequestThroughput": 20.3,
            "OutputThroughput": 81.0,
            "TotalTokenThroughput": 25_400.0,
        },
        {
            "running_mean": 33,
            "waiting_mean": 491,
            "kv_cache_max_percent": 9.4,
            "prefix_hit_percent": 0.2,
        },
    ),
    "80000": Measured(
        {
            "RequestThroughput": 20.6,
            "OutputThroughput": 82.4,
            "TotalTokenThroughput": 25_800.0,
        },
        {
            "running_mean": 267,
            "waiting_mean": 436,
            "kv_cache_max_percent": 78,
            "prefix_hit_percent": 0.2,
        },
    ),
    "160000": Measured(
        {
            "RequestThroughput": 20.0,
            "OutputThroughput": 80.0,
            "TotalTokenThroughput": 25_600.0,
        },
        {
            "running_mean": 276,
            "waiting_mean": 367,
            "kv_cache_max_percent": 99,
            "prefix_hit_percent": 0.2,
        },
    ),
}
"""Three sizes of a batch: more runs at once, and throughput stays."""


@dataclass(frozen=True)
class FinishedSweep:
    """A sweep with its table."""

    written: Json
    status: BenchmarkSweepStatus
    name: str = NAME
    runs: Sequence[Json] = ()
    """Its runs, as `kubectl get -o json` gives them."""

    @property
    def body(self) -> Json:
        """Return the object in the form of `kubectl get -o json`."""
        status = self.status.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        return sweep_object(status, name=self.name, spec=self.written)

    @property
    def reported(self) -> ReportedSweep:
        """Return the sweep in the form that a page takes."""
        return ReportedSweep(
            Sweep(NAMESPACE, self.name, UID, 1, self.written), self.status
        )


def sweep_object(status: Json, *, name: str = NAME, spec: Json) -> Json:
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkSweep",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": UID,
            "generation": 1,
            "creationTimestamp": "2026-01-01T10:59:58Z",
        },
        "spec": spec,
        "status": status,
    }


def batches(**changes: Any) -> FinishedSweep:
    """Build a sweep over three batch sizes, on one server each.

    Its load is texts packed by four, all sent at once.
    """
    texts = {
        "file": {"configMap": {"name": "reviews", "key": "a.csv"}},
        "column": "review",
        "textsPerPrompt": 4,
    }
    at_once = workload(dataset={"texts": texts}, load=rates("inf"), requests=100)
    return finished_sweep(
        BATCHES,
        load_points=(ALL_AT_ONCE,),
        template=spec_body(workloads=[at_once]),
        **changes,
    )


def finished_sweep(
    measured: Mapping[str, Measured | None],
    *,
    load_points: Sequence[str] = ("chat/rate=4",),
    replications: int = 1,
    **spec: Any,
) -> FinishedSweep:
    """Build a sweep with every variant on so many servers; the first one is the baseline.

    Variants whose figures are None have failed.
    """
    args = {name: [f"--max-num-batched-tokens={name}"] for name in measured}
    written: Json = {
        "template": spec.pop("template", spec_body()),
        "matrix": {"variants": [variant(name, *args[name]) for name in measured]},
        "replications": replications,
        **spec,
    }
    runs = []
    figures = {}
    for number, (name, what) in enumerate(measured.items(), start=1):
        for replication in range(1, replications + 1):
            one = a_run(
                f"{NAME}-v{number}-r{replication}",
                status=failed() if what is None else ended(),
            )
            runs.append(one)
            if what is not None:
                figures[one.uid] = _measured(
                    one.name, name, what, load_points, alone=replications == 1
                )
    bodies = [_run_body(one, figures.get(one.uid)) for one in runs]
    return FinishedSweep(
        written, decided(written, runs, figures=figures).status, runs=bodies
    )


def _run_body(one: Run, figures: BenchmarkRunStatus | None) -> Json:
    owner = {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkSweep",
        "name": NAME,
        "uid": UID,
        "controller": True,
    }
    status = (
        figures.model_dump(mode="json", by_alias=True, exclude_none=True)
        if figures is not None
        else {}
    )
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {
            "name": one.name,
            "namespace": NAMESPACE,
            "uid": one.uid,
            "ownerReferences": [owner],
        },
        "spec": one.spec,
        "status": status | one.status,
    }


def _measured(
    run_name: str,
    variant_name: str,
    what: Measured,
    load_points: Sequence[str],
    *,
    alone: bool,
) -> BenchmarkRunStatus:
    draw = Random(f"{run_name} {variant_name}")
    return essence(
        run(
            run_name,
            [
                _row(what, load_point, draw, alone=alone)
                for load_point in load_points
            ],
        ).status
    )


def _row(what: Measured, load_point: str, draw: Random, *, alone: bool) -> Result:
    """Build a variant's row; with one server alone, repeats give the noise."""
    figures: Json = {
        name: value
        if value is None or alone
        else value * (1 + draw.gauss(0, SCATTER))
        for name, value in {**what.figures, **what.at.get(load_point, {})}.items()
    }
    noise: Json = {"repeats": 5, "cv": 1.0} if alone else {}
    found = row(load_point, verdict=what.verdict, **noise, **figures)
    update: Json = {}
    if what.server is not None:
        update["roles"] = [RoleFigures(role="server", **what.server)]
    if what.objective is not None:
        objective = {
            "metric": "TTFT",
            "percentile": "99",
            "maxMilliseconds": 500,
            "measuredMilliseconds": 468.2,
            "outcome": what.objective,
            "price": {"requests": 2437}
            if what.objective == "Inconclusive"
            else None,
        }
        update["objectives"] = [objective]
    return Result.model_validate(found.model_dump() | update)
