"""`benchrun watch NAME`: follow runs and sweeps to their end."""

import argparse
from collections.abc import Mapping, MutableMapping
from contextlib import suppress

from rich.console import Console

from benchrun.api import BenchmarkRunStatus
from benchrun.api.sweep import spec
from benchrun.cli import (
    cluster,
    console_tables,
    errors,
    finished_results,
    following,
    interrupts,
    shared_options,
)
from benchrun.cli.finished_results import NamedRun
from benchrun.cli.progress_display import LogReporter, ScreenReporter
from benchrun.names import KIND, SHORT_NAME
from benchrun.observe import run_of, sweep_of
from benchrun.report import exit_codes, tables
from benchrun.report.watch_state import Followed, FollowedRun, FollowedSweep

EPILOG = f"""\
{shared_options.EXIT_CODES}
124 --timeout has passed; 130 Ctrl-C, 143 SIGTERM. With several runs: the worst."""


def add_timeout(parser: argparse.ArgumentParser) -> None:
    seconds = shared_options.valid(tables.parse_seconds)
    longest = "wait no longer than this (90s, 10m, 2h), then exit with 124"
    parser.add_argument("--timeout", type=seconds, metavar="DURATION", help=longest)


def follow_to_the_end(
    targets: MutableMapping[str, following.FollowedObject],
    console: Console,
    *,
    wide: bool,
    timeout_seconds: float | None = None,
) -> int:
    """Follow runs and sweeps until all have ended, show their results and return the worst code.

    Raises CommandError.
    """
    found = interrupts.run_interruptibly(
        _followed(targets, console, timeout_seconds)
    )
    if len(found.errors) == 1 and not found.codes:
        raise next(iter(found.errors.values()))
    for name, target in targets.items():
        if name in found.codes:
            _show(console, found.known[name], target.kubectl, wide=wide)
    for name, error in found.errors.items():
        console.print(f"{name}: {error}", style="red", markup=False, soft_wrap=True)
    return exit_codes.worst_code(
        [*found.codes.values(), *(error.code for error in found.errors.values())]
    )


async def _followed(
    targets: MutableMapping[str, following.FollowedObject],
    console: Console,
    timeout_seconds: float | None,
) -> following.Following:
    several = len(targets) > 1
    if not console.is_terminal or console.is_dumb_terminal:
        log = LogReporter(console, several=several)
        return await following.follow(targets, log, timeout_seconds=timeout_seconds)
    # As wide as the terminal: lines that wrap can't be drawn over.
    screen = ScreenReporter(console_tables.Terminal(), several=several)
    with screen.live:
        return await following.follow(
            targets, screen, timeout_seconds=timeout_seconds
        )


def say_how_to_go_on(
    targets: Mapping[str, following.FollowedObject], console: Console
) -> None:
    if targets:
        nouns = [target.noun for target in targets.values()]
        who = (
            f"the {nouns[0]} continues" if len(nouns) == 1 else "the runs continue"
        )
        console.print(f"{who} in the cluster")
    for name, target in targets.items():
        where = (
            f" -n {target.kubectl.namespace}" if target.kubectl.namespace else ""
        )
        short = spec.SHORT_NAME if target.is_sweep else SHORT_NAME
        console.print(
            f"  to follow it:  benchrun watch {name}{where}",
            markup=False,
            soft_wrap=True,
        )
        patch = """--type=merge -p '{"spec":{"cancel":true}}'"""
        console.print(
            f"  to end it:     kubectl patch {short} {name}{where} {patch}",
            markup=False,
            soft_wrap=True,
        )


def _whole(followed: FollowedRun, kubectl: cluster.Kubectl) -> BenchmarkRunStatus:
    """Return the status of a run; if its rows were cut, with those of its result document."""
    if followed.status.truncated:
        with suppress(errors.KubectlError):
            named = NamedRun(run_of(kubectl.get(followed.name)))
            config_maps = finished_results.in_cluster(kubectl)
            return finished_results.with_document(named, config_maps).status
    return followed.status


def _show(
    console: Console, followed: Followed, kubectl: cluster.Kubectl, *, wide: bool
) -> None:
    """Show the result of a run or sweep.

    If the status was cut, the rest is read from the cluster, as far as it can be.
    """
    texts = followed.texts_per_prompt
    if not isinstance(followed, FollowedSweep):
        console_tables.show_result(
            console,
            followed.name,
            _whole(followed, kubectl),
            texts_per_prompt=texts,
            wide=wide,
        )
        return
    status = followed.status
    if status.truncated:
        with suppress(errors.KubectlError):
            sweep = sweep_of(kubectl.get(followed.name, cluster.SWEEP))
            status = finished_results.whole_table(
                sweep, status, finished_results.runs_of(sweep, kubectl)
            )
    console_tables.show_sweep(
        console, followed.name, status, texts_per_prompt=texts, wide=wide
    )


SUMMARY = (
    "follow runs and sweeps to their end; the exit code is that of the verdict"
)
DESCRIPTION = """\
Follow runs and sweeps to their ends, then show their results.

On a terminal a display shows how far a run is, each stage as it finishes, \
and what the servers are doing. In a pipe it
prints lines. For a sweep it shows how many runs have ended, and which go on. \
Ctrl-C ends the watching; the run goes on."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="name of a BenchmarkRun or, if no run has it, of a BenchmarkSweep",
    )
    shared_options.add_sweep(parser)
    add_timeout(parser)
    shared_options.add_cluster_options(parser, wide=True)


def run(options: argparse.Namespace, console: Console) -> int:
    target = following.FollowedObject(
        cluster.kubectl_of(options), spec.KIND if options.sweep else KIND
    )
    targets = following.by_name((name, target) for name in options.names)
    try:
        return follow_to_the_end(
            targets, console, wide=options.wide, timeout_seconds=options.timeout
        )
    except (KeyboardInterrupt, following.TimeIsUp):
        say_how_to_go_on(targets, console)
        raise
