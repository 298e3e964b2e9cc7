"""Followed runs on a terminal: a display that is drawn anew, until all have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from benchrun.cli.errors import CommandError
from benchrun.cli.show import COLOURS
from benchrun.cli.show_live import full, several
from benchrun.report.followed import Followed
from benchrun.report.live_view import live_view

REFRESHES_PER_SECOND = 4


class ScreenReporter(AbstractContextManager["ScreenReporter"]):
    """One run fills the display; several have three lines each. Use it as a context, or the cursor stays hidden."""

    def __init__(
        self, console: Console, *, several: bool, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._console, self._several, self._now = console, several, now
        self._runs: tuple[Followed, ...] = ()
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

    def show(self, runs: Sequence[Followed]) -> None:
        """Drawn at the next refresh."""
        self._runs = tuple(runs)
        self._began = self._began or bool(runs)

    def ended(self, run: Followed, code: int) -> None:
        """A line above the display."""
        if self._several:
            word = run.status.verdict or run.status.phase or ""
            self._console.print(
                Text.assemble((f"{run.name}: ", "bold"), (word, COLOURS.get(word, "bold")), f" - {run.status.message}")
            )

    def failed(self, name: str, error: CommandError) -> None:
        """A line above the display, where there are others to follow."""
        if self._several:
            self._console.print(Text(f"{name}: {error}", style="red"))

    def _drawn(self) -> RenderableType:
        views = [live_view(run, now=self._now()) for run in self._runs]
        if not views:
            return Text("" if self._began else "waiting for the first word of the cluster ...", style="dim")
        if self._several:
            return several(views, height=self._console.height)
        return full(views[0], width=self._console.width, height=self._console.height)
