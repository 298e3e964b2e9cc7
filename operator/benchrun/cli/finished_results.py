"""Read finished runs and sweeps from the cluster or from files.

They are shown on the terminal, as Markdown, or as one HTML file.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchrun_client.contract import StageRecord
from pydantic import ValidationError
from rich.console import Console

from benchrun import names
from benchrun.api import (
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    ResultDocument,
    find_condition,
    plain_text,
)
from benchrun.api.sweep import KIND, BenchmarkSweepStatus, essence
from benchrun.cli import (
    archives,
    cluster,
    console_tables,
    errors,
    manifests,
    result_documents,
)
from benchrun.decide import Unacceptable
from benchrun.decide.sweep import decide_sweep, sweep_state
from benchrun.judge.sweep.judged_sweep import sweep_table
from benchrun.measure import metrics_page, timeline
from benchrun.observe import (
    run_outcomes,
    untrusted_json as raw,
    view_builders,
    views,
)
from benchrun.plan import TIMELINE_KEY, stored_part, stored_record
from benchrun.report import exit_codes, markdown, run_list, tables
from benchrun.report.html import STATUS_ONLY, Reported, ReportedSweep


def add_run_options(parser: argparse.ArgumentParser) -> None:
    which = "name of the BenchmarkRun; it may be left out if -f has only one"
    parser.add_argument("name", nargs="?", metavar="NAME", help=which)
    add_file_options(parser)


def add_file_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    source = (
        "read the run from this file instead of the cluster: its result document "
        "(benchrun export NAME --format result), its archive (a folder, s3://... or "
        "gs://...), or the output of kubectl get bmr NAME -o yaml"
    )
    add("-f", "--file", type=archives.source, metavar="FILE", help=source)
    roles = ",".join((names.ROLE_RESULT, names.ROLE_STAGE, names.ROLE_TIMELINE))
    records = (
        "with -f: file or folder with the ConfigMaps of the run (kubectl get cm -l "
        f"'benchrun.dev/run=NAME,benchrun.dev/role in ({roles})' -o yaml)"
    )
    add("--records", type=Path, metavar="PATH", help=records)


class NamedRun(NamedTuple):
    """A run that a user named, whether it has ended or not."""

    run: views.Run
    document: ResultDocument | None = None  # The one that a file held.


def named_run(options: argparse.Namespace) -> NamedRun:
    """Return the run that the options name, whether it has ended or not. Raises CommandError."""
    if options.file is None:
        if options.name is None:
            raise errors.CommandError("name a run, or a file with -f FILE")
        body = cluster.kubectl_of(options).get(options.name)
        return NamedRun(view_builders.labelled_run_of(body))
    runs = runs_in(options.file)
    name = options.name or (next(iter(runs)) if len(runs) == 1 else "")
    if name not in runs:
        raise errors.CommandError(
            f"{options.file} holds {', '.join(runs)}; give the name of one"
        )
    return runs[name]


def runs_in(file: archives.Source) -> dict[str, NamedRun]:
    """Return the runs of a file by name.

    The file has a result document or Kubernetes objects, or is the archive of a run. Raises
    CommandError if there are none.
    """
    archive = archives.archive_at(file)
    if archive is not None:
        return _run_in(archive)
    path = Path(file)
    document = result_documents.document_in(path)
    if document is not None:
        return {
            document.run.name: NamedRun(result_documents.run_of(document), document)
        }
    return {run.name: NamedRun(run) for run in manifests.runs_in(path)}


def _run_in(archive: archives.Archive) -> dict[str, NamedRun]:
    run = view_builders.labelled_run_of(archive.body())
    whole = with_document(NamedRun(run), in_archive(archive))
    return {run.name: NamedRun(run, whole.document)}


def reported(named: NamedRun, options: argparse.Namespace) -> Reported:
    """Return an ended run with its result document, from the source that the options name.

    Raises CommandError, also if the run has not ended.
    """
    found = with_document(named, _config_maps(options))
    if exit_codes.exit_code(found.status) is None:
        raise errors.CommandError(f"{named.run.name} has not ended")
    return found


# Returns the ConfigMap of a name in a run's namespace. Raises CommandError.
FindConfigMap = Callable[[views.Run, str], raw.Object]


def _config_maps(options: argparse.Namespace) -> FindConfigMap | None:
    """Return the function that finds ConfigMaps for these options; None if there is no source."""
    if options.file is None:
        if options.records is not None:
            raise errors.CommandError("--records needs -f FILE")
        return in_cluster(cluster.kubectl_of(options))
    if options.records is None:
        archive = archives.archive_at(options.file)
        return None if archive is None else in_archive(archive)
    known = {
        view_builders.child_of("ConfigMap", body).name: body
        for body in manifests.config_maps_in(options.records)
    }

    def find(run: views.Run, name: str) -> raw.Object:
        if name not in known:
            raise errors.CommandError(f"not in {options.records}")
        return known[name]

    return find


def in_archive(archive: archives.Archive) -> FindConfigMap:
    """Return a function that finds ConfigMaps in the archive of their run."""
    return lambda run, name: archive.config_map(name)


def in_cluster(kubectl: cluster.Kubectl) -> FindConfigMap:
    """Return a function that finds ConfigMaps in the cluster."""
    return lambda run, name: kubectl.within(run.namespace).config_map(name)


def with_document(named: NamedRun, config_maps: FindConfigMap | None) -> Reported:
    """Return a run with its result document.

    `config_maps` finds ConfigMaps, or is None if there are none. If the document can't be read, a
    note says so. Raises CommandError if another version of benchrun wrote the run.
    """
    run, document = named
    spec = errors.readable(BenchmarkRunSpec.model_validate, run.spec, run.name)
    status = errors.readable(
        BenchmarkRunStatus.model_validate, run.status, run.name
    )
    notes: tuple[str, ...] = ()
    if document is None:
        document, notes = _document_of(run, status, config_maps)
    if document is None:
        return Reported(run, spec, status, None, notes)
    return Reported(run, document.spec, document.status(status), document, notes)


def show_notes(found: Reported, console: Console) -> None:
    """Print what could not be read, if the tables lack something because of that."""
    for note in found.notes if found.status.truncated else ():
        console.print(f"note: {note}; {STATUS_ONLY}", markup=False, soft_wrap=True)


def _document_of(
    run: views.Run, status: BenchmarkRunStatus, config_maps: FindConfigMap | None
) -> tuple[ResultDocument | None, tuple[str, ...]]:
    """Return the document that the status refers to, or a note on why there is none."""
    ref = status.result_document
    if ref is None:
        stored = find_condition(status.conditions, "Stored")
        why = (
            stored.message
            if stored is not None and stored.status == "False"
            else "another version of benchrun judged it"
        )
        return None, (f"{run.name} has no result document ({why})",)
    where = f"the run's result document, in ConfigMap {ref.config_map}"
    if config_maps is None:
        return None, (f"{where}, was not read",)
    try:
        body = config_maps(run, ref.config_map)
        return result_documents.document_of_ref(body, ref, run_uid=run.uid), ()
    except (errors.CommandError, ValueError) as error:
        return None, (f"{where}: {error}",)


class Records(NamedTuple):
    """What a run has stored of its measurement besides the result document."""

    records: tuple[StageRecord, ...]  # In the order of measurement.
    samples: tuple[metrics_page.Sample, ...]  # The servers' samples, oldest first.
    notes: tuple[str, ...]  # Sentences on what could not be read.


def stored_records(run: views.Run, options: argparse.Namespace) -> Records:
    """Return what a run has stored of its measurement, from the source that the options name.

    For a run from a file, records are read only from --records or its archive, because the cluster
    may be another one. Raises CommandError.
    """
    if options.file is None:
        bodies: Iterable[raw.Object] = cluster.kubectl_of(options).stored(run.uid)
    elif options.records is not None:
        bodies = manifests.config_maps_in(options.records)
    elif (archive := archives.archive_at(options.file)) is not None:
        bodies = archive.config_maps()
    else:
        bodies = ()
    return Records(*_measurement(bodies, run_uid=run.uid))


def _measurement(
    bodies: Iterable[raw.Object], *, run_uid: str
) -> tuple[
    tuple[StageRecord, ...], tuple[metrics_page.Sample, ...], tuple[str, ...]
]:
    """Return the records, the samples, and a note for each ConfigMap that can't be read.

    ConfigMaps of other owners are skipped, because anybody can set a label.
    """
    records: dict[int, StageRecord] = {}
    samples: list[metrics_page.Sample] = []
    unreadable: list[str] = []
    for body in bodies:
        child = view_builders.child_of("ConfigMap", body)
        if child.owner_uid != run_uid or child.role not in (
            names.ROLE_STAGE,
            names.ROLE_TIMELINE,
        ):
            continue
        try:
            packed = stored_part(body, TIMELINE_KEY)
            own = timeline.decode(packed) if packed is not None else ()
            if child.role == names.ROLE_STAGE:
                record = stored_record(
                    body, run_uid=run_uid, sequence=child.sequence
                )
                if record.profile is None:  # A profile's content is in the status.
                    records[record.sequence] = record
            samples += own
        except ValueError as error:
            unreadable.append(
                f"ConfigMap {child.name}: {str(error).splitlines()[0]}"
            )
    return (
        tuple(records[place] for place in sorted(records)),
        tuple(timeline.once(samples)),
        tuple(unreadable),
    )


def runs_of(
    sweep: views.Sweep, kubectl: cluster.Kubectl, file: Path | None = None
) -> list[views.Run]:
    """Return a sweep's runs from a file or the cluster; none if the user may not read them."""
    bodies: Sequence[raw.Object] = ()
    if file is not None:
        bodies = [
            body
            for body in manifests.objects_in(file)
            if body.get("kind") == names.KIND
        ]
    else:
        with suppress(errors.KubectlError):
            bodies = kubectl.all(
                cluster.RUN, selector=f"{names.LABEL_SWEEP}={sweep.name}"
            )
    mine = (sweep.namespace, sweep.uid)
    runs = map(view_builders.run_of, bodies)
    return [run for run in runs if (run.namespace, run.sweep_uid) == mine]


