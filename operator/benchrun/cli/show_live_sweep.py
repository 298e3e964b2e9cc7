"""A sweep that goes on, laid out for a terminal of any width."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from benchrun.cli.show import COLOURS
from benchrun.cli.show_live import bar, full, head, one_line, words
from benchrun.report.followed_sweep import EndedRun
from benchrun.report.live_sweep import SweepView

MAX_ENDED = 4
"""Runs that have ended, shown above those that go on."""
FIXED_LINES = 6
"""Around them."""


def full_sweep(view: SweepView, *, width: int, height: int) -> RenderableType:
    """Its bar, the runs that ended last, and of one run that goes on all there is to see; of several a line each."""
    parts: list[RenderableType] = [head(view.head)]
    if view.head.total:
        parts.append(bar(view.head, width=width))
    ended = view.ended[-MAX_ENDED:]
    parts += [_ended(run) for run in ended]
    room = height - FIXED_LINES - len(ended)
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
