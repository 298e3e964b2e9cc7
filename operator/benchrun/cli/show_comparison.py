"""A comparison on a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchrun.api.comparison import Comparison
from benchrun.api.status import Bottleneck
from benchrun.judge.comparison.compare import Compared
from benchrun.report.comparison_rows import GATES, comparison_rows, reasons, unpaired

_COLOURS = {"Better": "green", "Worse": "red", "Mixed": "yellow", "NotRegressed": "green", "Regressed": "red"}
WIDTH = 100


def show_comparison(
    console: Console,
    found: Compared | Comparison,
    *,
    before: str,
    after: str,
    limited: Mapping[str, Bottleneck] | None = None,
) -> None:
    """The outcome, the figures, the limits that both sides together show, what could not be compared, and how far the
    words reach."""
    title = Text.assemble((f"{before} -> {after}: ", "bold"), (found.outcome, _COLOURS.get(found.outcome, "bold")))
    console.print(title, width=WIDTH)
    if found.cells:
        console.print(_table(found))
    for cell, limit in (limited or {}).items():
        console.print(Text(f"{cell}: {limit.sentence}"), width=WIDTH)
    for reason in reasons(found.cells):
        console.print(Text(f"not compared: {reason}", style="yellow"), width=WIDTH)
    without = unpaired(found.cells)
    if without:
        console.print(Text(f"not known to have had equal traffic: {', '.join(without)}", style="dim"), width=WIDTH)
    console.print(Text(found.message), width=WIDTH)
    if found.gate is not None:
        console.print(Text(GATES[found.gate], style=_COLOURS.get(found.gate, "yellow")), width=WIDTH)


def _table(found: Compared | Comparison) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    rows = comparison_rows(found.cells)
    for header in rows.headers:
        right = header in ("baseline", "value", "change", "interval")
        table.add_column(header, justify="right" if right else "left", no_wrap=header != "load point", overflow="fold")
    for row in rows.rows:
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    return table
