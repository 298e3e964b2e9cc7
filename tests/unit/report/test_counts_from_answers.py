"""A figure that no metrics page tells, but every answer does, is shown and says so."""

import pytest
from benchrun.api import RoleFigures
from benchrun.report.tables import result_rows
from unit.report.statuses import result, status


@pytest.mark.parametrize(
    ("by_server", "by_answers", "shown"),
    [
        (None, 46.9, "46.9% (answers)"),
        (30.0, 46.9, "30%"),
        (None, 0.0, "0% (answers)"),
        (None, None, "-"),
    ],
)
def test_hits_are_those_of_the_server_else_of_the_answers(
    by_server: float | None, by_answers: float | None, shown: str
) -> None:
    row = result()
    told = {} if by_answers is None else {"answers_cached_percent": by_answers}
    roles = [RoleFigures(role="server", prefix_hit_percent=by_server)]
    changed = row.model_copy(update={"metrics": row.metrics | told, "roles": roles})
    rows = result_rows(status(changed), wide=True)
    cells = dict(zip(rows.headers, rows.rows[0], strict=True))
    assert cells.get("hits", "-") == shown


def test_an_endpoint_whose_metrics_nobody_reads_has_hits_by_its_answers() -> None:
    row = result()
    metrics = row.metrics | {"answers_cached_percent": 12.5}
    changed = row.model_copy(update={"metrics": metrics, "roles": []})
    rows = result_rows(status(changed), wide=True)
    cells = dict(zip(rows.headers, rows.rows[0], strict=True))
    assert cells["hits"] == "12.5% (answers)"
    assert cells["running"] == "-"
