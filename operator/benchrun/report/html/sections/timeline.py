"""Sections that show a run, or the variants of a sweep, over time.

They show stages, running and waiting requests, and KV cache usage.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchrun.api import Result, StageResult
from benchrun.report import html
from benchrun.report.html import ChartSpec, Reported, theme
from benchrun.report.html.timeline_spans import Span, spans as spans_of
from benchrun.report.tables import Rows, figure

AXIS_WIDTH = 46
"""Width of the labels in pixels. It is the same in all panels, so that they share one time axis."""
MARGINS = AXIS_WIDTH + 28
STAGE_HEIGHT = 22
PANEL_HEIGHT = 92
PIXELS_A_TICK = 90
# One for each run: a chart can't show more.
LINES = (
    theme.BLUE,
    theme.AMBER,
    theme.GREEN,
    theme.RED,
    theme.GREY,
)
_UNITS = (("s", 1.0, 300.0), ("min", 60.0, 10_800.0), ("h", 3600.0, float("inf")))
"""Units of time: name, length in seconds, and the largest span in seconds that is shown in it."""
MANY_STAGES = 40
"""Number of stages above which there is a second chart, which scrolls and has room for each stage.
"""
PIXELS_A_STAGE = 26
MAX_WIDTH = 5200


def timeline_section(run: Reported) -> html.Section | None:
    """Build the run over time; None if neither stages nor samples are known.

    Times of stages are by the client's clock, times of samples by the operator's clock; the clocks
    may differ by some milliseconds.
    """
    if run.stages:
        origin = run.stages[0].first_send_unix_us / 1e6
    elif run.timeline is not None:
        origin = run.timeline.begin_unix_seconds
    else:
        return None
    known = {row.load_point: row for row in run.status.results}
    named = len({row.workload for row in run.status.results}) > 1
    stages = [
        _bar(stage, origin, known.get(stage.load_point), named=named)
        for stage in run.stages
    ]
    kept = len(run.stages)
    measured = sum(row.repeats for row in run.status.results)
    some = (
        f"{kept} of {measured} stages are in the result document; the others are not marked."
        if kept < measured
        else ""
    )
    width = max(theme.WIDE_WIDTH, min(MAX_WIDTH, PIXELS_A_STAGE * len(stages)))
    whole = _timeline(
        run,
        stages,
        origin,
        "The run over time",
        width=theme.WIDE_WIDTH,
    )
    fine = []
    if len(stages) > MANY_STAGES:
        fine.append(_timeline(run, stages, origin, "Every stage", width=width))
    return html.section(
        "timeline",
        "Timeline",
        html.Prose(_lead(run)),
        html.Prose(some),
        whole,
        html.fold("The same run, with room for every stage", *fine),
        html.fold(
            "The stages",
            html.Table("Stages in order of measurement", _stage_rows(run, origin)),
        ),
    )


def side_by_side_section(sweep: html.ReportedSweep) -> html.Section | None:
    """Build running, waiting and KV cache usage over time, one line for each variant's first run.

    Return None if no samples were kept.
    """
    series = {
        name: spans_of(timeline, origin=timeline.begin_unix_seconds)
        for name, timeline in list(sweep.series.items())[: len(LINES)]
    }
    if not series:
        return None
    lead = (
        f"Samples of the servers of {', '.join(series)}, each from the first sample of the "
        "variant's first run: lines are means, and the "
        "shade reaches from the least to the greatest sample."
    )
    described = (
        "Running and waiting requests and KV cache usage over time, one line for "
        "each variant. Means are in the table of results."
    )
    last = max(span.end for spans in series.values() for span in spans)
    unit, seconds = time_unit(last)
    frame = _Frame(unit, seconds, 0.0, last / seconds, theme.WIDE_WIDTH - MARGINS)
    colours = dict(zip(series, LINES, strict=False))
    panels = []
    for title, line in (
        ("running", "running"),
        ("waiting", "waiting"),
        ("KV cache, %", "KV cache"),
    ):
        rows = [
            {**_row(span, line, frame), "line": name}
            for name, spans in series.items()
            for span in spans
        ]
        panels.append((PANEL_HEIGHT, list(_sample_layers(rows, colours, title))))
    chart = html.Chart(
        "Variants over time",
        _panels(panels, frame, "each run's first sample"),
        described,
        wide=True,
    )
    return html.section("timeline", "Variants over time", html.Prose(lead), chart)


def _timeline(
    run: Reported,
    stages: "Sequence[StageBar]",
    origin: float,
    title: str,
    *,
    width: int,
) -> html.Chart:
    """Build a chart whose panels share one time axis."""
    spans = (
        spans_of(run.timeline, origin=origin) if run.timeline is not None else []
    )
    whole: list[StageBar | Span] = [*stages, *spans]
    first = min(each.start for each in whole)
    last = max(each.end for each in whole)
    unit, seconds = time_unit(last - first)
    frame = _Frame(unit, seconds, first / seconds, last / seconds, width - MARGINS)
    panels: list[tuple[int, Sequence[_Layer]]] = (
        [(STAGE_HEIGHT, _stage_layers(stages, frame))] if stages else []
    )
    if spans:
        # Every stage is shaded behind the curves: what lies between was not measured.
        shades = [
            {"at": frame.at(stage.start), "to": frame.at(stage.end)}
            for stage in stages
        ]
        mark = {"type": "rect", "fill": theme.SOFT_INK, "opacity": 0.07}
        shade = _Layer(mark, "at", {"x2": {"field": "to"}}, shades)
        requests = {"running": theme.BLUE, "waiting": theme.AMBER}
        for panel, colours in (
            ("requests", requests),
            ("KV cache, %", {"KV cache": theme.GREEN}),
        ):
            rows = [_row(span, line, frame) for line in colours for span in spans]
            panels.append(
                (PANEL_HEIGHT, [shade, *_sample_layers(rows, colours, panel)])
            )
    described = (
        f"{len(stages)} stages over time, and under them the requests that the servers had "
        "running and waiting and how full "
        "their KV cache was. The stages are in the table below."
    )
    since = "the first request" if run.stages else "the first sample"
    return html.Chart(title, _panels(panels, frame, since), described, wide=True)


def _lead(run: Reported) -> str:
    if run.timeline is None:
        return "The stages in order of measurement. No samples of the servers were kept."
    servers = sum(role.servers for role in run.timeline.roles)
    of = (
        "the server"
        if servers == 1
        else f"{servers} servers (requests are summed; the KV cache is their mean)"
    )
    return (
        f"Stages are marked with their load. Below them, samples of {of}: lines are means of "
        "equal spans of time, and the shade around them reaches from the least to the greatest "
        "sample. A gap is where there was no sample."
    )


def _bar(
    stage: StageResult, origin: float, row: Result | None, *, named: bool
) -> "StageBar":
    """Build the bar of a stage, labelled with its load and, if `named`, its workload."""
    start = stage.first_send_unix_us / 1e6 - origin
    end = stage.last_receive_unix_us / 1e6 - origin
    label = (
        "" if row is None else f"{row.workload} {row.value}" if named else row.value
    )
    verdict = row.verdict if row is not None else "Unknown"
    text = f"{stage.id}: {start:.1f} s to {end:.1f} s; {verdict}"
    return StageBar(start, max(end, start), label, text, verdict)


def _stage_rows(run: Reported, origin: float) -> Rows:
    rows = tuple(
        (
            stage.id,
            figure(stage.first_send_unix_us / 1e6 - origin, digits=4),
            figure(
                (stage.last_receive_unix_us - stage.first_send_unix_us) / 1e6,
                digits=4,
            ),
            str(stage.requests),
            str(stage.requests - stage.completed),
        )
        for stage in run.stages
    )
    return Rows(("stage", "begins (s)", "lasts (s)", "requests", "failed"), rows)


class StageBar(NamedTuple):
    """One stage; `text` is shown when the pointer is over it."""

    start: float  # Seconds since the first request.
    end: float
    label: str
    text: str
    verdict: str


class _Frame(NamedTuple):
    unit: str
    unit_seconds: float
    first: float
    last: float  # `first` and `last` are the ends of the time axis, in the unit.
    width: int

    def at(self, seconds: float) -> float:
        return round(seconds / self.unit_seconds, 4)


class _Layer(NamedTuple):
    mark: ChartSpec
    x: str
    encoding: ChartSpec  # Encoding without x.
    rows: theme.Rows


def time_unit(seconds: float) -> tuple[str, float]:
    """Return the time unit, and its length in seconds, that gives small numbers on the axis."""
    return next(
        (name, length) for name, length, until in _UNITS if seconds <= until
    )


def _panels(
    panels: Sequence[tuple[int, Sequence[_Layer]]], frame: _Frame, since: str
) -> ChartSpec:
    titles = [*[None] * (len(panels) - 1), f"{frame.unit} since {since}"]
    drawn = [
        _panel(*panel, frame, title)
        for panel, title in zip(panels, titles, strict=True)
    ]
    return theme.chart(
        {
            "vconcat": drawn,
            "spacing": 8,
            "resolve": {"scale": {"color": "independent"}},
        }
    )


def _stage_layers(stages: Sequence[StageBar], frame: _Frame) -> list[_Layer]:
    whole = (frame.last - frame.first) * frame.unit_seconds
    rows = []
    for stage in stages:
        pixels = (
            frame.width * (stage.end - stage.start) / whole if whole > 0 else 0.0
        )
        start, end, middle = map(
            frame.at, (stage.start, stage.end, (stage.start + stage.end) / 2)
        )
        label = (
            stage.label
            if pixels >= theme.CHARACTER_WIDTH * (len(stage.label) + 1)
            else ""
        )
        row = {"at": start, "to": end, "middle": middle, "label": label}
        rows.append({**row, "text": stage.text, "verdict": stage.verdict})
    doubtful = {
        word: theme.OF_WORDS[word] for word in ("Suspect", "Invalid", "Unknown")
    }
    colour = theme.nominal("verdict", {"Valid": theme.BLUE, **doubtful})
    mark = {
        "type": "rect",
        "fillOpacity": 0.3,
        "stroke": theme.CARD,
        "strokeWidth": 1,
        "aria": True,
    }
    bars = _Layer(
        mark,
        "at",
        {"x2": {"field": "to"}, "color": colour, "description": {"field": "text"}},
        rows,
    )
    return [
        bars,
        _Layer({"type": "text"}, "middle", {"text": {"field": "label"}}, rows),
    ]


def _sample_layers(
    rows: theme.Rows, colours: Mapping[str, str], title: str
) -> Iterable[_Layer]:
    """Yield lines of the means, and bands from the least to the greatest sample."""
    legend = {
        "title": None,
        "symbolType": "stroke",
        "symbolStrokeWidth": 3,
        "symbolOpacity": 1,
        "offset": 0,
    }
    shown = theme.nominal("line", colours, legend if len(colours) > 1 else None)
    # No thousandths of a percent.
    ticks = {
        "tickCount": 4,
        "format": "~r" if title.endswith("%") else "~s",
    }
    axis = {
        "title": title,
        "minExtent": AXIS_WIDTH,
        "maxExtent": AXIS_WIDTH,
        **ticks,
    }
    y = {"scale": {"zero": True, "nice": True}, "axis": axis}
    band = {
        "y": theme.quantitative("low", **y),
        "y2": {"field": "high"},
        "color": shown,
    }
    yield _Layer({"type": "area", "opacity": 0.22}, "at", band, rows)
    mean = {"y": theme.quantitative("mean", **y), "color": shown}
    yield _Layer({"type": "line", "strokeWidth": 1.4}, "at", mean, rows)


def _panel(
    height: int, layers: Iterable[_Layer], frame: _Frame, time_title: str | None
) -> ChartSpec:
    """Build one panel of a chart.

    All panels share the time axis, so only the last one has its title.
    """
    ticks = frame.width // PIXELS_A_TICK
    axis = (
        {
            "title": time_title,
            "titleAnchor": "start",
            "tickCount": ticks,
            "grid": False,
        }
        if time_title
        else None
    )
    scale = {"domain": [frame.first, frame.last], "nice": False}
    drawn = [
        theme.layer(
            mark,
            {"x": theme.quantitative(x, scale=scale, axis=axis), **encoding},
            rows,
        )
        for mark, x, encoding, rows in layers
    ]
    return {"width": frame.width, "height": height, "layer": drawn}


def _row(span: Span, line: str, frame: _Frame) -> ChartSpec:
    band = {
        "running": span.running,
        "waiting": span.waiting,
        "KV cache": span.kv_cache_percent,
    }[line]
    ends = {
        name: float(f"{getattr(band, name):.4g}") if band else None
        for name in ("mean", "low", "high")
    }
    return {"at": frame.at((span.start + span.end) / 2), "line": line, **ends}
