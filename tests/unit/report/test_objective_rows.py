"""The table of objectives."""

from __future__ import annotations

from benchrun.api import ObjectiveResult
from benchrun.report.result_rows import objective_rows
from unit.report.statuses import result, status


def objective(**fields: object) -> ObjectiveResult:
    values = {"metric": "TTFT", "percentile": "99", "max_milliseconds": 500, "measured_milliseconds": 123.456}
    return ObjectiveResult.model_validate(values | {"outcome": "Met"} | fields)


def test_a_row_an_objective_and_load_point() -> None:
    missed = objective(metric="E2EL", percentile="99.9", measured_milliseconds=12_345.6, outcome="Missed")
    rows = objective_rows(status(result("a/rate=1", axis="rate", objectives=[objective(), missed]), result("b/rate=2")))
    assert rows.headers == ("load point", "objective", "measured (ms)", "outcome")
    assert rows.rows == (
        ("a/rate=1", "TTFT p99 at most 500 ms", "123.5", "Met"),
        ("a/rate=1", "E2EL p99.9 at most 500 ms", "12350", "Missed"),
    )


def test_what_was_not_measured_is_a_dash() -> None:
    unknown = objective(measured_milliseconds=None, outcome="Inconclusive")
    (row,) = objective_rows(status(result(objectives=[unknown]))).rows
    assert row[2:] == ("-", "Inconclusive")


def test_without_objectives_there_are_no_rows() -> None:
    assert objective_rows(status(result())).rows == ()
