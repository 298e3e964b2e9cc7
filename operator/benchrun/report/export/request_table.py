"""One row a request, in order of sending."""

from __future__ import annotations

from collections.abc import Iterator

from benchrun.report.export.exported import ExportedRun, ExportedStage
from benchrun.report.export.table import Column, Table, Value

NAME = "requests"
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
    return Table(NAME, _COLUMNS, [row for stage in run.stages for row in _rows(run, stage)])


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
