"""One row a stage and role of servers: how each role fared, where prefill and decode are apart too."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.api.status import RoleFigures, ServerStatus
from benchrun.report.export.exported import ExportedRun, ExportedStage
from benchrun.report.export.stage_and_role import STAGE_AND_ROLE, stage_and_role
from benchrun.report.export.table import Column, Table, Value, row_of

NAME = "servers"
_WHAT = (
    Column("replicas", "integer"),
    Column("server_image", "text"),
    Column("server_version", "text"),
    Column("gpu", "text"),
    Column("gpus", "integer"),
    Column("kv_cache_tokens", "integer"),
)
_FIGURES = tuple(
    Column(name, "number")
    for name in (
        "running_mean", "running_max", "waiting_mean", "waiting_max", "kv_cache_mean_percent", "kv_cache_max_percent",
        "preemptions", "prefix_hit_percent", "fetched_tokens", "fetched_percent", "transfer_failures",
        "gpu_power_mean_watts", "gpu_memory_max_mib", "sm_clock_mean_mhz", "coverage_percent",
    )
)  # fmt: skip
_PROXY = (Column("proxy_added_mean_ms", "number"), Column("proxy_cpu_cores", "number"))
_COLUMNS = (*STAGE_AND_ROLE, *_WHAT, *_FIGURES, *_PROXY)


def server_table(run: ExportedRun) -> Table:
    """Figures are those of all servers of the role in the stage's own window; `kv_cache_tokens` is what each of them holds."""
    held = {server.role: server for server in run.status.servers}
    rows = [
        row_of(_COLUMNS, stage_and_role(run, stage, role) | _what(run, stage, role, held.get(role)) | _figures(said))
        for stage in run.stages
        for role, said in _roles(held, stage)
    ]
    return Table(NAME, _COLUMNS, rows)


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
    measured: dict[str, Value] = {column.name: getattr(said, column.name) for column in _FIGURES}
    return measured | {"proxy_added_mean_ms": said.added_mean_ms, "proxy_cpu_cores": said.cores}
