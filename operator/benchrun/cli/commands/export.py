"""`benchrun export NAME --format FORMAT`: write a run's measurement in another tool's format."""

import argparse
import sys
from argparse import ArgumentTypeError
from collections import Counter
from importlib.metadata import entry_points
from pathlib import Path

from rich.console import Console

from benchrun.api import ResultDocument, plain_text
from benchrun.cli import errors, finished_results, shared_options
from benchrun.report.exit_codes import PASSED
from benchrun.report.export import encoders, formats
from benchrun.report.export.formats import FORMATS, TABLES, Format, TableName
from benchrun.report.html import Reported

GROUP = "benchrun.exports"


def export_format(name: str) -> Format:
    """Return the format of that name, for argparse. Raises ArgumentTypeError.

    A format of another package is loaded only when it is asked for.
    """
    if name in FORMATS:
        return FORMATS[name]
    registered = entry_points(group=GROUP)
    if name not in registered.names:
        raise ArgumentTypeError(
            str(
                errors.unknown(
                    "format", name, sorted((*FORMATS, *registered.names))
                )
            )
        )
    entry = registered[name]
    try:
        found = entry.load()
    except Exception as error:
        raise ArgumentTypeError(
            f"{entry.value} can't be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, Format):
        raise ArgumentTypeError(
            f"{entry.value} is not a {Format.__module__}.{Format.__qualname__}"
        )
    return found


STANDARD_OUTPUT = "-"
SUMMARY = (
    "write a finished run in the format of another tool, or its result document"
)
DESCRIPTION = """\
Write what a finished run has measured, stage by stage, in the format of another tool; or its \
result document, from which
report, get, compare and export show the run without a cluster (-f).

Single requests are in the run's records: with -f, also give --records if the format has single \
requests.

Load points with the verdict Invalid, and those that were not judged, \
are left out unless --include-invalid is given.
Standard error lists what is left out. Verdict and findings are exported if the format has a \
place for them."""
_WIDTH = max(map(len, FORMATS))
_LIST = "\n".join(
    f"  {name:{_WIDTH}}  {each.summary}" for name, each in FORMATS.items()
)
EPILOG = f"""\
formats:
{_LIST}
and those that other packages register as {GROUP}

exit codes: 0 exported; 1 nothing to export."""


def add_options(parser: argparse.ArgumentParser) -> None:
    finished_results.add_run_options(parser)
    add = parser.add_argument
    add(
        "--format",
        required=True,
        type=export_format,
        metavar="FORMAT",
        help=f"one of {', '.join(FORMATS)}",
    )
    place = (
        "a folder (one that exists, or a name without an extension), a file, or - for standard "
        "output, which is the default"
    )
    add("-o", "--output", default=STANDARD_OUTPUT, metavar="PATH", help=place)
    add(
        "--table",
        choices=TABLES,
        default=TABLES[0],
        help=f"which table csv or parquet write into a single file; default: {TABLES[0]}",
    )
    add(
        "--stage",
        action="append",
        default=[],
        metavar="STAGE",
        help="export only this stage, such as chat/rate=4/r1; may be repeated",
    )
    add(
        "--include-invalid",
        action="store_true",
        help=(
            "export load points with the verdict Invalid, too; they are marked if "
            "the format allows it"
        ),
    )
    shared_options.add_cluster_options(parser)


def run(options: argparse.Namespace, console: Console) -> int:
    del console  # Only the export goes to standard output.
    named = finished_results.named_run(options)
    ended = finished_results.reported(named, options)
    if ended.document is None:
        raise errors.CommandError(f"nothing to export: {'; '.join(ended.notes)}")
    whole, records = _with_requests(ended, ended.document, options)
    known = [stage.id for stage in whole.stages]
    for name in options.stage:
        if name not in known:
            raise errors.unknown("stage", name, known)
    wanted = formats.only(whole, options.stage) if options.stage else whole
    everything = options.include_invalid or options.format.is_whole
    kept, untrusted = (wanted, {}) if everything else formats.trusted(wanted)
    notes = [
        f"left out: {load_point}: {why}; to export it, use --include-invalid"
        for load_point, why in untrusted.items()
    ]
    count = Counter(stage.load_point for stage in whole.stages)
    notes += [
        f"{row.load_point}: {count[row.load_point]} of its {row.repeats} stages are in the document"
        for row in whole.status.results
        if count[row.load_point] < row.repeats
    ]
    notes += records
    if not kept.stages and not options.format.is_whole:
        raise errors.CommandError("\n".join(["nothing to export", *notes]))
    try:
        written = _write(options.format, options.table, kept, options.output)
    except encoders.NotExportable as error:
        raise errors.CommandError(str(error)) from error
    for note in (*written, *notes):
        print(plain_text(note), file=sys.stderr)
    return PASSED


def _with_requests(
    run: Reported, document: ResultDocument, options: argparse.Namespace
) -> tuple[formats.ExportedRun, list[str]]:
    """Return the run to export, and what it lacks.

    It has the single requests if the format takes them.
    """
    table = None if _is_folder(options.output) else options.table
    need = options.format.requests_in.get(table)
    if need is None:
        return formats.exported(run, document), []
    kept = finished_results.stored_records(run.declared, options)
    found = formats.exported(
        run, document, {record.stage_id: record.requests for record in kept.records}
    )
    known = Counter(s.load_point for s in found.stages)
    missing = Counter(s.load_point for s in found.stages if s.requests is None)
    notes = [
        f"{load_point}: the data of each request is left out for {count} of {known[load_point]} "
        "stages: their records were not found"
        for load_point, count in missing.items()
    ]
    return found, [*notes, *kept.notes]


def _is_folder(output: str) -> bool:
    path = Path(output)
    return output != STANDARD_OUTPUT and (
        output.endswith("/") or path.is_dir() or not path.suffix
    )


def _write(
    chosen: Format, table: TableName, kept: formats.ExportedRun, output: str
) -> list[str]:
    """Write the export, and return lines that say what was written where."""
    if output == STANDARD_OUTPUT:
        if not chosen.is_text and sys.stdout.isatty():
            raise errors.CommandError(
                "this format is binary: name a file or a folder with --output"
            )
        sys.stdout.buffer.write(chosen.document(kept, table))
        return []
    path = Path(output)
    try:
        if _is_folder(output):
            files = chosen.files(kept)
            for name, content in files.items():
                _write_file(path / name, content)
            return [f"wrote {path / name}" for name in files]
        _write_file(path, chosen.document(kept, table))
    except OSError as error:
        raise errors.CommandError(
            f"{error.filename or path}: {error.strerror}"
        ) from error
    return [f"wrote {path}"]


def _write_file(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
