"""`benchrun report NAME`: the result of a run or a sweep, on the terminal, as Markdown, or as one HTML file."""

from __future__ import annotations

import argparse
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from benchrun.api import BenchmarkRunStatus, plain_text
from benchrun.cli.errors import CommandError, KubectlError
from benchrun.cli.finished_run import FinishedRun, add_run_options, named_run, with_measurement
from benchrun.cli.finished_sweep import FoundSweep, add_forms, named_sweep, sweep_in, told_sweep, typed_sweep
from benchrun.cli.following import add_sweep
from benchrun.cli.html_page import written_page
from benchrun.cli.kubectl import add_cluster_options, kubectl_of
from benchrun.cli.show import add_wide, show_result
from benchrun.observe.views import Run
from benchrun.report.exit_codes import PASSED, exit_code
from benchrun.report.live_view import progress_line
from benchrun.report.markdown import markdown
from benchrun.report.result_rows import texts_per_prompt

SUMMARY = "show the result of a run or a sweep; the exit code is that of its verdict"
DESCRIPTION = """\
Show the result of a run, or of a sweep where there is no run of that name: on the terminal, as Markdown on standard output,
or as one HTML file.

Of a sweep that is what every variant measured and what its servers did meanwhile, by how much it differs from the baseline and
whether that is more than noise, who did best, and which load points no other beats in both throughput per GPU and TPOT.

The HTML file has everything: verdict, limits, figures, plots, timeline, findings, provenance, and the manifest to measure the
same again. It holds no script and needs no network. Plots of distributions and the timeline need the run's records, which -f
alone does not bring."""
EPILOG = """\
exit codes: 0 measured, Valid or Suspect, or it goes on; 1 it can't be read; 2 failed, or a run of the sweep did; 3 an objective
missed or a figure regressed; 4 some numbers are invalid; 5 cancelled. Of a sweep objectives and changes are no gate."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "report",
        help=SUMMARY,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_options(parser)
    add_sweep(parser)
    add_forms(parser)
    add_cluster_options(parser)
    add_wide(parser)
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Show what is there; of what goes on, how far it is. Raises CommandError."""
    if options.sweep:
        return told_sweep(named_sweep(options), options, console)
    try:
        found = named_run(options)
    except CommandError as error:
        return told_sweep(_sweep_instead(options, error), options, console)
    return _told(found, options, console)


def _told(found: Run, options: argparse.Namespace, console: Console) -> int:
    if options.html is not None:
        whole = with_measurement(found, options)
        written_page(options.html, lambda: _page(whole), console)
        return exit_code(whole.status) or PASSED
    try:
        status = BenchmarkRunStatus.model_validate(found.status)
    except ValidationError as error:
        raise CommandError(f"{found.name} was written by another version of the API: {error}") from error
    code = exit_code(status)
    if code is None:
        console.print(progress_line(status), markup=False)
        return PASSED
    texts = texts_per_prompt(found.spec)
    if options.markdown:
        print(plain_text(markdown(found.name, status, texts_per_prompt=texts, wide=options.wide)), end="")
    else:
        show_result(console, found.name, status, texts_per_prompt=texts, wide=options.wide)
    return code


def _sweep_instead(options: argparse.Namespace, error: CommandError) -> FoundSweep:
    """A sweep of that name, where looking for a run raised `error`. Raises CommandError."""
    if options.file is not None:
        body = sweep_in(options.file, options.name)
        if body is None:
            raise error
        return typed_sweep(body)
    if options.name is None or not isinstance(error, KubectlError):
        raise error
    return typed_sweep(kubectl_of(options).sweep_instead(options.name, error))


def _page(found: FinishedRun) -> str:
    from benchrun.cli.html_page import html_page

    return html_page(found)
