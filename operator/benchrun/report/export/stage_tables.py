"""One row a stage, and one row a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchrun.api import OUTPUT_COST, TOKENS_PER_JOULE, TOTAL_COST, answering
from benchrun.judge.row import certainty, costs, tokens_per_joule
from benchrun.measure.cells import (
    LATENCIES,
    QUEUE_TIME,
    QUEUED_E2EL,
    QUEUED_TTFT,
    percentile_word,
    pooled_metrics,
    queue_pools,
    rounded,
)
from benchrun.names import ROLE_PROXY
from benchrun.report.export.exported import ExportedRun, ExportedStage, pools, server_version
from benchrun.report.export.tables import Column, Table, Value, row_of

# ---- stage table ------------------------------------------------------------------------------------------------------
# One row a stage: what was asked, what was measured, and how far it can be trusted.

STAGES = "stages"
_RUN = (Column("namespace", "text"), Column("run", "text"), Column("run_uid", "text"))
_STAGE = (
    Column("stage", "text"),
    Column("workload", "text"),
    Column("load_point", "text"),
    Column("repeat", "integer"),
    Column("sequence", "integer"),
    Column("request_rate", "number"),
    Column("max_concurrency", "integer"),
    Column("verdict", "text"),
    Column("findings", "texts"),
    Column("uncertain", "texts"),
)
_SETTING = (
    Column("model", "text"),
    Column("server_image", "text"),
    Column("server_version", "text"),
    Column("gpu", "text"),
    Column("gpus", "integer"),
    Column("engine", "text"),
    Column("engine_version", "text"),
    Column("prompts_digest", "text"),
    Column("began", "instant"),
    Column("ended", "instant"),
)
_COUNTS = (
    Column("requests", "integer"),
    Column("completed", "integer"),
    Column("failed", "integer"),
    Column("duration_seconds", "number"),
    Column("total_input_tokens", "integer"),
    Column("total_output_tokens", "integer"),
    Column("request_throughput", "number"),
    Column("output_throughput", "number"),
    Column("total_token_throughput", "number"),
)
_SERVER = tuple(
    Column(name, "number")
    for name in (
        "running_mean", "running_max", "waiting_mean", "waiting_max", "kv_cache_mean_percent", "kv_cache_max_percent",
        "preemptions", "prefix_hit_percent", "coverage_percent",
    )
)  # fmt: skip
"""Of the servers that write answers; the table of servers has those of every role."""
_SPENT = (
    Column("gpu_power_mean_watts", "number"),
    Column("gpu_memory_max_mib", "number"),
    Column("sm_clock_mean_mhz", "number"),
    Column(TOKENS_PER_JOULE, "number"),
    Column("currency", "text"),
    Column("cost_per_hour", "number"),
    Column(OUTPUT_COST, "number"),
    Column(TOTAL_COST, "number"),
)
"""Of all servers together, whatever their role."""


def stage_table(run: ExportedRun) -> Table:
    """Latencies are milliseconds under vLLM's own names, throughputs a second; five significant digits."""
    latencies = tuple(Column(name, "number") for name in _latency_names(run))
    columns = (*_RUN, *_STAGE, *_SETTING, *_COUNTS, *latencies, *_SERVER, *_SPENT)
    rows = [row_of(columns, _values(run, stage)) for stage in run.stages]
    return Table(STAGES, columns, rows)


def _values(run: ExportedRun, stage: ExportedStage) -> dict[str, Value]:
    record, server = stage.record, run.server
    shown, percentiles = pools([stage]), run.spec.measurement.percentiles
    if stage.workload.load.max_concurrency is not None:
        shown = {**shown, **queue_pools([record])}
    metrics = pooled_metrics([record], shown, percentiles)
    spent = _spent(run, stage, metrics)
    return {
        "namespace": run.namespace,
        "run": run.name,
        "run_uid": run.uid,
        "stage": stage.id,
        "workload": stage.workload.name,
        "load_point": stage.load_point,
        "repeat": stage.repeat,
        "sequence": record.sequence,
        "request_rate": stage.request_rate,
        "max_concurrency": stage.max_concurrency,
        "verdict": stage.verdict,
        "findings": stage.findings,
        "uncertain": certainty(shown, percentiles).uncertain,
        "model": run.spec.model.name,
        "server_image": server.image if server is not None else None,
        "server_version": server_version(run, stage),
        "gpu": server.gpu if server is not None else None,
        "gpus": run.gpus if server is not None and run.spec.started is not None else None,
        "engine": record.engine.name,
        "engine_version": record.engine.version,
        "prompts_digest": record.prompts_digest,
        "began": stage.began,
        "ended": stage.ended,
        "requests": len(record.requests.ok),
        "duration_seconds": metrics.pop("duration"),
        **{name: _whole(name, value) for name, value in metrics.items()},
        **_server_values(stage),
        **spent,
    }


