"""`benchrun get`: all runs in a table, or one on half a screen."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchrun.api.status import BenchmarkRunStatus
from benchrun.cli.cluster_options import add_cluster_options, kubectl_of
from benchrun.cli.errors import CommandError
from benchrun.cli.show import COLOURS, as_table, prose_width
from benchrun.observe.trim import run_of
from benchrun.observe.views import Run
from benchrun.report.exit_codes import PASSED
from benchrun.report.rows import Rows
from benchrun.report.run_list import run_list_rows
from benchrun.report.run_summary import Summary, run_summary

DESCRIPTION = """\
List the runs of a namespace, the youngest first: verdict, best valid load point, what limits it and what was found.
With a name: what that run measured, on what, how long each part took, and what came out."""

FOLDED = ("load point", "findings", "model", "image")
"""Columns that may take several lines."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "get",
        help="list runs, or sum one up",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of a BenchmarkRun; all are listed without one")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="list the runs of all namespaces")
    parser.add_argument("-l", "--selector", help="list the runs with these labels")
    parser.add_argument("--wide", action="store_true", help="list model, vLLM, GPU and image, too")
    add_cluster_options(parser)
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """The list or the summary. Raises CommandError."""
    kubectl, now = kubectl_of(options), datetime.now(UTC)
    if options.name is not None:
        if options.all_namespaces or options.selector:
            raise CommandError("-A and -l choose from a list; leave them out where a run is named")
        _show(console, _summary(run_of(kubectl.get(options.name)), now))
        return PASSED
    bodies = kubectl.runs(all_namespaces=options.all_namespaces, selector=options.selector)
    if not bodies:
        _say_none(console, options)
        return PASSED
    rows = run_list_rows(bodies, now=now, wide=options.wide, namespaces=options.all_namespaces)
    console.print(_list(rows))
    return PASSED


def _list(rows: Rows) -> Table:
    """Names and figures stay in one piece."""
    table = as_table(rows)
    for column in table.columns:
        column.no_wrap = column.header not in FOLDED
    return table


def _say_none(console: Console, options: argparse.Namespace) -> None:
    chosen = f" with labels {options.selector}" if options.selector else ""
    if options.all_namespaces:
        place, remedy = "in this cluster", "benchrun run -f FILE makes one; examples/ has some"
    else:
        place, remedy = (
            f"in namespace {options.namespace}" if options.namespace else "in this namespace",
            "-A lists all",
        )
    console.print(f"no runs{chosen} {place}; {remedy}", markup=False, soft_wrap=True)


def _summary(found: Run, now: datetime) -> Summary:
    try:
        return run_summary(found, BenchmarkRunStatus.model_validate(found.status), now=now)
    except ValidationError as error:
        raise CommandError(f"{found.name} was written by another version of the API") from error


def _show(console: Console, summary: Summary) -> None:
    style = COLOURS.get(summary.word, "bold")
    width = prose_width(console)
    title = Text.assemble((f"{summary.title}: ", "bold"), (summary.word, style), f" - {summary.sentence}")
    console.print(title, width=width)
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim")
    for name, text in summary.facts:
        facts.add_row(name, Text(text, overflow="fold"))
    console.print(facts, width=width)
    for command in summary.look_further:
        console.print(Text(f"$ {command}", style="dim"))
