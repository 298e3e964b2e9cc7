"""Tables on a terminal."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from benchrun.api.status import BenchmarkRunStatus
from benchrun.cli.show_comparison import show_comparison
from benchrun.report.result_rows import NO_TEXTS, result_rows
from benchrun.report.rows import (
    UNCERTAIN,
    UNCERTAIN_NOTE,
    Rows,
    explanation_rows,
    finding_rows,
    has_uncertain,
    interval_rows,
)

COLOURS = {"Valid": "green", "Suspect": "yellow", "Invalid": "red", "Note": "cyan", "Failed": "red"}
ENDED_EARLY = ("Failed", "Cancelled")
"""Phases that say more of a run than the verdict of what it had measured."""
UNBOUNDED = 10_000
"""Columns; no table is as wide."""


def add_wide(parser: argparse.ArgumentParser) -> None:
    """The option of every command that shows a result."""
    parser.add_argument(
        "--wide",
        action="store_true",
        help="show the total of tokens and the 95 %% interval of every percentile, too; of a sweep every figure",
    )


def show_result(
    console: Console,
    name: str,
    status: BenchmarkRunStatus,
    *,
    texts_per_prompt: Mapping[str, int] = NO_TEXTS,
    wide: bool = False,
) -> None:
    """Verdict first, then the load points and what limits them, then what was found; `wide` adds the total of tokens and how
    sure percentiles are. Of a run that ended early its end comes first."""
    verdict = status.verdict or "Unknown"
    word = status.phase if status.phase in ENDED_EARLY else verdict
    console.print(
        Text.assemble((f"{name}: ", "bold"), (word, COLOURS.get(word, "bold")), f" - {status.message or ''}"),
        width=prose_width(console),
    )
    if status.results:
        if word != verdict:
            console.print(Text.assemble("measured until then: ", (verdict, COLOURS.get(verdict, ""))))
        _show_load_points(console, status, texts_per_prompt, wide=wide)
    if status.findings:
        console.print(as_table(finding_rows(status)), width=prose_width(console))
    if status.comparison is not None:
        show_comparison(console, status.comparison, before=status.comparison.baseline.name, after=name)
    if status.log_tail:
        console.print(Text("last words of the server:", style="bold"))
        console.print(Text(status.log_tail))


def _show_load_points(
    console: Console, status: BenchmarkRunStatus, texts_per_prompt: Mapping[str, int], *, wide: bool
) -> None:
    rows = result_rows(status, texts_per_prompt=texts_per_prompt, wide=wide)
    explained, intervals = explanation_rows(status), interval_rows(status)
    show_figures(console, rows, names=("load point",), wide=wide)
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


def show_figures(console: Console, rows: Rows, *, names: Collection[str], wide: bool) -> None:
    """A table whose figures stay in one piece. Where there is little room, `names` take several lines; a wide table takes the
    room that it needs."""
    table = as_table(rows, folded=() if wide else names)
    before = console.width
    if wide:
        unbounded = console.options.update_width(UNBOUNDED)
        console.width = max(before, Measurement.get(console, unbounded, table).maximum)
    console.print(table)
    console.width = before


def as_table(rows: Rows, *, folded: Collection[str] | None = None) -> Table:
    """Rows laid out, verdicts coloured. `folded`: headers of the columns that may take several lines; None: all may."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in rows.headers:
        table.add_column(header, overflow="fold", no_wrap=folded is not None and header not in folded)
    for row in rows.rows:
        table.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    return table


def _style(cell: str) -> str:
    """Colours only where the terminal has them; the mark of an uncertain figure is there in any case."""
    return "dim" if cell.endswith(UNCERTAIN) else COLOURS.get(cell, "")
