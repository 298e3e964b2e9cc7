"""A finished run with what it stored, from the cluster or from files."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchrun_client.contract import StageRecord

from benchrun import names
from benchrun.api import BenchmarkRunSpec, BenchmarkRunStatus
from benchrun.cli import cluster, errors, manifests
from benchrun.measure import exposition, timeline
from benchrun.observe import untrusted_json as raw, view_builders, views
from benchrun.plan import TIMELINE_KEY, stored_part, stored_record
from benchrun.report.exit_codes import exit_code
from benchrun.report.html import Reported


def add_run_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", help="name of the BenchmarkRun; may be left out where -f holds one only")
    add("-f", "--file", type=Path, metavar="FILE", help="take the run from this file (kubectl get bmr NAME -o yaml)")
    add(
        "--records",
        type=Path,
        metavar="PATH",
        help="with -f: its ConfigMaps, a file or a folder of files (kubectl get cm -l benchrun.dev/run=NAME -o yaml)",
    )


def finished_run(options: argparse.Namespace) -> Reported:
    """The run that the options name, with its records. Raises CommandError where there are none, or it goes on."""
    if (options.file is None) != (options.records is None):
        raise errors.CommandError("-f FILE and --records PATH go together: the run, and what it stored")
    found = with_measurement(named_run(options), options)
    if not found.records:
        reasons = "; ".join(found.notes) or "there are no ConfigMaps of it, or they are another run's"
        raise errors.CommandError(f"{found.declared.name} has no stored records: {reasons}")
    return found


def named_run(options: argparse.Namespace) -> views.Run:
    """The run that the options name, ended or not. Raises CommandError."""
    if options.file is None:
        if options.name is None or options.records is not None:
            raise errors.CommandError("which run? Give its name, or -f FILE --records PATH")
        return view_builders.run_of(cluster.kubectl_of(options).get(options.name))
    runs = {run.name: run for run in manifests.runs_in(options.file)}
    name = options.name or (next(iter(runs)) if len(runs) == 1 else "")
    if name not in runs:
        raise errors.CommandError(f"{options.file} holds {', '.join(runs)}; give the name of one")
    return runs[name]


def with_measurement(run: views.Run, options: argparse.Namespace) -> Reported:
    """A run that was read, and its measurement (perhaps nothing) from where the options say. Raises CommandError."""
    spec = errors.readable(BenchmarkRunSpec.model_validate, run.spec, run.name)
    status = errors.readable(BenchmarkRunStatus.model_validate, run.status, run.name)
    if exit_code(status) is None:
        raise errors.CommandError(f"{run.name} has not ended")
    config_maps: Sequence[raw.Object] = ()
    if options.file is None:
        config_maps = cluster.kubectl_of(options).stored(run.uid)
    elif options.records is not None:  # of a file only where they were named: the cluster may be another one
        config_maps = manifests.config_maps_in(options.records)
    return Reported(run, spec, status, *_measurement(config_maps, run_uid=run.uid))


def _measurement(
    bodies: Iterable[raw.Object], *, run_uid: str
) -> tuple[tuple[StageRecord, ...], tuple[exposition.Sample, ...], tuple[str, ...]]:
    """Records, samples, and ConfigMaps that can't be read. Those of other owners are skipped: a label proves nothing."""
    records: dict[int, StageRecord] = {}
    samples: list[exposition.Sample] = []
    unreadable: list[str] = []
    for body in bodies:
        child = view_builders.child_of("ConfigMap", body)
        if child.owner_uid != run_uid or child.role not in (names.ROLE_STAGE, names.ROLE_TIMELINE):
            continue
        try:
            packed = stored_part(body, TIMELINE_KEY)
            own = timeline.decode(packed).samples if packed is not None else ()
            if child.role == names.ROLE_STAGE:
                record = stored_record(body, run_uid=run_uid, sequence=child.sequence)
                if record.profile is None:  # what it says is in the status
                    records[record.sequence] = record
            samples += own
        except ValueError as error:
            unreadable.append(f"ConfigMap {child.name}: {str(error).splitlines()[0]}")
    return tuple(records[place] for place in sorted(records)), tuple(timeline.once(samples)), tuple(unreadable)
