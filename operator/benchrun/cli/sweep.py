"""`benchrun sweep NAME`: the tables of a sweep, from the cluster or from a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from benchrun.api.sweep.spec import KIND
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.cli.cluster_options import add_cluster_options, kubectl_of
from benchrun.cli.errors import CommandError
from benchrun.cli.show import COLOURS, ENDED_EARLY, as_table, prose_width
from benchrun.judge.comparison.sentence import SCOPES
from benchrun.report.exit_codes import PASSED
from benchrun.report.sweep_rows import best_rows, change_rows, front_rows, remarks, variant_rows

DESCRIPTION = """\
Show a sweep: what every variant measured, by how much it differs from the baseline and whether that is more than noise,
who did best, and which load points no other beats in both throughput per GPU and TPOT."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "sweep",
        help="show the tables of a sweep",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", help=f"name of a {KIND}")
    parser.add_argument(
        "-f", "--file", type=Path, metavar="FILE", help="look it up in this file (kubectl get -o yaml or json)"
    )
    add_cluster_options(parser)
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Read the sweep and show it. Raises CommandError."""
    body = _in_file(options.file, options.name) if options.file else kubectl_of(options).sweep(options.name)
    try:
        status = BenchmarkSweepStatus.model_validate(body.get("status") or {})
    except ValidationError as error:
        raise CommandError(f"{options.name} was written by another version of the API: {error}") from error
    show_sweep(console, options.name, status)
    return PASSED


def show_sweep(console: Console, name: str, status: BenchmarkSweepStatus) -> None:
    """Where it stands, then the tables, then what is to be known of them."""
    width, verdict = prose_width(console), status.verdict or "Unknown"
    word = status.phase if status.phase in ENDED_EARLY else verdict
    title = Text.assemble((f"{name}: ", "bold"), (word, COLOURS.get(word, "bold")), f" - {status.message or ''}")
    console.print(title, width=width)
    console.print(as_table(variant_rows(status)))
    console.print(Text("means over the runs; latencies in milliseconds", style="dim"))
    if status.scope is not None:
        console.print(
            Text.assemble("\n", (f"against {status.baseline}", "bold"), f", {SCOPES[status.scope]}"), width=width
        )
        console.print(as_table(change_rows(status)))
    for title_text, rows in (("best", best_rows(status)), ("Pareto front", front_rows(status))):
        if rows.rows:
            console.print(Text(f"\n{title_text}", style="bold"))
            console.print(as_table(rows))
    for remark in remarks(status):
        console.print(Text(remark, style="yellow"), width=width)
    for cut in status.truncated:
        left_out = f"{cut.field}: {cut.included} of {cut.total}; the rest did not fit into the status"
        console.print(Text(left_out, style="dim"), width=width)


def _in_file(path: Path, name: str) -> dict[str, Any]:
    try:
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CommandError(f"{path} can't be read: {error}") from error
    bodies = [body for each in documents if isinstance(each, dict) for body in each.get("items", [each])]
    for body in bodies:
        if body.get("kind") == KIND and body.get("metadata", {}).get("name") == name:
            found: dict[str, Any] = body
            return found
    raise CommandError(f"{path} holds no {KIND} {name}")
