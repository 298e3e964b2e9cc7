"""Sections that compare a run or variants with the baseline, and the Pareto front of a sweep."""

from collections.abc import Sequence
from typing import NamedTuple

from benchrun.api import HIGHER_IS_BETTER, KEYS, SCOPES, TRUSTED, Change
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.report import html
from benchrun.report.comparison_rows import (
    comparison_rows,
    interval,
    prices,
    reasons,
    setting_rows,
    signed,
    unpaired,
)
from benchrun.report.html import ChartSpec, theme
from benchrun.report.sweep_rows import (
    change_rows,
    configuration_change_rows,
    front_rows,
    setting_rows as variant_setting_rows,
    throughput,
    throughput_unit,
)
from benchrun.report.tables import ABSENT, Rows, figure

# Most rows of an open table beside a chart; longer tables are collapsed.
MAX_OPEN_ROWS = 30
MAX_BARS = 40  # Most bars of one chart; the table has all.
# Most load points of a sweep that have charts; the table has all.
MAX_DRAWN_LOAD_POINTS = 8
EXPLAINED = (
    "Bars show the change, thin lines its interval; green is better, red is worse, "
    "grey is within the noise or unknown. An interval without an end mark goes on "
    "beyond the chart; the table has both of its ends."
)


def comparison_section(run: html.Reported) -> html.Section | None:
    """Build the comparison with the baseline; None if the run was not compared with one."""
    if (found := run.status.comparison) is None:
        return None
    limit = (
        float(run.spec.baseline.max_regression_percent)
        if run.spec.baseline is not None
        else None
    )
    changes = [
        (load_point.load_point, change)
        for load_point in found.load_points
        for change in load_point.changes
    ]
    charts = _change_charts(changes, by="load point", limit=limit)
    dashed = (
        f" Dashed: {limit:g} % worse, the most that is allowed."
        if limit is not None
        else ""
    )
    some = (
        f" {MAX_BARS} of {len(found.load_points)} load points are drawn."
        if len(found.load_points) > MAX_BARS
        else ""
    )
    alone = ", ".join(unpaired(found.load_points))
    return html.section(
        "comparison",
        "Against the baseline",
        _settings(setting_rows(found.settings)),
        html.Prose(f"Baseline {found.baseline.name}. {found.message}"),
        html.Prose(EXPLAINED + dashed + some if charts else ""),
        html.Charts(charts),
        _table(comparison_rows(found.load_points)),
        *(html.Prose(f"{price}.") for price in prices(found.load_points)),
        *(
            html.Prose(f"Not compared: {reason}")
            for reason in reasons(found.load_points)
        ),
        html.Prose(
            f"It is not known whether both sides were sent equal requests: {alone}."
            if alone
            else ""
        ),
    )


def changes_section(sweep: html.ReportedSweep) -> html.Section | None:
    """Build the comparison of each variant with the baseline; None if none could be compared."""
    status = sweep.status
    rows = change_rows(status)
    if status.scope is None or not rows.rows:
        return None
    load_points = list(
        dict.fromkeys(row.load_point for row in status.results if row.changes)
    )
    lead = (
        f"Baseline {status.baseline}, {SCOPES[status.scope]}. {EXPLAINED} If all variants were "
        "equal, some outcome of the sweep would be wrong in at most 5 % of sweeps."
    )
    some = (
        f" {MAX_DRAWN_LOAD_POINTS} of {len(load_points)} load points are drawn."
        if len(load_points) > MAX_DRAWN_LOAD_POINTS
        else ""
    )
    drawn: list[html.Element] = []
    for load_point in load_points[:MAX_DRAWN_LOAD_POINTS]:
        changes = [
            (row.variant, change)
            for row in status.results
            if row.load_point == load_point
            for change in row.changes
        ]
        charts = _change_charts(changes, by="variant", load_point=f"{load_point}: ")
        drawn += [html.Heading(load_point), html.Charts(charts)] if charts else []
    side_by_side = configuration_change_rows(status)
    return html.section(
        "changes",
        "Against the baseline",
        _settings(variant_setting_rows(status)),
        html.Prose(lead + some),
        *drawn,
        html.Table(
            "Changes with load points side by side: percent, interval, outcome",
            side_by_side,
        ),
        _table(rows),
    )


