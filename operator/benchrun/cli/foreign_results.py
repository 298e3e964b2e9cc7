"""Read result files of other tools, and show what our rules say of them."""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.text import Text

from benchrun.api import SEVERITIES, RuleSeverity
from benchrun.cli import console_tables, errors
from benchrun.foreign import document, judged
from benchrun.foreign.judged import ForeignJudgement, ForeignLoadPoint, RuleAnswer
from benchrun.foreign.model import FileReader, ForeignStage, Source
from benchrun.foreign.readers import READERS
from benchrun.judge.thresholds import Thresholds
from benchrun.report import exit_codes, tables

MAX_FILES = 256


def judge_files(
    options: argparse.Namespace,
    console: Console,
    limits: Thresholds,
    severities: Sequence[RuleSeverity],
) -> int:
    """Judge the files that `--from` names, print what was found, and return the exit code."""
    tool, *names = options.source
    if tool not in READERS:
        raise errors.unknown("tool", tool, list(READERS))
    if options.name or options.file or options.records:
        raise errors.CommandError(
            "--from reads files of another tool: leave NAME, -f and --records out"
        )
    found = judgement(tool, names, limits, severities)
    if options.output == "json":
        print(json.dumps(as_json(tool, found), indent=2))
    else:
        show(console, found)
    return exit_codes.INVALID if found.verdict == "Invalid" else exit_codes.PASSED


def judgement(
    tool: str,
    names: Sequence[str],
    limits: Thresholds,
    severities: Sequence[RuleSeverity],
) -> ForeignJudgement:
    """Read files and folders of a tool, and judge them. Raises CommandError."""
    reader = READERS[tool]
    if not names:
        raise errors.CommandError(f"{tool}: {reader.remedy}")
    try:
        stages = reader.read(
            [_source(path, reader) for path in _paths(names, reader)]
        )
        return judged.judged(stages, limits, severities)
    except document.Unreadable as error:
        raise errors.CommandError(str(error)) from error


def _paths(names: Iterable[str], reader: FileReader) -> list[Path]:
    """Return the files that were named; of a folder, those that the tool writes."""
    found: list[Path] = []
    for path in map(Path, names):
        inside = (
            sorted(each for glob in reader.globs for each in path.glob(glob))
            if path.is_dir()
            else [path]
        )
        if not inside:
            raise errors.CommandError(
                f"{path} has no {' or '.join(reader.globs)}; {reader.remedy}"
            )
        found += inside
    if len(found) > MAX_FILES:
        raise errors.CommandError(
            f"{len(found)} files are more than {MAX_FILES}; judge them in several calls"
        )
    return found


def _source(path: Path, reader: FileReader) -> Source:
    try:
        with path.open("rb") as file:
            data = file.read(document.MAX_BYTES + 1)
    except OSError as error:
        raise errors.CommandError(
            f"{path} can't be read ({error.strerror}); {reader.remedy}"
        ) from error
    return Source(
        str(path.parent), document.documents(str(path), data, remedy=reader.remedy)
    )


def show(console: Console, found: ForeignJudgement) -> None:
    """Print every load point with its figures, what rules found, and what they cannot know."""
    for load_point in found.load_points:
        _show_load_point(console, load_point)
    width = console_tables.prose_width(console)
    console.print(Text("what the tool's figures are among ours", style="bold"))
    stages = [stage for each in found.load_points for stage in each.stages]
    for line in definition_lines(stages):
        console.print(Text(f"  {line}"), width=width)


def _show_load_point(console: Console, load_point: ForeignLoadPoint) -> None:
    width = console_tables.prose_width(console)
    for number, stage in enumerate(load_point.stages):
        about = (
            console_tables.title(
                load_point.id, load_point.verdict, stage_words(stage)
            )
            if number == 0
            else Text(f"  {stage_words(stage)}")
        )
        console.print(about, width=width)
        if stage.load_unknown:
            console.print(Text(f"  load: {stage.load_unknown}"), width=width)
    cells = figure_rows(load_point)
    numbers = ("by the tool", "steady part")
    console.print(console_tables.as_table(cells, numbers=numbers))
    answers = sorted(
        (each for each in load_point.answers if each.severity is not None),
        key=lambda each: -SEVERITIES.index(each.severity or "Note"),
    )
    if answers:
        rows = tuple(
            (each.severity or "", each.code, each.sentence) for each in answers
        )
        cells = tables.Rows(("severity", "finding", "sentence"), rows)
        console.print(console_tables.as_table(cells), width=width)
    for line in unknown_lines(load_point.answers):
        console.print(Text(line, style="dim"), width=width)
    console.print()


