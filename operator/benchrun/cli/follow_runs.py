"""Following as `watch` and `run` do it: on a terminal or in a log, then the tables, then one exit code."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, MutableMapping

from rich.console import Console

from benchrun.api.base import SHORT_NAME
from benchrun.api.sweep.spec import SHORT_NAME as SWEEP_SHORT_NAME
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.cli.following import Following, Thing, follow
from benchrun.cli.interrupts import sigterm_interrupts
from benchrun.cli.kubectl import Kubectl
from benchrun.cli.kubectl_errors import KubectlError
from benchrun.cli.log_reporter import LogReporter
from benchrun.cli.screen_reporter import ScreenReporter
from benchrun.cli.show import show_result
from benchrun.cli.show_sweep import show_sweep
from benchrun.cli.targets import Target
from benchrun.cli.terminal import Terminal
from benchrun.cli.whole_table import runs_in_cluster, whole_table
from benchrun.observe.trim import sweep_of
from benchrun.report.durations import written
from benchrun.report.exit_codes import worst_code
from benchrun.report.followed_sweep import FollowedSweep

EXIT_CODES = """\
exit codes: 0 measured, Valid or Suspect; 1 a run can't be read; 2 failed; 3 an objective missed or a figure regressed;
4 some numbers are invalid; 5 cancelled; 124 --timeout has passed; 130 Ctrl-C, 143 SIGTERM. Of several the worst.
Of a sweep: 0 every run measured, 2 it or a run of it failed, 4 some rows are invalid, 5 cancelled."""


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """How long to wait."""
    parser.add_argument(
        "--timeout",
        type=_duration,
        metavar="DURATION",
        help="wait no longer than this (90s, 10m, 2h) and end with 124",
    )


def follow_to_the_end(
    targets: MutableMapping[str, Target], console: Console, *, wide: bool, timeout_seconds: float | None = None
) -> int:
    """Every run and sweep, until all have ended; their results; the worst of their codes. Raises CommandError."""
    found = _followed(targets, console, timeout_seconds=timeout_seconds)
    for name in (name for name in targets if name in found.codes):
        _show(console, found.things[name], targets[name].kubectl, wide=wide)
    for name, error in found.errors.items():
        console.print(f"{name}: {error}", style="red", markup=False, soft_wrap=True)
    return worst_code([*found.codes.values(), *(error.code for error in found.errors.values())])


def _followed(
    targets: MutableMapping[str, Target], console: Console, *, timeout_seconds: float | None = None
) -> Following:
    """The same, without the results. Raises CommandError, also where the only one can't be read."""
    several = len(targets) > 1
    with sigterm_interrupts():
        if console.is_terminal and not console.is_dumb_terminal:
            # Of the terminal's own width: what wraps can't be drawn over.
            with ScreenReporter(Terminal(), several=several) as screen:
                found = follow(targets, screen, timeout_seconds=timeout_seconds)
        else:
            found = follow(targets, LogReporter(console, several=several), timeout_seconds=timeout_seconds)
    if len(found.errors) == 1 and not found.codes:
        raise next(iter(found.errors.values()))
    return found


def say_how_to_go_on(targets: Mapping[str, Target], console: Console) -> None:
    """What becomes of runs that nobody waits for any more."""
    if not targets:
        return
    only = next(iter(targets.values())).noun if len(targets) == 1 else None
    console.print(f"the {only} goes on in the cluster" if only is not None else "the runs go on in the cluster")
    for name, target in targets.items():
        where = f" -n {target.kubectl.namespace}" if target.kubectl.namespace else ""
        short = SWEEP_SHORT_NAME if target.is_sweep else SHORT_NAME
        console.print(f"  to follow it:  benchrun watch {name}{where}", markup=False, soft_wrap=True)
        patch = """--type=merge -p '{"spec":{"cancel":true}}'"""
        console.print(f"  to end it:     kubectl patch {short} {name}{where} {patch}", markup=False, soft_wrap=True)


def _show(console: Console, thing: Thing, kubectl: Kubectl, *, wide: bool) -> None:
    if isinstance(thing, FollowedSweep):
        show_sweep(console, thing.name, _whole(thing, kubectl), texts_per_prompt=thing.texts_per_prompt, wide=wide)
    else:
        show_result(console, thing.name, thing.status, texts_per_prompt=thing.texts_per_prompt, wide=wide)


def _whole(followed: FollowedSweep, kubectl: Kubectl) -> BenchmarkSweepStatus:
    """Its status, with what that had no room for; as it is where the cluster does not give it."""
    if not followed.status.truncated:
        return followed.status
    try:
        sweep = sweep_of(kubectl.sweep(followed.name))
    except KubectlError:
        return followed.status
    return whole_table(sweep, followed.status, lambda sweep: runs_in_cluster(sweep, kubectl))


def _duration(text: str) -> float:
    try:
        return written(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
