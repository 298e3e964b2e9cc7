"""One row a stage and role of servers, and one a stage and server."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.api import RoleFigures, ServerStatus
from benchrun.measure.cells import rounded
from benchrun.measure.windows import Replica
from benchrun.report.export.exported import ExportedRun, ExportedStage
from benchrun.report.export.tables import Column, Table, Value, row_of

# ---- stage and role ---------------------------------------------------------------------------------------------------
# What every table of servers begins with, and is joined with the others by: the run, the stage, and the role of its servers.

STAGE_AND_ROLE = tuple(Column(name, "text") for name in ("namespace", "run", "run_uid", "stage", "verdict", "role"))


def stage_and_role(run: ExportedRun, stage: ExportedStage, role: str) -> dict[str, Value]:
    """The values of these columns."""
    return {
        "namespace": run.namespace,
        "run": run.name,
        "run_uid": run.uid,
        "stage": stage.id,
        "verdict": stage.verdict,
        "role": role,
    }


# ---- server table -----------------------------------------------------------------------------------------------------
# One row a stage and role of servers: how each role fared, where prefill and decode are apart too.

SERVERS = "servers"
_WHAT = (
    Column("replicas", "integer"),
    Column("server_image", "text"),
    Column("server_version", "text"),
    Column("gpu", "text"),
    Column("gpus", "integer"),
    Column("kv_cache_tokens", "integer"),
)
_SERVER_FIGURES = tuple(
    Column(name, "number")
    for name in (
        "running_mean", "running_max", "waiting_mean", "waiting_max", "kv_cache_mean_percent", "kv_cache_max_percent",
        "preemptions", "prefix_hit_percent", "fetched_tokens", "fetched_percent", "transfer_failures",
        "gpu_power_mean_watts", "gpu_memory_max_mib", "sm_clock_mean_mhz", "coverage_percent",
    )
)  # fmt: skip
_PROXY = (Column("proxy_added_mean_ms", "number"), Column("proxy_cpu_cores", "number"))
_SERVER_COLUMNS = (*STAGE_AND_ROLE, *_WHAT, *_SERVER_FIGURES, *_PROXY)


def server_table(run: ExportedRun) -> Table:
    """Figures are those of all servers of the role in the stage's own window; `kv_cache_tokens` is what each of them holds."""
    held = {server.role: server for server in run.status.servers}
    rows = [
        row_of(
            _SERVER_COLUMNS, stage_and_role(run, stage, role) | _what(run, stage, role, held.get(role)) | _figures(said)
        )
        for stage in run.stages
        for role, said in _roles(held, stage)
    ]
    return Table(SERVERS, _SERVER_COLUMNS, rows)


def _roles(held: Iterable[str], stage: ExportedStage) -> list[tuple[str, RoleFigures | None]]:
    """Those the run has, then any that only the stage tells of."""
    said = {each.role: each for each in stage.servers}
    return [(role, said.get(role)) for role in dict.fromkeys((*held, *said))]


def _what(run: ExportedRun, stage: ExportedStage, role: str, held: ServerStatus | None) -> dict[str, Value]:
    """Of an endpoint only what its servers say themselves is known."""
    said = next((edge.version for edge in stage.record.servers if edge.role == role and edge.version), None)
    if held is None:
        return {"server_version": said}
    told: dict[str, Value] = {"server_version": said or held.version, "kv_cache_tokens": held.kv_cache_tokens}
    if run.spec.started is None:
        return told
    gpu = held.gpu if held.gpus else None
    return told | {"replicas": held.replicas, "server_image": held.image, "gpu": gpu, "gpus": held.gpus}


def _figures(said: RoleFigures | None) -> dict[str, Value]:
    if said is None:
        return {}
    measured: dict[str, Value] = {column.name: getattr(said, column.name) for column in _SERVER_FIGURES}
    return measured | {"proxy_added_mean_ms": said.added_mean_ms, "proxy_cpu_cores": said.cores}


# ---- replica table ----------------------------------------------------------------------------------------------------
# One row a stage and server: how each replica of a role fared, where the table of servers tells of all together.

REPLICAS = "replicas"
_WHERE = (Column("address", "text"), Column("pod", "text"))
_COUNTS = tuple(Column(name, "integer") for name in ("requests_finished", "prompt_tokens", "generation_tokens"))
_MEANS = (Column("server_mean_ttft_ms", "number"), Column("server_mean_queue_ms", "number"))
"""By the server's own counters: other figures than `mean_ttft_ms` and `queue_ms` of the client."""
_REPLICA_FIGURES = tuple(
    Column(name, "number")
    for name in (
        "prefix_hit_percent", "preemptions", "running_mean", "running_max", "waiting_mean", "waiting_max",
        "kv_cache_max_percent",
    )
)  # fmt: skip
_REPLICA_COLUMNS = (*STAGE_AND_ROLE, *_WHERE, *_COUNTS, *_MEANS, *_REPLICA_FIGURES)


def replica_table(run: ExportedRun) -> Table:
    """Of a role with one server, its figures again. The proxy, which is no vLLM, is in the table of servers alone."""
    rows = [
        row_of(_REPLICA_COLUMNS, stage_and_role(run, stage, replica.figures.role) | _measured(replica))
        for stage in run.stages
        for replica in stage.replicas
    ]
    return Table(REPLICAS, _REPLICA_COLUMNS, rows)


def _measured(replica: Replica) -> dict[str, Value]:
    counts: dict[str, Value] = {column.name: _whole(getattr(replica, column.name)) for column in _COUNTS}
    figures: dict[str, Value] = {
        column.name: rounded(getattr(replica.figures, column.name)) for column in _REPLICA_FIGURES
    }
    return {
        "address": replica.address,
        "pod": replica.pod,
        **counts,
        "server_mean_ttft_ms": rounded(replica.mean_ttft_ms),
        "server_mean_queue_ms": rounded(replica.mean_queue_ms),
        **figures,
    }


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)