def whole_table(
    sweep: views.Sweep, status: BenchmarkSweepStatus, runs: Sequence[views.Run]
) -> BenchmarkSweepStatus:
    """Return the sweep's status with all rows and figures.

    The status is returned unchanged if it was not cut, or if runs or figures are missing.
    """
    if not status.truncated:
        return status
    measured = {}
    for run in runs:
        with suppress(
            ValidationError
        ):  # The object was written by another version of the API.
            measured[run.uid] = essence(
                BenchmarkRunStatus.model_validate(run.status)
            )
    collected = sweep_state.SweepCollected(measured=measured)
    facts = sweep_state.SweepFacts(
        sweep, run_outcomes.swept_runs(runs), collected, datetime.now(UTC)
    )
    try:
        spec, variants = sweep_state.accept_sweep(sweep)
    except Unacceptable:
        return status
    state = sweep_state.SweepState(
        facts=facts, spec=spec, variants=variants, status=status
    )
    if not decide_sweep.is_tabled(state) or decide_sweep.to_read(state):
        return status
    wanted = decide_sweep.table_wanted(state)
    missing = dict(wanted.missing)
    table = sweep_table(
        spec,
        wanted.runs,
        measured,
        baseline=wanted.baseline,
        missing=missing,
        whole=True,
    )
    return decide_sweep.tabled(state, sweep_state.TableMade(wanted, table))


