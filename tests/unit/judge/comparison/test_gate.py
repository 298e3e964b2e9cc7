"""The regression gate: passed, failed, or it can't be told."""

from __future__ import annotations

import pytest
from benchrun.api import Change, ComparedCell, ComparedMetric
from benchrun.judge.comparison.figures import gate, loss_percent
from unit.judge.comparison.sides import compared, repeated, row, run


def change(low: float | None, high: float | None, metric: ComparedMetric = "MeanTTFT") -> Change:
    return Change(metric=metric, low_percent=low, high_percent=high, word="Unknown" if low is None else "Worse")


def cell(*changes: Change, reason: str | None = None) -> ComparedCell:
    return ComparedCell(cell="chat/rate=4", changes=list(changes), reason=reason)


@pytest.mark.parametrize(
    ("expected", "cells"),
    [
        pytest.param("NotRegressed", [cell(change(-1, 5))], id="bad end at the limit"),
        pytest.param("Inconclusive", [cell(change(-1, 5.1))], id="bad end beyond"),
        pytest.param("Inconclusive", [cell(change(5, 9))], id="good end at the limit"),
        pytest.param("Regressed", [cell(change(5.1, 9))], id="good end beyond"),
        pytest.param("Regressed", [cell(change(-9, -5.1, "OutputThroughput"))], id="throughput falls"),
        pytest.param("NotRegressed", [cell(change(5.1, 9, "OutputThroughput"))], id="throughput rises"),
        pytest.param("NotRegressed", [cell(change(-30, -20))], id="latency falls"),
        pytest.param("NotRegressed", [cell(change(-1, 1), change(-2, 2))], id="all within"),
        pytest.param("Regressed", [cell(change(-1, 1)), cell(change(6, 7))], id="one is enough"),
        pytest.param("Regressed", [cell(change(6, 7)), cell(change(None, None))], id="whatever is not known of others"),
        pytest.param("Inconclusive", [cell(change(-1, 1)), cell(change(None, None))], id="noise not known"),
        pytest.param("Inconclusive", [cell(change(-1, 1)), cell(reason="Invalid in b")], id="a cell left out"),
        pytest.param("Inconclusive", [cell()], id="nothing compared"),
        pytest.param("Inconclusive", [], id="no cell"),
    ],
)
def test_gate(expected: str, cells: list[ComparedCell]) -> None:
    assert gate(cells, max_regression_percent=5) == expected


def test_a_loss_is_counted_from_the_bad_side() -> None:
    assert loss_percent(change(-2, 3)) == (-2, 3)
    assert loss_percent(change(-2, 3, "RequestThroughput")) == (-3, 2)
    assert loss_percent(change(None, None)) is None


@pytest.mark.parametrize(
    ("expected", "ttft"), [("NotRegressed", 43.0), ("Inconclusive", 45.0), ("Regressed", 60.0), ("NotRegressed", 20.0)]
)
def test_runs_through_the_gate(expected: str, ttft: float) -> None:
    assert compared(repeated("a"), repeated("b", MeanTTFT=ttft), "MeanTTFT", limit=5).gate == expected


def test_without_a_limit_there_is_no_gate() -> None:
    assert compared(repeated("a"), repeated("b")).gate is None


def test_one_repeat_passes_no_gate() -> None:
    assert compared(run("a"), run("b"), limit=5).gate == "Inconclusive"


def test_a_load_point_that_the_baseline_never_had_is_not_gated_and_one_that_is_gone_is() -> None:
    one, two = [row(repeats=5, cv=0.5)], [row(repeats=5, cv=0.5), row("chat/rate=8", repeats=5, cv=0.5)]
    assert compared(run("a", one), run("b", two), limit=5).gate == "NotRegressed"
    assert compared(run("a", two), run("b", one), limit=5).gate == "Inconclusive"
