"""Display followed runs and sweeps.

In a pipe they are printed as lines, on a terminal they are redrawn.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from benchrun.cli import console_tables, errors
from benchrun.report import live_view, run_list, tables
from benchrun.report.watch_state import Followed, FollowedRun

NARROW = 100  # Columns below which gauges are stacked.
SPARKLINE = 24
LINES_OF_ONE = 4  # Lines of each run if several are shown, where there is room.
# Lines of a full display besides its stages; the prompt above it is counted, too.
RUN_FIXED_LINES = 14
MAX_ENDED = 4  # Most ended runs of a sweep that are shown above those in progress.
SWEEP_FIXED_LINES = 6  # Lines of a sweep's display besides its runs.
_MARKS = {"Done": ("✓", "green"), "UnderWay": ("▸", "cyan"), "ToCome": ("·", "dim")}


class LogReporter:
    """Prints a line for each change. If several are followed, each line begins with a name."""

    def __init__(self, console: Console, *, several: bool) -> None:
        self._console = console
        self._several = several
        self._logs: defaultdict[str, live_view.Log] = defaultdict(live_view.Log)

    def show(self, followed: Sequence[Followed]) -> None:
        """Print what has changed in the runs and sweeps that have not ended.

        It is called after every change, and also between changes.
        """
        for each in followed:
            for line in self._logs[each.name].lines(each, now=datetime.now(UTC)):
                self._print(f"{each.name}  {line}" if self._several else line)

    def ended(self, followed: Followed) -> None:
        """Print nothing: the last line is printed already, and tables follow when all end."""

    def failed(self, name: str, error: errors.CommandError) -> None:
        """Print why one run or sweep can't be followed any more, if several are followed."""
        if self._several:
            self._print(f"{name}  {error}")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)
        self._console.file.flush()


class ScreenReporter:
    """Draws one run or sweep on the whole display, or several with a few lines each.

    It draws within the context `live`, which hides the cursor.
    """

    def __init__(self, console: Console, *, several: bool) -> None:
        self._console = console
        self._several = several
        self._followed: Sequence[Followed] | None = None
        self.live = Live(
            console=console,
            get_renderable=self._drawn,
            auto_refresh=False,
            transient=True,
        )

    def show(self, followed: Sequence[Followed]) -> None:
        self._followed = followed or (None if self._followed is None else ())
        self.live.refresh()

    def ended(self, followed: Followed) -> None:
        if self._several:
            word = run_list.outcome_word(followed.status)
            title = (f"{followed.name}: ", "bold")
            style = console_tables.COLOURS.get(word, "bold")
            self._console.print(
                Text.assemble(title, (word, style), f" - {followed.status.message}")
            )

    def failed(self, name: str, error: errors.CommandError) -> None:
        if self._several:
            self._console.print(Text(f"{name}: {error}", style="red"))

    def _drawn(self) -> RenderableType:
        if not self._followed:
            return Text(
                "waiting for the cluster's first answer ..."
                if self._followed is None
                else "",
                style="dim",
            )
        width = self._console.width
        height = self._console.height
        now = datetime.now(UTC)
        views = [live_view.live_view(each, now=now) for each in self._followed]
        return (
            several(views, height=height)
            if self._several
            else full(views[0], width=width, height=height)
        )


def full(view: live_view.LiveView, *, width: int, height: int) -> RenderableType:
    """Draw one run: its steps, a bar, finished stages, gauges, and what it waits for.

    A sweep is drawn in full, too.
    """
    if view.unit != "stages":
        return _full_sweep(view, width=width, height=height)
    parts: list[RenderableType] = [
        _head(view),
        _steps(view),
        Text(),
        *_bar(view, width=width),
    ]
    if view.total:
        parts += _stages(view, lines_left=max(1, height - RUN_FIXED_LINES))
    if view.gauges:
        parts += [Text(), _gauges(view.gauges, columns=1 if width < NARROW else 2)]
    return Group(*parts, Text(), *_message(view))


