"""`benchrun report NAME`: the result of a run, on the terminal, as Markdown, or as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from benchrun.api.status import BenchmarkRunStatus
from benchrun.cli.cluster_options import add_cluster_options
from benchrun.cli.errors import CommandError
from benchrun.cli.finished_run import FinishedRun, add_run_options, ended_run, named_run
from benchrun.cli.show import add_wide, show_result
from benchrun.report.exit_codes import PASSED, exit_code
from benchrun.report.markdown import markdown
from benchrun.report.progress_line import progress_line

SUMMARY = "show the result of a run; the exit code is that of its verdict"
DESCRIPTION = """\
Show the result of a run: on the terminal, as Markdown on standard output, or as one HTML file.

The HTML file has everything: verdict, limits, figures, plots, timeline, findings, provenance, and the manifest to measure the
same again. It holds no script and needs no network. Plots of distributions and the timeline need the run's records, which -f
alone does not bring."""
EXTRA = "the HTML report needs two more packages: pip install 'benchrun-operator[report]'"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "report", help=SUMMARY, description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_run_options(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file with everything")
    form.add_argument(
        "--markdown", action="store_true", help="print Markdown, for a pull request or the summary of a job"
    )
    add_cluster_options(parser)
    add_wide(parser)
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Show what is there; of a run that goes on, how far it is. Raises CommandError."""
    if options.html is not None:
        return _html(ended_run(options), options.html, console)
    found = named_run(options)
    try:
        status = BenchmarkRunStatus.model_validate(found.status)
    except ValidationError as error:
        raise CommandError(f"{found.name} was written by another version of the API: {error}") from error
    code = exit_code(status)
    if code is None:
        console.print(progress_line(status), markup=False)
        return PASSED
    if options.markdown:
        print(markdown(found.name, status, wide=options.wide), end="")
    else:
        show_result(console, found.name, status, wide=options.wide)
    return code


def _html(found: FinishedRun, file: Path, console: Console) -> int:
    try:
        # Imported where it is needed: the other commands do without what it needs.
        from benchrun.cli.html_page import html_page
    except ModuleNotFoundError as error:
        raise CommandError(EXTRA) from error
    text = html_page(found)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from error
    console.print(f"wrote {file}", markup=False, soft_wrap=True)
    return exit_code(found.status) or PASSED
