"""A finished run with what it stored, from the cluster or from files."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchrun_client.contract import StageRecord

from benchrun import names
from benchrun.api import BenchmarkRunSpec, BenchmarkRunStatus
from benchrun.cli import cluster, errors, manifests
from benchrun.measure import exposition, timeline
from benchrun.observe import untrusted_json as raw
from benchrun.observe import view_builders, views
from benchrun.plan.stored import RECORD_KEY, TIMELINE_KEY, stored_part, stored_record
from benchrun.report.exit_codes import exit_code


@dataclass(frozen=True, slots=True)
class StoredMeasurement:
    """Records and timeline."""

    records: tuple[StageRecord, ...]
    """In order of measurement."""
    samples: tuple[exposition.Sample, ...]
    """Oldest first."""
    unreadable: tuple[str, ...]
    """ConfigMaps of the run that do not hold what they should, each with the reason."""


def unpacked(bodies: Iterable[raw.Object], *, run_uid: str) -> StoredMeasurement:
    """Of ConfigMaps that this run owns; others may be among them and are passed over: a label alone proves nothing."""
    records: dict[int, StageRecord] = {}
    samples: list[exposition.Sample] = []
    unreadable: list[str] = []
    for body in bodies:
        child = view_builders.child_of("ConfigMap", body)
        if child.owner_uid != run_uid or child.role not in (names.ROLE_STAGE, names.ROLE_TIMELINE):
            continue
        try:
            record, of_part = _opened(body, child, run_uid)
        except ValueError as error:
            unreadable.append(f"ConfigMap {child.name}: {str(error).splitlines()[0]}")
            continue
        samples += of_part
        if record is not None:
            records[record.sequence] = record
    in_order = tuple(records[sequence] for sequence in sorted(records))
    return StoredMeasurement(in_order, tuple(timeline.once(samples)), tuple(unreadable))


def _opened(
    body: raw.Object, child: views.Child, run_uid: str
) -> tuple[StageRecord | None, tuple[exposition.Sample, ...]]:
    """Raises ValueError."""
    packed_timeline = stored_part(body, TIMELINE_KEY)
    samples = timeline.decode(packed_timeline).samples if packed_timeline is not None else ()
    if child.role == names.ROLE_TIMELINE:
        return None, samples
    packed = stored_part(body, RECORD_KEY)
    if packed is None:
        raise ValueError("holds no record")
    return stored_record(packed, run_uid=run_uid, sequence=child.sequence), samples


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that has ended, and what is left of what it measured."""

    run: views.Run
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
        raise errors.CommandError("-f FILE and --records PATH go together: the run, and what it stored")
    found = with_measurement(named_run(options), options)
    if not found.measured.records:
        reasons = "; ".join(found.measured.unreadable) or "there are none, or they are another run's"
        raise errors.CommandError(f"nothing is left of what {found.run.name} has measured: {reasons}")
    return found


def with_measurement(run: views.Run, options: argparse.Namespace) -> FinishedRun:
    """A run that was read, and what the options say where to find of its measurement, perhaps nothing. Raises CommandError."""
    spec = errors.validated(BenchmarkRunSpec, run.spec, run.name)
    status = errors.validated(BenchmarkRunStatus, run.status, run.name)
    if exit_code(status) is None:
        raise errors.CommandError(f"{run.name} has not ended")
    return FinishedRun(run, spec, status, unpacked(_config_maps(options, run), run_uid=run.uid))


def named_run(options: argparse.Namespace) -> views.Run:
    """The run that the options name, ended or not. Raises CommandError."""
    if options.file is None:
        if options.name is None or options.records is not None:
            raise errors.CommandError("which run? Give its name, or -f FILE --records PATH")
        return view_builders.run_of(cluster.kubectl_of(options).get(options.name))
    runs = {run.name: run for run in manifests.runs_in(options.file)}
    name = options.name or (next(iter(runs)) if len(runs) == 1 else "")
    if name not in runs:
        raise errors.CommandError(f"{options.file} holds {', '.join(runs)}; which one is it to be?")
    return runs[name]


def _config_maps(options: argparse.Namespace, run: views.Run) -> Sequence[raw.Object]:
    """Of a file, only where their own were named: the cluster may be another one."""
    if options.file is None:
        return cluster.kubectl_of(options).stored(run.uid)
    return manifests.config_maps_in(options.records) if options.records is not None else ()
