"""The formats of `benchrun export`: how each becomes files in a folder, or one document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from benchrun.report.export.exported import ExportedRun
from benchrun.report.export.llmd_report import llmd_document, llmd_files
from benchrun.report.export.server_tables import replica_table, server_table
from benchrun.report.export.stage_tables import request_table, stage_table
from benchrun.report.export.tables import Files, Table, as_csv, as_parquet
from benchrun.report.export.vllm_json import vllm_files, vllm_lines

TableName = Literal["stages", "servers", "replicas", "requests"]
_TABLES: Mapping[TableName, Callable[[ExportedRun], Table]] = {
    "stages": stage_table,
    "servers": server_table,
    "replicas": replica_table,
    "requests": request_table,
}
TABLES = tuple(_TABLES)


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `files` and `document` raise NotExportable."""

    summary: str
    files: Callable[[ExportedRun], Files]
    document: Callable[[ExportedRun, TableName], bytes]
    """For a file, or for standard output; the table is of formats that are tables."""
    is_text: bool = True


def _csv(run: ExportedRun, table: TableName) -> bytes:
    return as_csv(_TABLES[table](run))


def _parquet(run: ExportedRun, table: TableName) -> bytes:
    return as_parquet(_TABLES[table](run), run_uid=run.uid)


FORMATS: Mapping[str, Format] = {
    "vllm": Format(
        summary="result files of `vllm bench serve`, which `vllm bench sweep plot` reads",
        files=vllm_files,
        document=lambda run, _: vllm_lines(run),
    ),
    "csv": Format(
        summary="tables of stages, of their servers and of requests",
        files=lambda run: {f"{table}.csv": _csv(run, table) for table in TABLES},
        document=_csv,
    ),
    "parquet": Format(
        summary="the same, with types",
        files=lambda run: {f"{table}.parquet": _parquet(run, table) for table in TABLES},
        document=_parquet,
        is_text=False,
    ),
    "llm-d": Format(
        summary="llm-d benchmark reports v0.2, one a stage",
        files=llmd_files,
        document=lambda run, _: llmd_document(run),
    ),
}