def _settings(rows: Rows) -> html.Table:
    """Build the table of how servers differ, which stands before the outcome of a comparison."""
    folded = len(rows.rows) > MAX_OPEN_ROWS
    return html.Table("How the servers differ", rows, folded=folded)


def _table(rows: Rows) -> html.Table:
    folded = len(rows.rows) > MAX_OPEN_ROWS
    return html.Table(
        "Changes against the baseline",
        rows,
        words=frozenset({"word"}),
        folded=folded,
    )


def _change_charts(
    changes: Sequence[tuple[str, Change]],
    *,
    by: str,
    load_point: str = "",
    limit: float | None = None,
) -> tuple[html.Chart, ...]:
    """Build one chart for each metric with known changes.

    `limit` is the most percent that a figure may get worse; with None no limit is drawn.
    """
    bars: dict[str, list[Bar]] = {change.metric: [] for _, change in changes}
    for label, change in changes:
        if change.change_percent is not None:
            ends = interval(change)
            known = f", interval {ends} %" if ends != ABSENT else ""
            text = (
                f"{label}, {change.metric}: {signed(change.change_percent, unit=' %')}{known}; "
                f"{change.word}"
            )
            bar = Bar(
                label,
                change.change_percent,
                change.low_percent,
                change.high_percent,
                change.word,
                text,
            )
            bars[change.metric].append(bar)
    charts = []
    for metric, of_metric in (
        (metric, found) for metric, found in bars.items() if found
    ):
        rises = metric in HIGHER_IS_BETTER
        better = f"{'higher' if rises else 'lower'} is better"
        description = (
            f"{load_point}change of {metric} in percent of the baseline, by {by}, with intervals; "
            f"{better}. "
            "The same figures are in the table below."
        )
        chart = change_chart(
            of_metric[:MAX_BARS],
            limit_percent=-limit if limit is not None and rises else limit,
        )
        charts.append(html.Chart(f"{metric} ({better})", chart, description))
    return tuple(charts)


ROW_HEIGHT = 24
MAX_LABEL_WIDTH = 150  # Width in pixels.
# The text of a tick (a Vega expression).
PERCENT = "datum.value === 0 ? '0' : format(datum.value, '+~r')"
LEAST_REACH = 2.0  # Least percent that the axis reaches from 0.
MARGINS = 58
_WORDS = ("Better", "Worse", "Equivalent", "NoDetectableDifference", "Unknown")


class Bar(NamedTuple):
    """One change in percent; `text` is shown when the pointer is over it."""

    label: str
    change: float
    low: float | None
    high: float | None
    word: str
    text: str


def change_chart(bars: Sequence[Bar], *, limit_percent: float | None) -> ChartSpec:
    """Build the chart of these bars, in the order given.

    `limit_percent` is the change, with its sign, from which on a figure has regressed. With None no
    limit is drawn.
    """
    order = [bar.label for bar in bars]
    room = min(MAX_LABEL_WIDTH, round(theme.CHARACTER_WIDTH * max(map(len, order))))
    names = {
        "title": None,
        "labelLimit": MAX_LABEL_WIDTH,
        "minExtent": room,
        "ticks": False,
        "domain": False,
    }
    y = {"field": "label", "type": "nominal", "sort": order, "axis": names}
    low, high = reach(bars, limit_percent)
    axis = {
        "title": "change against the baseline, %",
        "labelExpr": PERCENT,
        "tickCount": 5,
    }
    across = {"domain": [low, high], "nice": False, "clamp": True}
    colour = theme.nominal("word", {word: theme.OF_WORDS[word] for word in _WORDS})
    x = theme.quantitative("change", axis=axis, scale=across, stack=None)
    layers = [
        theme.layer(
            {"type": "bar", "height": 13, "opacity": 0.55, "aria": True},
            {"x": x, "y": y, "color": colour, "description": {"field": "text"}},
        ),
        theme.layer(
            {"type": "rule", "stroke": theme.INK, "strokeWidth": 1.6},
            {"x": theme.quantitative("low"), "x2": {"field": "high"}, "y": y},
            where=theme.HAS_INTERVAL,
        ),
        # Ticks at the ends of intervals that lie within the chart.
        *(
            theme.layer(
                {"type": "tick", "thickness": 1.6, "size": 9, "color": theme.INK},
                {"x": theme.quantitative(end), "y": y},
                where=f"{theme.HAS_INTERVAL} && datum.{end} >= {low} && datum.{end} <= {high}",
            )
            for end in ("low", "high")
        ),
        _line(0.0, stroke=theme.GREY),
        *(
            [_line(limit_percent, stroke=theme.SOFT_INK, strokeDash=[4, 3])]
            if limit_percent is not None
            else []
        ),
    ]
    return theme.card(
        layers,
        [bar._asdict() for bar in bars],
        height=MARGINS + ROW_HEIGHT * len(bars),
    )


