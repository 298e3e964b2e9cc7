"""A comparison on a terminal: what stands in which line, and which words are coloured."""

from __future__ import annotations

import io
from typing import Any

import pytest
from benchrun.api import Bottleneck, Change, ComparedCell, ComparedRun, Comparison
from benchrun.cli.commands.compare import WIDTH, show_comparison
from benchrun.report.comparison_rows import GATES
from rich.console import Console

LIMIT = Bottleneck(limit="Compute", sentence="compute is the limit")


def cell(name: str = "chat/rate=4", *, word: str = "Worse", **fields: Any) -> ComparedCell:
    change = Change(
        metric="MeanTTFT",
        baseline=43,
        value=60,
        change_percent=39.5,
        low_percent=36.9,
        high_percent=42.2,
        word=word,
    )
    return ComparedCell(cell=name, changes=[change], **{"paired": True, **fields})


def comparison(*cells: ComparedCell, outcome: str = "Worse", gate: Any = None) -> Comparison:
    return Comparison(
        baseline=ComparedRun(name="old"),
        outcome=outcome,
        gate=gate,
        message="It got slower.",
        cells=list(cells),
    )


def shown(found: Comparison, *, coloured: bool = False, **limits: Bottleneck) -> list[str]:
    out = io.StringIO()
    console = Console(
        file=out, width=200, highlight=False, force_terminal=coloured, color_system="standard" if coloured else None
    )
    show_comparison(
        console, found, before="old", after="new", limited={"chat/rate=4": limits["limit"]} if limits else None
    )
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_each_part_has_its_line() -> None:
    left_out = ComparedCell(cell="rag/rate=1", reason="another GPU")
    found = comparison(cell(), cell("chat/rate=8", paired=False), left_out, gate="Regressed")
    assert [" ".join(line.split()) for line in shown(found, limit=LIMIT)] == [
        "old -> new: Worse",
        "load point figure baseline value change interval word",
        "chat/rate=4 MeanTTFT 43 60 +39.5 % +36.9 to +42.2 Worse",
        "chat/rate=8 MeanTTFT 43 60 +39.5 % +36.9 to +42.2 Worse",
        "rag/rate=1 - - - - - NotComparable",
        "chat/rate=4: compute is the limit",
        "not compared: rag/rate=1: another GPU",
        "not known to have had equal traffic: chat/rate=8",
        "It got slower.",
        GATES["Regressed"],
    ]


def test_where_there_is_nothing_to_say_there_is_no_line() -> None:
    assert shown(comparison(outcome="NotComparable")) == ["old -> new: NotComparable", "It got slower."]


def test_figures_stand_under_one_another() -> None:
    lines = shown(comparison(cell(), cell("chat/concurrency=1024")))
    ends = [line.index("60") + 2 for line in lines[2:4]]
    assert ends == [lines[1].index("value") + len("value")] * 2


def test_long_sentences_fold_at_100_columns_however_wide_the_terminal() -> None:
    found = comparison(cell(reason="word " * 60)).model_copy(update={"message": "word " * 60})
    assert max(map(len, shown(found))) <= WIDTH == 100


@pytest.mark.parametrize(
    ("colour", "outcome"),
    [("32", "Better"), ("31", "Worse"), ("33", "Mixed"), ("1", "NoDetectableDifference"), ("1", "Unknown")],
)
def test_outcomes_have_their_colours(colour: str, outcome: str) -> None:
    assert shown(comparison(outcome=outcome), coloured=True)[0].endswith(f"\x1b[{colour}m{outcome}\x1b[0m")


@pytest.mark.parametrize(("colour", "gate"), [("32", "NotRegressed"), ("31", "Regressed"), ("33", "Inconclusive")])
def test_gates_have_theirs(colour: str, gate: str) -> None:
    assert shown(comparison(gate=gate), coloured=True)[-1].startswith(f"\x1b[{colour}m")


def test_names_of_runs_are_no_markup() -> None:
    out = io.StringIO()
    show_comparison(Console(file=out, width=100), comparison(), before="[red]a[/red]", after="b")
    assert out.getvalue().startswith("[red]a[/red] -> b: Worse")
