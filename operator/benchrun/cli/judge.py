"""`benchrun judge NAME`: a finished run judged anew from what it stored, by other lines if asked."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import BenchmarkRunStatus
from benchrun.cli.errors import CommandError
from benchrun.cli.judge_options import DEFAULTS, changed, severities
from benchrun.cli.kubectl import Kubectl
from benchrun.cli.run_files import config_maps_in, runs_in
from benchrun.cli.show import show_result
from benchrun.cli.stored import unpacked
from benchrun.judge.again import judge_again, with_severities
from benchrun.judge.thresholds import thresholds_of
from benchrun.observe import raw
from benchrun.observe.trim import run_of
from benchrun.observe.views import Run
from benchrun.report.differences import Difference, differences
from benchrun.report.exit_codes import INVALID, PASSED, exit_code
from benchrun.report.missing import missing_sentences

DESCRIPTION = """\
Judge a finished run anew: by the rules of this version, from the records and the timeline that the run has stored.

The run itself is not changed. What was not kept is said, and the rest is judged. The server's log is not stored, so
compilations are not looked for."""
EPILOG = f"""\
{textwrap.fill(f"thresholds: {DEFAULTS}", width=100, break_on_hyphens=False)}

exit codes: 0 judged; 1 nothing to judge; 4 some numbers are invalid."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "judge",
        help="judge a finished run anew from what it stored, by other thresholds if asked",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", help="name of the BenchmarkRun; may be left out where -f holds one only")
    add = parser.add_argument
    add("--threshold", action="append", default=[], metavar="NAME=VALUE", help="draw this line elsewhere; repeatable")
    add(
        "--severity",
        action="append",
        default=[],
        metavar="CODE=SEVERITY",
        help="Off, Note, Suspect or Invalid for this finding, over what the spec says; repeatable",
    )
    add("-f", "--file", type=Path, metavar="FILE", help="take the run from this file (kubectl get bmr NAME -o yaml)")
    add(
        "--records",
        type=Path,
        metavar="PATH",
        help="with -f: its ConfigMaps, a file or a folder of files (kubectl get cm -l benchrun.dev/run=NAME -o yaml)",
    )
    add("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    return parser


def run_judge(options: argparse.Namespace, kubectl: Kubectl, console: Console) -> int:
    """Read the run, judge it and show what came out. Raises CommandError."""
    wanted = severities(options.severity)
    run, config_maps = _from_files(options) if options.file or options.records else _from_cluster(options, kubectl)
    spec, stored = _typed(run)
    lines = changed(thresholds_of(spec), options.threshold)
    measured = unpacked(config_maps, run_uid=run.uid)
    if not measured.records:
        reasons = "; ".join(measured.unreadable) or "there are none, or they are another run's"
        raise CommandError(f"{run.name} has no records to judge: {reasons}")
    again = judge_again(with_severities(spec, wanted), stored, measured.records, measured.samples, thresholds=lines)
    found = differences(stored, again.status)
    notes = [*missing_sentences(stored, again.missing), *measured.unreadable]
    if options.output == "json":
        print(json.dumps(_as_json(run, stored, again.status, found, notes), indent=2))
    else:
        _show(console, run.name, stored, again.status, found, notes, wide=options.wide)
    return INVALID if again.status.verdict == "Invalid" else PASSED


def _from_cluster(options: argparse.Namespace, kubectl: Kubectl) -> tuple[Run, Sequence[raw.Object]]:
    if options.name is None:
        raise CommandError("which run? Give its name, or -f FILE --records PATH")
    run = run_of(kubectl.get(options.name))
    return run, kubectl.stored(run.uid)


def _from_files(options: argparse.Namespace) -> tuple[Run, Sequence[raw.Object]]:
    if options.file is None or options.records is None:
        raise CommandError("-f FILE and --records PATH go together: the run, and what it stored")
    runs = {run.name: run for run in runs_in(options.file)}
    name = options.name or (next(iter(runs)) if len(runs) == 1 else "")
    if name not in runs:
        raise CommandError(f"{options.file} holds {', '.join(runs)}; which one is to be judged?")
    return runs[name], config_maps_in(options.records)


def _typed(run: Run) -> tuple[BenchmarkRunSpec, BenchmarkRunStatus]:
    try:
        spec, status = BenchmarkRunSpec.model_validate(run.spec), BenchmarkRunStatus.model_validate(run.status)
    except ValidationError as error:
        raise CommandError(f"{run.name} was written by another version of the API: {error}") from error
    if exit_code(status) is None:
        raise CommandError(f"{run.name} has not ended: it is judged when it has")
    return spec, status


def _show(
    console: Console,
    name: str,
    stored: BenchmarkRunStatus,
    now: BenchmarkRunStatus,
    found: Sequence[Difference],
    notes: Sequence[str],
    *,
    wide: bool,
) -> None:
    show_result(console, name, now.model_copy(update={"message": _judged_by(stored, now), "log_tail": None}), wide=wide)
    heading = (
        "what differs from the stored verdict:" if found else "the stored verdict stands: no cell is judged otherwise"
    )
    console.print(heading, style="bold", markup=False)
    for difference in found:
        console.print(f"  {difference.sentence}", markup=False, soft_wrap=True)
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)


def _judged_by(stored: BenchmarkRunStatus, now: BenchmarkRunStatus) -> str:
    if stored.judge is None or now.judge is None:
        return "judged anew"
    versions = (
        f"by version {now.judge.version} of the rules"
        if stored.judge.version == now.judge.version
        else f"by version {now.judge.version} of the rules, not {stored.judge.version} as stored"
    )
    same = stored.judge.thresholds_digest == now.judge.thresholds_digest
    severities_said = f"; severities: {', '.join(now.judge.overrides)}" if now.judge.overrides else ""
    return f"judged anew {versions}, with {'the same' if same else 'other'} thresholds{severities_said}"


def _as_json(
    run: Run,
    stored: BenchmarkRunStatus,
    now: BenchmarkRunStatus,
    found: Sequence[Difference],
    notes: Sequence[str],
) -> dict[str, object]:
    said = now.model_dump(mode="json", by_alias=True, exclude_none=True, include=_SAID)
    return {
        "name": run.name,
        "uid": run.uid,
        "storedVerdict": stored.verdict,
        **said,
        "differences": [asdict(each) for each in found],
        "notes": list(notes),
    }


_SAID = {"verdict", "judge", "headline", "results", "findings", "truncated"}
