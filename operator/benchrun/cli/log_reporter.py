"""Followed runs and sweeps as lines, for a pipe or the log of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from rich.console import Console

from benchrun.cli.errors import CommandError
from benchrun.cli.following import Thing
from benchrun.report.followed_sweep import FollowedSweep
from benchrun.report.log_lines import Said, log_lines
from benchrun.report.sweep_log_lines import SaidOfSweep, sweep_log_lines


class LogReporter:
    """A line where something changed. Where several are followed, lines begin with a name."""

    def __init__(
        self, console: Console, *, several: bool, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._console, self._several, self._now = console, several, now
        self._said: dict[str, Said] = {}
        self._said_of_sweeps: dict[str, SaidOfSweep] = {}

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
            said = self._said_of_sweeps.get(name, SaidOfSweep())
            lines, self._said_of_sweeps[name] = sweep_log_lines(thing, said, now=now)
        else:
            lines, self._said[name] = log_lines(thing, self._said.get(name, Said()), now=now)
        return lines

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)
        self._console.file.flush()
