"""llm-d benchmark report v0.2, one a stage: what llm-d's analysis and its dashboards read. Times are seconds.

https://github.com/llm-d/llm-d-benchmark, llmdbenchmark/analysis/benchmark_report. The reports of a run have one `run.eid`, and
`stage` is the place in the order of measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import compress

import yaml
from benchrun_client.contract import StageRecord

from benchrun.api import RoleFigures
from benchrun.measure import Distribution, Pools, percentile_ranks, rounded, totals
from benchrun.names import ROLE_PROXY
from benchrun.report.export.encoders import Files, Json, NotExportable, seconds, without_unknown
from benchrun.report.export.formats import ExportedRun, ExportedStage, Format, pools, register
from benchrun.report.export.llmd_scenario import scenario

_PERCENTILES = {
    "p0p1": 0.1, "p1": 1.0, "p5": 5.0, "p10": 10.0, "p25": 25.0, "p50": 50.0, "p75": 75.0, "p90": 90.0, "p95": 95.0,
    "p99": 99.0, "p99p9": 99.9,
}  # fmt: skip
_LATENCIES = {
    "ttft": ("time_to_first_token", "s"),
    "tpot": ("time_per_output_token", "s/token"),
    "itl": ("inter_token_latency", "s/token"),
    "e2el": ("request_latency", "s"),
}
_THROUGHPUTS = {
    "output_token_rate": ("output_throughput", "tokens/s"),
    "total_token_rate": ("total_token_throughput", "tokens/s"),
    "request_rate": ("request_throughput", "queries/s"),
}


def requests(record: StageRecord) -> Json:
    """How many there were, and the lengths of those that were answered."""
    columns, ok = record.requests, record.requests.ok
    tokens = {"input_length": columns.input_tokens, "output_length": columns.output_tokens}
    pools = {name: Distribution.of(compress(values, ok)) for name, values in tokens.items()}
    # Every percentile is exact: these are all lengths, not a sample.
    answered = {n: _statistics(pool, "count", _PERCENTILES, scale=float) for n, pool in pools.items() if pool.count}
    return without_unknown({"total": len(ok), "failures": ok.count(0), **answered})


def latency(pools: Pools) -> Json:
    """A percentile that too few requests bound is left out: the format has no mark for it."""
    found = {}
    for name, pool in pools.items():
        field, units = _LATENCIES[name]
        bounded = {key: p for key, p in _PERCENTILES.items() if percentile_ranks(pool.count, p) is not None}
        found[field] = _statistics(pool, units, bounded, scale=seconds)
    return found


def throughput(record: StageRecord) -> Json:
    """One value each: there is no distribution of a rate over one stage."""
    measured = totals([record])
    found = {field: _value(measured[name], units) for field, (name, units) in _THROUGHPUTS.items()}
    tokens, duration = measured["total_input_tokens"], measured["duration"]
    if tokens is not None and duration:
        found["input_token_rate"] = _value(rounded(tokens / duration), "tokens/s")
    return without_unknown(found)


def resources(figures: RoleFigures) -> Json:
    """From the servers' metrics endpoints."""
    return without_unknown(
        {
            "kv_cache_usage": _value(figures.kv_cache_mean_percent, "percent", largest=figures.kv_cache_max_percent),
            "cache_hit_rate": _value(figures.prefix_hit_percent, "percent"),
            "running_requests": _value(figures.running_mean, "count", largest=figures.running_max),
            "waiting_requests": _value(figures.waiting_mean, "count", largest=figures.waiting_max),
            "preemptions": _value(figures.preemptions, "count"),
        }
    )


def _statistics(
    pool: Distribution, units: str, percentiles: Mapping[str, float], *, scale: Callable[[float], float]
) -> Json:
    figures = {
        "mean": pool.mean(),
        "stddev": pool.deviation(),
        "min": pool.at_rank(1),
        **{name: pool.percentile(percent) for name, percent in percentiles.items()},
        "max": pool.at_rank(pool.count),
    }
    return {"units": units} | {name: scale(value) for name, value in figures.items() if value is not None}


def _value(mean: float | None, units: str, *, largest: float | None = None) -> Json | None:
    return None if mean is None else without_unknown({"units": units, "mean": mean, "max": largest})


VERSION = "0.2"


def llmd_files(run: ExportedRun) -> Files:
    """Under the names that llm-d expects."""
    names = {f"benchmark_report_v{VERSION},_{stage.id.replace('/', '-')}.yaml": stage for stage in run.stages}
    return {name: _as_yaml(report(run, stage)) for name, stage in names.items()}


def llmd_document(run: ExportedRun) -> bytes:
    """The report of the only stage. Raises NotExportable for several."""
    count = len(run.stages)
    if count != 1:
        raise NotExportable(f"{count} stages make {count} reports: give a folder, or one stage with --stage")
    return _as_yaml(report(run, run.stages[0]))


def report(run: ExportedRun, stage: ExportedStage) -> Json:
    """One report. What is not known is left out, never 0."""
    components = [
        {"component_label": each.role, "aggregate": found} for each in stage.servers if (found := resources(each))
    ]
    health = [
        {"component_label": server.role, "total_restarts": server.restarts}
        for server in run.status.servers
        if server.role != ROLE_PROXY
    ]
    return {
        "version": VERSION,
        "run": {
            "uid": f"{run.uid}/{stage.id}",
            "eid": run.uid,
            "time": {
                "start": stage.began.isoformat(),
                "end": stage.ended.isoformat(),
                "duration": f"PT{(stage.ended - stage.began).total_seconds():f}S",
            },
            "description": f"{run.spec.model.name} {stage.id} [{run.namespace}/{run.name}]: {stage.judgement}",
            "keywords": ["benchrun", f"verdict={stage.verdict}", *(f"finding={code}" for code in stage.findings)],
        },
        "scenario": scenario(run, stage),
        "results": without_unknown(
            {
                "request_performance": {
                    "aggregate": {
                        "requests": requests(stage.record),
                        "latency": latency(pools([stage])),
                        "throughput": throughput(stage.record),
                    }
                },
                "observability": {"components": components} if components else None,
                "component_health": health if run.spec.started is not None and run.server is not None else None,
            }
        ),
    }


def _as_yaml(value: Json) -> bytes:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).encode()


register("llm-d", Format("llm-d benchmark reports v0.2, one a stage", llmd_files, lambda run, _: llmd_document(run)))
