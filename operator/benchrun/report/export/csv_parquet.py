"""The tables of an exported run as CSV and Parquet: stages, servers, replicas and requests."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchrun_client.contract import RequestColumns

from benchrun import api
from benchrun.measure import request_figures
from benchrun.report.export import formats
from benchrun.report.export.encoders import (
    ExportColumn,
    ExportTable,
    Files,
    Value,
    as_csv,
    as_parquet,
    table_of,
)
from benchrun.report.export.formats import ExportedRun, ExportedStage, TableName

_KEYS: tuple[ExportColumn[Any], ...] = (
    ExportColumn("namespace", "text", lambda row: row.run.namespace),
    ExportColumn("run", "text", lambda row: row.run.name),
    ExportColumn("run_uid", "text", lambda row: row.run.uid),
    ExportColumn("stage", "text", lambda row: row.stage.id),
)
"""Columns by which the tables can be joined."""


class _StageRow(NamedTuple):
    run: ExportedRun
    stage: ExportedStage
    metrics: Mapping[str, float | None]
    """Figures under vLLM's names; also costs and tokens per joule."""
    # Figures of the servers that write answers; the table of servers has every role.
    figures: api.RoleFigures | None


def _stage_row(run: ExportedRun, stage: ExportedStage) -> _StageRow:
    found = stage.result
    steady = {f"steady_{key}": found.steady.get(key) for key in api.THROUGHPUTS}
    return _StageRow(run, stage, found.metrics | steady, api.answering(found.roles))


def _number(name: str) -> ExportColumn[_StageRow]:
    return ExportColumn(name, "number", lambda row: row.metrics.get(name))


_STAGE_COLUMNS: tuple[ExportColumn[_StageRow], ...] = (
    *_KEYS,
    ExportColumn("workload", "text", lambda row: row.stage.workload.name),
    ExportColumn(
        "load_point", "text", lambda row: row.stage.load_point.partition("/")[2]
    ),
    ExportColumn("repeat", "integer", lambda row: row.stage.repeat),
    ExportColumn("sequence", "integer", lambda row: row.stage.result.sequence),
    ExportColumn("request_rate", "number", lambda row: row.stage.request_rate),
    ExportColumn(
        "max_concurrency", "integer", lambda row: row.stage.max_concurrency
    ),
    ExportColumn("verdict", "text", lambda row: row.stage.verdict),
    ExportColumn("findings", "texts", lambda row: row.stage.findings),
    ExportColumn("uncertain", "texts", lambda row: row.stage.result.uncertain),
    ExportColumn("model", "text", lambda row: row.run.spec.model.name),
    ExportColumn(
        "server_image",
        "text",
        lambda row: row.run.server.image if row.run.server else None,
    ),
    ExportColumn(
        "server_version",
        "text",
        lambda row: formats.server_version(row.stage, row.run.server),
    ),
    ExportColumn(
        "gpu", "text", lambda row: row.run.server.gpu if row.run.server else None
    ),
    ExportColumn(
        "gpus",
        "integer",
        lambda row: (
            api.total_gpus(row.run.status.servers)
            if row.run.spec.started and row.run.server
            else None
        ),
    ),
    ExportColumn("engine", "text", lambda row: row.stage.result.client.engine),
    ExportColumn(
        "engine_version", "text", lambda row: row.stage.result.client.engine_version
    ),
    ExportColumn(
        "prompts_digest", "text", lambda row: row.stage.result.prompts_digest
    ),
    ExportColumn("began", "instant", lambda row: row.stage.began),
    ExportColumn("ended", "instant", lambda row: row.stage.ended),
    ExportColumn("requests", "integer", lambda row: row.stage.result.requests),
    ExportColumn(
        "completed", "integer", lambda row: _whole(row.metrics.get("completed"))
    ),
    ExportColumn(
        "failed", "integer", lambda row: _whole(row.metrics.get("failed"))
    ),
    ExportColumn(
        "duration_seconds", "number", lambda row: row.metrics.get("duration")
    ),
    ExportColumn(
        "total_input_tokens",
        "integer",
        lambda row: _whole(row.metrics.get("total_input_tokens")),
    ),
    ExportColumn(
        "total_output_tokens",
        "integer",
        lambda row: _whole(row.metrics.get("total_output_tokens")),
    ),
    *map(
        _number,
        ("request_throughput", "output_throughput", "total_token_throughput"),
    ),
)


