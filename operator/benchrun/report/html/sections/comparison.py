"""This run beside its baseline."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api.comparison import Change, ComparedCell, ComparedMetric, Comparison
from benchrun.report.comparison_rows import comparison_rows, reasons, signed, unpaired
from benchrun.report.html.blocks import Block, Chart, Charts, Prose, Section, Table
from benchrun.report.html.charts.comparison import Bar, change_chart
from benchrun.report.html.reported import Reported

HIGHER_IS_BETTER = frozenset({"OutputThroughput", "RequestThroughput", "TotalTokenThroughput"})
MAX_BARS = 40
"""Of one chart; the table has all."""


def comparison_section(run: Reported) -> Section | None:
    """Where the spec names a baseline."""
    found = run.status.comparison
    if found is None:
        return None
    limit = float(run.spec.baseline.max_regression_percent) if run.spec.baseline is not None else None
    metrics: list[ComparedMetric] = list(dict.fromkeys(c.metric for cell in found.cells for c in cell.changes))
    charts = [chart for metric in metrics if (chart := _chart(found, metric, limit)) is not None]
    blocks: list[Block] = [Prose(f"Baseline {found.baseline.name}. {found.message}")]
    if charts:
        explained = (
            "Bars are the change, the thin line its interval; green is better, red worse, grey within the noise. "
            "An interval without an end at the edge of a chart goes on; the table has all of it."
        )
        dashed = f" Dashed: {limit:g} % worse, the most that is allowed." if limit is not None else ""
        some = f" {MAX_BARS} of {len(found.cells)} load points are drawn." if len(found.cells) > MAX_BARS else ""
        blocks += [Prose(explained + dashed + some), Charts(tuple(charts))]
    if found.cells:
        rows = comparison_rows(found.cells)
        blocks.append(
            Table("Changes against the baseline", rows, words=frozenset({"word"}), folded=len(rows.rows) > 30)
        )
    blocks += [Prose(f"Not compared: {reason}") for reason in reasons(found.cells)]
    alone = unpaired(found.cells)
    if alone:
        blocks.append(Prose(f"Not known to have had equal traffic: {', '.join(alone)}."))
    return Section("comparison", "Against the baseline", tuple(blocks))


def _chart(found: Comparison, metric: ComparedMetric, limit: float | None) -> Chart | None:
    changes = [(cell, change) for cell in found.cells for change in cell.changes if change.metric == metric]
    bars = _bars(changes)[:MAX_BARS]
    if not bars:
        return None
    better = "higher" if metric in HIGHER_IS_BETTER else "lower"
    signed_limit = None if limit is None else -limit if metric in HIGHER_IS_BETTER else limit
    description = (
        f"Change of {metric} in percent of the baseline, by load point, with intervals; {better} is better. "
        "The same figures are in the table below."
    )
    return Chart(f"{metric} ({better} is better)", change_chart(bars, limit_percent=signed_limit), description)


def _bars(changes: Sequence[tuple[ComparedCell, Change]]) -> list[Bar]:
    return [
        Bar(cell.cell, change.change_percent, change.low_percent, change.high_percent, change.word, _told(cell, change))
        for cell, change in changes
        if change.change_percent is not None
    ]


def _told(cell: ComparedCell, change: Change) -> str:
    interval = (
        f", interval {signed(change.low_percent)} to {signed(change.high_percent)} %"
        if change.low_percent is not None and change.high_percent is not None
        else ""
    )
    return f"{cell.cell}, {change.metric}: {signed(change.change_percent, unit=' %')}{interval}; {change.word}"
