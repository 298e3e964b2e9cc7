"""Tables on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchrun.api.status import BenchmarkRunStatus
from benchrun.cli.show_comparison import show_comparison
from benchrun.report.rows import (
    UNCERTAIN,
    UNCERTAIN_NOTE,
    Rows,
    explanation_rows,
    finding_rows,
    has_uncertain,
    interval_rows,
    result_rows,
)

_COLOURS = {"Valid": "green", "Suspect": "yellow", "Invalid": "red", "Note": "cyan"}


def show_result(console: Console, name: str, status: BenchmarkRunStatus, *, wide: bool = False) -> None:
    """Verdict first, then the load points and what limits them, then what was found; `wide` adds how sure percentiles
    are."""
    verdict = status.verdict or "Unknown"
    console.print(
        Text.assemble((f"{name}: ", "bold"), (verdict, _COLOURS.get(verdict, "bold")), f" - {status.message or ''}")
    )
    if status.results:
        _show_load_points(console, status, wide=wide)
    if status.findings:
        console.print(_table(finding_rows(status)))
    if status.comparison is not None:
        show_comparison(console, status.comparison, before=status.comparison.baseline.name, after=name)
    if status.log_tail:
        console.print(Text("last words of the server:", style="bold"))
        console.print(Text(status.log_tail))


def _show_load_points(console: Console, status: BenchmarkRunStatus, *, wide: bool) -> None:
    rows, explained, intervals = result_rows(status), explanation_rows(status), interval_rows(status)
    console.print(_table(rows))
    console.print(Text("latencies in milliseconds; running and waiting are means over the stages", style="dim"))
    if has_uncertain(rows):
        console.print(Text(UNCERTAIN_NOTE, style="dim"))
    if explained.rows:
        console.print(_table(explained))
    if wide and intervals.rows:
        console.print(_table(intervals))


def _table(rows: Rows) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in rows.headers:
        table.add_column(header, overflow="fold")
    for row in rows.rows:
        table.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    return table


def _style(cell: str) -> str:
    """Colours only where the terminal has them; the mark of an uncertain figure is there in any case."""
    return "dim" if cell.endswith(UNCERTAIN) else _COLOURS.get(cell, "")
