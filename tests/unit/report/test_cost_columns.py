"""What a million tokens cost, in the tables of a run."""

from __future__ import annotations

import pytest
from benchrun.api import BenchmarkRunStatus, CostStatus
from benchrun.observe.trim import run_of
from benchrun.report.markdown import markdown
from benchrun.report.result_rows import price_text, result_rows
from benchrun.report.run_summary import run_summary
from unit.report.going_on import BEGIN, ended, run_body
from unit.report.statuses import result, status

COST = CostStatus(currency="CHF", per_hour=4.98)


def priced(**metrics: float | None) -> BenchmarkRunStatus:
    known = result()
    return status(known.model_copy(update={"metrics": known.metrics | metrics})).model_copy(update={"cost": COST})


BOTH = priced(cost_per_million_output_tokens=1.7029, cost_per_million_total_tokens=0.21286)


def test_output_tokens_in_every_table_and_all_tokens_in_a_wide_one() -> None:
    narrow, wide = result_rows(BOTH), result_rows(BOTH, wide=True)
    assert narrow.rows[0][narrow.headers.index("CHF/Mtok")] == "1.7"
    assert "CHF/total Mtok" not in narrow.headers
    assert wide.rows[0][wide.headers.index("CHF/total Mtok")] == "0.213"


def test_without_a_price_there_is_no_column() -> None:
    for rows in (result_rows(status(result()), wide=True), result_rows(priced(), wide=True)):
        assert not any("Mtok" in header for header in rows.headers)


def test_a_page_has_both() -> None:
    page = markdown("a", BOTH)
    assert "CHF/Mtok" in page
    assert "CHF/total Mtok" in page


@pytest.mark.parametrize(
    ("told", "cost"),
    [
        ("4.98 CHF an hour", COST),
        ("19.92 USD an hour", CostStatus(currency="USD", per_hour=19.92)),
        (
            "not known: the price is per GPU, and no server holds one",
            CostStatus(currency="USD", per_hour=None),
        ),
    ],
)
def test_the_price_itself_is_told_with_the_run(told: str, cost: CostStatus) -> None:
    ran = ended(cost=cost)
    assert price_text(cost) == told
    assert dict(run_summary(run_of(run_body(ran)), ran, now=BEGIN).facts)["price"] == told