def reach(bars: Sequence[Bar], limit_percent: float | None) -> tuple[float, float]:
    """Return both ends of the chart's axis in percent.

    All changes are within them. Intervals may go beyond them, so that one wide interval does not
    make all others too small to see.
    """
    farthest = max(
        LEAST_REACH,
        1.5 * max(abs(bar.change) for bar in bars),
        2 * abs(limit_percent or 0.0),
    )
    ends = [
        0.0,
        *(
            end
            for bar in bars
            for end in (bar.change, bar.low, bar.high)
            if end is not None
        ),
    ]
    marks = [*ends, limit_percent] if limit_percent is not None else ends
    return max(min(marks) - 1, -farthest), min(max(marks) + 1, farthest)


def _line(at: float, **mark: object) -> ChartSpec:
    return theme.layer(
        {"type": "rule", "strokeWidth": 1.2, **mark},
        {"x": theme.quantitative("at")},
        [{"at": at}],
    )


FRONT = (
    "Large points are on the front. Every other load point of the workload is equal "
    "to one of them, or worse in throughput or TPOT and not better in the other. "
    "Values that differ by less than noise or 1 % are equal. Up and to the left is "
    "better; which of the two matters more is your choice."
)


def front_section(sweep: html.ReportedSweep) -> html.Section | None:
    """Build the Pareto front of throughput against TPOT; None if no TPOT was measured."""
    rows = front_rows(sweep.status)
    if not rows.rows:
        return None
    workloads = list(dict.fromkeys(point.workload for point in sweep.status.front))
    charts = tuple(
        chart
        for workload in workloads
        if (chart := _front_chart(sweep, workload)) is not None
    )
    many = len(sweep.status.variants) > MAX_COLOURS
    explained = " Blue is the front; the variants are in the table." if many else ""
    lead = html.Prose(FRONT + explained if charts else "")
    table = html.Table(
        "The front, from the lowest TPOT on",
        rows,
        folded=len(rows.rows) > MAX_OPEN_ROWS,
    )
    return html.section(
        "front", "Throughput against TPOT", lead, html.Charts(charts), table
    )


def _front_chart(sweep: html.ReportedSweep, workload: str) -> html.Chart | None:
    """Build the chart of a workload's front; None if there is only a single point.

    If the figures of a row were cut, they are taken from its point of the front in the status.
    """
    front = {
        (p.variant, p.load_point): (p.mean_tpot_ms, shown)
        for p in sweep.status.front
        if p.workload == workload
        and (shown := throughput(sweep.status, p)) is not None
    }
    places = {
        (row.variant, row.load_point): (tpot, shown)
        for row in sweep.status.results
        if row.load_point.partition("/")[0] == workload and row.verdict in TRUSTED
        if (tpot := row.metrics.get(KEYS["MeanTPOT"])) is not None
        and (shown := sweep.throughput(row)) is not None
    } | front
    points = []
    unit = throughput_unit(sweep.status).replace("tok/s", "tokens/s")
    for (variant, load_point), (tpot, shown) in places.items():
        text = f"{variant} at {load_point}: {figure(shown)} {unit}, TPOT {figure(tpot)} ms"
        points.append(
            Point(variant, tpot, shown, (variant, load_point) in front, text)
        )
    if len(points) < 2:
        return None
    description = (
        f"{workload}: output {unit} against mean TPOT, {len(points)} load points. The front is in "
        "the table below, all of them are in the results."
    )
    chart = front_chart(
        points, unit=unit, tpot_noise=_tpot_noise(sweep.status, workload)
    )
    return html.Chart(workload, chart, description)


