"""Runs and sweeps, followed to their ends: what is heard of them goes to a reporter as it comes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Protocol

from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.cli.errors import CommandError, KubectlError
from benchrun.cli.kubectl import RUN, SWEEP, Kubectl
from benchrun.cli.watching import (
    IsSweep,
    Lost,
    Over,
    RunWatcher,
    Seen,
    SweepSeen,
    SweepWatcher,
    SweptRunSeen,
    SweptRunsWatcher,
    Watcher,
    Word,
)
from benchrun.names import KIND
from benchrun.report.exit_codes import exit_code, sweep_exit_code
from benchrun.report.followed import (
    Followed,
    FollowedSweep,
    followed_run,
    followed_sweep,
    updated_run,
    updated_sweep,
    with_run,
)

# ---- targets ----------------------------------------------------------------------------------------------------------
# What can be followed to its end: a run, or a sweep with its runs.

RESOURCES = {KIND: RUN, SWEEP_KIND: SWEEP}
"""By kind, those that are followed; others are applied and left to themselves."""


def add_sweep(parser: argparse.ArgumentParser) -> None:
    """The option of commands that take the name of a run, else of a sweep."""
    parser.add_argument("--sweep", action="store_true", help="NAME is a sweep; for a sweep that has the name of a run")


@dataclass(frozen=True, slots=True)
class Target:
    """Of which kind it is, and the kubectl of its namespace."""

    kubectl: Kubectl
    kind: str = KIND

    @property
    def is_sweep(self) -> bool:
        """Whether it is a sweep."""
        return self.kind == SWEEP_KIND

    @property
    def resource(self) -> str:
        """As kubectl takes it."""
        return RESOURCES[self.kind]

    @property
    def noun(self) -> str:
        """In a sentence."""
        return "sweep" if self.is_sweep else "run"


def by_name(targets: Iterable[tuple[str, Target]]) -> dict[str, Target]:
    """Each under its name. Raises CommandError where two have one name."""
    found: dict[str, Target] = {}
    for name, target in targets:
        other = found.setdefault(name, target)
        if other.kind != target.kind:
            raise CommandError(f"a run and a sweep are both called {name}; follow one after the other")
        if other != target:
            raise CommandError(
                f"two {target.noun}s of different namespaces are called {name}; follow one after the other"
            )
    return found


# ---- following --------------------------------------------------------------------------------------------------------
# Runs and sweeps, followed to their ends: what is heard of them goes to a reporter as it comes.

MAX_TARGETS = 16
"""Each has a kubectl of its own, a sweep two."""
TICK_SECONDS = 0.5
"""How often a reporter is called when nothing happens."""


Thing = Followed | FollowedSweep
"""What is followed."""


class TimeIsUp(CommandError):
    """Not all has ended in the time that was given."""

    code = 124
    """As of timeout(1)."""


class Reporter(Protocol):
    """Shows runs and sweeps to whoever waits."""

    def show(self, things: Sequence[Thing]) -> None:
        """Those that go on, as they are now. Called after every word, and in between."""

    def ended(self, thing: Thing, code: int) -> None:
        """One has ended, with that exit code."""

    def failed(self, name: str, error: CommandError) -> None:
        """One can't be followed any more."""


@dataclass(slots=True)
class Following:
    """Runs and sweeps by name, what is known of each, and how those ended that have."""

    things: dict[str, Thing] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    errors: dict[str, CommandError] = field(default_factory=dict)

    def going_on(self) -> list[Thing]:
        """In the order in which they were first seen."""
        return [thing for name, thing in self.things.items() if not self.is_over(name)]

    def is_over(self, name: str) -> bool:
        """Whether it has ended, or can't be followed any more."""
        return name in self.codes or name in self.errors


