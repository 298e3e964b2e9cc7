"""The tables of an exported run as CSV and Parquet: stages, servers, replicas and requests."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchrun_client.contract import RequestColumns

from benchrun import api
from benchrun.measure import (
    Replica,
    percentile_intervals,
    request_figures,
    time_costs,
    token_costs,
    tokens_per_joule,
)
from benchrun.report.export import formats
from benchrun.report.export.encoders import (
    Column,
    Files,
    Table,
    Value,
    as_csv,
    as_parquet,
    table_of,
)
from benchrun.report.export.formats import ExportedRun, ExportedStage, TableName

_KEYS: tuple[Column[Any], ...] = (
    Column("namespace", "text", lambda row: row.run.namespace),
    Column("run", "text", lambda row: row.run.name),
    Column("run_uid", "text", lambda row: row.run.uid),
    Column("stage", "text", lambda row: row.stage.id),
)
"""Columns that join the tables."""


class _StageRow(NamedTuple):
    run: ExportedRun
    stage: ExportedStage
    metrics: Mapping[str, float | None]
    """Figures by vLLM's names, with the costs and tokens per joule."""
    uncertain: Sequence[str]
    # Figures of the servers that write answers; the table of servers has every role.
    figures: api.RoleFigures | None


def _stage_row(run: ExportedRun, stage: ExportedStage) -> _StageRow:
    shown = formats.pools(stage)
    percentiles = run.spec.measurement.percentiles
    queued = stage.workload.load.max_concurrency is not None
    if queued:
        shown = {
            **shown,
            **request_figures.pools_of([stage.record], request_figures.QUEUED_LATENCIES),
        }
    metrics = request_figures.pooled_metrics([stage.record], shown, percentiles)
    steady = {f"steady_{key}": stage.steady.get(key) for key in api.THROUGHPUTS}
    throughputs = {key: stage.steady.get(key, metrics[key]) for key in api.THROUGHPUTS}
    spent = (
        steady
        | tokens_per_joule(stage.gpus, stage.servers)
        | time_costs(throughputs, run.status.cost)
    )
    spent |= token_costs([stage.record], run.spec.cost)
    uncertain = percentile_intervals(
        formats.samples(stage, queued=queued), percentiles, metrics
    ).uncertain
    return _StageRow(run, stage, {**metrics, **spent}, uncertain, api.answering(stage.servers))


def _number(name: str) -> Column[_StageRow]:
    return Column(name, "number", lambda row: row.metrics.get(name))


_STAGE_COLUMNS: tuple[Column[_StageRow], ...] = (
    *_KEYS,
    Column("workload", "text", lambda row: row.stage.workload.name),
    Column("load_point", "text", lambda row: row.stage.load_point.partition("/")[2]),
    Column("repeat", "integer", lambda row: row.stage.repeat),
    Column("sequence", "integer", lambda row: row.stage.record.sequence),
    Column("request_rate", "number", lambda row: row.stage.request_rate),
    Column("max_concurrency", "integer", lambda row: row.stage.max_concurrency),
    Column("verdict", "text", lambda row: row.stage.verdict),
    Column("findings", "texts", lambda row: row.stage.findings),
    Column("uncertain", "texts", lambda row: row.uncertain),
    Column("model", "text", lambda row: row.run.spec.model.name),
    Column("server_image", "text", lambda row: row.run.server.image if row.run.server else None),
    Column("server_version", "text", lambda row: formats.server_version(row.stage, row.run.server)),
    Column("gpu", "text", lambda row: row.run.server.gpu if row.run.server else None),
    Column(
        "gpus",
        "integer",
        lambda row: (
            api.total_gpus(row.run.status.servers)
            if row.run.spec.started and row.run.server
            else None
        ),
    ),
    Column("engine", "text", lambda row: row.stage.record.engine.name),
    Column("engine_version", "text", lambda row: row.stage.record.engine.version),
    Column("prompts_digest", "text", lambda row: row.stage.record.prompts_digest),
    Column("began", "instant", lambda row: row.stage.began),
    Column("ended", "instant", lambda row: row.stage.ended),
    Column("requests", "integer", lambda row: len(row.stage.record.requests.ok)),
    Column("completed", "integer", lambda row: _whole(row.metrics["completed"])),
    Column("failed", "integer", lambda row: _whole(row.metrics["failed"])),
    Column("duration_seconds", "number", lambda row: row.metrics["duration"]),
    Column("total_input_tokens", "integer", lambda row: _whole(row.metrics["total_input_tokens"])),
    Column(
        "total_output_tokens", "integer", lambda row: _whole(row.metrics["total_output_tokens"])
    ),
    *map(_number, ("request_throughput", "output_throughput", "total_token_throughput")),
)


