"""The tables of findings and of reasons, to the last word: people search for these."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.api import Bottleneck, Finding, Waiting
from benchrun.report.rows import (
    UNCERTAIN,
    UNCERTAIN_NOTE,
    Rows,
    explanation_rows,
    finding_rows,
    has_uncertain,
    interval_rows,
)
from unit.report.statuses import LIMIT, WAITING, result, status


def finding(**fields: Any) -> Finding:
    values = {
        "code": "Drift",
        "severity": "Suspect",
        "count": 2,
        "worst_stage": "a/rate=1/r2",
        "remedy": "Wait longer.",
    }
    return Finding.model_validate(values | fields)


def test_every_column_of_a_finding() -> None:
    found = finding(code="RecordMissing", evidence={"planned": 3.0, "measured": 2.0, "unknown": None})
    rows = finding_rows(status().model_copy(update={"findings": [found]}))
    assert dict(zip(rows.headers, rows.rows[0], strict=True)) == {
        "severity": "Suspect",
        "finding": "RecordMissing",
        "worst stage": "a/rate=1/r2",
        "evidence": "2 of 3 repeats were measured.",
        "what to do": "Wait longer.",
    }


def test_a_finding_without_evidence_has_an_empty_cell() -> None:
    assert finding_rows(status().model_copy(update={"findings": [finding()]})).rows[0][3] == ""


def test_findings_stand_in_the_order_of_the_status() -> None:
    several = [finding(code=code, severity=severity) for code, severity in (("B", "Note"), ("A", "Invalid"))]
    assert [row[1] for row in finding_rows(status().model_copy(update={"findings": several})).rows] == ["B", "A"]


NO_WAITING = Waiting(reason="None", sentence="hardly any waited")
NO_LIMIT = Bottleneck(limit="None", sentence="the server kept up")


@pytest.mark.parametrize(
    ("told", "waiting", "bottleneck"),
    [
        ((), None, None),
        ((), NO_WAITING, NO_LIMIT),
        (("waiting",), WAITING, NO_LIMIT),
        (("limit",), NO_WAITING, LIMIT),
        (("waiting", "limit"), WAITING, LIMIT),
    ],
)
def test_only_what_explains_something_has_a_row(
    told: tuple[str, ...], waiting: Waiting | None, bottleneck: Bottleneck | None
) -> None:
    rows = explanation_rows(status(result(waiting=waiting, bottleneck=bottleneck)))
    assert rows.headers == ("load point", "", "", "because")
    assert tuple(row[1] for row in rows.rows) == told


def test_intervals_have_four_digits_and_only_percentiles_a_row() -> None:
    row = result(
        metrics={"p99_ttft_ms": 123.456, "mean_ttft_ms": 99.0, "completed": 9.0},
        intervals={"p99_ttft_ms": [101.234, 150.678]},
        steady={"p99_ttft_ms": 111.119},
        uncertain=[],
    )
    assert interval_rows(status(row)).rows == (("chat/concurrency=8", "p99_ttft", "123.5", "101.2", "150.7", "111.1"),)


@pytest.mark.parametrize(
    ("marked", "cells"),
    [(True, ("1", "118?")), (True, ("?",)), (False, ("1", "what?no")), (False, ()), (False, ("1",))],
)
def test_the_mark_stands_at_the_end_of_a_cell(marked: bool, cells: tuple[str, ...]) -> None:
    assert has_uncertain(Rows(("a",), (("x",), cells))) is marked


def test_the_note_begins_with_the_mark_and_says_what_it_means() -> None:
    assert (
        f"{UNCERTAIN} too few requests for this percentile: its 95 % interval is open at one end or both"
    ) == UNCERTAIN_NOTE
