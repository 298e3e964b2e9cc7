"""`benchrun judge NAME`: a finished run judged anew from what it stored, by other thresholds if asked."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from benchrun.api.status import BenchmarkRunStatus
from benchrun.cli.cluster_options import add_cluster_options
from benchrun.cli.finished_run import add_run_options, finished_run
from benchrun.cli.judge_options import DEFAULTS, changed, severities
from benchrun.cli.show import add_wide, show_result
from benchrun.judge.again import judge_again, with_severities
from benchrun.judge.compilation import known_compilations
from benchrun.judge.thresholds import thresholds_of
from benchrun.observe.views import Run
from benchrun.report.differences import Difference, differences
from benchrun.report.exit_codes import INVALID, PASSED
from benchrun.report.missing import missing_sentences

DESCRIPTION = """\
Judge a finished run anew: by the rules of this version, from the records and the timeline that the run has stored, and from
what its server's log told of compiling.

The run itself is not changed. What was not kept is said, and the rest is judged."""
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
    add_run_options(parser)
    add = parser.add_argument
    add("--threshold", action="append", default=[], metavar="NAME=VALUE", help="draw this line elsewhere; repeatable")
    add(
        "--severity",
        action="append",
        default=[],
        metavar="CODE=SEVERITY",
        help="Off, Note, Suspect or Invalid for this finding, over what the spec says; repeatable",
    )
    add("-o", "--output", choices=("table", "json"), default="table", help="default: table")
    add_cluster_options(parser)
    add_wide(parser)
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Read the run, judge it and show what came out. Raises CommandError."""
    wanted = severities(options.severity)
    finished = finished_run(options)
    judged, spec, stored, measured = finished.run, finished.spec, finished.status, finished.measured
    lines = changed(thresholds_of(spec), options.threshold)
    again = judge_again(
        with_severities(spec, wanted),
        stored,
        measured.records,
        measured.samples,
        thresholds=lines,
    )
    found = differences(stored, again.status, log_kept=known_compilations(stored.servers) is not None)
    notes = [*missing_sentences(stored, again.missing), *measured.unreadable]
    if options.output == "json":
        print(json.dumps(_as_json(judged, stored, again.status, found, notes), indent=2))
    else:
        _show(console, judged.name, stored, again.status, found, notes, wide=options.wide)
    return INVALID if again.status.verdict == "Invalid" else PASSED


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
    anew = {"phase": None, "message": _judged_by(stored, now), "log_tail": None}
    show_result(console, name, now.model_copy(update=anew), wide=wide)
    console.print(_heading(stored, found), style="bold", markup=False)
    for difference in found:
        console.print(f"  {difference.sentence}", markup=False, soft_wrap=True)
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)


def _heading(stored: BenchmarkRunStatus, found: Sequence[Difference]) -> str:
    if stored.judge is None:
        return "the run was not judged when it ended"
    return (
        "what differs from the stored verdict:" if found else "the stored verdict stands: no cell is judged otherwise"
    )


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
