"""Followed runs as lines, for a pipe or the log of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from rich.console import Console

from benchrun.cli.errors import CommandError
from benchrun.report.followed import Followed
from benchrun.report.log_lines import Said, log_lines


class LogReporter:
    """A line where something changed. Lines of several runs begin with the run's name."""

    def __init__(
        self, console: Console, *, several: bool, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._console, self._several, self._now = console, several, now
        self._said: dict[str, Said] = {}

    def show(self, runs: Sequence[Followed]) -> None:
        """What is new of each."""
        for run in runs:
            lines, self._said[run.name] = log_lines(run, self._said.get(run.name, Said()), now=self._now())
            for line in lines:
                self._print(f"{run.name}  {line}" if self._several else line)

    def ended(self, run: Followed, code: int) -> None:
        """Its last line is there already; the tables come when all have ended."""

    def failed(self, name: str, error: CommandError) -> None:
        """Among the lines, since the others go on."""
        if self._several:
            self._print(f"{name}  {error}")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)
        self._console.file.flush()
