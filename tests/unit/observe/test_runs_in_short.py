"""Runs that have ended, by the columns of a list."""

from typing import Any

import pytest
from benchrun.api import crd
from benchrun.decide import is_settled
from benchrun.observe import run_of, runs_in_short
from benchrun.observe.runs_in_short import ARCHIVED, PLACES
from unit.runtime.bodies import run_body
from unit.runtime.tables import table_of

ENDED = {
    "phase": "Completed",
    "observedGeneration": 1,
    "completionTime": "2026-11-21T12:00:00Z",
    "resultDocument": {"configMap": "br-chat-4e20caa2-result", "digest": "d"},
    "conditions": [
        {"type": "Complete", "status": "True", "reason": "Measured"},
        {"type": "Archived", "status": "True", "reason": "Archived"},
    ],
    "results": [{"loadPoint": "chat/rate=1"}],
}


def in_short(body: dict[str, Any]) -> dict[str, Any]:
    """Return what the columns show of a run."""
    (found,) = runs_in_short(table_of([body])) or [{}]
    return found


def test_each_part_stands_in_a_column_of_the_crd() -> None:
    columns = {c["name"]: c["jsonPath"] for c in crd.RUN.printer_columns()}
    assert {name: "." + ".".join(path) for name, path in PLACES.items()} == {
        name: columns[name] for name in PLACES
    }
    assert ARCHIVED in columns


def test_a_run_that_has_ended_has_what_decides_whether_it_rests() -> None:
    body = run_body(status=ENDED)
    found = in_short(body)
    assert found["metadata"] == body["metadata"]
    assert found["spec"] == {}
    assert found["status"] == {
        "phase": "Completed",
        "observedGeneration": 1,
        "completionTime": "2026-11-21T12:00:00Z",
        "resultDocument": {"configMap": "br-chat-4e20caa2-result"},
        "conditions": [
            {"type": "Complete", "status": "True"},
            {"type": "Archived", "status": "True"},
        ],
    }
    assert is_settled(run_of(found))


@pytest.mark.parametrize("phase", ["Failed", "Cancelled"])
def test_an_early_end_is_one_too(phase: str) -> None:
    assert is_settled(run_of(in_short(run_body(status=ENDED | {"phase": phase}))))


@pytest.mark.parametrize(
    ("status", "spec"),
    [
        ({"phase": "Running"}, {}),
        ({"completionTime": None}, {}),
        ({"observedGeneration": 0}, {}),
        ({"observedGeneration": "x"}, {}),
        ({"observedGeneration": None}, {}),
        ({}, {"ttlSecondsAfterFinished": 0}),
        ({}, {"ttlSecondsAfterFinished": "x"}),
    ],
)
def test_a_run_that_a_decision_may_be_due_for_does_not_count_as_settled(
    status: dict[str, Any], spec: dict[str, Any]
) -> None:
    body = run_body(status=ENDED | status)
    body["spec"] |= spec
    assert not is_settled(run_of(in_short(body)))


def test_a_table_of_an_older_crd_and_anything_else_is_of_no_use() -> None:
    table = table_of([run_body(status=ENDED)])
    table["columnDefinitions"] = table["columnDefinitions"][:6]
    assert runs_in_short(table) is None
    assert runs_in_short({"items": [run_body()]}) is None


@pytest.mark.parametrize("row", [{}, {"cells": 7}, {"cells": [1], "object": []}])
def test_no_row_raises(row: dict[str, Any]) -> None:
    table = table_of([]) | {"rows": [row, 3]}
    (found,) = runs_in_short(table) or [{}]
    assert not is_settled(run_of(found))
