"""Following as `watch` and `run` do it: on a terminal or in a log, then the tables, then one exit code."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console

from benchrun.cli.errors import CommandError
from benchrun.cli.following import Following, follow
from benchrun.cli.interrupts import sigterm_interrupts
from benchrun.cli.kubectl import Kubectl
from benchrun.cli.log_reporter import LogReporter
from benchrun.cli.screen_reporter import ScreenReporter
from benchrun.cli.show import show_result
from benchrun.report.durations import written
from benchrun.report.exit_codes import worst_code

EXIT_CODES = """\
exit codes: 0 measured, Valid or Suspect; 1 a run can't be read; 2 failed; 3 an objective missed or a figure regressed;
4 some numbers are invalid; 5 cancelled; 124 --timeout has passed; 130 Ctrl-C, 143 SIGTERM. Of several runs the worst."""


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """How long to wait."""
    parser.add_argument(
        "--timeout",
        type=_duration,
        metavar="DURATION",
        help="wait no longer than this (90s, 10m, 2h) and end with 124",
    )


def follow_to_the_end(
    kubectls: Mapping[str, Kubectl], console: Console, *, wide: bool, timeout_seconds: float | None = None
) -> int:
    """Every run, until all have ended; their results; the worst of their codes. Raises CommandError."""
    with sigterm_interrupts():
        if console.is_terminal and not console.is_dumb_terminal:
            # Of the terminal's own width: what wraps can't be drawn over.
            with ScreenReporter(Console(highlight=False), several=len(kubectls) > 1) as screen:
                found = follow(kubectls, screen, timeout_seconds=timeout_seconds)
        else:
            lines = LogReporter(console, several=len(kubectls) > 1)
            found = follow(kubectls, lines, timeout_seconds=timeout_seconds)
    return _told(found, list(kubectls), console, wide=wide)


def by_name(runs: Iterable[tuple[str, Kubectl]]) -> dict[str, Kubectl]:
    """Each run with the kubectl of its namespace. Raises CommandError where two have one name."""
    found: dict[str, Kubectl] = {}
    for name, kubectl in runs:
        if found.setdefault(name, kubectl) != kubectl:
            raise CommandError(f"two runs of different namespaces are called {name}; follow one after the other")
    return found


def say_how_to_go_on(kubectls: Mapping[str, Kubectl], console: Console) -> None:
    """What becomes of runs that nobody waits for any more."""
    if not kubectls:
        return
    console.print("the run goes on in the cluster" if len(kubectls) == 1 else "the runs go on in the cluster")
    for name, kubectl in kubectls.items():
        where = f" -n {kubectl.namespace}" if kubectl.namespace else ""
        console.print(f"  to follow it:  benchrun watch {name}{where}", markup=False, soft_wrap=True)
        patch = """--type=merge -p '{"spec":{"cancel":true}}'"""
        console.print(f"  to end it:     kubectl patch bmr {name}{where} {patch}", markup=False, soft_wrap=True)


def _told(found: Following, names: Sequence[str], console: Console, *, wide: bool) -> int:
    if len(found.errors) == 1 and not found.codes:
        raise next(iter(found.errors.values()))
    for name in (name for name in names if name in found.codes):
        show_result(console, name, found.runs[name].status, wide=wide)
    for name, error in found.errors.items():
        console.print(f"{name}: {error}", style="red", markup=False, soft_wrap=True)
    return worst_code([*found.codes.values(), *(error.code for error in found.errors.values())])


def _duration(text: str) -> float:
    try:
        return written(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