def _of_role(name: str, attribute: str | None = None) -> Column[Any]:
    return Column(name, "number", lambda row: getattr(row.figures, attribute or name, None))


_SPENT_COLUMNS: tuple[Column[_StageRow], ...] = (
    *map(_of_role, api.exported_figures("stages")),
    Column(
        "gpu_power_mean_watts",
        "number",
        lambda row: request_figures.rounded(row.stage.gpus.gpu_power_mean_watts),
    ),
    Column(
        "gpu_memory_max_mib",
        "number",
        lambda row: request_figures.rounded(row.stage.gpus.gpu_memory_max_mib),
    ),
    Column(
        "sm_clock_mean_mhz",
        "number",
        lambda row: request_figures.rounded(row.stage.gpus.sm_clock_mean_mhz),
    ),
    _number(api.TOKENS_PER_JOULE),
    Column(
        "currency",
        "text",
        lambda row: row.run.status.cost.currency if row.run.status.cost else None,
    ),
    Column(
        "cost_per_hour",
        "number",
        lambda row: row.run.status.cost.per_hour if row.run.status.cost else None,
    ),
    _number(api.OUTPUT_COST),
    _number(api.TOTAL_COST),
    *(_number(f"steady_{key}") for key in api.THROUGHPUTS),
)


def stage_table(run: ExportedRun) -> Table:
    """Build the table of stages, one row each.

    Latencies are in milliseconds under vLLM's own names, throughputs are per second. Figures have
    five significant digits.
    """
    columns = (*_STAGE_COLUMNS, *map(_number, _latency_names(run)), *_SPENT_COLUMNS)
    return table_of(columns, (_stage_row(run, stage) for stage in run.stages))


def _latency_names(run: ExportedRun) -> list[str]:
    percentiles = [
        f"p{request_figures.percentile_word(each)}" for each in run.spec.measurement.percentiles
    ]
    names = [
        f"{figure}_{each}_ms"
        for each in request_figures.LATENCIES
        for figure in ("mean", "median", "std", *percentiles)
    ]
    if all(workload.load.max_concurrency is None for workload in run.spec.workloads):
        return names
    queued = request_figures.QUEUED_LATENCIES
    return names + [
        f"{figure}_{each}_ms" for each in queued for figure in ("mean", "median", *percentiles)
    ]


class _RoleRow(NamedTuple):
    """A role within a stage: its servers' figures and status."""

    run: ExportedRun
    stage: ExportedStage
    role: str
    figures: api.RoleFigures | None
    held: api.ServerStatus | None
    # As `held`, but None at an endpoint, whose servers are known only by what they report.
    started: api.ServerStatus | None


_SERVER_COLUMNS: tuple[Column[_RoleRow], ...] = (
    *_KEYS,
    Column("verdict", "text", lambda row: row.stage.verdict),
    Column("role", "text", lambda row: row.role),
    Column("replicas", "integer", lambda row: row.started.replicas if row.started else None),
    Column("server_image", "text", lambda row: row.started.image if row.started else None),
    Column(
        "server_version", "text", lambda row: formats.server_version(row.stage, row.held, row.role)
    ),
    Column(
        "gpu", "text", lambda row: row.started.gpu if row.started and row.started.gpus else None
    ),
    Column("gpus", "integer", lambda row: row.started.gpus if row.started else None),
    Column(
        "kv_cache_tokens", "integer", lambda row: row.held.kv_cache_tokens if row.held else None
    ),
    # Columns keep their places: first those that the table of stages has, too.
    *map(
        _of_role,
        dict.fromkeys(
            (
                *api.exported_figures("stages")[:-1],
                "fetched_tokens",
                *api.exported_figures("servers"),
            )
        ),
    ),
    _of_role("proxy_added_mean_ms", "added_mean_ms"),
    _of_role("proxy_cpu_cores", "cores"),
)


def server_table(run: ExportedRun) -> Table:
    """Build the table of servers with one row for each stage and role.

    Its figures cover all servers of the role; `kv_cache_tokens` is what each of them holds.
    """
    held = {server.role: server for server in run.status.servers}
    started = held if run.spec.started is not None else {}
    rows = []
    for stage in run.stages:
        figures = {each.role: each for each in stage.servers}
        for role in dict.fromkeys((*held, *figures)):
            rows.append(
                _RoleRow(run, stage, role, figures.get(role), held.get(role), started.get(role))
            )
    return table_of(_SERVER_COLUMNS, rows)


class _ReplicaRow(NamedTuple):
    run: ExportedRun
    stage: ExportedStage
    replica: Replica


def _of_replica(name: str) -> Column[_ReplicaRow]:
    return Column(
        name, "number", lambda row: request_figures.rounded(getattr(row.replica.figures, name))
    )