def _whole(name: str, value: float | None) -> Value:
    """Counts are integers."""
    counts = {column.name for column in _COUNTS if column.kind == "integer"}
    return int(value) if value is not None and name in counts else value


def _server_values(stage: ExportedStage) -> dict[str, Value]:
    said = answering(stage.servers)
    return {column.name: getattr(said, column.name) for column in _SERVER} if said is not None else {}


def _spent(run: ExportedRun, stage: ExportedStage, metrics: Mapping[str, float | None]) -> dict[str, Value]:
    price, vllms = run.status.cost, [each for each in stage.servers if each.role != ROLE_PROXY]
    return {
        "gpu_power_mean_watts": rounded(stage.gpus.power_mean_watts),
        "gpu_memory_max_mib": rounded(stage.gpus.memory_max_mib),
        "sm_clock_mean_mhz": rounded(stage.gpus.sm_clock_mean_mhz),
        **tokens_per_joule(metrics, vllms),
        "currency": price.currency if price is not None else None,
        "cost_per_hour": price.per_hour if price is not None else None,
        **costs(metrics, price),
    }


def _latency_names(run: ExportedRun) -> list[str]:
    percentiles = [f"p{percentile_word(each)}" for each in run.spec.measurement.percentiles]
    names = [f"{figure}_{latency}_ms" for latency in LATENCIES for figure in ("mean", "median", "std", *percentiles)]
    capped = any(workload.load.max_concurrency is not None for workload in run.spec.workloads)
    queued = [
        f"{figure}_{name}_ms"
        for name in (QUEUE_TIME, QUEUED_TTFT, QUEUED_E2EL)
        for figure in ("mean", "median", *percentiles)
    ]
    return [*names, *queued] if capped else names


# ---- request table ----------------------------------------------------------------------------------------------------
# One row a request, in order of sending.

REQUESTS = "requests"
_COLUMNS = (
    Column("run_uid", "text"),
    Column("stage", "text"),
    Column("verdict", "text"),
    Column("request", "integer"),
    Column("ok", "flag"),
    Column("start_ms", "number"),
    Column("queue_ms", "number"),
    Column("ttft_ms", "number"),
    Column("tpot_ms", "number"),
    Column("e2el_ms", "number"),
    Column("input_tokens", "integer"),
    Column("output_tokens", "integer"),
    Column("asked_tokens", "integer"),
    Column("closed", "flag"),
)


def request_table(run: ExportedRun) -> Table:
    """Milliseconds. `start_ms` counts from the stage's first request; `closed` is whether the server's closing word came.
    Of a failed request no time and no output is known."""
    return Table(REQUESTS, _COLUMNS, [row for stage in run.stages for row in _rows(run, stage)])


def _rows(run: ExportedRun, stage: ExportedStage) -> Iterator[tuple[Value, ...]]:
    columns = stage.record.requests
    for number, ok in enumerate(columns.ok):
        ttft, e2el, tokens = columns.ttft_us[number], columns.e2el_us[number], columns.output_tokens[number]
        yield (
            run.uid,
            stage.id,
            stage.verdict,
            number,
            bool(ok),
            columns.start_us[number] / 1000,
            columns.queue_us[number] / 1000,
            ttft / 1000 if ok else None,
            _tpot_ms(ttft, e2el, tokens) if ok else None,
            e2el / 1000 if ok else None,
            columns.input_tokens[number],
            tokens if ok else None,
            columns.asked_tokens[number],
            bool(columns.ended[number]) if ok else None,
        )


def _tpot_ms(ttft_us: int, e2el_us: int, tokens: int) -> float | None:
    """Time per output token after the first; a one-token answer has none."""
    return (e2el_us - ttft_us) / (tokens - 1) / 1000 if tokens > 1 else None
