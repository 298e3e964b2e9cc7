"""A run or variants beside the baseline, and the Pareto front of a sweep."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api import KEYS, Change
from benchrun.judge.comparison.figures import HIGHER_IS_BETTER, SCOPES
from benchrun.judge.sweep.variant_figures import TRUSTED
from benchrun.report import html
from benchrun.report.comparison_rows import comparison_rows, interval, reasons, signed, unpaired
from benchrun.report.html.charts.changes import MAX_COLOURS, Bar, Point, change_chart, front_chart
from benchrun.report.sweep_rows import change_rows, configuration_change_rows, front_rows
from benchrun.report.tables import ABSENT, Rows, figure

MAX_OPEN_ROWS = 30  # Longer tables beside a chart are collapsed.
MAX_BARS = 40  # Of one chart; the table has all.
MAX_DRAWN_CELLS = 8  # Load points of a sweep with charts of their own; the table has all.
EXPLAINED = (
    "Bars are the change, the thin line its interval; green is better, red worse, grey within the noise or unknown. An interval "
    "without an end at the edge of a chart goes on; the table has all of it."
)


def comparison_section(run: html.Reported) -> html.Section | None:
    """Where the spec names a baseline."""
    found = run.status.comparison
    if found is None:
        return None
    limit = float(run.spec.baseline.max_regression_percent) if run.spec.baseline is not None else None
    changes = [(cell.cell, change) for cell in found.cells for change in cell.changes]
    charts = _change_charts(changes, by="load point", limit=limit)
    dashed = f" Dashed: {limit:g} % worse, the most that is allowed." if limit is not None else ""
    some = f" {MAX_BARS} of {len(found.cells)} load points are drawn." if len(found.cells) > MAX_BARS else ""
    alone = ", ".join(unpaired(found.cells))
    return html.section(
        "comparison",
        "Against the baseline",
        html.Prose(f"Baseline {found.baseline.name}. {found.message}"),
        html.Prose(EXPLAINED + dashed + some if charts else ""),
        html.Charts(charts),
        _table(comparison_rows(found.cells)),
        *(html.Prose(f"Not compared: {reason}") for reason in reasons(found.cells)),
        html.Prose(f"Traffic not known to be equal: {alone}." if alone else ""),
    )


def changes_section(sweep: html.ReportedSweep) -> html.Section | None:
    """Every variant beside the baseline, where something could be compared."""
    status = sweep.status
    rows = change_rows(status)
    if status.scope is None or not rows.rows:
        return None
    cells = list(dict.fromkeys(row.cell for row in status.results if row.changes))
    lead = (
        f"Baseline {status.baseline}, {SCOPES[status.scope]}. {EXPLAINED} If all variants were equal, some word of the sweep would be "
        "wrong in at most 5 % of sweeps."
    )
    some = f" {MAX_DRAWN_CELLS} of {len(cells)} load points are drawn." if len(cells) > MAX_DRAWN_CELLS else ""
    drawn: list[html.Element] = []
    for cell in cells[:MAX_DRAWN_CELLS]:
        changes = [(row.variant, change) for row in status.results if row.cell == cell for change in row.changes]
        charts = _change_charts(changes, by="variant", cell=f"{cell}: ")
        drawn += [html.Heading(cell), html.Charts(charts)] if charts else []
    side_by_side = configuration_change_rows(status)
    return html.section(
        "changes",
        "Against the baseline",
        html.Prose(lead + some),
        *drawn,
        html.Table("Changes, load points side by side: percent, interval, word", side_by_side),
        _table(rows),
    )


def _table(rows: Rows) -> html.Table:
    folded = len(rows.rows) > MAX_OPEN_ROWS
    return html.Table("Changes against the baseline", rows, words=frozenset({"word"}), folded=folded)


def _change_charts(
    changes: Sequence[tuple[str, Change]], *, by: str, cell: str = "", limit: float | None = None
) -> tuple[html.Chart, ...]:
    """One a metric with known changes; `limit`: the most percent that a figure may get worse."""
    bars: dict[str, list[Bar]] = {change.metric: [] for _, change in changes}
    for label, change in changes:
        if change.change_percent is not None:
            ends = interval(change)
            known = f", interval {ends} %" if ends != ABSENT else ""
            text = f"{label}, {change.metric}: {signed(change.change_percent, unit=' %')}{known}; {change.word}"
            bar = Bar(label, change.change_percent, change.low_percent, change.high_percent, change.word, text)
            bars[change.metric].append(bar)
    charts = []
    for metric, of_metric in ((metric, found) for metric, found in bars.items() if found):
        rises = metric in HIGHER_IS_BETTER
        better = f"{'higher' if rises else 'lower'} is better"
        description = (
            f"{cell}change of {metric} in percent of the baseline, by {by}, with intervals; {better}. "
            "The same figures are in the table below."
        )
        chart = change_chart(of_metric[:MAX_BARS], limit_percent=-limit if limit is not None and rises else limit)
        charts.append(html.Chart(f"{metric} ({better})", chart, description))
    return tuple(charts)


FRONT = (
    "Large points are on the front: no other load point of the workload has both more throughput per GPU and a lower TPOT. Up and to "
    "the left is better; how you weigh the two is up to you. The front is drawn by means; the table says which "
    "points are distinct from the one before."
)


def front_section(sweep: html.ReportedSweep) -> html.Section | None:
    """The Pareto front of throughput per GPU against TPOT, where a TPOT was measured."""
    rows = front_rows(sweep.status)
    if not rows.rows:
        return None
    workloads = list(dict.fromkeys(point.workload for point in sweep.status.front))
    charts = tuple(chart for workload in workloads if (chart := _front_chart(sweep, workload)) is not None)
    many = len(sweep.status.variants) > MAX_COLOURS
    explained = " Blue is the front; the variants are in the table." if many else ""
    lead = html.Prose(FRONT + explained if charts else "")
    table = html.Table("The front, from the lowest TPOT on", rows, folded=len(rows.rows) > MAX_OPEN_ROWS)
    return html.section("front", "Throughput against TPOT", lead, html.Charts(charts), table)


def _front_chart(sweep: html.ReportedSweep, workload: str) -> html.Chart | None:
    """None of a single point. A row whose figures were cut has those of the front."""
    front = {
        (p.variant, p.cell): (p.mean_tpot_ms, p.throughput_per_gpu)
        for p in sweep.status.front
        if p.workload == workload
    }
    places = {
        (row.variant, row.cell): (tpot, per_gpu)
        for row in sweep.status.results
        if row.cell.partition("/")[0] == workload and row.verdict in TRUSTED
        if (tpot := row.metrics.get(KEYS["MeanTPOT"])) is not None and (per_gpu := sweep.per_gpu(row)) is not None
    } | front
    points = []
    for (variant, cell), (tpot, per_gpu) in places.items():
        text = f"{variant} at {cell}: {figure(per_gpu)} tokens/s per GPU, TPOT {figure(tpot)} ms"
        points.append(Point(variant, tpot, per_gpu, (variant, cell) in front, text))
    if len(points) < 2:
        return None
    description = (
        f"{workload}: output tokens a second and GPU against mean TPOT, {len(points)} load points. The front is in the table below, "
        "all of them are in the results."
    )
    return html.Chart(workload, front_chart(points), description)