_REPLICA_COLUMNS: tuple[Column[_ReplicaRow], ...] = (
    *_KEYS,
    Column("verdict", "text", lambda row: row.stage.verdict),
    Column("role", "text", lambda row: row.replica.figures.role),
    Column("address", "text", lambda row: row.replica.address),
    Column("pod", "text", lambda row: row.replica.pod),
    Column("requests_finished", "integer", lambda row: _whole(row.replica.requests_finished)),
    Column("prompt_tokens", "integer", lambda row: _whole(row.replica.prompt_tokens)),
    Column("generation_tokens", "integer", lambda row: _whole(row.replica.generation_tokens)),
    # From the server's own counters; `mean_ttft_ms` and `queue_ms` are the client's figures.
    Column(
        "server_mean_ttft_ms",
        "number",
        lambda row: request_figures.rounded(row.replica.mean_ttft_ms),
    ),
    Column(
        "server_mean_queue_ms",
        "number",
        lambda row: request_figures.rounded(row.replica.mean_queue_ms),
    ),
    *map(
        _of_replica,
        dict.fromkeys(("prefix_hit_percent", "preemptions", *api.exported_figures("replicas"))),
    ),
)


def replica_table(run: ExportedRun) -> Table:
    """Build the table of replicas with one row for each stage and vLLM server.

    The proxy is in the table of servers only.
    """
    rows = (_ReplicaRow(run, stage, replica) for stage in run.stages for replica in stage.replicas)
    return table_of(_REPLICA_COLUMNS, rows)


class _RequestRow(NamedTuple):
    run_uid: str
    stage: ExportedStage
    requests: RequestColumns
    number: int
    ok: bool
    tpot_us: float | None

    @property
    def output_tokens(self) -> int | None:
        """Return the tokens of the answer; None: the request failed, or no server counted them."""
        tokens = self.requests.output_tokens[self.number]
        is_known = self.ok and (tokens or self.requests.ended[self.number])
        return tokens if is_known else None


_REQUEST_COLUMNS: tuple[Column[_RequestRow], ...] = (
    Column("run_uid", "text", lambda row: row.run_uid),
    Column("stage", "text", lambda row: row.stage.id),
    Column("verdict", "text", lambda row: row.stage.verdict),
    Column("request", "integer", lambda row: row.number),
    Column("ok", "flag", lambda row: row.ok),
    Column("start_ms", "number", lambda row: row.requests.start_us[row.number] / 1000),
    Column("queue_ms", "number", lambda row: row.requests.queue_us[row.number] / 1000),
    Column(
        "ttft_ms", "number", lambda row: row.requests.ttft_us[row.number] / 1000 if row.ok else None
    ),
    Column("tpot_ms", "number", lambda row: request_figures.milliseconds(row.tpot_us)),
    Column(
        "e2el_ms", "number", lambda row: row.requests.e2el_us[row.number] / 1000 if row.ok else None
    ),
    Column("input_tokens", "integer", lambda row: row.requests.input_tokens[row.number]),
    Column(
        "output_tokens",
        "integer",
        lambda row: row.output_tokens,
    ),
    Column("asked_tokens", "integer", lambda row: row.requests.asked_tokens[row.number]),
    Column("closed", "flag", lambda row: bool(row.requests.ended[row.number]) if row.ok else None),
)


def request_table(run: ExportedRun) -> Table:
    """Build the table of requests, one row each in the order of sending.

    Times are in milliseconds, starts count from the first request. A failed request has no
    latencies and no output.
    """
    stages = ((stage, stage.record.requests) for stage in run.stages)
    rows = (
        _RequestRow(run.uid, stage, sent, number, bool(sent.ok[number]), tpot_us)
        for stage, sent in stages
        for number, tpot_us in enumerate(request_figures.request_values(sent, "tpot"))
    )
    return table_of(_REQUEST_COLUMNS, rows)


def _whole(count: float | None) -> Value:
    return None if count is None else int(count)


_TABLES: Mapping[TableName, Callable[[ExportedRun], Table]] = {
    "stages": stage_table,
    "servers": server_table,
    "replicas": replica_table,
    "requests": request_table,
}


def _register(
    name: str, summary: str, write: Callable[[ExportedRun, TableName], bytes], is_text: bool = True
) -> None:
    def files(run: ExportedRun) -> Files:
        return {f"{table}.{name}": write(run, table) for table in formats.TABLES}

    formats.FORMATS[name] = formats.Format(summary, files, write, is_text)


_register(
    "csv",
    "tables of stages, of their servers and of requests",
    lambda run, table: as_csv(_TABLES[table](run)),
)
_register(
    "parquet",
    "the same, with types",
    lambda run, table: as_parquet(_TABLES[table](run), run_uid=run.uid),
    False,
)
