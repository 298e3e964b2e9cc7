"""Runs, followed to their ends: what is heard of them goes to a reporter as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Protocol

from benchrun.cli.errors import CommandError
from benchrun.cli.kubectl import Kubectl
from benchrun.cli.kubectl_errors import KubectlError
from benchrun.cli.watching import Lost, Over, Seen, Watcher, Word
from benchrun.report.exit_codes import exit_code
from benchrun.report.followed import Followed, first_sight, seen_again

MAX_RUNS = 16
"""Each has a kubectl of its own."""
TICK_SECONDS = 0.5
"""How often a reporter is called when nothing happens."""


class TimeIsUp(CommandError):
    """The runs have not ended in the time that was given."""

    code = 124
    """As of timeout(1)."""


class Reporter(Protocol):
    """Shows runs to whoever waits."""

    def show(self, runs: Sequence[Followed]) -> None:
        """Those that go on, as they are now. Called after every word, and in between."""

    def ended(self, run: Followed, code: int) -> None:
        """One has ended, with that exit code."""

    def failed(self, name: str, error: CommandError) -> None:
        """One can't be followed any more."""


@dataclass(slots=True)
class Following:
    """Runs by name, what is known of each, and how those ended that have."""

    runs: dict[str, Followed] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    errors: dict[str, CommandError] = field(default_factory=dict)

    def going_on(self) -> list[Followed]:
        """In the order in which they were first seen."""
        return [run for name, run in self.runs.items() if name not in self.codes and name not in self.errors]


def follow(
    kubectls: Mapping[str, Kubectl],
    reporter: Reporter,
    *,
    timeout_seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Following:
    """Every run, each with the kubectl of its namespace, until all have ended. Raises TimeIsUp.

    A run that can't be read is told to the reporter and kept among the errors; the others are followed on.
    """
    if len(kubectls) > MAX_RUNS:
        raise CommandError(f"{len(kubectls)} runs are too many to follow at once; at most {MAX_RUNS}")
    words: SimpleQueue[Word] = SimpleQueue()
    watchers = {name: Watcher(kubectl, name, words) for name, kubectl in kubectls.items()}
    deadline = None if timeout_seconds is None else clock() + timeout_seconds
    found = Following()
    try:
        for watcher in watchers.values():
            watcher.start()
        while len(found.codes) + len(found.errors) < len(watchers):
            _hear(found, words, reporter)
            if deadline is not None and clock() >= deadline:
                waiting = [name for name in watchers if name not in found.codes and name not in found.errors]
                raise TimeIsUp(f"{', '.join(waiting)}: not ended within the timeout")
    finally:
        for watcher in watchers.values():
            watcher.stop()
    return found


def _hear(found: Following, words: SimpleQueue[Word], reporter: Reporter) -> None:
    """One word, or none for a while."""
    try:
        word = words.get(timeout=TICK_SECONDS)
    except Empty:
        reporter.show(found.going_on())
        return
    if word.name in found.codes or word.name in found.errors:
        return
    match word:
        case Seen():
            _seen(found, word, reporter)
        case Lost(name=name, why=why) if name in found.runs:
            found.runs[name] = replace(found.runs[name], trouble=why)
        case Over(name=name, why=error):
            found.errors[name] = error
            reporter.failed(name, error)
    reporter.show(found.going_on())


def _seen(found: Following, word: Seen, reporter: Reporter) -> None:
    known = found.runs.get(word.name)
    try:
        run = seen_again(known if known is not None else first_sight(word.body), word.body, word.finished)
    except ValueError as error:
        newer = KubectlError(f"{word.name} was written by another version of the API: {str(error).splitlines()[0]}")
        found.errors[word.name] = newer
        reporter.failed(word.name, newer)
        return
    found.runs[word.name] = run
    code = exit_code(run.status)
    if code is not None:
        reporter.show([run])
        found.codes[word.name] = code
        reporter.ended(run, code)
