"""The tables of a sweep on a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.cli.show import COLOURS, ENDED_EARLY, as_table, prose_width, show_figures
from benchrun.judge.comparison.sentence import SCOPES
from benchrun.report.result_rows import NO_TEXTS
from benchrun.report.sweep_rows import LEGEND, best_rows, change_rows, cuts, front_rows, remarks, variant_rows

NAMES = ("variant", "load point", "not to be told from it")
"""Columns that may take several lines."""


def show_sweep(
    console: Console,
    name: str,
    status: BenchmarkSweepStatus,
    *,
    texts_per_prompt: Mapping[str, int] = NO_TEXTS,
    wide: bool = False,
) -> None:
    """Where it stands, then the tables, then what is to be known of them."""
    width, verdict = prose_width(console), status.verdict or "Unknown"
    word = status.phase if status.phase in ENDED_EARLY else verdict
    title = Text.assemble((f"{name}: ", "bold"), (word, COLOURS.get(word, "bold")), f" - {status.message or ''}")
    console.print(title, width=width)
    if status.results:
        rows = variant_rows(status, texts_per_prompt=texts_per_prompt, wide=wide)
        show_figures(console, rows, names=NAMES, wide=wide)
        console.print(Text(LEGEND, style="dim"), width=width)
    if status.scope is not None:
        against = Text.assemble("\n", (f"against {status.baseline}", "bold"), f", {SCOPES[status.scope]}")
        console.print(against, width=width)
        show_figures(console, change_rows(status), names=NAMES, wide=wide)
    for title_text, table in (("best", best_rows(status)), ("Pareto front", front_rows(status))):
        if table.rows:
            console.print(Text(f"\n{title_text}", style="bold"))
            console.print(as_table(table))
    for remark in remarks(status):
        console.print(Text(remark, style="yellow"), width=width)
    for cut in cuts(status):
        console.print(Text(cut, style="dim"), width=width)