def _full_sweep(
    view: live_view.LiveView, *, width: int, height: int
) -> RenderableType:
    """Draw a sweep: its bar, the runs that ended last, and those in progress.

    A single run in progress is drawn in full; several have one line each.
    """
    ended = [_ended(run) for run in view.ended[-MAX_ENDED:]]
    parts: list[RenderableType] = [_head(view), *_bar(view, width=width), *ended]
    lines_left = height - SWEEP_FIXED_LINES - len(ended)
    if len(view.under_way) == 1:
        parts += [Text(), full(view.under_way[0], width=width, height=lines_left)]
    elif view.under_way:
        parts += [
            Text(),
            *(_one_line(each) for each in view.under_way[:lines_left]),
        ]
    return Group(*parts, Text(), *_message(view))


def several(views: Sequence[live_view.LiveView], *, height: int) -> RenderableType:
    """Draw several runs and sweeps: a title, a bar if there is one, and what each waits for.

    If the terminal has too few lines, each has one line only.
    """
    if len(views) * LINES_OF_ONE < height:
        return Group(
            *(
                Group(_head(view), *_bar(view, width=60), *_message(view), Text())
                for view in views
            )
        )
    return Group(*(_one_line(view) for view in views))


def _one_line(view: live_view.LiveView) -> Text:
    line = _head(view)
    line.append(f"  {view.done}/{view.total}" if view.total else "")
    line.append(
        f"  {view.trouble or view.message}", style="yellow" if view.trouble else ""
    )
    return _cut(line)


def _cut(line: Text) -> Text:
    line.no_wrap = True
    line.overflow = "ellipsis"
    return line


def _head(view: live_view.LiveView) -> Text:
    return Text.assemble(
        (view.name, "bold"),
        "  ",
        (view.phase, "cyan"),
        ("  " + view.elapsed, "dim"),
    )


def _steps(view: live_view.LiveView) -> Text:
    line = Text()
    for step in view.steps:
        mark, style = _MARKS[step.state]
        line.append(f"{mark} {step.name}", style=style)
        line.append(
            f" {tables.format_seconds(step.seconds)}   "
            if step.seconds is not None
            else "   ",
            style="dim",
        )
    return line


def _bar(view: live_view.LiveView, *, width: int) -> list[Table]:
    """Return a row that shows how much is done, the total, and how long the rest may take.

    Return nothing while the total is unknown.
    """
    if not view.total:
        return []
    row = Table.grid(padding=(0, 2, 0, 0))
    drawn = ProgressBar(
        total=view.total, completed=view.done, width=max(10, min(50, width - 45))
    )
    row.add_row(
        drawn,
        Text(f"{view.done}/{view.total} {view.unit}"),
        Text(view.left or "", style="dim"),
    )
    return [row]


def _stages(view: live_view.LiveView, *, lines_left: int) -> list[RenderableType]:
    shown = view.stages[-lines_left:]
    table = Table.grid(padding=(0, 2, 0, 0))
    earlier = view.done - len(shown)
    lines: list[RenderableType] = (
        [Text(f"  {earlier} before", style="dim")] if earlier > 0 and shown else []
    )
    for stage in shown:
        figures = (
            Text(text, style="yellow" if text.endswith("failed") else "")
            for text in stage.figures
        )
        table.add_row(
            Text("✓", style="green"),
            Text(stage.stage or f"stage {stage.sequence + 1}"),
            *figures,
        )
    if shown:
        lines.append(table)
    if view.stage is not None and view.done < view.total:
        lines.append(Text.assemble(("▸ ", "cyan"), f" {view.stage}"))
    return lines


def _gauges(gauges: tuple[live_view.Gauge, ...], *, columns: int) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    for begin in range(0, len(gauges), columns):
        cells: list[Text] = []
        for gauge in gauges[begin : begin + columns]:
            drawn = tables.sparkline(gauge.values, top=gauge.top, width=SPARKLINE)
            cells += [
                Text(gauge.label, "dim"),
                Text(gauge.now.rjust(len("99999 tok/s"))),
                Text(drawn, "cyan"),
            ]
        table.add_row(*cells)
    return table


def _message(view: live_view.LiveView) -> list[Text]:
    lines = [Text(view.message)] if view.message else []
    return [*lines, Text(view.trouble, style="yellow")] if view.trouble else lines


def _ended(run: FollowedRun) -> Text:
    word = run_list.state(run.status)
    line = Text.assemble(
        ("✓ ", "green"),
        f"{run.title}: ",
        (word, console_tables.COLOURS.get(word, "")),
    )
    line.append(f"  {run.status.message or ''}", style="dim")
    return _cut(line)
