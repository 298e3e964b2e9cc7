"""Followed runs and sweeps: as lines for a pipe, or as a display that is drawn anew on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchrun.cli.errors import CommandError
from benchrun.cli.following import Thing
from benchrun.cli.show import COLOURS
from benchrun.report.followed import EndedRun, FollowedSweep, StageLine, stage_figures
from benchrun.report.live_view import Gauge, LiveView, SweepView, live_view, sweep_view
from benchrun.report.log_lines import Printed, log_lines, sweep_log_lines
from benchrun.report.rows import format_seconds, sparkline
from benchrun.report.run_summary import Step

# ---- log reporter -----------------------------------------------------------------------------------------------------
# Followed runs and sweeps as lines, for a pipe or the log of a pipeline.


class LogReporter:
    """A line where something changed. Where several are followed, lines begin with a name."""

    def __init__(
        self, console: Console, *, several: bool, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._console, self._several, self._now = console, several, now
        self._said: dict[str, Printed] = {}
        self._said_of_sweeps: dict[str, Printed] = {}

    def show(self, things: Sequence[Thing]) -> None:
        """What is new of each."""
        for thing in things:
            for line in self._news(thing):
                self._print(f"{thing.name}  {line}" if self._several else line)

    def ended(self, thing: Thing, code: int) -> None:
        """Its last line is there already; the tables come when all have ended."""

    def failed(self, name: str, error: CommandError) -> None:
        """Among the lines, since the others go on."""
        if self._several:
            self._print(f"{name}  {error}")

    def _news(self, thing: Thing) -> Sequence[str]:
        name, now = thing.name, self._now()
        if isinstance(thing, FollowedSweep):
            said = self._said_of_sweeps.get(name, Printed())
            lines, self._said_of_sweeps[name] = sweep_log_lines(thing, said, now=now)
        else:
            lines, self._said[name] = log_lines(thing, self._said.get(name, Printed()), now=now)
        return lines

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)
        self._console.file.flush()


# ---- show live --------------------------------------------------------------------------------------------------------
# A run that goes on, laid out for a terminal of any width.

NARROW = 100
"""Below that many columns gauges stand under one another."""
SPARKLINE = 24
LONGEST_FIGURE = len("99999 tok/s")
LINES_OF_ONE = 4
"""Of several runs, where there is room."""
RUN_FIXED_LINES = 14
"""Of a full display, whatever is shown of stages; the prompt above it is counted, too."""
_MARKS = {"Done": ("✓", "green"), "UnderWay": ("▸", "cyan"), "ToCome": ("·", "dim")}


def full(view: LiveView, *, width: int, height: int) -> RenderableType:
    """Everything there is to see: the way, a bar, stages as they finish, gauges, and what is waited for."""
    parts: list[RenderableType] = [head(view), _way(view.steps), Text()]
    if view.total:
        parts.append(bar(view, width=width))
        parts += _stages(view, room=max(1, height - RUN_FIXED_LINES))
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
        line.append(f" {format_seconds(step.seconds)}   " if step.seconds is not None else "   ", style="dim")
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
    return [Text(told, style="yellow" if told.endswith("failed") else "") for told in stage_figures(stage)]


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


# ---- show live sweep --------------------------------------------------------------------------------------------------
# A sweep that goes on, laid out for a terminal of any width.

MAX_ENDED = 4
"""Runs that have ended, shown above those that go on."""
SWEEP_FIXED_LINES = 6
"""Around them."""


def full_sweep(view: SweepView, *, width: int, height: int) -> RenderableType:
    """Its bar, the runs that ended last, and of one run that goes on all there is to see; of several a line each."""
    parts: list[RenderableType] = [head(view.head)]
    if view.head.total:
        parts.append(bar(view.head, width=width))
    ended = view.ended[-MAX_ENDED:]
    parts += [_ended(run) for run in ended]
    room = height - SWEEP_FIXED_LINES - len(ended)
    if len(view.under_way) == 1:
        parts += [Text(), full(view.under_way[0], width=width, height=room)]
    elif view.under_way:
        parts += [Text(), *(one_line(each) for each in view.under_way[:room])]
    return Group(*parts, Text(), *words(view.head))


def _ended(run: EndedRun) -> Text:
    line = Text.assemble(("✓ ", "green"), f"{run.title}: ", (run.word, COLOURS.get(run.word, "")))
    line.append(f"  {run.message}", style="dim")
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


# ---- screen reporter --------------------------------------------------------------------------------------------------
# Followed runs and sweeps on a terminal: a display that is drawn anew, until all have ended.

REFRESHES_PER_SECOND = 4


class ScreenReporter(AbstractContextManager["ScreenReporter"]):
    """One fills the display; several have three lines each. Use it as a context, or the cursor stays hidden."""

    def __init__(
        self, console: Console, *, several: bool, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._console, self._several, self._now = console, several, now
        self._things: tuple[Thing, ...] = ()
        self._began = False
        self._live = Live(
            console=console, get_renderable=self._drawn, refresh_per_second=REFRESHES_PER_SECOND, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, things: Sequence[Thing]) -> None:
        """Drawn at the next refresh."""
        self._things = tuple(things)
        self._began = self._began or bool(things)

    def ended(self, thing: Thing, code: int) -> None:
        """A line above the display."""
        if self._several:
            status = thing.status
            word = status.verdict or status.phase or ""
            self._console.print(
                Text.assemble((f"{thing.name}: ", "bold"), (word, COLOURS.get(word, "bold")), f" - {status.message}")
            )

    def failed(self, name: str, error: CommandError) -> None:
        """A line above the display, where there are others to follow."""
        if self._several:
            self._console.print(Text(f"{name}: {error}", style="red"))

    def _drawn(self) -> RenderableType:
        if not self._things:
            return Text("" if self._began else "waiting for the first word of the cluster ...", style="dim")
        if self._several:
            return several([self._line(thing) for thing in self._things], height=self._console.height)
        width, height = self._console.width, self._console.height
        thing = self._things[0]
        if isinstance(thing, FollowedSweep):
            return full_sweep(sweep_view(thing, now=self._now()), width=width, height=height)
        return full(live_view(thing, now=self._now()), width=width, height=height)

    def _line(self, thing: Thing) -> LiveView:
        """Beside others a sweep is as far as its runs are."""
        now = self._now()
        return sweep_view(thing, now=now).head if isinstance(thing, FollowedSweep) else live_view(thing, now=now)
