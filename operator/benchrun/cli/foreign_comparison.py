"""Compare result files of different tools, and show where they can't be."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from benchrun.cli import console_tables, errors, foreign_results
from benchrun.foreign.compared import ComparedFigure, ForeignComparison, compared
from benchrun.foreign.judged import ForeignJudgement
from benchrun.foreign.readers import READERS
from benchrun.judge.thresholds import Thresholds
from benchrun.report import exit_codes, tables

NONE_EQUAL = (
    "no load was measured on both sides: {ids}; measure both at one rate or one "
    "number of users"
)


def are_files(options: argparse.Namespace) -> bool:
    """Return whether a side is TOOL=FILE, which no run is called."""
    return any("=" in side for side in (options.baseline, options.candidate))


def compare_files(options: argparse.Namespace, console: Console) -> int:
    """Compare the files of both sides, print what was found, and return the exit code."""
    sides = [_side(side) for side in (options.baseline, options.candidate)]
    found = compared(sides[0], sides[1])
    if not found.load_points:
        raise errors.CommandError(
            NONE_EQUAL.format(ids=", ".join(found.unmatched) or "none")
        )
    if options.output == "json":
        print(json.dumps(as_json(found), indent=2))
    else:
        show(console, found)
    return exit_codes.PASSED


def _side(text: str) -> ForeignJudgement:
    tool, equals, names = text.partition("=")
    if not equals:
        raise errors.CommandError(
            f"{text} is a run, and the other side is files of another tool: "
            "give TOOL=FILE on both sides"
        )
    if tool not in READERS:
        raise errors.unknown("tool", tool, list(READERS))
    files = [each for each in names.split(",") if each]
    return foreign_results.judgement(tool, files, Thresholds(), ())


def show(console: Console, found: ForeignComparison) -> None:
    """Print the figures of every load that both sides measured, and what was refused."""
    width = console_tables.prose_width(console)
    for each in found.load_points:
        console.print(
            Text(f"{each.baseline} against {each.candidate}", style="bold")
        )
        for line in each.unequal:
            console.print(Text(f"not comparable: {line}"), width=width)
        cells = tables.Rows(
            ("figure", "baseline", "candidate", "change", "found", "of"),
            tuple(map(_cells, each.figures)),
        )
        console.print(console_tables.as_table(cells, numbers=("change",)))
        for line in refused_lines(each.refused):
            console.print(Text(line, style="dim"), width=width)
    if found.unmatched:
        only = ", ".join(found.unmatched)
        console.print(Text(f"on one side only: {only}", style="dim"), width=width)


def _cells(figure: ComparedFigure) -> tuple[str, ...]:
    change = figure.change_percent
    return (
        figure.name,
        *(
            " to ".join(tables.figure(end) for end in side.between)
            or tables.figure(side.value)
            for side in (figure.baseline, figure.candidate)
        ),
        "" if change is None else f"{change:+.1f} %",
        figure.word,
        figure.source,
    )


def refused_lines(refused: Mapping[str, str]) -> list[str]:
    """Return a line for each reason, with the figures that it keeps out."""
    by_reason: dict[str, list[str]] = {}
    for name, why in refused.items():
        by_reason.setdefault(why, []).append(name)
    return [f"{', '.join(names)}: {why}" for why, names in by_reason.items()]


def as_json(found: ForeignComparison) -> dict[str, object]:
    """Return everything that was found, for pipelines."""
    return {
        "loadPoints": [
            {
                "load": each.load,
                "baseline": each.baseline,
                "candidate": each.candidate,
                "unequal": list(each.unequal),
                "figures": [
                    {**asdict(figure), "changePercent": figure.change_percent}
                    for figure in each.figures
                ],
                "refused": dict(each.refused),
            }
            for each in found.load_points
        ],
        "unmatched": list(found.unmatched),
    }
