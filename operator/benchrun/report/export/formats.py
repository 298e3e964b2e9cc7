"""The formats of `benchrun export`: how each becomes files in a folder, or one document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchrun.report.export import inferencex, pytorch_records
from benchrun.report.export.csv_table import as_csv
from benchrun.report.export.exported import ExportedRun
from benchrun.report.export.files import Files, as_json
from benchrun.report.export.llmd_report import llmd_document, llmd_files
from benchrun.report.export.parquet_table import as_parquet
from benchrun.report.export.replica_table import replica_table
from benchrun.report.export.request_table import request_table
from benchrun.report.export.server_table import server_table
from benchrun.report.export.stage_table import stage_table
from benchrun.report.export.table import Table
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
class Choices:
    """What a format may be asked for beyond itself."""

    table: TableName = "stages"
    """Of CSV and Parquet, where they go to one file."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Of an InferenceX row."""


def _nothing(_: ExportedRun) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `files` and `document` raise NotExportable."""

    summary: str
    files: Callable[[ExportedRun, Choices], Files]
    document: Callable[[ExportedRun, Choices], bytes]
    """For a file, or for standard output."""
    unfit: Callable[[ExportedRun], Mapping[str, str]] = _nothing
    """Cells that the format has no place for, and why."""
    is_text: bool = True


def _csv(run: ExportedRun, table: TableName) -> bytes:
    return as_csv(_TABLES[table](run))


def _parquet(run: ExportedRun, table: TableName) -> bytes:
    return as_parquet(_TABLES[table](run), run_uid=run.uid)


def _inferencex(run: ExportedRun, choices: Choices) -> bytes:
    return as_json(inferencex.rows(run, choices.fields))


def _pytorch(run: ExportedRun) -> bytes:
    return as_json(pytorch_records.records(run))


FORMATS: Mapping[str, Format] = {
    "vllm": Format(
        summary="result files of `vllm bench serve`, which `vllm bench sweep plot` reads",
        files=lambda run, _: vllm_files(run),
        document=lambda run, _: vllm_lines(run),
    ),
    "csv": Format(
        summary="tables of stages, of their servers and of requests",
        files=lambda run, _: {f"{table}.csv": _csv(run, table) for table in TABLES},
        document=lambda run, choices: _csv(run, choices.table),
    ),
    "parquet": Format(
        summary="the same, with types",
        files=lambda run, _: {f"{table}.parquet": _parquet(run, table) for table in TABLES},
        document=lambda run, choices: _parquet(run, choices.table),
        is_text=False,
    ),
    "llm-d": Format(
        summary="llm-d benchmark reports v0.2, one a stage",
        files=lambda run, _: llmd_files(run),
        document=lambda run, _: llmd_document(run),
    ),
    "inferencex": Format(
        summary="InferenceX rows, one a load point",
        files=lambda run, choices: {"agg_bmk.json": _inferencex(run, choices)},
        document=_inferencex,
        unfit=inferencex.unfit,
    ),
    "pytorch": Format(
        summary="records of the PyTorch OSS benchmark database",
        files=lambda run, _: {f"{run.name}.pytorch.json": _pytorch(run)},
        document=lambda run, _: _pytorch(run),
    ),
}
