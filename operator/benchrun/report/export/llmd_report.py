"""llm-d benchmark report v0.2, one for each stage, for llm-d's analysis and dashboards.

Times are in seconds. The schema: https://github.com/llm-d/llm-d-benchmark,
llmdbenchmark/analysis/benchmark_report. All reports of a run have the same `run.eid`; `stage` is
the place in the order of measurement.
"""

import hashlib
import json
from collections.abc import Mapping

import yaml

from benchrun.api import LatencyDistribution, RoleFigures, total_gpus
from benchrun.measure import rounded
from benchrun.names import ROLE_DECODE, ROLE_PREFILL, ROLE_PROXY, ROLE_SERVER
from benchrun.report.export import formats
from benchrun.report.export.encoders import (
    Files,
    Json,
    NotExportable,
    without_unknown,
)
from benchrun.report.export.formats import (
    ExportedRun,
    ExportedStage,
    flags_of,
    parallelism_of,
    server_version,
)

VERSION = "0.2"
_COMPONENT_SCHEMA = "0.0.1"
_UNKNOWN = "unknown"  # Stands in for an unknown value if the schema requires one.
_PERCENTILES = {
    "p0p1": "0.1",
    "p1": "1",
    "p5": "5",
    "p10": "10",
    "p25": "25",
    "p50": "50",
    "p75": "75",
    "p90": "90",
    "p95": "95",
    "p99": "99",
    "p99p9": "99.9",
}
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


def requests(stage: ExportedStage) -> Json:
    """Return the number of requests and failures, and the token lengths of answered requests."""
    found = stage.result
    lengths = {"input_length": "input_tokens", "output_length": "output_tokens"}
    answered = {
        field: _statistics(pool, "count", _PERCENTILES)
        for field, name in lengths.items()
        if (pool := found.distributions.get(name)) is not None
    }
    failures = found.requests - found.completed
    return without_unknown(
        {"total": found.requests, "failures": failures, **answered}
    )


def latency(stage: ExportedStage) -> Json:
    """Return the latencies in seconds.

    A percentile is left out if too few requests bound it, because the format can't mark it.
    """
    found = {}
    for name, pool in stage.latencies.items():
        field, units = _LATENCIES[name]
        bounded = {
            key: percentile
            for key, percentile in _PERCENTILES.items()
            if percentile not in pool.unbounded
        }
        found[field] = _statistics(pool, units, bounded, scale=1e-3)
    return found


def throughput(stage: ExportedStage) -> Json:
    """Return the throughputs as single values: within a stage a rate has no distribution."""
    measured = stage.result.metrics
    found = {
        field: _value(measured.get(name), units)
        for field, (name, units) in _THROUGHPUTS.items()
    }
    tokens = measured.get("total_input_tokens")
    duration = measured.get("duration")
    if tokens is not None and duration:
        found["input_token_rate"] = _value(rounded(tokens / duration), "tokens/s")
    return without_unknown(found)


def resources(figures: RoleFigures) -> Json:
    """Return the figures of a role that come from its servers' metrics endpoints."""
    return without_unknown(
        {
            "kv_cache_usage": _value(
                figures.kv_cache_mean_percent,
                "percent",
                largest=figures.kv_cache_max_percent,
            ),
            "cache_hit_rate": _value(figures.prefix_hit_percent, "percent"),
            "running_requests": _value(
                figures.running_mean, "count", largest=figures.running_max
            ),
            "waiting_requests": _value(
                figures.waiting_mean, "count", largest=figures.waiting_max
            ),
            "preemptions": _value(figures.preemptions, "count"),
        }
    )


def _statistics(
    pool: LatencyDistribution,
    units: str,
    percentiles: Mapping[str, str],
    *,
    scale: float = 1.0,
) -> Json:
    figures = {
        "mean": pool.mean,
        "stddev": pool.deviation,
        "min": pool.least,
        **{
            name: pool.percentiles.get(level) for name, level in percentiles.items()
        },
        "max": pool.greatest,
    }
    return {"units": units} | {
        name: rounded(value * scale)
        for name, value in figures.items()
        if value is not None
    }


def _value(
    mean: float | None, units: str, *, largest: float | None = None
) -> Json | None:
    return (
        None
        if mean is None
        else without_unknown({"units": units, "mean": mean, "max": largest})
    )


def scenario(run: ExportedRun, stage: ExportedStage) -> Json:
    """Return the measured servers and the load.

    The label of a component is the role of its servers.
    """
    server = run.spec.server
    split = server is not None and server.disaggregated is not None
    roles = (ROLE_PREFILL, ROLE_DECODE) if split else (ROLE_SERVER,)
    return {
        "stack": [_server(run, stage, role) for role in roles],
        "load": _load(run, stage),
    }


