"""Tables on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchrun.api.status import BenchmarkRunStatus
from benchrun.report.rows import Rows, finding_rows, result_rows

_COLOURS = {"Valid": "green", "Suspect": "yellow", "Invalid": "red", "Note": "cyan"}


def show_result(console: Console, name: str, status: BenchmarkRunStatus) -> None:
    """Verdict first, then the load points, then what was found."""
    verdict = status.verdict or "Unknown"
    console.print(
        Text.assemble((f"{name}: ", "bold"), (verdict, _COLOURS.get(verdict, "bold")), f" - {status.message or ''}")
    )
    if status.results:
        console.print(_table(result_rows(status)))
        console.print(Text("latencies in milliseconds; running and waiting are means over the stages", style="dim"))
    if status.findings:
        console.print(_table(finding_rows(status)))
    if status.log_tail:
        console.print(Text("last words of the server:", style="bold"))
        console.print(Text(status.log_tail))


def _table(rows: Rows) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in rows.headers:
        table.add_column(header, overflow="fold")
    for row in rows.rows:
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    return table
