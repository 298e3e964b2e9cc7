"""A finished sweep with its whole table, on the terminal, as Markdown, or as one HTML file."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from benchrun import names
from benchrun.api import BenchmarkRunStatus, plain_text
from benchrun.api.sweep import KIND, BenchmarkSweepStatus, essence
from benchrun.cli import cluster, console_tables, errors, finished_run, manifests
from benchrun.decide import Unacceptable
from benchrun.decide.sweep import decide_sweep, sweep_state
from benchrun.judge.sweep.table import sweep_table
from benchrun.measure import exposition
from benchrun.observe import run_outcomes, untrusted_json as raw, view_builders, views
from benchrun.report import exit_codes, markdown, run_list, tables
from benchrun.report.html import Reported, ReportedSweep


def whole_table(
    sweep: views.Sweep, status: BenchmarkSweepStatus, runs_of: Callable[[views.Sweep], Sequence[raw.Object]]
) -> BenchmarkSweepStatus:
    """The status with all rows and figures; as it is where it was not cut, or where runs or figures are not available.
    `runs_of` is called only where it was cut."""
    if not status.truncated:
        return status
    runs = [run for run in map(view_builders.run_of, runs_of(sweep)) if run.sweep_uid == sweep.uid]
    measured = {}
    for run in runs:
        with suppress(ValidationError):  # written by another version of the API
            measured[run.uid] = essence(BenchmarkRunStatus.model_validate(run.status))
    collected = sweep_state.SweepCollected(measured=measured)
    facts = sweep_state.SweepFacts(sweep, run_outcomes.swept_runs(runs), collected, datetime.now(UTC))
    try:
        spec, variants = sweep_state.accept_sweep(sweep)
    except Unacceptable:
        return status
    state = sweep_state.SweepState(facts=facts, spec=spec, variants=variants, status=status)
    if not decide_sweep.is_tabled(state) or decide_sweep.to_read(state):
        return status
    wanted = decide_sweep.table_wanted(state)
    missing = dict(wanted.missing)
    table = sweep_table(spec, wanted.runs, measured, baseline=wanted.baseline, missing=missing, whole=True)
    return decide_sweep.tabled(state, sweep_state.TableMade(wanted, table))


def runs_in_cluster(sweep: views.Sweep, kubectl: cluster.Kubectl) -> Sequence[raw.Object]:
    """Of the sweep; none where they may not be read."""
    try:
        return kubectl.all(cluster.RUN, selector=f"{names.LABEL_SWEEP}={sweep.name}")
    except errors.KubectlError:
        return []


def sampled(
    found: ReportedSweep, runs: Sequence[raw.Object], options: argparse.Namespace
) -> dict[str, Sequence[exposition.Sample]]:
    """Of each variant, in their order; those without samples are left out."""
    series: dict[str, Sequence[exposition.Sample]] = {}
    by_name = {run.name: run for run in map(view_builders.run_of, runs) if run.sweep_uid == found.declared.uid}
    for number, variant in enumerate(found.status.variants, start=1):
        for name in sorted(name for name in by_name if name.startswith(f"{found.declared.name}-v{number}-r")):
            with suppress(errors.CommandError):
                if samples := finished_run.with_measurement(by_name[name], options).samples:
                    series[variant.name] = samples
                    break
    return series


def named_sweep(options: argparse.Namespace, no_run: errors.CommandError | None = None) -> ReportedSweep:
    """The sweep that the options name; without a name the only one of the file. `no_run`: why no run of that name was
    found, raised where there is no sweep either. Raises CommandError."""
    if options.file is not None:
        sweeps = [body for body in manifests.objects_in(options.file) if body.get("kind") == KIND]
        found = [body for body in sweeps if options.name in (None, raw.mapping(body.get("metadata")).get("name"))]
        if len(found) != 1:
            raise no_run or errors.CommandError(f"{options.file} holds no {KIND} {options.name or ''}".rstrip())
        return typed_sweep(found[0])
    if options.name is None:
        raise no_run or errors.CommandError("which sweep? Give its name, or -f FILE")
    kubectl = cluster.kubectl_of(options)
    if no_run is None:
        return typed_sweep(kubectl.get(options.name, cluster.SWEEP))
    if not isinstance(no_run, errors.KubectlError):
        raise no_run
    return typed_sweep(kubectl.sweep_instead(options.name, no_run))


def typed_sweep(body: raw.Object) -> ReportedSweep:
    """Raises CommandError where its status is another version's."""
    sweep = view_builders.sweep_of(body)
    return ReportedSweep(sweep, errors.readable(BenchmarkSweepStatus.model_validate, sweep.status, sweep.name))


def show_found(found: ReportedSweep, options: argparse.Namespace, console: Console) -> int:
    """Show it whole. Returns the code of its verdict, 0 before it has ended. Raises CommandError."""

    def runs_of(sweep: views.Sweep) -> Sequence[raw.Object]:
        if options.file is None:
            return runs_in_cluster(sweep, cluster.kubectl_of(options))
        return [body for body in manifests.objects_in(options.file) if body.get("kind") == names.KIND]

    found = replace(found, status=whole_table(found.declared, found.status, runs_of))
    name, texts = found.declared.name, tables.texts_per_prompt(run_list.template(found.declared))
    code = exit_codes.sweep_exit_code(found.status)
    if options.html is not None:
        if code is None:
            raise errors.CommandError(f"{name} has not ended")
        series = sampled(found, runs_of(found.declared), options)
        write_page(options.html, replace(found, series=series), console)
    elif options.markdown:
        print(plain_text(markdown.sweep_markdown(name, found.status, texts_per_prompt=texts)), end="")
    else:
        console_tables.show_sweep(console, name, found.status, texts_per_prompt=texts, wide=options.wide)
    return exit_codes.PASSED if code is None else code


def write_page(file: Path, found: Reported | ReportedSweep, console: Console) -> None:
    """One HTML file. Only here is imported what draws: all else does without those packages. Raises CommandError."""
    try:
        from benchrun.cli.html_page import html_page
    except ModuleNotFoundError as error:
        needed = "the HTML report needs two more packages: pip install 'benchrun-operator[report]'"
        raise errors.CommandError(needed) from error
    text = html_page(found)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise errors.CommandError(f"{file}: {error.strerror}") from error
    console.print(f"wrote {file}", markup=False, soft_wrap=True)
