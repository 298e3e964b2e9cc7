"""`Statistics` of the llm-d benchmark report, from our exact distributions. Times are seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress

from benchrun_client.contract import StageRecord

from benchrun.api.status import RoleFigures
from benchrun.measure.cells import Pools, rounded, totals
from benchrun.measure.intervals import percentile_interval
from benchrun.measure.percentiles import Distribution
from benchrun.report.export.files import Json, without_unknown
from benchrun.report.export.units import seconds

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
    columns = record.requests
    return without_unknown(
        {
            "total": len(columns.ok),
            "failures": columns.ok.count(0),
            "input_length": _lengths(list(compress(columns.input_tokens, columns.ok))),
            "output_length": _lengths(list(compress(columns.output_tokens, columns.ok))),
        }
    )


def latency(pools: Pools) -> Json:
    """A percentile that so few requests can't bound is left out: the format has no mark for it."""
    found = {}
    for name, pool in pools.items():
        field, units = _LATENCIES[name]
        bounded = {key: p for key, p in _PERCENTILES.items() if percentile_interval(pool, p) is not None}
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
    """What the servers' metrics pages said."""
    return without_unknown(
        {
            "kv_cache_usage": _value(figures.kv_cache_mean_percent, "percent", largest=figures.kv_cache_max_percent),
            "cache_hit_rate": _value(figures.prefix_hit_percent, "percent"),
            "running_requests": _value(figures.running_mean, "count", largest=figures.running_max),
            "waiting_requests": _value(figures.waiting_mean, "count", largest=figures.waiting_max),
            "preemptions": _value(figures.preemptions, "count"),
        }
    )


def _lengths(tokens: Sequence[int]) -> Json | None:
    """Of lengths every percentile is known: they are what was sent and what came, not a sample of something."""
    return _statistics(Distribution.of(tokens), "count", _PERCENTILES, scale=float) if tokens else None


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
