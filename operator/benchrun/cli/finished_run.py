"""A finished run with what it stored, from the cluster or from files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import BenchmarkRunStatus
from benchrun.cli.cluster_options import kubectl_of
from benchrun.cli.errors import CommandError
from benchrun.cli.run_files import config_maps_in, runs_in
from benchrun.cli.stored import StoredMeasurement, unpacked
from benchrun.observe import raw
from benchrun.observe.trim import run_of
from benchrun.observe.views import Run
from benchrun.report.exit_codes import exit_code


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that has ended, and what is left of what it measured."""

    run: Run
    spec: BenchmarkRunSpec
    status: BenchmarkRunStatus
    measured: StoredMeasurement


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Which run, and where it is."""
    add = parser.add_argument
    add("name", nargs="?", help="name of the BenchmarkRun; may be left out where -f holds one only")
    add("-f", "--file", type=Path, metavar="FILE", help="take the run from this file (kubectl get bmr NAME -o yaml)")
    add(
        "--records",
        type=Path,
        metavar="PATH",
        help="with -f: its ConfigMaps, a file or a folder of files (kubectl get cm -l benchrun.dev/run=NAME -o yaml)",
    )


def finished_run(options: argparse.Namespace) -> FinishedRun:
    """The run that the options name, with one record at least. Raises CommandError where there is none, it goes on, or
    nothing of it is kept."""
    if (options.file is None) != (options.records is None):
        raise CommandError("-f FILE and --records PATH go together: the run, and what it stored")
    found = ended_run(options)
    if not found.measured.records:
        reasons = "; ".join(found.measured.unreadable) or "there are none, or they are another run's"
        raise CommandError(f"nothing is left of what {found.run.name} has measured: {reasons}")
    return found


def ended_run(options: argparse.Namespace) -> FinishedRun:
    """The same, though it may have measured nothing, or no record of it may be at hand."""
    return with_measurement(named_run(options), options)


def with_measurement(run: Run, options: argparse.Namespace) -> FinishedRun:
    """A run that was read, and what the options say where to find of its measurement."""
    spec, status = _typed(run)
    return FinishedRun(run, spec, status, unpacked(_config_maps(options, run), run_uid=run.uid))


def named_run(options: argparse.Namespace) -> Run:
    """The run that the options name, ended or not. Raises CommandError."""
    if options.file is None:
        if options.name is None or options.records is not None:
            raise CommandError("which run? Give its name, or -f FILE --records PATH")
        return run_of(kubectl_of(options).get(options.name))
    runs = {run.name: run for run in runs_in(options.file)}
    name = options.name or (next(iter(runs)) if len(runs) == 1 else "")
    if name not in runs:
        raise CommandError(f"{options.file} holds {', '.join(runs)}; which one is it to be?")
    return runs[name]


def _config_maps(options: argparse.Namespace, run: Run) -> Sequence[raw.Object]:
    """Of a file, only where their own were named: the cluster may be another one."""
    if options.file is None:
        return kubectl_of(options).stored(run.uid)
    return config_maps_in(options.records) if options.records is not None else ()


def _typed(run: Run) -> tuple[BenchmarkRunSpec, BenchmarkRunStatus]:
    try:
        spec, status = BenchmarkRunSpec.model_validate(run.spec), BenchmarkRunStatus.model_validate(run.status)
    except ValidationError as error:
        raise CommandError(f"{run.name} was written by another version of the API: {error}") from error
    if exit_code(status) is None:
        raise CommandError(f"{run.name} has not ended")
    return spec, status