def _server(run: ExportedRun, stage: ExportedStage, role: str) -> Json:
    native: Json = {}
    if (server := run.spec.started) is not None:
        variables = {
            each.name: each.value for each in server.env if each.value is not None
        }
        native = {
            "args": dict(flags_of(run, role)),
            "envars": variables,
            "config": {"image": server.image},
        }
    return {
        "metadata": {
            "schema_version": _COMPONENT_SCHEMA,
            "label": role,
            "cfg_id": _digest(native),
        },
        "standardized": _engine(run, stage, role),
        "native": native,
    }


def _engine(run: ExportedRun, stage: ExportedStage, role: str) -> Json:
    """Describe the servers of a role in the standard terms of the format.

    An endpoint is `generic`, because the kind `inference_engine` requires the hardware, which is
    unknown for an endpoint.
    """
    model = {"name": run.spec.model.name}
    tool = run.spec.engine_name.lower()
    version = server_version(stage, run.server) or (
        run.spec.started.image if run.spec.started is not None else _UNKNOWN
    )
    if run.spec.started is None:
        return {
            "kind": "generic",
            "tool": tool,
            "tool_version": version,
            "model": model,
        }
    of_role = [server for server in run.status.servers if server.role == role]
    gpu = next((server.gpu for server in of_role if server.gpu is not None), None)
    gpus = total_gpus(of_role)
    return {
        "kind": "inference_engine",
        "tool": tool,
        "tool_version": version,
        "role": "replica" if role == ROLE_SERVER else role,
        "replicas": max(1, sum(edge.role == role for edge in stage.result.servers)),
        "model": model,
        "accelerator": {
            "model": gpu or (_UNKNOWN if gpus else "none"),
            "count": gpus,
            "parallelism": parallelism_of(flags_of(run, role), run.spec.engine),
        },
    }


def _load(run: ExportedRun, stage: ExportedStage) -> Json:
    found = stage.result
    parts = {"workload": stage.workload, "measurement": run.spec.measurement}
    native = {
        "config": {
            name: part.model_dump(mode="json", by_alias=True, exclude_none=True)
            for name, part in parts.items()
        }
    }
    data = stage.workload.dataset.single
    standardized = {
        "tool": "vllm-benchmark",
        "tool_version": found.client.engine_version,
        "parallelism": found.client.processes,
        "source": "random" if data is not None and data.is_unlimited else "sampled",
        "stage": found.sequence,
        "input_seq_len": _lengths(found.distributions.get("sent_tokens")),
        "output_seq_len": _lengths(found.distributions.get("asked_tokens"))
        if stage.workload.ignore_eos
        else None,
        "rate_qps": stage.request_rate,
        "concurrency": stage.max_concurrency,
    }
    return {
        "metadata": {
            "schema_version": _COMPONENT_SCHEMA,
            "cfg_id": _digest(native),
            "description": stage.id,
        },
        "standardized": without_unknown(standardized),
        "native": native,
    }


def _lengths(pool: LatencyDistribution | None) -> Json | None:
    if pool is None:
        return None
    if pool.least == pool.greatest:
        return {"distribution": "fixed", "value": pool.greatest}
    return {
        "distribution": "other",
        "value": pool.mean,
        "min": pool.least,
        "max": pool.greatest,
    }


def _digest(config: Json) -> str:
    """Return a SHA-256 that is the same for equal configurations; llm-d groups reports by it."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def llmd_files(run: ExportedRun) -> Files:
    """Return one report for each stage under the file names that llm-d expects."""
    start = f"benchmark_report_v{VERSION},_"
    return {
        f"{start}{stage.id.replace('/', '-')}.yaml": _as_yaml(report(run, stage))
        for stage in run.stages
    }


def llmd_document(run: ExportedRun) -> bytes:
    """Return the report of a run's only stage. Raises NotExportable if there are several."""
    count = len(run.stages)
    if count != 1:
        raise NotExportable(
            f"{count} stages make {count} reports: give a folder, or one stage with --stage"
        )
    return _as_yaml(report(run, run.stages[0]))


def report(run: ExportedRun, stage: ExportedStage) -> Json:
    """Build the report of one stage. Unknown values are left out; they never become 0."""
    components = [
        {"component_label": each.role, "aggregate": found}
        for each in stage.result.roles
        if (found := resources(each))
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
            "description": (
                f"{run.spec.model.name} {stage.id} [{run.namespace}/{run.name}]: {stage.judgement}"
            ),
            "keywords": [
                "benchrun",
                f"verdict={stage.verdict}",
                *(f"finding={code}" for code in stage.findings),
            ],
        },
        "scenario": scenario(run, stage),
        "results": without_unknown(
            {
                "request_performance": {
                    "aggregate": {
                        "requests": requests(stage),
                        "latency": latency(stage),
                        "throughput": throughput(stage),
                    }
                },
                "observability": {"components": components} if components else None,
                "component_health": health
                if run.spec.started is not None and run.server is not None
                else None,
            }
        ),
    }


def _as_yaml(value: Json) -> bytes:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).encode()


SUMMARY = "llm-d benchmark reports v0.2, one a stage"
formats.FORMATS["llm-d"] = formats.Format(
    SUMMARY, llmd_files, lambda run, _: llmd_document(run)
)
