"""`benchrun get`: list all runs and sweeps, or summarise one on half a screen."""

import argparse
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchrun.api import BenchmarkRunStatus, plain_text
from benchrun.cli import (
    cluster,
    console_tables,
    errors,
    finished_results,
    shared_options,
)
from benchrun.observe import Run, Sweep, run_of, sweep_of
from benchrun.report import exit_codes, run_list, run_summary

SUMMARY = "list runs and sweeps, or summarise one"
DESCRIPTION = (
    "List the runs of a namespace, the youngest first: verdict, best load point "
    "(with ? if it is Suspect), bottleneck and findings. Sweeps are listed below: "
    "how many of their runs have ended, and the best variant. With NAME, show what "
    "that run (or sweep) measured, on what, how long each part took, and the "
    "result.\n\n"
    "With --active, list only what has not ended: what an upgrade of the operator would meet."
)

# Columns whose text may take several lines.
FOLDED = (
    "load point",
    "findings",
    "best",
    "baseline",
    "model",
    "image",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    which = (
        "name of a BenchmarkRun or, if no run has it, of a BenchmarkSweep; without "
        "a name all are listed"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help=which)
    finished_results.add_file_options(parser)
    parser.add_argument(
        "-A",
        "--all-namespaces",
        action="store_true",
        help="list the runs and sweeps of all namespaces",
    )
    parser.add_argument(
        "-l", "--selector", help="list only those with these labels"
    )
    parser.add_argument(
        "--wide",
        action="store_true",
        help="also list model, version, GPU and image",
    )
    parser.add_argument(
        "--active",
        action="store_true",
        help="list only runs and sweeps that have not ended",
    )
    how = (
        "default: table; json: kind, namespace, name, active, phase, verdict, times and message of "
        "each; name: RESOURCE/NAME, with -A after the namespace"
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json", "name"),
        default="table",
        help=how,
    )
    shared_options.add_cluster_options(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    if options.name is not None or options.file is not None:
        if (
            options.all_namespaces
            or options.selector
            or options.active
            or options.output != "table"
        ):
            raise errors.CommandError(
                "-A, -l, --active and -o are for lists; leave them out, or leave out the name "
                "of the run"
            )
        _show(console, _summary(options, datetime.now(UTC)))
        return exit_codes.PASSED
    runs, sweeps = _listed(options)
    if options.output == "json":
        facts = [run_list.listed_facts(each) for each in _read(runs, sweeps)]
        print(json.dumps(facts, indent=2))
    elif options.output == "name":
        for each in _read(runs, sweeps):
            place = f"{each.namespace} " if options.all_namespaces else ""
            print(plain_text(f"{place}{cluster.RESOURCES[each.kind]}/{each.name}"))
    else:
        _show_tables(runs, sweeps, options, console)
    return exit_codes.PASSED


def _listed(
    options: argparse.Namespace,
) -> tuple[list[cluster.Body], list[cluster.Body]]:
    """Return the runs and the sweeps that the options choose."""
    kubectl = cluster.kubectl_of(options)
    where: dict[str, Any] = {
        "all_namespaces": options.all_namespaces,
        "selector": options.selector,
    }
    runs = kubectl.all(cluster.RUN, **where)
    sweeps = []
    try:
        sweeps = kubectl.all(cluster.SWEEP, **where)
    except errors.KubectlError as error:
        if error.trouble not in ("Forbidden", "NotInstalled"):
            raise
    if options.active:
        runs = list(filter(run_list.is_active, runs))
        sweeps = list(filter(run_list.is_active, sweeps))
    return runs, sweeps


def _read(
    runs: Iterable[cluster.Body], sweeps: Iterable[cluster.Body]
) -> list[Run | Sweep]:
    return [*map(run_of, runs), *map(sweep_of, sweeps)]


def _show_tables(
    runs: list[cluster.Body],
    sweeps: list[cluster.Body],
    options: argparse.Namespace,
    console: Console,
) -> None:
    if not runs and not sweeps:
        _say_none(console, options)
    now = datetime.now(UTC)
    shown = [
        rows(bodies, now=now, wide=options.wide, namespaces=options.all_namespaces)
        for rows, bodies in (
            (run_list.run_list_rows, runs),
            (run_list.sweep_list_rows, sweeps),
        )
        if bodies
    ]
    for number, table in enumerate(shown):
        console.print(
            *([""] if number else []),
            console_tables.as_table(table, folded=FOLDED),
            sep="\n",
        )


def _say_none(console: Console, options: argparse.Namespace) -> None:
    chosen = f" with labels {options.selector}" if options.selector else ""
    place = (
        f"in namespace {options.namespace}"
        if options.namespace
        else "in this namespace"
    )
    remedy = "use -A to list all namespaces"
    if options.all_namespaces:
        place = "in this cluster"
        remedy = "to start one: benchrun run -f FILE (the folder examples/ has manifests)"
    found = f"no active runs{chosen}" if options.active else f"no runs{chosen}"
    if options.active and options.all_namespaces:
        remedy = "an upgrade meets none"
    console.print(f"{found} {place}; {remedy}", markup=False, soft_wrap=True)


def _summary(options: argparse.Namespace, now: datetime) -> run_summary.Summary:
    try:
        named = finished_results.named_run(options)
    except errors.KubectlError as error:
        sweep = finished_results.named_sweep(options, error)
        return run_summary.sweep_summary(
            sweep, finished_results.status_of(sweep), now=now
        )
    run = named.run
    status = errors.readable(
        BenchmarkRunStatus.model_validate, run.status, run.name
    )
    if exit_codes.exit_code(status) is not None:
        status = finished_results.reported(named, options).status
    return run_summary.run_summary(run, status, now=now)


def _show(console: Console, summary: run_summary.Summary) -> None:
    width = console_tables.prose_width(console)
    console.print(
        console_tables.title(summary.title, summary.word, summary.sentence),
        width=width,
    )
    facts = Table.grid(padding=(0, 2, 0, 0))
    facts.add_column(style="dim")
    for name, text in summary.facts:
        facts.add_row(name, Text(text, overflow="fold"))
    console.print(facts, width=width)
    for command in summary.look_further:
        console.print(Text(f"$ {command}", style="dim"))