def _of_role(name: str, attribute: str | None = None) -> ExportColumn[Any]:
    return ExportColumn(
        name, "number", lambda row: getattr(row.figures, attribute or name, None)
    )


_SPENT_COLUMNS: tuple[ExportColumn[_StageRow], ...] = (
    *map(_of_role, api.exported_figures("stages")),
    ExportColumn(
        "gpu_power_mean_watts",
        "number",
        lambda row: row.stage.result.gpus.gpu_power_mean_watts,
    ),
    ExportColumn(
        "gpu_memory_max_mib",
        "number",
        lambda row: row.stage.result.gpus.gpu_memory_max_mib,
    ),
    ExportColumn(
        "sm_clock_mean_mhz",
        "number",
        lambda row: row.stage.result.gpus.sm_clock_mean_mhz,
    ),
    _number(api.TOKENS_PER_JOULE),
    ExportColumn(
        "currency",
        "text",
        lambda row: row.run.status.cost.currency if row.run.status.cost else None,
    ),
    ExportColumn(
        "cost_per_hour",
        "number",
        lambda row: row.run.status.cost.per_hour if row.run.status.cost else None,
    ),
    _number(api.OUTPUT_COST),
    _number(api.TOTAL_COST),
    *(_number(f"steady_{key}") for key in api.THROUGHPUTS),
)


def stage_table(run: ExportedRun) -> ExportTable:
    """Build the table of stages, one row each.

    Latencies are in milliseconds under vLLM's own names, throughputs are per second. Figures have
    five significant digits.
    """
    columns = (
        *_STAGE_COLUMNS,
        *map(_number, _latency_names(run)),
        *_SPENT_COLUMNS,
        *map(_number, _REASONING_COUNTS if _thinks(run) else ()),
    )
    return table_of(columns, (_stage_row(run, stage) for stage in run.stages))


_REASONING_COUNTS = ("total_reasoning_tokens", "total_answer_tokens", "unanswered")


def _thinks(run: ExportedRun) -> bool:
    """Return whether an answer of the run has reasoning."""
    return any(_REASONING_COUNTS[0] in s.result.metrics for s in run.stages)


def _embeds(run: ExportedRun) -> bool:
    """Return whether all answers of the run came as a whole and have no tokens."""
    return bool(run.stages) and all(each.has_whole_answers for each in run.stages)


def _latencies_of(run: ExportedRun) -> tuple[str, ...]:
    """Return the latencies that answers of the run have."""
    if _embeds(run):
        return request_figures.WHOLE_LATENCIES
    thought = request_figures.REASONING_LATENCIES if _thinks(run) else ()
    return request_figures.LATENCIES + thought


def _latency_names(run: ExportedRun) -> list[str]:
    percentiles = [
        f"p{request_figures.percentile_word(each)}"
        for each in run.spec.measurement.percentiles
    ]
    names = [
        f"{figure}_{each}_ms"
        for each in _latencies_of(run)
        for figure in ("mean", "median", "std", *percentiles)
    ]
    if all(
        workload.load.max_concurrency is None for workload in run.spec.workloads
    ):
        return names
    queued: tuple[str, ...] = request_figures.QUEUED_LATENCIES
    if _embeds(run):
        queued = request_figures.QUEUED_WHOLE_LATENCIES
    return names + [
        f"{figure}_{each}_ms"
        for each in queued
        for figure in ("mean", "median", *percentiles)
    ]


class _RoleRow(NamedTuple):
    """The servers of one role within a stage: their figures and status."""

    run: ExportedRun
    stage: ExportedStage
    role: str
    figures: api.RoleFigures | None
    held: api.ServerStatus | None
    # As `held`, but None at an endpoint, whose servers are known only by what they report.
    started: api.ServerStatus | None


