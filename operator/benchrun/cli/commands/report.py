"""`benchrun report NAME`: the result of a run or a sweep, on the terminal, as Markdown, or as one HTML file."""

import argparse
from pathlib import Path

from rich.console import Console

from benchrun.api import BenchmarkRunStatus, plain_text
from benchrun.cli import console_tables, errors, finished_results, shared_options
from benchrun.report import exit_codes, live_view, markdown, run_settings, tables

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
missed or a figure regressed; 4 some numbers are invalid; 5 cancelled; 6 the baseline's gate neither passed nor failed.
Of a sweep objectives and changes are no gate."""


def add_options(parser: argparse.ArgumentParser) -> None:
    finished_results.add_run_options(parser)
    shared_options.add_sweep(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file with everything")
    to_print = "print Markdown, for a pull request or the summary of a job"
    form.add_argument("--markdown", action="store_true", help=to_print)
    shared_options.add_cluster_options(parser, wide=True)


def run(options: argparse.Namespace, console: Console) -> int:
    if options.sweep:
        return finished_results.show_found(finished_results.named_sweep(options), options, console)
    try:
        found = finished_results.named_run(options)
    except errors.CommandError as error:
        return finished_results.show_found(finished_results.named_sweep(options, error), options, console)
    if options.html is not None:
        whole = finished_results.with_measurement(found, options)
        finished_results.write_page(options.html, whole, console)
        return exit_codes.exit_code(whole.status) or exit_codes.PASSED
    status = errors.readable(BenchmarkRunStatus.model_validate, found.status, found.name)
    if (code := exit_codes.exit_code(status)) is None:
        console.print(live_view.progress_line(status), markup=False)
        return exit_codes.PASSED
    texts = tables.texts_per_prompt(found.spec)
    if options.markdown:
        print(plain_text(markdown.markdown(found.name, status, texts_per_prompt=texts, wide=options.wide)), end="")
    else:
        console_tables.show_result(console, found.name, status, texts_per_prompt=texts, wide=options.wide)
        if options.wide:
            console.print(console_tables.as_table(run_settings.settings_rows(found.spec, status)))
    return code
