"""One row a stage and server: how each replica of a role fared, where the table of servers tells of all together."""

from __future__ import annotations

from benchrun.measure.cells import rounded
from benchrun.measure.replicas import Replica
from benchrun.report.export.exported import ExportedRun
from benchrun.report.export.stage_and_role import STAGE_AND_ROLE, stage_and_role
from benchrun.report.export.table import Column, Table, Value, row_of

NAME = "replicas"
_WHERE = (Column("address", "text"), Column("pod", "text"))
_COUNTS = tuple(Column(name, "integer") for name in ("requests_finished", "prompt_tokens", "generation_tokens"))
_MEANS = (Column("server_mean_ttft_ms", "number"), Column("server_mean_queue_ms", "number"))
"""By the server's own counters: other figures than `mean_ttft_ms` and `queue_ms` of the client."""
_FIGURES = tuple(
    Column(name, "number")
    for name in (
        "prefix_hit_percent", "preemptions", "running_mean", "running_max", "waiting_mean", "waiting_max",
        "kv_cache_max_percent",
    )
)  # fmt: skip
_COLUMNS = (*STAGE_AND_ROLE, *_WHERE, *_COUNTS, *_MEANS, *_FIGURES)


def replica_table(run: ExportedRun) -> Table:
    """Of a role with one server, its figures again. The proxy, which is no vLLM, is in the table of servers alone."""
    rows = [
        row_of(_COLUMNS, stage_and_role(run, stage, replica.figures.role) | _measured(replica))
        for stage in run.stages
        for replica in stage.replicas
    ]
    return Table(NAME, _COLUMNS, rows)


def _measured(replica: Replica) -> dict[str, Value]:
    counts: dict[str, Value] = {column.name: _whole(getattr(replica, column.name)) for column in _COUNTS}
    figures: dict[str, Value] = {column.name: rounded(getattr(replica.figures, column.name)) for column in _FIGURES}
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
