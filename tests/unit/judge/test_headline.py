"""The two figures of the printer columns."""

from __future__ import annotations

import pytest
from benchrun.api.status import Headline, Result, Verdict
from benchrun.judge.headline import headline, shown


def row(value: str, verdict: Verdict = "Valid", workload: str = "chat", throughput: float | None = 812.3) -> Result:
    return Result(
        cell=f"{workload}/rate={value}",
        workload=workload,
        axis="rate",
        value=value,
        repeats=1,
        repeats_planned=1,
        metrics={"output_throughput": throughput},
        verdict=verdict,
    )


@pytest.mark.parametrize(
    ("cell", "rows"),
    [
        pytest.param("chat/rate=10", [row("9"), row("10"), row("0.5")], id="by number, not by letters"),
        pytest.param("chat/rate=inf", [row("inf"), row("100000")], id="inf is the highest"),
        pytest.param("chat/rate=9", [row("9"), row("10", "Suspect"), row("11", "Invalid")], id="Valid ones only"),
        pytest.param("chat/rate=1", [row("1"), row("50", workload="other")], id="the first workload only"),
        pytest.param(None, [row("1", "Invalid"), row("50", workload="other")], id="none if the first has none"),
        pytest.param(None, [row("1", "Suspect")], id="a suspect number makes no headline"),
    ],
)
def test_which_cell(cell: str | None, rows: list[Result]) -> None:
    found = headline(rows, lambda _: 143.2)
    assert (found.cell if found else None) == cell


def test_figures() -> None:
    assert headline([row("4")], {"chat/rate=4": 143.2}.get) == Headline(
        cell="chat/rate=4", throughput="812", p99_ttft="143 ms"
    )


def test_a_figure_that_is_not_known_is_a_dash() -> None:
    assert headline([row("4", throughput=None)], lambda _: None) == Headline(
        cell="chat/rate=4", throughput="-", p99_ttft="-"
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("0.00", 0.0, id="zero"),
        pytest.param("8.12", 8.123, id="three digits"),
        pytest.param("10.0", 9.996, id="rounded up a place"),
        pytest.param("81.2", 81.23, id="of tens"),
        pytest.param("100", 99.96, id="rounded up to hundreds"),
        pytest.param("812", 812.4, id="of hundreds"),
        pytest.param("12345", 12345.4, id="the whole part is never cut"),
    ],
)
def test_short_numbers(text: str, value: float) -> None:
    assert shown(value) == text
    assert shown(value, unit="ms") == f"{text} ms"
