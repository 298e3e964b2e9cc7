"""The figures of every load point, beside the baseline, and what limits them."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api import Change, ComparedCell, ComparedMetric, Comparison, Result, Truncated
from benchrun.report.comparison_rows import comparison_rows, reasons, signed, unpaired
from benchrun.report.html.blocks import Block, Chart, Charts, Fold, Prose, Section, Table
from benchrun.report.html.charts.changes import Bar, change_chart
from benchrun.report.html.reported import Reported
from benchrun.report.result_rows import result_rows, texts_per_prompt
from benchrun.report.rows import ABSENT, UNCERTAIN_NOTE, Rows, has_uncertain, interval_rows


def results_section(run: Reported) -> Section:
    """The table of the terminal, and behind a click how sure each percentile is."""
    if not run.status.results:
        return Section("results", "Results", (Prose("No load point was measured."),))
    rows = result_rows(run.status, texts_per_prompt=texts_per_prompt(run.written), wide=True)
    blocks: list[Block] = [
        Table("Load points, their repeats pooled", rows, words=frozenset({"verdict"})),
        Prose(
            "Latencies in milliseconds, as the client saw them. Running, waiting, KV max and hits are the servers' own "
            "words; running and waiting are means over the stages. A dash is what was not measured."
        ),
    ]
    if has_uncertain(rows):
        blocks.append(Prose(f"{UNCERTAIN_NOTE}."))
    intervals = interval_rows(run.status)
    if intervals.rows:
        blocks.append(
            Fold(
                "How sure each percentile is", (Table("95 % intervals, and the figure of the steady state", intervals),)
            )
        )
    if run.status.truncated:
        cuts = "; ".join(map(_cut, run.status.truncated))
        blocks.append(Prose(f"To stay small, the run does not hold everything: {cuts}."))
    return Section("results", "Results", tuple(blocks))


def _cut(cut: Truncated) -> str:
    return f"{cut.included} of {cut.total} {cut.field}"


# ---- comparison -------------------------------------------------------------------------------------------------------
# This run beside its baseline.

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


# ---- limits -----------------------------------------------------------------------------------------------------------
# What limits: why requests waited, and what more load or another setting would run into.

MAX_NAMED = 8
"""Load points listed by name where there is nothing to say of them."""


def limits_section(run: Reported) -> Section | None:
    """The operator's sentences, with their numbers; load points where nothing waited and nothing limits in one line."""
    results = run.status.results
    if not results:
        return None
    told = [(row.cell, waiting, limit) for row in results if (waiting := _waiting(row)) + (limit := _limit(row))]
    blocks: list[Block] = []
    if told:
        rows = tuple((cell, waiting or ABSENT, limit or ABSENT) for cell, waiting, limit in told)
        headers = ("load point", "why requests waited", "what limits")
        blocks.append(Table("Load points where requests waited or something limits", Rows(headers, rows), stacked=True))
    named = {cell for cell, _, _ in told}
    quiet = [row.cell for row in results if row.cell not in named]
    if quiet:
        blocks.append(Prose(_quiet(quiet, others=bool(told))))
    return Section("limits", "What limits", tuple(blocks))


def _waiting(row: Result) -> str:
    return f"{row.waiting.reason}. {row.waiting.sentence}" if row.waiting and row.waiting.reason != "None" else ""


def _limit(row: Result) -> str:
    return (
        f"{row.bottleneck.limit}. {row.bottleneck.sentence}"
        if row.bottleneck and row.bottleneck.limit != "None"
        else ""
    )


def _quiet(cells: list[str], *, others: bool) -> str:
    if not others:
        return "The servers kept up: nothing waited and nothing limits at any load point."
    where = ", ".join(cells) if len(cells) <= MAX_NAMED else f"the other {len(cells)} load points"
    return f"Nothing waited and nothing limits at {where}."
