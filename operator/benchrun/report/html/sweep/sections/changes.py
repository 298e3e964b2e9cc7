"""Every variant beside the baseline: bars with their intervals, a chart a figure."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api.comparison import Change, ComparedMetric
from benchrun.api.sweep.status import Row
from benchrun.judge.comparison.figures import HIGHER_IS_BETTER
from benchrun.judge.comparison.sentence import SCOPES
from benchrun.report.comparison_rows import signed
from benchrun.report.html.blocks import Block, Chart, Charts, Heading, Prose, Section, Table
from benchrun.report.html.charts.comparison import Bar, change_chart
from benchrun.report.html.sweep.reported import MAX_OPEN_ROWS, ReportedSweep
from benchrun.report.sweep_rows import change_rows

MAX_DRAWN_CELLS = 8
"""Load points with charts of their own; the table has all."""


def changes_section(sweep: ReportedSweep) -> Section | None:
    """Where something could be compared."""
    status = sweep.status
    rows = change_rows(status)
    if status.scope is None or not rows.rows:
        return None
    cells = list(dict.fromkeys(row.cell for row in status.results if row.changes))
    lead = (
        f"Baseline {status.baseline}, {SCOPES[status.scope]}. Bars are the change, the thin line its interval; green is better, red "
        "worse, grey within the noise or unknown. An interval without an end at the edge of a chart goes on; the table has all of it. "
        "All words of the sweep together err in at most 5 % of sweeps of equals."
    )
    some = f" {MAX_DRAWN_CELLS} of {len(cells)} load points are drawn." if len(cells) > MAX_DRAWN_CELLS else ""
    blocks: list[Block] = [Prose(lead + some)]
    for cell in cells[:MAX_DRAWN_CELLS]:
        charts = _charts([row for row in status.results if row.cell == cell], cell)
        blocks += [Heading(cell), Charts(tuple(charts))] if charts else []
    folded = len(rows.rows) > MAX_OPEN_ROWS
    blocks.append(Table("Changes against the baseline", rows, words=frozenset({"word"}), folded=folded))
    return Section("changes", "Against the baseline", tuple(blocks))


def _charts(rows: Sequence[Row], cell: str) -> list[Chart]:
    metrics = list(dict.fromkeys(change.metric for row in rows for change in row.changes))
    return [chart for metric in metrics if (chart := _chart(rows, cell, metric)) is not None]


def _chart(rows: Sequence[Row], cell: str, metric: ComparedMetric) -> Chart | None:
    bars = [bar for row in rows for change in row.changes if change.metric == metric for bar in _bar(row, change)]
    if not bars:
        return None
    better = "higher" if metric in HIGHER_IS_BETTER else "lower"
    described = (
        f"{cell}: change of {metric} in percent of the baseline, by variant, with intervals; {better} is better. The same figures "
        "are in the table below."
    )
    return Chart(f"{metric} ({better} is better)", change_chart(bars, limit_percent=None), described)


def _bar(row: Row, change: Change) -> list[Bar]:
    """None where the change is not known."""
    if change.change_percent is None:
        return []
    ends = (change.low_percent, change.high_percent)
    known = f", interval {signed(ends[0])} to {signed(ends[1])} %" if None not in ends else ""
    told = f"{row.variant}, {change.metric}: {signed(change.change_percent, unit=' %')}{known}; {change.word}"
    return [Bar(row.variant, change.change_percent, *ends, change.word, told)]
