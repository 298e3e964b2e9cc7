"""`benchrun watch NAME`: runs and sweeps, followed to their ends."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from benchrun.api.base import KIND
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.cli.cluster_options import add_cluster_options, kubectl_of
from benchrun.cli.follow_runs import EXIT_CODES, add_timeout, follow_to_the_end, say_how_to_go_on
from benchrun.cli.following import TimeIsUp
from benchrun.cli.show import add_wide
from benchrun.cli.targets import Target, add_sweep, by_name

DESCRIPTION = """\
Follow runs and sweeps to their ends, then show their results.

On a terminal a display shows how far a run is, each stage as it finishes, and what the servers are doing. In a pipe it is
lines. Of a sweep it is how many of its runs have ended, and those that go on. Ctrl-C ends the watching; the run goes on."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "watch",
        help="follow runs and sweeps to their ends; the exit code is that of the verdict",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="name of a BenchmarkRun, else of a BenchmarkSweep")
    add_sweep(parser)
    add_timeout(parser)
    add_cluster_options(parser)
    add_wide(parser)
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Until all have ended. Raises CommandError."""
    target = Target(kubectl_of(options), SWEEP_KIND if options.sweep else KIND)
    targets = by_name((name, target) for name in options.names)
    try:
        return follow_to_the_end(targets, console, wide=options.wide, timeout_seconds=options.timeout)
    except (KeyboardInterrupt, TimeIsUp):
        say_how_to_go_on(targets, console)
        raise
