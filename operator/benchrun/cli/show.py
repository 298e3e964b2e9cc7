"""Tables on a terminal."""

from __future__ import annotations

import argparse

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

COLOURS = {"Valid": "green", "Suspect": "yellow", "Invalid": "red", "Note": "cyan", "Failed": "red"}
ENDED_EARLY = ("Failed", "Cancelled")
"""Phases that say more of a run than the verdict of what it had measured."""


def add_wide(parser: argparse.ArgumentParser) -> None:
    """The option of every command that shows a result."""
    parser.add_argument("--wide", action="store_true", help="show the 95 %% interval of every percentile, too")


def show_result(console: Console, name: str, status: BenchmarkRunStatus, *, wide: bool = False) -> None:
    """Verdict first, then the load points and what limits them, then what was found; `wide` adds how sure percentiles
    are. Of a run that ended early its end comes first."""
    verdict = status.verdict or "Unknown"
    word = status.phase if status.phase in ENDED_EARLY else verdict
    console.print(
        Text.assemble((f"{name}: ", "bold"), (word, COLOURS.get(word, "bold")), f" - {status.message or ''}"),
        width=prose_width(console),
    )
    if status.results:
        if word != verdict:
            console.print(Text.assemble("measured until then: ", (verdict, COLOURS.get(verdict, ""))))
        _show_load_points(console, status, wide=wide)
    if status.findings:
        console.print(as_table(finding_rows(status)), width=prose_width(console))
    if status.comparison is not None:
        show_comparison(console, status.comparison, before=status.comparison.baseline.name, after=name)
    if status.log_tail:
        console.print(Text("last words of the server:", style="bold"))
        console.print(Text(status.log_tail))


def _show_load_points(console: Console, status: BenchmarkRunStatus, *, wide: bool) -> None:
    rows, explained, intervals = result_rows(status), explanation_rows(status), interval_rows(status)
    console.print(as_table(rows))
    console.print(Text("latencies in milliseconds; running and waiting are means over the stages", style="dim"))
    if has_uncertain(rows):
        console.print(Text(UNCERTAIN_NOTE, style="dim"))
    if explained.rows:
        console.print(as_table(explained), width=prose_width(console))
    if wide and intervals.rows:
        console.print(as_table(intervals))


def prose_width(console: Console) -> int:
    """Sentences fold at the edge of the terminal. Figures do not: for them the console may be wider than the terminal."""
    return min(console.width, Console(file=console.file).width) if console.is_terminal else console.width


def as_table(rows: Rows) -> Table:
    """Rows laid out, verdicts coloured."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in rows.headers:
        table.add_column(header, overflow="fold")
    for row in rows.rows:
        table.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    return table


def _style(cell: str) -> str:
    """Colours only where the terminal has them; the mark of an uncertain figure is there in any case."""
    return "dim" if cell.endswith(UNCERTAIN) else COLOURS.get(cell, "")