def stage_words(stage: ForeignStage) -> str:
    """Return what a file measured, in a line."""
    version = stage.version or "(version not in the file)"
    seconds = (
        "" if stage.seconds is None else f" in {tables.figure(stage.seconds)} s"
    )
    return (
        f"{stage.answered} answered, {stage.failed} failed{seconds}; "
        f"{stage.tool} {version}, {stage.file}"
    )


def figure_rows(load_point: ForeignLoadPoint) -> tables.Rows:
    """Build a table of the tool's figures, each beside our figure of the steady part."""
    theirs: dict[str, list[str]] = {}
    ours: dict[str, str] = {}
    for stage in load_point.stages:
        for figure in stage.figures:
            theirs.setdefault(figure.theirs, []).append(tables.figure(figure.value))
            ours[figure.theirs] = figure.ours or ""
    rows = [
        (
            name,
            " / ".join(values),
            _same(name, ours[name]),
            *_steady(load_point, ours[name]),
        )
        for name, values in theirs.items()
    ]
    headers = ("figure", "by the tool", "ours", "steady part", "95 % interval")
    return tables.Rows(headers, tuple(rows))


def _same(theirs: str, ours: str) -> str:
    return "same" if theirs == ours else ours or "-"


def _steady(load_point: ForeignLoadPoint, ours: str) -> tuple[str, str]:
    key = ours.replace("median_", "p50_")
    value = load_point.steady.get(key)
    between = load_point.intervals.get(key, ())
    return (
        "" if value is None else tables.figure(value),
        " to ".join(tables.figure(end) for end in between),
    )


def unknown_lines(answers: Sequence[RuleAnswer]) -> list[str]:
    """Return lines on the rules that found nothing, and on those that lack input, by that input."""
    nothing = [each.code.value for each in answers if each.answer == "NotFound"]
    lines = [f"asked and not found: {', '.join(nothing)}"] if nothing else []
    unknown = [each for each in answers if each.answer == "CannotBeKnown"]
    codes: dict[str, list[str]] = {}
    for each in unknown:
        for why in _whys(each):
            codes.setdefault(why, []).append(each.code.value)
    if unknown:
        lines.append(
            f"cannot be known from these files: {len(unknown)} rules; what is missing:"
        )
    lines += [f"  {why}: {', '.join(of)}" for why, of in codes.items()]
    return lines


def _whys(answer: RuleAnswer) -> list[str]:
    """Return what is missing for a rule, with what to do to have it."""
    needed = (answer.needed or {}).items()
    return [
        f"{each.what} ({how})" if how else each.what for each, how in needed
    ] or [answer.sentence]


def definition_lines(stages: Iterable[ForeignStage]) -> list[str]:
    """Return which of our figures each figure of the tool equals, or why none does."""
    definitions = dict.fromkeys(
        each for stage in stages for each in stage.definitions
    )
    lines = []
    for each in definitions:
        note = f": {each.note}" if each.note else ""
        if each.ours is None:
            lines.append(f"{each.theirs} is none of ours{note}")
        else:
            lines.append(f"{each.theirs} is our {each.ours}{note}")
    return lines


def as_json(tool: str, found: ForeignJudgement) -> dict[str, object]:
    """Return everything that was found, for pipelines."""
    stages = [stage for each in found.load_points for stage in each.stages]
    return {
        "tool": tool,
        "verdict": found.verdict,
        "loadPoints": [_load_point_json(each) for each in found.load_points],
        "findings": [
            each.model_dump(mode="json", by_alias=True, exclude_none=True)
            for each in found.findings
        ],
        "definitions": [
            asdict(each)
            for each in dict.fromkeys(
                d for stage in stages for d in stage.definitions
            )
        ],
    }


def _load_point_json(load_point: ForeignLoadPoint) -> dict[str, object]:
    return {
        "id": load_point.id,
        "verdict": load_point.verdict,
        "measurements": [_stage_json(stage) for stage in load_point.stages],
        "steady": dict(load_point.steady),
        "intervals": {
            key: list(ends) for key, ends in load_point.intervals.items()
        },
        "rules": [_answer_json(each) for each in load_point.answers],
    }


def _stage_json(stage: ForeignStage) -> dict[str, object]:
    return {
        "file": stage.file,
        "version": stage.version,
        "model": stage.model,
        "load": None if stage.load is None else stage.load.model_dump(mode="json"),
        "answered": stage.answered,
        "failed": stage.failed,
        "seconds": stage.seconds,
        "figures": [asdict(each) for each in stage.figures],
    }


def _answer_json(answer: RuleAnswer) -> dict[str, object]:
    return {
        "code": answer.code.value,
        "answer": answer.answer,
        "severity": answer.severity,
        "sentence": answer.sentence,
        "needed": [
            {"input": each.value, "what": each.what, "how": how or None}
            for each, how in (answer.needed or {}).items()
        ],
    }
