"""`benchrun judge NAME`: evaluate a finished run again, from its stored records.

Thresholds and severities other than the run's own may be given. With `--from TOOL FILE...`, result
files of another tool are judged instead.
"""

import argparse
import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import get_args

from pydantic import ValidationError
from rich.console import Console

from benchrun.api import (
    CHANGEABLE,
    FIXED,
    BenchmarkRunStatus,
    RuleSeverity,
    json_name,
)
from benchrun.cli import (
    console_tables,
    errors,
    finished_results,
    foreign_results,
    shared_options,
)
from benchrun.foreign.readers import READERS
from benchrun.judge import judged_run, thresholds
from benchrun.judge.rules.warm_up import known_compilations
from benchrun.report import comparison_rows, exit_codes, run_summary
from benchrun.report.html import Reported

THRESHOLDS = tuple(
    field.name.replace("_", "-") for field in fields(thresholds.Thresholds)
)
DEFAULTS = ", ".join(
    f"{field.name.replace('_', '-')} {field.default:g}"
    for field in fields(thresholds.Thresholds)
)
SEVERITIES: tuple[str, ...] = get_args(
    RuleSeverity.model_fields["severity"].annotation
)


def changed(
    limits: thresholds.Thresholds, wanted: Sequence[str]
) -> thresholds.Thresholds:
    """Return the thresholds with these changes, each `name=value`. Raises CommandError.

    If a name is given twice, the last value counts.
    """
    for text in wanted:
        name, value = _split(text, "NAME=VALUE")
        if name.replace("_", "-") not in THRESHOLDS:
            raise errors.unknown("threshold", name, THRESHOLDS)
        if (number := shared_options.number_from_0(value)) is None:
            raise errors.CommandError(f"{name} must be 0 or more, not {value!r}")
        limits = replace(limits, **{name.replace("-", "_"): number})
    return limits


def severities(wanted: Sequence[str]) -> list[RuleSeverity]:
    """Parse severities, each `code=severity`. Raises CommandError.

    If a code is given twice, the last severity counts.
    """
    found: dict[str, RuleSeverity] = {}
    for text in wanted:
        code, severity = _split(text, "CODE=SEVERITY")
        if code in FIXED:
            raise errors.CommandError(
                f"{code} can't be changed: its severity is fixed"
            )
        if code not in CHANGEABLE:
            raise errors.unknown("finding", code, CHANGEABLE)
        try:
            found[code] = RuleSeverity.model_validate(
                {"code": code, "severity": severity}
            )
        except ValidationError:
            raise errors.CommandError(
                f"{text}: a severity is one of {', '.join(SEVERITIES)}"
            ) from None
    return list(found.values())


def _split(text: str, form: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise errors.CommandError(f"{text!r} is not {form}")
    return name, value


SUMMARY = "evaluate a finished run again from its stored records, with other thresholds if wanted"
DESCRIPTION = (
    "Evaluate a finished run again by the rules of this version, from the records "
    "and the timeline that the run has stored, and from the compilations in its "
    "server's log. The run itself is not changed. What is missing is named, and the "
    "rest is judged. With --from, result files of another tool are judged: each rule "
    "is found, not found, or cannot be known from these files."
)
EPILOG = f"""\
{textwrap.fill(f"thresholds: {DEFAULTS}", width=100, break_on_hyphens=False)}

exit codes: 0 judged; 1 nothing to judge; 4 some numbers are invalid."""


def add_options(parser: argparse.ArgumentParser) -> None:
    finished_results.add_run_options(parser)
    add = parser.add_argument
    add(
        "--from",
        dest="source",
        nargs="+",
        metavar=("TOOL", "FILE"),
        help="judge result files of another tool instead of a run "
        f"({', '.join(READERS)}), or folders with such files; no cluster is asked",
    )
    add(
        "--threshold",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="use another threshold; may be repeated",
    )
    severity = (
        "Off, Note, Suspect or Invalid for this finding, instead of the severity in "
        "the spec; may be repeated"
    )
    add(
        "--severity",
        action="append",
        default=[],
        metavar="CODE=SEVERITY",
        help=severity,
    )
    shared_options.add_output(parser)
    shared_options.add_cluster_options(parser, wide=True)


def run(options: argparse.Namespace, console: Console) -> int:
    wanted = severities(options.severity)
    if options.source is not None:
        limits = changed(thresholds.Thresholds(), options.threshold)
        return foreign_results.judge_files(options, console, limits, wanted)
    ended = finished_results.reported(finished_results.named_run(options), options)
    judged = ended.declared.name
    kept = finished_results.stored_records(ended.declared, options)
    if not kept.records:
        why = "; ".join(kept.notes) or (
            "no ConfigMaps with records of this run were found; with -f, also give "
            "--records PATH"
        )
        raise errors.CommandError(f"{judged} has no stored records: {why}")
    stored = ended.status
    limits = changed(thresholds.thresholds_of(ended.spec), options.threshold)
    spec = judged_run.with_severities(ended.spec, wanted)
    rejudged = judged_run.rejudge(
        spec, stored, kept.records, kept.samples, thresholds=limits
    )
    log_kept = known_compilations(stored.servers) is not None
    found = comparison_rows.differences(stored, rejudged.status, log_kept=log_kept)
    notes = [*run_summary.missing_sentences(stored, rejudged.missing), *kept.notes]
    if options.output == "json":
        print(json.dumps(_as_json(ended, rejudged.status, found, notes), indent=2))
    else:
        anew = {
            "phase": None,
            "message": _judged_by(stored, rejudged.status),
            "log_tail": None,
        }
        console_tables.show_result(
            console,
            judged,
            rejudged.status.model_copy(update=anew),
            wide=options.wide,
        )
        heading = "the run was not judged when it ended"
        if stored.judge is not None:
            heading = (
                "differences from the stored verdict:"
                if found
                else "no difference from the stored verdict"
            )
        console.print(heading, style="bold", markup=False)
        for line in (*(f"  {difference.sentence}" for difference in found), *notes):
            console.print(line, markup=False, soft_wrap=True)
    return (
        exit_codes.INVALID
        if rejudged.status.verdict == "Invalid"
        else exit_codes.PASSED
    )


def _judged_by(stored: BenchmarkRunStatus, now: BenchmarkRunStatus) -> str:
    if stored.judge is None or now.judge is None:
        return "re-evaluated"
    other = (
        f", not {stored.judge.version} as stored"
        if stored.judge.version != now.judge.version
        else ""
    )
    limits = (
        "the same"
        if stored.judge.thresholds_digest == now.judge.thresholds_digest
        else "other"
    )
    overrides = (
        f"; severities: {', '.join(now.judge.overrides)}"
        if now.judge.overrides
        else ""
    )
    return (
        f"re-evaluated by version {now.judge.version} of the rules{other}, with {limits} "
        f"thresholds{overrides}"
    )


def _as_json(
    run: Reported,
    now: BenchmarkRunStatus,
    found: Sequence[comparison_rows.Difference],
    notes: Sequence[str],
) -> dict[str, object]:
    fields = {"verdict", "judge", "headline", "results", "findings", "truncated"}
    reported = now.model_dump(
        mode="json", by_alias=True, exclude_none=True, include=fields
    )
    of_run = {
        "name": run.declared.name,
        "uid": run.declared.uid,
        "storedVerdict": run.status.verdict,
    }
    return {
        **of_run,
        **reported,
        "differences": [
            {json_name(name): value for name, value in asdict(each).items()}
            for each in found
        ],
        "notes": list(notes),
    }
