"""Followed runs and sweeps on a terminal: a display that is drawn anew, until all have ended."""

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
from benchrun.cli.following import Thing
from benchrun.cli.show import COLOURS
from benchrun.cli.show_live import full, several
from benchrun.cli.show_live_sweep import full_sweep
from benchrun.report.followed_sweep import FollowedSweep
from benchrun.report.live_sweep import sweep_view
from benchrun.report.live_view import LiveView, live_view

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
