"""A run that goes on, laid out for a terminal of any width."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchrun.report.durations import told
from benchrun.report.live_view import Gauge, LiveView
from benchrun.report.sparkline import sparkline
from benchrun.report.stage_line import StageLine, told_figures
from benchrun.report.steps import Step

NARROW = 100
"""Below that many columns gauges stand under one another."""
SPARKLINE = 24
LONGEST_FIGURE = len("99999 tok/s")
LINES_OF_ONE = 4
"""Of several runs, where there is room."""
FIXED_LINES = 14
"""Of a full display, whatever is shown of stages; the prompt above it is counted, too."""
_MARKS = {"Done": ("✓", "green"), "UnderWay": ("▸", "cyan"), "ToCome": ("·", "dim")}


def full(view: LiveView, *, width: int, height: int) -> RenderableType:
    """Everything there is to see: the way, a bar, stages as they finish, gauges, and what is waited for."""
    parts: list[RenderableType] = [head(view), _way(view.steps), Text()]
    if view.total:
        parts.append(bar(view, width=width))
        parts += _stages(view, room=max(1, height - FIXED_LINES))
    if view.gauges:
        parts += [Text(), _gauges(view.gauges, columns=1 if width < NARROW else 2)]
    parts += [Text(), *words(view)]
    return Group(*parts)


def several(views: Sequence[LiveView], *, height: int) -> RenderableType:
    """Each with a head, a bar where there is one, and what is waited for; with one line where the terminal is too low."""
    if len(views) * LINES_OF_ONE < height:
        return Group(*(_compact(view) for view in views))
    return Group(*(one_line(view) for view in views))


def _compact(view: LiveView) -> RenderableType:
    bars = [bar(view, width=60)] if view.total else []
    return Group(head(view), *bars, *words(view), Text())


def one_line(view: LiveView) -> Text:
    """All of it on a line, cut where the terminal ends."""
    line = head(view)
    line.append(f"  {view.done}/{view.total}" if view.total else "")
    line.append(f"  {view.trouble or view.message}", style="yellow" if view.trouble else "")
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def head(view: LiveView) -> Text:
    """Name, phase, and since when."""
    return Text.assemble((view.name, "bold"), "  ", (view.phase, "cyan"), ("  " + view.elapsed, "dim"))


def _way(steps: tuple[Step, ...]) -> Text:
    line = Text()
    for step in steps:
        mark, style = _MARKS[step.state]
        line.append(f"{mark} {step.name}", style=style)
        line.append(f" {told(step.seconds)}   " if step.seconds is not None else "   ", style="dim")
    return line


def bar(view: LiveView, *, width: int) -> Table:
    """How much is done, of how much, and how long the rest may take."""
    row = Table.grid(padding=(0, 2, 0, 0))
    drawn = ProgressBar(total=view.total, completed=view.done, width=max(10, min(50, width - 45)))
    row.add_row(drawn, Text(f"{view.done}/{view.total} {view.unit}"), Text(view.left or "", style="dim"))
    return row


def _stages(view: LiveView, *, room: int) -> list[RenderableType]:
    """The last ones that fit, then the one under way."""
    shown = view.stages[-room:]
    table = Table.grid(padding=(0, 2, 0, 0))
    earlier = view.done - len(shown)
    lines: list[RenderableType] = [Text(f"  {earlier} before", style="dim")] if earlier > 0 and shown else []
    for stage in shown:
        table.add_row(Text("✓", style="green"), Text(stage.stage or f"stage {stage.sequence + 1}"), *_figures(stage))
    if shown:
        lines.append(table)
    if view.stage is not None and view.done < view.total:
        lines.append(Text.assemble(("▸ ", "cyan"), f" {view.stage}"))
    return lines


def _figures(stage: StageLine) -> list[Text]:
    return [Text(told, style="yellow" if told.endswith("failed") else "") for told in told_figures(stage)]


def _gauges(gauges: tuple[Gauge, ...], *, columns: int) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    cells = [_gauge(gauge) for gauge in gauges]
    for begin in range(0, len(cells), columns):
        table.add_row(*(cell for row in cells[begin : begin + columns] for cell in row))
    return table


def _gauge(gauge: Gauge) -> tuple[Text, Text, Text]:
    drawn = sparkline(gauge.values, top=gauge.top, width=SPARKLINE)
    return Text(gauge.label, style="dim"), Text(gauge.now.rjust(LONGEST_FIGURE)), Text(drawn, style="cyan")


def words(view: LiveView) -> list[Text]:
    """What is waited for, and what is wrong."""
    said = [Text(view.message)] if view.message else []
    return [*said, Text(view.trouble, style="yellow")] if view.trouble else said