def _reported(
    sweep: views.Sweep,
    status: BenchmarkSweepStatus,
    runs: Sequence[views.Run],
    options: argparse.Namespace,
) -> ReportedSweep:
    """Return the sweep with a timeline for each variant, from its first run that has one."""
    series = {}
    by_name = {run.name: run for run in runs}
    for number, variant in enumerate(status.variants, start=1):
        for name in sorted(
            name for name in by_name if name.startswith(f"{sweep.name}-v{number}-r")
        ):
            with suppress(errors.CommandError):
                timeline = reported(NamedRun(by_name[name]), options).timeline
                if timeline is not None:
                    series[variant.name] = timeline
                    break
    return ReportedSweep(sweep, status, series)


def named_sweep(
    options: argparse.Namespace, no_run: errors.CommandError | None = None
) -> views.Sweep:
    """Return the sweep that the options name, or the only one of the file. Raises CommandError.

    `no_run` is the error that there is no run of that name.
    """
    if options.file is not None:
        if archives.archive_at(options.file) is not None:
            raise no_run or errors.CommandError(
                f"{options.file} is the archive of a run, not of a sweep"
            )
        sweeps = [
            body
            for body in manifests.objects_in(options.file)
            if body.get("kind") == KIND
        ]
        found = [
            body
            for body in sweeps
            if options.name in (None, raw.mapping(body.get("metadata")).get("name"))
        ]
        if len(found) != 1:
            raise no_run or errors.CommandError(
                f"{options.file} holds no {KIND} {options.name or ''}".rstrip()
            )
        return view_builders.sweep_of(found[0])
    kubectl = cluster.kubectl_of(options)
    if isinstance(no_run, errors.KubectlError):
        return view_builders.sweep_of(kubectl.sweep_instead(options.name, no_run))
    if no_run is not None or options.name is None:
        raise no_run or errors.CommandError("name a sweep, or a file with -f FILE")
    return view_builders.sweep_of(kubectl.get(options.name, cluster.SWEEP))


