"""`benchrun sweep NAME`: the tables of a sweep, from the cluster or from a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from benchrun.api.sweep.spec import KIND
from benchrun.cli.cluster_options import add_cluster_options, kubectl_of
from benchrun.cli.errors import CommandError
from benchrun.cli.follow_runs import add_timeout, followed, say_how_to_go_on
from benchrun.cli.following import TimeIsUp
from benchrun.cli.found_sweep import FoundSweep, add_forms, sweep_in, told_sweep, typed_sweep
from benchrun.cli.targets import Target
from benchrun.cli.terminal import Terminal

DESCRIPTION = """\
Show a sweep: what every variant measured and what its servers did meanwhile, by how much it differs from the baseline and
whether that is more than noise, who did best, and which load points no other beats in both throughput per GPU and TPOT."""
EPILOG = """\
exit codes: 0 every run measured, Valid or Suspect, or the sweep goes on; 1 it can't be read; 2 it or a run of it failed;
4 some rows are invalid; 5 cancelled; with --wait also 124, 130 and 143, as `benchrun watch` has them."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "sweep",
        help="show the tables of a sweep; the exit code is that of its verdict",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", help=f"name of a {KIND}")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-f", "--file", type=Path, metavar="FILE", help="look it up in this file (kubectl get -o yaml or json)"
    )
    where.add_argument("--wait", action="store_true", help="follow it to its end first")
    add_timeout(parser)
    add_forms(parser)
    add_cluster_options(parser)
    parser.add_argument("--wide", action="store_true", help="show every figure, however wide the table becomes")
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Read the sweep, once it has ended if that is asked for, and show it. Raises CommandError."""
    if options.timeout is not None and not options.wait:
        raise CommandError("--timeout says how long to wait; it goes with --wait")
    if options.wait:
        _wait(options, console)
    return told_sweep(_found(options), options, console)


def _found(options: argparse.Namespace) -> FoundSweep:
    if options.file is None:
        return typed_sweep(kubectl_of(options).sweep(options.name))
    body = sweep_in(options.file, options.name)
    if body is None:
        raise CommandError(f"{options.file} holds no {KIND} {options.name}")
    return typed_sweep(body)


def _wait(options: argparse.Namespace, console: Console) -> None:
    """What is shown meanwhile goes to standard error, where the output is Markdown."""
    targets = {options.name: Target(kubectl_of(options), KIND)}
    shown = Terminal(stderr=True) if options.markdown else console
    try:
        followed(targets, shown, timeout_seconds=options.timeout)
    except (KeyboardInterrupt, TimeIsUp):
        say_how_to_go_on(targets, shown)
        raise
