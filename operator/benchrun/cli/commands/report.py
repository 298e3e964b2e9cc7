"""`benchrun report NAME`: show the result of a run or a sweep.

It is shown on the terminal, as Markdown, or as one HTML file.
"""

import argparse
from pathlib import Path

from rich.console import Console

from benchrun.api import BenchmarkRunStatus, plain_text
from benchrun.cli import (
    console_tables,
    errors,
    finished_results,
    result_documents,
    shared_options,
)
from benchrun.report import exit_codes, live_view, markdown, run_settings, tables
from benchrun.report.html import Reported

SUMMARY = (
    "show the result of a run or a sweep; the exit code is that of its verdict"
)
DESCRIPTION = (
    "Show the result of a run (or of a sweep, if no run has that name) on the "
    "terminal, as Markdown, or as one HTML file. For a sweep it shows what each "
    "variant measured, what its servers did meanwhile, the change against the "
    "baseline and whether it is more than noise, the best variants, and the Pareto "
    "front of throughput against TPOT. The HTML file has everything, from the "
    "verdict to the manifest that repeats the measurement; it has no script and "
    "needs no network. Everything comes from the run's result document, which -f "
    "reads without a cluster."
)
EPILOG = f"{shared_options.EXIT_CODES}\n0 also if it has not ended yet."


def add_options(parser: argparse.ArgumentParser) -> None:
    finished_results.add_run_options(parser)
    shared_options.add_sweep(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write one HTML file with everything",
    )
    to_print = "print Markdown, for a pull request or the summary of a CI job"
    form.add_argument("--markdown", action="store_true", help=to_print)
    shared_options.add_cluster_options(parser, wide=True)


def run(options: argparse.Namespace, console: Console) -> int:
    if options.sweep:
        return finished_results.show_found(
            finished_results.named_sweep(options), options, console
        )
    try:
        named = finished_results.named_run(options)
    except result_documents.BadDocument:
        raise
    except errors.CommandError as error:
        return finished_results.show_found(
            finished_results.named_sweep(options, error), options, console
        )
    run = named.run
    status = errors.readable(
        BenchmarkRunStatus.model_validate, run.status, run.name
    )
    if exit_codes.exit_code(status) is None and options.html is None:
        console.print(live_view.progress_line(status), markup=False)
        return exit_codes.PASSED
    found = finished_results.reported(named, options)
    code = exit_codes.exit_code(found.status) or exit_codes.PASSED
    if options.html is not None:
        finished_results.write_page(options.html, found, console)
        return code
    _show(found, options, console)
    return code


def _show(found: Reported, options: argparse.Namespace, console: Console) -> None:
    """Show a run on the terminal or as Markdown."""
    name = found.declared.name
    status = found.status
    texts = tables.texts_per_prompt(found.declared.spec)
    if options.markdown:
        print(
            plain_text(
                markdown.markdown(
                    name, status, texts_per_prompt=texts, wide=options.wide
                )
            ),
            end="",
        )
    else:
        console_tables.show_result(
            console, name, status, texts_per_prompt=texts, wide=options.wide
        )
        if options.wide:
            console.print(
                console_tables.as_table(
                    run_settings.settings_rows(found.declared.spec, status)
                )
            )
        finished_results.show_notes(found, console)