def status_of(sweep: views.Sweep) -> BenchmarkSweepStatus:
    """Parse the status of a sweep. Raises CommandError if another version wrote it."""
    return errors.readable(
        BenchmarkSweepStatus.model_validate, sweep.status, sweep.name
    )


def show_found(
    sweep: views.Sweep, options: argparse.Namespace, console: Console
) -> int:
    """Show a sweep in full and return the exit code of its verdict; 0 before it has ended.

    Raises CommandError.
    """
    name = sweep.name
    status = status_of(sweep)
    needed = status.truncated or options.html is not None
    runs = (
        runs_of(sweep, cluster.kubectl_of(options), options.file) if needed else []
    )
    status = whole_table(sweep, status, runs)
    texts = tables.texts_per_prompt(run_list.template(sweep))
    code = exit_codes.sweep_exit_code(status)
    if options.html is not None:
        if code is None:
            raise errors.CommandError(f"{name} has not ended")
        write_page(options.html, _reported(sweep, status, runs, options), console)
    elif options.markdown:
        print(
            plain_text(
                markdown.sweep_markdown(name, status, texts_per_prompt=texts)
            ),
            end="",
        )
    else:
        console_tables.show_sweep(
            console, name, status, texts_per_prompt=texts, wide=options.wide
        )
    return exit_codes.PASSED if code is None else code


def write_page(
    file: Path, found: Reported | ReportedSweep, console: Console
) -> None:
    """Write a run or sweep as one HTML file. Raises CommandError.

    The packages that draw charts are imported only here, so everything else works without them.
    """
    try:
        from benchrun.cli.html_page import html_page
    except ModuleNotFoundError as error:
        needed = (
            "the HTML report needs more packages; to install them, run in a "
            "checkout: pipx install --force '.[report,export]'"
        )
        raise errors.CommandError(needed) from error
    text = html_page(found)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise errors.CommandError(f"{file}: {error.strerror}") from error
    console.print(f"wrote {file}", markup=False, soft_wrap=True)
