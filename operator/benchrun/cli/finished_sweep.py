"""A finished sweep with its whole table, on the terminal, as Markdown, or as one HTML file."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from benchrun import names
from benchrun.api import BenchmarkRunStatus, plain_text
from benchrun.api.sweep.spec import KIND
from benchrun.api.sweep.status import BenchmarkSweepStatus, essence
from benchrun.cli import cluster, errors, finished_run, manifests, show
from benchrun.decide.situation import Unacceptable
from benchrun.decide.sweep import decision, reconcile
from benchrun.judge.sweep.table import sweep_table
from benchrun.observe import run_outcomes, view_builders, views
from benchrun.observe import untrusted_json as raw
from benchrun.report import exit_codes, markdown, result_rows

NO_EXTRA = "the HTML report needs two more packages: pip install 'benchrun-operator[report]'"


def whole_table(
    sweep: views.Sweep, status: BenchmarkSweepStatus, runs_of: Callable[[views.Sweep], Sequence[raw.Object]]
) -> BenchmarkSweepStatus:
    """The status with all rows and figures, if its runs can be had; else as it is. They are asked for where they are needed."""
    if not status.truncated:
        return status
    runs = [run for run in map(view_builders.run_of, runs_of(sweep)) if run.sweep_uid == sweep.uid]
    collected = decision.SweepCollected(measured=_measured(runs))
    return (
        _untruncated(decision.SweepWorld(sweep, run_outcomes.swept_runs(runs), collected, datetime.now(UTC)), status)
        or status
    )


def _untruncated(world: decision.SweepWorld, status: BenchmarkSweepStatus) -> BenchmarkSweepStatus | None:
    """None: runs that the table was made of are not there, or not all that they measured."""
    try:
        spec, variants = decision.accept_sweep(world.sweep)
    except Unacceptable:
        return None
    situation = decision.SweepSituation(world=world, spec=spec, variants=variants, status=status)
    if not reconcile.is_tabled(situation) or reconcile.to_read(situation):
        return None
    wanted = reconcile.table_wanted(situation)
    table = sweep_table(
        spec,
        wanted.runs,
        world.collected.measured,
        baseline=wanted.baseline,
        missing=dict(wanted.missing),
        whole=True,
    )
    return reconcile.tabled(situation, decision.TableMade(wanted, table))


def runs_in_cluster(sweep: views.Sweep, kubectl: cluster.Kubectl) -> Sequence[raw.Object]:
    """Of the sweep; none where they are not to be seen."""
    try:
        return kubectl.all(cluster.RUN, selector=f"{names.LABEL_SWEEP}={sweep.name}")
    except errors.KubectlError:
        return []  # who may read sweeps may perhaps not read runs


def _measured(runs: Sequence[views.Run]) -> Mapping[str, BenchmarkRunStatus]:
    """By uid, of those that can be read: the others were written by another version of the API."""
    found = {}
    for run in runs:
        try:
            found[run.uid] = essence(BenchmarkRunStatus.model_validate(run.status))
        except ValidationError:
            continue
    return found


@dataclass(frozen=True, slots=True)
class FoundSweep:
    """As the API server holds it, and its status."""

    sweep: views.Sweep
    status: BenchmarkSweepStatus


def add_forms(parser: argparse.ArgumentParser) -> None:
    """In which form a result is shown."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--html", type=Path, metavar="FILE", help="write one HTML file with everything")
    form.add_argument(
        "--markdown", action="store_true", help="print Markdown, for a pull request or the summary of a job"
    )


def sweep_in(path: Path, name: str | None) -> raw.Object | None:
    """The sweep of that name in a file; of no name, the only one. None: there is none such. Raises CommandError."""
    found = [body for body in manifests.objects_in(path) if body.get("kind") == KIND]
    named = [body for body in found if name in (None, raw.mapping(body.get("metadata")).get("name"))]
    return named[0] if len(named) == 1 else None


def named_sweep(options: argparse.Namespace) -> FoundSweep:
    """The sweep that the options name. Raises CommandError."""
    if options.file is None:
        if options.name is None:
            raise errors.CommandError("which sweep? Give its name, or -f FILE")
        return typed_sweep(cluster.kubectl_of(options).get(options.name, cluster.SWEEP))
    body = sweep_in(options.file, options.name)
    if body is None:
        raise errors.CommandError(f"{options.file} holds no {KIND} {options.name or ''}".rstrip())
    return typed_sweep(body)


def typed_sweep(body: raw.Object) -> FoundSweep:
    """Raises CommandError where its status is another version's."""
    sweep = view_builders.sweep_of(body)
    return FoundSweep(sweep, errors.validated(BenchmarkSweepStatus, sweep.status, sweep.name))


def show_found(found: FoundSweep, options: argparse.Namespace, console: Console) -> int:
    """Show it, with what its status had no room for. Returns the code of its verdict; of a sweep that goes on, 0. Raises
    CommandError."""
    found = replace(found, status=whole_table(found.sweep, found.status, lambda sweep: _runs(sweep, options)))
    name, texts = found.sweep.name, result_rows.texts_per_prompt(raw.mapping(found.sweep.spec.get("template")))
    code = exit_codes.sweep_exit_code(found.status)
    if options.html is not None:
        if code is None:
            raise errors.CommandError(f"{name} has not ended")
        write_page(options.html, found, console)
    elif options.markdown:
        print(plain_text(markdown.sweep_markdown(name, found.status, texts_per_prompt=texts)), end="")
    else:
        show.show_sweep(console, name, found.status, texts_per_prompt=texts, wide=options.wide)
    return exit_codes.PASSED if code is None else code


def _runs(sweep: views.Sweep, options: argparse.Namespace) -> Sequence[raw.Object]:
    """From where the sweep is."""
    if options.file is None:
        return runs_in_cluster(sweep, cluster.kubectl_of(options))
    return [body for body in manifests.objects_in(options.file) if body.get("kind") == names.KIND]


def write_page(file: Path, found: finished_run.FinishedRun | FoundSweep, console: Console) -> None:
    """One HTML file. Only here is imported what draws: all else does without those packages. Raises CommandError."""
    try:
        from benchrun.cli.html_page import html_page, sweep_html_page
    except ModuleNotFoundError as error:
        raise errors.CommandError(NO_EXTRA) from error
    text = sweep_html_page(found.sweep, found.status) if isinstance(found, FoundSweep) else html_page(found)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise errors.CommandError(f"{file}: {error.strerror}") from error
    console.print(f"wrote {file}", markup=False, soft_wrap=True)