_SERVER_COLUMNS: tuple[ExportColumn[_RoleRow], ...] = (
    *_KEYS,
    ExportColumn("verdict", "text", lambda row: row.stage.verdict),
    ExportColumn("role", "text", lambda row: row.role),
    ExportColumn(
        "replicas",
        "integer",
        lambda row: row.started.replicas if row.started else None,
    ),
    ExportColumn(
        "server_image",
        "text",
        lambda row: row.started.image if row.started else None,
    ),
    ExportColumn(
        "server_version",
        "text",
        lambda row: formats.server_version(row.stage, row.held, row.role),
    ),
    ExportColumn(
        "gpu",
        "text",
        lambda row: row.started.gpu if row.started and row.started.gpus else None,
    ),
    ExportColumn(
        "gpus", "integer", lambda row: row.started.gpus if row.started else None
    ),
    ExportColumn(
        "kv_cache_tokens",
        "integer",
        lambda row: row.held.kv_cache_tokens if row.held else None,
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


def server_table(run: ExportedRun) -> ExportTable:
    """Build the table of servers with one row for each stage and role.

    Its figures cover all servers of the role; `kv_cache_tokens` is what each of them holds.
    """
    held = {server.role: server for server in run.status.servers}
    started = held if run.spec.started is not None else {}
    rows = []
    for stage in run.stages:
        figures = {each.role: each for each in stage.result.roles}
        for role in dict.fromkeys((*held, *figures)):
            rows.append(
                _RoleRow(
                    run,
                    stage,
                    role,
                    figures.get(role),
                    held.get(role),
                    started.get(role),
                )
            )
    return table_of(_SERVER_COLUMNS, rows)


class _ReplicaRow(NamedTuple):
    run: ExportedRun
    stage: ExportedStage
    replica: api.ReplicaFigures


def _of_replica(name: str) -> ExportColumn[_ReplicaRow]:
    return ExportColumn(
        name,
        "number",
        lambda row: getattr(row.replica.figures, name),
    )


_REPLICA_COLUMNS: tuple[ExportColumn[_ReplicaRow], ...] = (
    *_KEYS,
    ExportColumn("verdict", "text", lambda row: row.stage.verdict),
    ExportColumn("role", "text", lambda row: row.replica.figures.role),
    ExportColumn("address", "text", lambda row: row.replica.address),
    ExportColumn("pod", "text", lambda row: row.replica.pod),
    ExportColumn(
        "requests_finished",
        "integer",
        lambda row: _whole(row.replica.requests_finished),
    ),
    ExportColumn(
        "prompt_tokens", "integer", lambda row: _whole(row.replica.prompt_tokens)
    ),
    ExportColumn(
        "generation_tokens",
        "integer",
        lambda row: _whole(row.replica.generation_tokens),
    ),
    # From the server's own counters; `mean_ttft_ms` and `queue_ms` are the client's figures.
    ExportColumn(
        "server_mean_ttft_ms",
        "number",
        lambda row: row.replica.mean_ttft_ms,
    ),
    ExportColumn(
        "server_mean_queue_ms",
        "number",
        lambda row: row.replica.mean_queue_ms,
    ),
    *map(
        _of_replica,
        dict.fromkeys(
            ("prefix_hit_percent", "preemptions", *api.exported_figures("replicas"))
        ),
    ),
)


def replica_table(run: ExportedRun) -> ExportTable:
    """Build the table of replicas with one row for each stage and vLLM server.

    The proxy is in the table of servers only.
    """
    rows = (
        _ReplicaRow(run, stage, replica)
        for stage in run.stages
        for replica in stage.result.replicas
    )
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
        """Return the output tokens; None if the request failed or no server counted them."""
        tokens = self.requests.output_tokens[self.number]
        is_known = (
            self.ok
            and not self.stage.has_whole_answers
            and (tokens or self.requests.ended[self.number])
        )
        return tokens if is_known else None


_REQUEST_COLUMNS: tuple[ExportColumn[_RequestRow], ...] = (
    ExportColumn("run_uid", "text", lambda row: row.run_uid),
    ExportColumn("stage", "text", lambda row: row.stage.id),
    ExportColumn("verdict", "text", lambda row: row.stage.verdict),
    ExportColumn("request", "integer", lambda row: row.number),
    ExportColumn("ok", "flag", lambda row: row.ok),
    ExportColumn(
        "start_ms", "number", lambda row: row.requests.start_us[row.number] / 1000
    ),
    ExportColumn(
        "queue_ms", "number", lambda row: row.requests.queue_us[row.number] / 1000
    ),
    ExportColumn(
        "ttft_ms",
        "number",
        lambda row: (
            row.requests.ttft_us[row.number] / 1000
            if row.ok and not row.stage.has_whole_answers
            else None
        ),
    ),
    ExportColumn(
        "tpot_ms", "number", lambda row: request_figures.milliseconds(row.tpot_us)
    ),
    ExportColumn(
        "e2el_ms",
        "number",
        lambda row: row.requests.e2el_us[row.number] / 1000 if row.ok else None,
    ),
    ExportColumn(
        "input_tokens", "integer", lambda row: row.requests.input_tokens[row.number]
    ),
    ExportColumn(
        "output_tokens",
        "integer",
        lambda row: row.output_tokens,
    ),
    ExportColumn(
        "asked_tokens",
        "integer",
        lambda row: (
            None
            if row.stage.has_whole_answers
            else row.requests.asked_tokens[row.number]
        ),
    ),
    ExportColumn(
        "closed",
        "flag",
        lambda row: bool(row.requests.ended[row.number]) if row.ok else None,
    ),
)
_REASONING_COLUMNS: tuple[ExportColumn[_RequestRow], ...] = (
    ExportColumn(
        "ttfrt_ms", "number", lambda row: _ms(row.requests.reasoning_us, row)
    ),
    ExportColumn(
        "ttfat_ms",
        "number",
        lambda row: _ms(row.requests.answer_us or row.requests.ttft_us, row),
    ),
    ExportColumn(
        "reasoning_tokens",
        "integer",
        lambda row: (
            row.requests.reasoning_tokens[row.number]
            if row.ok and row.requests.reasoning_tokens
            else None
        ),
    ),
)
"""Columns that a table has only if an answer of the run has reasoning."""


def _ms(column: Sequence[int] | None, row: _RequestRow) -> float | None:
    """Return the time of a request in milliseconds; None where nothing of that kind came."""
    return column[row.number] / 1000 or None if row.ok and column else None


def request_table(run: ExportedRun) -> ExportTable:
    """Build the table of requests, with one row each in the order of sending.

    Times are in milliseconds; starts count from the first request. A failed request has no
    latencies and no output. Raises NotExportable if there are no records.
    """
    stages = formats.with_requests(run)
    rows = (
        _RequestRow(run.uid, stage, sent, number, bool(sent.ok[number]), tpot_us)
        for stage, sent in stages
        for number, tpot_us in enumerate(
            request_figures.request_values(sent, "tpot")
        )
    )
    reasoning = any(sent.reasoning_us for _, sent in stages)
    return table_of(
        _REQUEST_COLUMNS + (_REASONING_COLUMNS if reasoning else ()), rows
    )


def _whole(count: float | None) -> Value:
    """Return a count; None if it is unknown or larger than 64 bits can hold."""
    return None if count is None or abs(count) >= 2**63 else int(count)


_TABLES: Mapping[TableName, Callable[[ExportedRun], ExportTable]] = {
    "stages": stage_table,
    "servers": server_table,
    "replicas": replica_table,
    "requests": request_table,
}


def _register(
    name: str,
    summary: str,
    write: Callable[[ExportedRun, TableName], bytes],
    is_text: bool = True,
) -> None:
    def files(run: ExportedRun) -> Files:
        tables = [
            table
            for table in formats.TABLES
            if table != "requests" or formats.has_requests(run)
        ]
        return {f"{table}.{name}": write(run, table) for table in tables}

    formats.FORMATS[name] = formats.Format(
        summary, files, write, is_text, requests_in=_REQUESTS_IN
    )


# A folder has every table that there is data for.
_REQUESTS_IN: Mapping[TableName | None, formats.Need] = {
    None: "Wanted",
    "requests": "Required",
}


_register(
    "csv",
    "tables of stages, their servers and their requests",
    lambda run, table: as_csv(_TABLES[table](run)),
)
_register(
    "parquet",
    "the same tables, with typed columns",
    lambda run, table: as_parquet(_TABLES[table](run), run_uid=run.uid),
    False,
)