def _tpot_noise(status: BenchmarkSweepStatus, workload: str) -> float:
    """Return the widest interval of a change of TPOT, as a share of TPOT from 0 to 1."""
    widths = [
        change.high_percent - change.low_percent
        for row in status.results
        if row.load_point.partition("/")[0] == workload
        for change in row.changes
        if change.metric == "MeanTPOT"
        and change.low_percent is not None
        and change.high_percent is not None
    ]
    return min(max(widths, default=0.0) / 100, 1.0)


# Most variants that colours can tell apart; where there are more, only the front is coloured.
MAX_COLOURS = len(theme.RAMP)
SHAPES = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "cross",
    "triangle-right",
    "triangle-left",
)
"""Shapes of points, so that variants can be told apart without colours."""
LEGEND_COLUMNS = 2
LEGEND_ROW_HEIGHT = 18
LABEL_WIDTH = 130  # Width in pixels.
MARGIN = 1.1
# The text of a tick of tokens (a Vega expression).
FROM_ZERO = "datum.value === 0 ? '0' : format(datum.value, '~s')"


class Point(NamedTuple):
    """A variant at a load point; `text` is shown when the pointer is over it."""

    variant: str
    tpot_ms: float
    throughput: float  # Output tokens a second; per GPU where variants are compared per GPU.
    on_front: bool
    text: str


LEAST_TPOT_SPAN = 0.1  # Least width of the axis, as a share of the middle value.


def front_chart(
    points: Sequence[Point], *, unit: str, tpot_noise: float = 0.0
) -> ChartSpec:
    """Build the chart of throughput against TPOT: better is up and to the left.

    The line joins the points of the Pareto front. Apart from noise, no point with the same or a
    lower TPOT has more throughput. `tpot_noise` is the noise of TPOT as a share; the axis of TPOT
    spans at least that share.
    """
    variants = list(dict.fromkeys(point.variant for point in points))
    tpots = theme.latency_axis(
        [point.tpot_ms for point in points],
        from_zero=False,
        title="mean TPOT",
        least_span=max(LEAST_TPOT_SPAN, tpot_noise),
    )
    most = max(point.throughput for point in points)
    x = theme.quantitative("tpot_ms", **tpots)
    y = theme.quantitative(
        "throughput",
        scale={"domain": [0, most * MARGIN], "nice": True},
        axis={"title": f"output {unit}", "labelExpr": FROM_ZERO, "tickCount": 5},
    )
    front, others = (
        [point._asdict() for point in points if point.on_front == on_front]
        for on_front in (True, False)
    )
    encoding = {"x": x, "y": y, **_look(variants), "description": {"field": "text"}}
    mark = {"type": "point", "filled": True, "aria": True}
    layers = [
        theme.layer(
            {**theme.DASHED, "type": "line", "interpolate": "step-after"},
            {"x": x, "y": y},
            front,
        ),
        theme.layer({**mark, "size": 45, "opacity": 0.7}, encoding, others),
        theme.layer({**mark, "size": 130, "opacity": 1}, encoding, front),
    ]
    rows = (
        -(-len(variants) // LEGEND_COLUMNS) if len(variants) <= MAX_COLOURS else 0
    )
    return theme.card(
        layers, height=theme.CARD_HEIGHT + 20 + rows * LEGEND_ROW_HEIGHT
    )


def _look(variants: Sequence[str]) -> ChartSpec:
    """Return a colour and a shape for each variant; of too many, only the front is coloured."""
    if len(variants) > MAX_COLOURS:
        return {
            "color": theme.nominal(
                "on_front", {True: theme.BLUE, False: theme.GREY}
            )
        }
    legend = {
        "title": None,
        "columns": LEGEND_COLUMNS,
        "labelLimit": LABEL_WIDTH,
        "symbolOpacity": 1,
    }
    looks = {"color": theme.ramp(len(variants)), "shape": SHAPES}
    return {
        name: theme.nominal(
            "variant", dict(zip(variants, of, strict=False)), legend
        )
        for name, of in looks.items()
    }