def follow(
    targets: MutableMapping[str, Target],
    reporter: Reporter,
    *,
    timeout_seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Following:
    """All by name, until each has ended. What turns out to be a sweep becomes one among the targets. Raises TimeIsUp.

    One that can't be read is told to the reporter and kept among the errors; the others are followed on.
    """
    if len(targets) > MAX_TARGETS:
        raise CommandError(f"{len(targets)} runs are too many to follow at once; at most {MAX_TARGETS}")
    deadline = None if timeout_seconds is None else clock() + timeout_seconds
    ears, found = _Ears(), Following()
    try:
        for name, target in targets.items():
            ears.turn_to(name, target)
        while any(not found.is_over(name) for name in targets):
            _hear(found, ears, targets, reporter)
            if deadline is not None and clock() >= deadline:
                waiting = [name for name in targets if not found.is_over(name)]
                raise TimeIsUp(f"{', '.join(waiting)}: not ended within the timeout")
    finally:
        ears.close()
    return found


class _Ears:
    """The threads that listen, and the queue that they speak into."""

    def __init__(self) -> None:
        self.words: SimpleQueue[Word] = SimpleQueue()
        self._watchers: list[Watcher] = []

    def turn_to(self, name: str, target: Target) -> None:
        """Begin to listen."""
        self._begin((SweepWatcher if target.is_sweep else RunWatcher)(target.kubectl, name, self.words))

    def turn_to_runs_of(self, name: str, target: Target) -> None:
        """To those of a sweep, once it is known."""
        self._begin(SweptRunsWatcher(target.kubectl, name, self.words))

    def _begin(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)
        watcher.start()

    def close(self) -> None:
        """No process is left."""
        for watcher in self._watchers:
            watcher.stop()


def _hear(found: Following, ears: _Ears, targets: MutableMapping[str, Target], reporter: Reporter) -> None:
    """One word, or none for a while."""
    try:
        word = ears.words.get(timeout=TICK_SECONDS)
    except Empty:
        reporter.show(found.going_on())
        return
    if found.is_over(word.name):
        return
    match word:
        case IsSweep(name=name):
            targets[name] = replace(targets[name], kind=SWEEP_KIND)
            ears.turn_to(name, targets[name])
        case Lost(name=name, why=why) if name in found.things:
            found.things[name] = replace(found.things[name], trouble=why)
        case Over(name=name, why=error):
            found.errors[name] = error
            reporter.failed(name, error)
        case Seen() | SweepSeen() | SweptRunSeen():
            is_new = word.name not in found.things
            _seen(found, word, reporter)
            if is_new and isinstance(word, SweepSeen) and not found.is_over(word.name):
                ears.turn_to_runs_of(word.name, targets[word.name])
    reporter.show(found.going_on())


def _seen(found: Following, word: Seen | SweepSeen | SweptRunSeen, reporter: Reporter) -> None:
    try:
        thing = _known_now(found.things.get(word.name), word)
    except ValueError as error:
        newer = KubectlError(f"{word.name} was written by another version of the API: {str(error).splitlines()[0]}")
        found.errors[word.name] = newer
        reporter.failed(word.name, newer)
        return
    found.things[word.name] = thing
    code = sweep_exit_code(thing.status) if isinstance(thing, FollowedSweep) else exit_code(thing.status)
    if code is not None:
        reporter.show([thing])
        found.codes[word.name] = code
        reporter.ended(thing, code)


def _known_now(known: Thing | None, word: Seen | SweepSeen | SweptRunSeen) -> Thing:
    """With what was just heard. Raises ValueError."""
    match word, known:
        case Seen(body=body, finished=finished), Followed():
            return updated_run(known, body, finished)
        case Seen(body=body, finished=finished), _:
            return updated_run(followed_run(body), body, finished)
        case SweepSeen(body=body), FollowedSweep():
            return updated_sweep(known, body)
        case SweepSeen(body=body), _:
            return followed_sweep(body)
        case SweptRunSeen(body=body, gone=gone), FollowedSweep():
            return with_run(known, body, gone=gone)
    raise ValueError(f"nothing was seen of the sweep {word.name} before its runs")
