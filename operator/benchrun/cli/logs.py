"""`benchrun logs NAME`: what the server and the client of a run write."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from benchrun.api import names
from benchrun.api.text import plain_text
from benchrun.cli.cluster_options import add_cluster_options, kubectl_of
from benchrun.cli.errors import CommandError
from benchrun.cli.log_streams import LogLine, log_lines_of
from benchrun.cli.terminal import Terminal
from benchrun.observe import raw
from benchrun.observe.trim import run_of
from benchrun.observe.views import Run
from benchrun.report.exit_codes import PASSED

DESCRIPTION = """\
The logs of a run's server and client, as they are or as they grow.

The pods go when the run ends. Of a server that failed the last words are kept in the run's status, and shown then."""
ROLES = (*names.SERVING_ROLES, names.ROLE_CLIENT)
DEFAULT_TAIL = 100
MAX_TAIL_CHARACTERS = 8192


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "logs",
        help="show or follow what a run's server and client write",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("name", help="name of the BenchmarkRun")
    add("--role", choices=ROLES, action="append", help="only this one's (default: all that the run has)")
    add(
        "-f",
        "--follow",
        action="store_true",
        help="go on until the run has ended; pods that are not there yet are awaited",
    )
    add(
        "--tail",
        type=int,
        default=None,
        metavar="LINES",
        help=f"only the last lines (default: {DEFAULT_TAIL}; -1: all)",
    )
    add_cluster_options(parser)
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Line by line, each with who wrote it where that is not clear. Raises CommandError."""
    kubectl = kubectl_of(options)
    found = run_of(kubectl.get(options.name))
    roles = tuple(dict.fromkeys(options.role or roles_of(found)))
    tail = options.tail if options.tail is not None else DEFAULT_TAIL
    lines = log_lines_of(kubectl, found, roles, follow=options.follow, tail=tail)
    seen: set[str] = set()
    for line in lines:
        _print(line, console, named=len(roles) > 1)
        seen.add(line.role)
    left = run_of(kubectl.get(options.name)) if len(seen) < len(roles) else found
    silent = [role for role in roles if role != names.ROLE_CLIENT]
    if not seen & set(silent) and silent and _print_last_words(left, console):
        seen.update(silent)
    _say_what_lacks(left, [role for role in roles if role not in seen], anything=bool(seen))
    return PASSED


def roles_of(run: Run) -> tuple[str, ...]:
    """The roles that the run's spec asks for, the client among them."""
    split = raw.mapping(run.spec.get("server")).get("disaggregated") is not None
    servers = (names.ROLE_PREFILL, names.ROLE_DECODE, names.ROLE_PROXY) if split else (names.ROLE_SERVER,)
    return (*servers, names.ROLE_CLIENT)


def _print(line: LogLine, console: Console, *, named: bool) -> None:
    """As it was written, but for what would steer the terminal: neither markup nor its width changes a log."""
    text = plain_text(line.text)
    console.file.write(f"{line.who} | {text}\n" if named else f"{text}\n")
    console.file.flush()


def _print_last_words(run: Run, console: Console) -> bool:
    """Whether there are any."""
    tail = raw.text(run.status.get("logTail"), MAX_TAIL_CHARACTERS).rstrip("\n")
    if tail:
        console.print("the server's pod is gone; its last words, as the run keeps them:", style="dim")
        console.file.write(f"{plain_text(tail)}\n")
    return bool(tail)


def _say_what_lacks(run: Run, silent: Sequence[str], *, anything: bool) -> None:
    """Raises CommandError where there was nothing at all to show."""
    if not silent:
        return
    who = " and ".join(silent)
    if run.status.get("completionTime") is None:
        waits = raw.text(run.status.get("message"), 1024) or "no operator has looked at the run yet"
        text = f"{who}: no log yet ({waits}); -f waits for it"
    else:
        text = (
            f"{who}: the pods went when the run ended, and their logs with them; only a failed server's last words are "
            f"kept. A log collector of the cluster has them by the label {names.LABEL_RUN}={run.name}"
        )
    if not anything:
        raise CommandError(text)
    Terminal(stderr=True).print(text, style="dim", markup=False, soft_wrap=True)
